"""A room of the gateway brings itself: `Room` says what the server asks of each.

    handlers              of requests, for the registry of the SOAP service
    public_routes         of the listener for peers
    administration_routes of the listener for operators
    works                 that go on until the gateway stops
    works_until_closed    that go on until the room is closed: what stops before it needs them
    metrics               for ``/metrics``
    start, close          in the order of the list of rooms, and in the reverse order
    drain, linger         before that, when a stop is coming

A room is made by its ``room.py`` of what it needs; `gateway.server.composition` has the list.
"""

from collections.abc import Callable, Coroutine, Iterable
from typing import Any, TypeAlias

from gateway.exchange import Handlers
from gateway.observing.samples import Sample
from gateway.routes import Routes

Work: TypeAlias = Callable[[], Coroutine[Any, Any, None]]


class Room:
    """A room, whose members do nothing unless it has them."""

    def handlers(self) -> Handlers:
        """The handlers of requests that this room carries out; no other room has the same."""
        return {}

    def public_routes(self) -> Routes:
        """Routes for peers."""
        return ()

    def administration_routes(self) -> Routes:
        """Routes for operators."""
        return ()

    def works(self) -> Iterable[Work]:
        """Work that goes on until the gateway stops: one that ends before has failed, and the
        gateway stops. It brings something new (messages, requests, ends of subscriptions), or
        nobody waits for it: all of it ends before the first room is closed, so that it meets no
        room that is closed already."""
        return ()

    def works_until_closed(self) -> Iterable[Work]:
        """As `works`, but it goes on until all rooms behind this one are closed, because what
        these still finish waits for it: a lease that is renewed, a record that is written. It
        ends just before `close` is called, and uses no room behind this one."""
        return ()

    def metrics(self) -> Iterable[Sample]:
        """The numbers of this moment."""
        return ()

    async def start(self) -> None:
        """Take up what waits in the store, and open what the room works with.

        Raises:
            Refused: It cannot be started; the text says what is wrong.
        """

    def drain(self) -> None:
        """Take nothing new: a stop is coming. Also called where the room has not started."""

    async def linger(self) -> None:
        """Wait for answers that peers send to an address of the gateway, while it still listens."""

    async def close(self) -> None:
        """Stop politely: what is under way ends or is kept. Called where `start` has returned."""
