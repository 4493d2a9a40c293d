"""The port by which a room of the gateway offers what it has as WS-Resources.

A subscription, a pull point, a publisher's registration: each has an address, a document of
properties, and mostly an end. WS-ResourceProperties and WS-ResourceLifetime ask the same of all of
them, so their requests have handlers of their own (`gateway.resources.operations`), and a room
brings only two things:

- a `Resource` that wraps one of its objects;
- a `Resources` that finds it from a request. It is an argument of ``ResourceRoom(...)`` in
  `gateway.server.composition`; they are asked in their order, so one that knows its resources by a
  path of their own stands before one that takes any key.

A new kind of resource with addresses of its own, ``/publishers/KEY``, is besides: a member of
`gateway.security.resource_addresses.ResourceKind` with a row in its table of paths, and

    class Registrations:
        async def find(self, incoming: Incoming, inbound: Inbound) -> Resource | None:
            address = addressed(inbound.path, incoming.context.headers.to)
            if address is None or address.kind is not ResourceKind.PUBLISHER:
                return None
            return RegistrationResource(await self._registrations.find(address.key))

Properties are written by mediation, elements as bytes with all namespaces that they use.
"""

from datetime import datetime
from typing import Protocol

from filters import Reason, Refused
from gateway.exchange import Inbound
from gateway.security.principals import Principal
from mediation.model.expiry import Expiry
from mediation.model.requests import Incoming
from mediation.model.specification import PropertyDocument
from mediation.model.versions import Version


class ResourceUnknown(Refused):
    """A request names no resource, or one that is not there."""

    def __init__(self, text: str = "There is no such resource.") -> None:
        super().__init__(Reason.RESOURCE_UNKNOWN, text)


class Resource(Protocol):
    """One resource, found for one request."""

    async def properties(self, version: Version, now: datetime) -> PropertyDocument:
        """Its properties as *version* of WS-Notification names them, in the order of their
        document. A property that it has no value for is there with no elements.

        Raises:
            Refused: It is gone.
        """

    async def set_termination_time(
        self, expires: Expiry, principal: Principal, now: datetime
    ) -> datetime | None:
        """Move its end, durably; a time that is over ends it at once. Returns the end that it now
        has; None for never.

        Raises:
            Refused: ``EXPIRY_INVALID``: it has no end to move, ``EXPIRY_TOO_LONG``; it is gone.
        """

    async def destroy(self) -> None:
        """End it; on return it is gone from the store.

        Raises:
            Refused: It is gone, or stays.
        """


async def end_if_over(resource: Resource, expires: Expiry, now: datetime) -> bool:
    """End *resource* where its new end is over already, which means at once (WS-ResourceLifetime
    1.2, section 4). Returns whether it was.

    Raises:
        Refused: as `Resource.destroy`.
    """
    at = expires.at(now)
    if at is None or at > now:
        return False
    await resource.destroy()
    return True


class Resources(Protocol):
    """The resources of one room."""

    async def find(self, incoming: Incoming, inbound: Inbound) -> Resource | None:
        """The resource that a request names; None where it names none of this room.

        Raises:
            Refused: It names one of this room that is not there.
        """
