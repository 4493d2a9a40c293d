"""Acknowledgements that a consumer sends to an address of the gateway, beside the connections of
its messages: `AcknowledgementAddresses` brings them to the attempts that wait for them.

The address is of one sequence, and is made of the message id of its CreateSequence: who knows it
has been asked to acknowledge there.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from gateway.reliability.records import OutgoingSequence
from gateway.security.resource_addresses import ResourceKind
from mediation.model.messages import Subscription
from mediation.reliable_messaging import ReliableMessage

WAITING = 8
"""Messages to one address that an attempt has not looked at yet: more are noted in the store."""
_URN = "urn:uuid:"


def base_of(subscription: Subscription) -> str:
    """The gateway's address as the subscriber of *subscription* was told it."""
    kind = ResourceKind.SUBSCRIPTION
    return subscription.manager.removesuffix(f"{kind.value}{subscription.key}")


def address_of(base: str, create_id: str) -> str:
    """The address for the acknowledgements of a sequence, by its message id of CreateSequence."""
    return ResourceKind.SEQUENCE.address(base, create_id.removeprefix(_URN))


def create_id_of(key: str) -> str:
    """The message id of CreateSequence, by the key in an address."""
    return f"{_URN}{key}"


class AcknowledgementAddresses:
    """The attempts that wait for an acknowledgement, by sequence."""

    def __init__(self) -> None:
        self._waiting: dict[str, asyncio.Queue[ReliableMessage]] = {}
        self._ended = asyncio.Event()
        self._closed = False

    @contextmanager
    def expect(self, create_id: str) -> Iterator["asyncio.Queue[ReliableMessage]"]:
        """Collect messages for the sequence that has this message id of CreateSequence; one attempt
        at a time waits for them."""
        queue = self._waiting[create_id] = asyncio.Queue(WAITING)
        try:
            yield queue
        finally:
            if self._waiting.get(create_id) is queue:
                del self._waiting[create_id]
            self._ended.set()

    def tell(self, create_id: str, said: ReliableMessage) -> bool:
        """Hand *said* to the attempt that waits for it. Returns whether one waits."""
        queue = self._waiting.get(create_id)
        if queue is None or queue.full():
            return False
        queue.put_nowait(said)
        return True

    async def word(
        self,
        queue: "asyncio.Queue[ReliableMessage]",
        decides: Callable[[ReliableMessage], bool],
        seconds: float,
    ) -> ReliableMessage | None:
        """The first message of *queue* that *decides*, or is a fault; None after *seconds*."""
        try:
            async with asyncio.timeout(0.0 if self._closed else seconds):
                while True:
                    said = await queue.get()
                    if said.fault is not None or decides(said):
                        return said
        except TimeoutError:
            return None

    async def close(self, seconds: float) -> None:
        """Wait, for *seconds* at most, until no attempt of now waits any more. Later attempts do
        not wait: no message arrives there while the gateway does not listen."""
        waiting = list(self._waiting.items())
        try:
            async with asyncio.timeout(seconds):
                while any(self._waiting.get(name) is queue for name, queue in waiting):
                    self._ended.clear()
                    await self._ended.wait()
        except TimeoutError:
            pass
        self._closed = True


def decides_on(sequence: OutgoingSequence, number: int, said: ReliableMessage) -> bool:
    """True if *said* decides what became of message *number*."""
    told = [one for one in said.acknowledgements if one.identifier == sequence.identifier]
    return any(one.final or number in one.ranges for one in told)
