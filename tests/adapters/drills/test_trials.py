"""What a drill says of systems that break a promise each."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import ClassVar, Self

import pytest

from adapters import AdapterError, AdapterUnavailable
from adapters.drills import Drill, Promise, Result, Wishes, trials_of
from adapters.loading import entry_points
from adapters.memory import MemoryAdapter
from mediation.model.messages import Notification

pytestmark = pytest.mark.asyncio
QUICK = Wishes(deadline=10.0, backlog=300, largest=2**18)
PASSWORD = "s3cret"


class Forgetful(MemoryAdapter):
    """A queue that keeps the newest 150 events, whatever it has confirmed."""

    def _keep(self, queue: list[Notification]) -> list[Notification]:
        return queue[-150:]

    async def publish(self, notifications: Sequence[Notification]) -> None:
        await super().publish(notifications)
        kept = self._keep([*self._queue])
        self._queue.clear()
        self._queue.extend(kept)


class Shuffling(Forgetful):
    """Events come backwards."""

    def _keep(self, queue: list[Notification]) -> list[Notification]:
        return queue[::-1]


class Changing(Forgetful):
    """Properties are lost on the way."""

    def _keep(self, queue: list[Notification]) -> list[Notification]:
        return [replace(one, properties={}) for one in queue]


class Repeating(MemoryAdapter):
    """What is published twice comes twice."""

    def _repeats(self, notification: Notification) -> bool:
        return False


class Full(MemoryAdapter):
    """It has room for 120 events."""

    async def publish(self, notifications: Sequence[Notification]) -> None:
        if len(self._queue) + self._unsettled + len(notifications) > 120:
            raise AdapterUnavailable("the queue is full")
        await super().publish(notifications)


class Telling(MemoryAdapter):
    """It fails with the URL that it was given."""

    url: ClassVar[str] = ""

    @classmethod
    def from_url(cls, url: str, *, data: Path, settings: Mapping[str, str]) -> Self:
        cls.url = url
        return super().from_url("memory:", data=data, settings=settings)

    async def publish(self, notifications: Sequence[Notification]) -> None:
        raise ValueError(f"cannot publish at {self.url}")


class Keeping(MemoryAdapter):
    """It cannot remove all that it makes."""

    async def remove(self) -> Collection[str]:
        return ["a queue"]


class Breaking(MemoryAdapter):
    """Its removal breaks."""

    async def remove(self) -> Collection[str]:
        raise KeyError("queue")


class Unisolated(MemoryAdapter):
    """It was written without a thought of drills."""

    isolate = None  # type: ignore[assignment]  # As one that has no such method.


SYSTEMS = (Forgetful, Shuffling, Changing, Repeating, Full, Telling, Keeping, Breaking, Unisolated)


@pytest.fixture(autouse=True)
def _systems(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The systems above as adapters that are installed, each under its name."""
    points = [
        EntryPoint(each.__name__.lower(), f"{__name__}:{each.__name__}", "dragoman.adapters")
        for each in SYSTEMS
    ]
    monkeypatch.setattr(entry_points, "entry_points", lambda group: points)
    yield


async def drilled(url: str, *names: str) -> tuple[list[Result], Drill]:
    """What a drill of the trials with *names* says, all if none is named, without that of the
    connection."""
    drill = Drill(url, {}, replace(QUICK, only=frozenset(names)))
    connection, *others = [result async for result in drill.run()]
    assert connection.trial == "connection"
    return others, drill


async def test_a_system_in_memory() -> None:
    results, drill = await drilled("memory:")
    assert [each.trial for each in results] == [*trials_of(QUICK)]
    assert not [each for each in results if each.promise is Promise.BROKEN]
    absent = {each.trial for each in results if each.promise is Promise.ABSENT}
    assert {"confirmation", "redelivery", "cut", "replicas", "restart"} <= absent
    assert drill.left == []


@pytest.mark.parametrize(
    ("scheme", "trial", "promise", "text"),
    [
        pytest.param(
            "forgetful", "backlog", Promise.BROKEN,
            "150 of 300 confirmed events that waited were dropped, the oldest", id="dropped",
        ),
        pytest.param("shuffling", "order", Promise.BROKEN, "in another order", id="shuffled"),
        pytest.param("changing", "content", Promise.BROKEN, "['properties']", id="changed"),
        pytest.param("repeating", "repetition", Promise.BROKEN, "came 2 times", id="repeated"),
        pytest.param(
            "full", "backlog", Promise.KEPT, "here after 100 events of 1 kB", id="refusing"
        ),
    ],
)  # fmt: skip
async def test_a_promise(
    scheme: str, trial: str, promise: Promise, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("adapters.drills.workbench.COMES", 0.5)
    ([result], _) = await drilled(f"{scheme}:", trial)
    assert (result.promise, result.trial) == (promise, trial)
    assert text in result.text


async def test_what_an_adapter_raises_is_told_without_its_password() -> None:
    ([result], _) = await drilled(f"telling://user:{PASSWORD}@host", "confirmation")
    assert result.promise is Promise.BROKEN
    assert result.text == "ValueError: cannot publish at telling://user:...@host"


async def test_what_is_left_is_named() -> None:
    _, drill = await drilled("keeping:", "confirmation")
    [left] = drill.left
    assert left.promise is Promise.ABSENT
    assert left.text.startswith("a queue: emptied")


async def test_what_is_left_by_a_removal_that_breaks_is_named() -> None:
    _, drill = await drilled("breaking:", "confirmation")
    [left] = drill.left
    assert left.promise is Promise.BROKEN
    assert repr(drill.name) in left.text and "KeyError" in left.text


@pytest.mark.parametrize(
    "url", [f"amqp://u:{PASSWORD}@[::1", f"stomp://u:{PASSWORD}@[x]", f"amqp://u:{PASSWORD}@ho℀st"]
)
async def test_a_url_that_cannot_be_read(url: str) -> None:
    with pytest.raises(AdapterError) as caught:
        Drill(url, {}, QUICK)
    assert PASSWORD not in caught.value.text


async def test_an_adapter_that_cannot_be_isolated() -> None:
    with pytest.raises(AdapterError, match=r"adapters\.Isolating"):
        Drill("unisolated:", {}, QUICK)
