"""Handlers of the requests of WSRF, to any resource of the gateway."""

from collections.abc import Callable
from datetime import UTC, datetime

from filters import Reason, Refused, dialects, evaluate_query
from gateway.exchange import Handlers, Inbound
from gateway.parsing import SMALL, Parsing
from gateway.resources.resource import Resource, Resources, ResourceUnknown
from gateway.security.principals import Principal
from gateway.security.quotas import PrincipalRate
from mediation.model.requests import (
    Destroy,
    Done,
    GetProperties,
    Incoming,
    ModifyProperties,
    Properties,
    QueryProperties,
    QueryResult,
    SetTerminationTime,
    TerminationTime,
)
from mediation.resources.wsrf import property_document


class ResourceOperations:
    """Reads and queries properties of resources, and ends them.

    Args:
        rooms: Those that have resources, in the order in which they are asked.
        producer: What is read where a request names no resource, as a principal sees it: the
            gateway itself, which has no end.
        looks: Counts requests for properties.
        parsing: Evaluates queries.
    """

    def __init__(
        self,
        *rooms: Resources,
        producer: Callable[[Principal], Resource],
        looks: PrincipalRate,
        parsing: Parsing,
    ) -> None:
        self._parsing = parsing
        self._rooms = rooms
        self._producer = producer
        self._looks = looks

    def handlers(self) -> Handlers:
        return {
            GetProperties: self.properties,
            QueryProperties: self.query,
            ModifyProperties: self.modify,
            SetTerminationTime: self.set_termination_time,
            Destroy: self.destroy,
        }

    async def properties(
        self, request: GetProperties, incoming: Incoming, inbound: Inbound
    ) -> Properties:
        """The resource properties of what a request names, or of the producer."""
        self._looks.take(inbound.principal)
        resource = await self._read(incoming, inbound)
        root, values = await resource.properties(incoming.context.spec.version, datetime.now(UTC))
        return Properties(values, request.names, root)

    async def query(
        self, request: QueryProperties, incoming: Incoming, inbound: Inbound
    ) -> QueryResult:
        """Evaluate a query over the document of a resource, off the event loop.

        Raises:
            Refused: ``QUERY_DIALECT``; as `evaluate_query`; there is no such resource.
        """
        self._looks.take(inbound.principal)
        resource = await self._read(incoming, inbound)
        if request.query.dialect != dialects.XPATH_1_0:
            raise Refused(
                Reason.QUERY_DIALECT,
                "The dialect of the query is not offered.",
                names=(dialects.XPATH_1_0,),
            )
        root, values = await resource.properties(incoming.context.spec.version, datetime.now(UTC))
        document = property_document(root, values)
        return QueryResult(
            await self._parsing.run_off_loop(
                max(len(document), SMALL + 1),
                lambda: evaluate_query(document, request.query),
                owner=inbound.principal.owner,
            )
        )

    async def modify(
        self, request: ModifyProperties, incoming: Incoming, inbound: Inbound
    ) -> Properties:
        """Refuse to change properties: they tell how a resource is, and its own requests change it.

        Raises:
            Refused: ``PROPERTY_UNKNOWN``, ``PROPERTY_READ_ONLY``; there is no such resource.
        """
        self._looks.take(inbound.principal)
        resource = await self._read(incoming, inbound)
        _, values = await resource.properties(incoming.context.spec.version, datetime.now(UTC))
        unknown = tuple(name for name in request.names or () if name not in values)
        if unknown:
            raise Refused(
                Reason.PROPERTY_UNKNOWN, "The resource has no such property.", names=unknown
            )
        raise Refused(Reason.PROPERTY_READ_ONLY, "Resource properties cannot be written here.")

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

    async def _read(self, incoming: Incoming, inbound: Inbound) -> Resource:
        """The resource that a request to read properties names, or the producer.

        Raises:
            ResourceUnknown: It names none, and is of a tenant: the producer's properties tell of
                the default tenant's topics.
        """
        resource = await self._named(incoming, inbound)
        if resource is None and inbound.principal.tenant:
            raise ResourceUnknown
        return resource or self._producer(inbound.principal)

    async def _mortal(self, incoming: Incoming, inbound: Inbound) -> Resource:
        """The resource that a request to end one names.

        Raises:
            ResourceUnknown: It names none.
        """
        resource = await self._named(incoming, inbound)
        if resource is None:
            raise ResourceUnknown("The request names no resource that ends.")
        return resource
