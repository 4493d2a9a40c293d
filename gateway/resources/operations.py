"""Handlers of the requests of WSRF, to any resource of the gateway."""

from datetime import UTC, datetime

from gateway.exchange import Handlers, Inbound
from gateway.resources.resource import Resource, Resources, ResourceUnknown
from gateway.security.quotas import PrincipalRate
from mediation import (
    Destroy,
    Done,
    GetProperties,
    Incoming,
    Properties,
    SetTerminationTime,
    TerminationTime,
)


class ResourceOperations:
    """Reads properties of resources, and ends them.

    Args:
        rooms: Those that have resources, in the order in which they are asked.
        producer: Read where a request names no resource: the gateway itself, which has no end.
        looks: Counts requests for properties.
    """

    def __init__(self, *rooms: Resources, producer: Resource, looks: PrincipalRate) -> None:
        self._rooms = rooms
        self._producer = producer
        self._looks = looks

    def handlers(self) -> Handlers:
        return {
            GetProperties: self.properties,
            SetTerminationTime: self.set_termination_time,
            Destroy: self.destroy,
        }

    async def properties(
        self, request: GetProperties, incoming: Incoming, inbound: Inbound
    ) -> Properties:
        """The resource properties of what a request names, or of the producer."""
        self._looks.take(inbound.principal)
        resource = await self._named(incoming, inbound) or self._producer
        values = await resource.properties(datetime.now(UTC))
        return Properties(values, request.names, resource.document)

    async def set_termination_time(
        self, request: SetTerminationTime, incoming: Incoming, inbound: Inbound
    ) -> TerminationTime:
        now = datetime.now(UTC)
        resource = await self._mortal(incoming, inbound)
        end = await resource.set_termination_time(request.expires, inbound.principal, now)
        return TerminationTime(end, now)

    async def destroy(self, _request: Destroy, incoming: Incoming, inbound: Inbound) -> Done:
        await (await self._mortal(incoming, inbound)).destroy()
        return Done()

    async def _named(self, incoming: Incoming, inbound: Inbound) -> Resource | None:
        for room in self._rooms:
            resource = await room.find(incoming, inbound)
            if resource is not None:
                return resource
        return None

    async def _mortal(self, incoming: Incoming, inbound: Inbound) -> Resource:
        """The resource that a request to end one names.

        Raises:
            ResourceUnknown: It names none.
        """
        resource = await self._named(incoming, inbound)
        if resource is None:
            raise ResourceUnknown("The request names no resource that ends.")
        return resource
