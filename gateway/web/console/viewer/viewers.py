"""All viewers of the console: so many at a time, and none that outlives the gateway."""

import asyncio
from dataclasses import replace
from functools import partial

from filters import Reason, Refused
from gateway.client.consumer import Headers, ReceivedMessage, read_message
from gateway.client.push_pull_comparison import QUIET
from gateway.observing.masking import HIDDEN, Mask
from gateway.observing.xml_indentation import pretty
from gateway.parsing import ParsingThreads
from gateway.web.console.viewer.calls import TransportChoice
from gateway.web.console.viewer.references import HeldReferences
from gateway.web.console.viewer.viewer import IDLE, Viewer, ViewerParts, Wanted
from mediation.client import Ended, Received, may_end
from mediation.cloudevents import is_event

AT_A_TIME = 8
READ = 5.0
"""Seconds that a message may wait to be read."""
REMEMBERED = 16
"""Viewers, those included that have ended and can still be looked at."""


class Viewers:
    """Begins viewers, and finds them.

    Args:
        references: Has the references of the subscriptions of those that run.
        mask: Hides fields of messages before they are kept.
        quiet: Seconds without a message after which a viewer compares push with pull.
        idle: Seconds after which a viewer that nobody looks at ends.
    """

    def __init__(
        self,
        transports: TransportChoice,
        references: HeldReferences | None = None,
        mask: Mask | None = None,
        *,
        quiet: float = QUIET,
        idle: float = IDLE,
    ) -> None:
        # A thread of their own: messages of publishers do not wait for those that are looked at.
        self._threads = ParsingThreads("viewer", wait=READ)
        self._transports = transports
        self._mask = mask or Mask()
        self._parts = ViewerParts(
            transports,
            # What is masked is masked before it is kept, for which it has to be read.
            self._read if self._mask.names else self._read_endings,
            self._read_later,
            self._indent,
            references or HeldReferences(),
            self._hide if self._mask.names else None,
            quiet,
            idle,
        )
        self._viewers: dict[str, Viewer] = {}
        self._stopped = False

    @property
    def all(self) -> tuple[Viewer, ...]:
        """Those that run, and the latest of those that have ended; the latest begun first."""
        return tuple(reversed(self._viewers.values()))

    def find(self, id: str) -> Viewer | None:
        """The viewer of an id."""
        return self._viewers.get(id)

    def begin(self, wanted: Wanted) -> Viewer:
        """Begin to view; whether that succeeds, its checks say.

        Raises:
            Refused: As many run as may, or the gateway stops.
        """
        if self._stopped:
            raise Refused(Reason.UNAVAILABLE, "The gateway is stopping.")
        ended = [one for one in self._viewers.values() if one.ended]
        if len(self._viewers) - len(ended) >= AT_A_TIME:
            raise Refused(Reason.QUOTA, f"{AT_A_TIME} viewers run already: stop one of them.")
        for one in ended[: max(0, len(self._viewers) + 1 - REMEMBERED)]:
            del self._viewers[one.id]
        viewer = Viewer(wanted, self._parts)
        self._viewers[viewer.id] = viewer
        return viewer

    async def stop(self) -> None:
        """Unsubscribe all, and begin none any more."""
        self._stopped = True
        await asyncio.gather(*(one.close() for one in self._viewers.values()))

    async def close(self) -> None:
        """Close what viewers work with."""
        await self.stop()
        await self._transports.close()
        self._threads.close()

    async def _read(self, headers: Headers, octets: bytes) -> tuple[Received, ...] | Ended:
        return await self._threads.run(len(octets), partial(_read, headers, octets), "viewer")

    async def _read_endings(self, headers: Headers, octets: bytes) -> tuple[Received, ...] | Ended:
        """Read what may be the end of a subscription. A thread for each of 500 messages a second
        takes as much as all else, and each waits while the event loop is busy."""
        if is_event(headers) or not may_end(octets):
            return ()
        return await self._read(headers, octets)

    async def _read_later(self, message: ReceivedMessage) -> ReceivedMessage:
        if message.notifications:
            return message
        headers = [
            (name.lower().encode(), value.encode("utf-8", "surrogateescape"))
            for name, value in message.headers
        ]
        try:
            received = await self._read(headers, message.octets)
        except Refused:  # It is shown as it came.
            return message
        return message if isinstance(received, Ended) else replace(message, notifications=received)

    async def _hide(self, message: ReceivedMessage) -> ReceivedMessage:
        work = partial(_masked, self._mask, message)
        return await self._threads.run(2 * len(message.octets), work, "viewer")

    async def _indent(self, octets: bytes) -> str:
        return await self._threads.run(len(octets), lambda _: pretty(octets), "viewer")


def _masked(mask: Mask, message: ReceivedMessage, _: set[str] | None) -> ReceivedMessage:
    """*message* without what is masked; of a document that cannot be read nothing is left."""

    def hide(octets: bytes) -> bytes:
        masked = mask.document(octets)
        return HIDDEN.encode() if masked is None else masked

    return replace(
        message,
        octets=hide(message.octets),
        headers=tuple((name, mask.header(name, value)) for name, value in message.headers),
        notifications=tuple(
            replace(one, payload=hide(one.payload)) for one in message.notifications
        ),
    )


def _read(headers: Headers, octets: bytes, _: set[str] | None) -> tuple[Received, ...] | Ended:
    return read_message(headers, octets)
