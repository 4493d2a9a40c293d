"""What comes back on the connections of what is sent."""

from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from gateway.client.reliable.posting import IN_FLIGHT, Posts
from gateway.client.sequence_binding import CheckSignature, SignEnvelope
from gateway.reliability.storage import StorageUnavailable

T = TypeVar("T")

ANSWER: Any = None
"""Nobody reads it here."""


class Away:
    """Workers whose store goes away when acknowledgements are taken."""

    endpoint: Any = None
    caller: Any = None
    sign: SignEnvelope | None = None
    check: CheckSignature | None = None
    stopping = False

    def __init__(self) -> None:
        self.posts = Posts(self)
        self.looks = 0

    def begin(self, work: Coroutine[Any, Any, None]) -> None:
        raise AssertionError("nothing begins here")

    def look_soon(self) -> None:
        self.looks += 1

    async def on_thread(self, work: Callable[..., T], *args: Any) -> T:
        raise AssertionError("nothing else is done")

    async def once(self, work: Callable[[], T]) -> T:
        self.posts._acknowledged.append(("key", "message 3", ANSWER))  # It comes meanwhile.
        raise StorageUnavailable("away")


async def test_acknowledgements_that_are_not_taken_keep_nothing_from_being_sent_again() -> None:
    workers = Away()
    posts = workers.posts
    posts._in_flight["key"].update({"message 1", "message 2", "message 3"})
    posts._acknowledged += [("key", "message 1", ANSWER), ("key", "message 2", ANSWER)]
    posts._acknowledging = True
    await posts._take_acknowledgements()
    assert posts.room("key") == IN_FLIGHT
    assert not posts._acknowledged and not posts._acknowledging
    assert workers.looks
