"""The handler of requests for metadata of the endpoint (WS-MetadataExchange)."""

from collections.abc import Iterator
from datetime import timedelta

from gateway.exchange import Handlers, Inbound
from gateway.parsing import Parsing
from gateway.publishing.topics import TopicsSeen
from gateway.security.authorise import sees_topic
from gateway.security.principals import Principal
from gateway.security.quotas import PrincipalRate
from mediation import names
from mediation.metadata import write_event_descriptions, write_policy
from mediation.model.requests import GetMetadata, Incoming, Metadata, MetadataSection, Sequences
from mediation.reliable_messaging import Bound
from mediation.wsdl import NAMESPACE, schemas, write_wsdl

OCTETS = 512 * 1024
"""Bytes of an answer with everything in it, about."""


class MetadataOperations:
    """Tells of the endpoint.

    Args:
        looks: Counts these requests with those to be told of topics.
        parsing: Makes the answers, which are long.
        longest_lease: How long a stranger's subscription lasts at most.
        sequences: What the endpoint does with sequences.
    """

    def __init__(
        self,
        topics: TopicsSeen,
        *,
        looks: PrincipalRate,
        parsing: Parsing,
        longest_lease: timedelta,
        sequences: Sequences = Sequences.OFF,
        bound: Bound = Bound.NOTHING,
    ) -> None:
        self._bound = bound
        self._sequences = sequences
        self._topics = topics
        self._looks = looks
        self._parsing = parsing
        self._longest_lease = longest_lease

    def handlers(self) -> Handlers:
        return {GetMetadata: self.metadata}

    async def metadata(
        self, request: GetMetadata, _incoming: Incoming, inbound: Inbound
    ) -> Metadata:
        self._looks.take(inbound.principal)
        return await self._parsing.run_off_loop(
            OCTETS, lambda: self._found(request, inbound), owner=inbound.principal.owner
        )

    def _found(self, request: GetMetadata, inbound: Inbound) -> Metadata:
        return Metadata(
            tuple(
                section
                for dialect, identifier in request.wanted
                for section in self._sections(dialect, inbound)
                if identifier in ("", section.identifier)
            )
        )

    def _sections(self, dialect: str, inbound: Inbound) -> Iterator[MetadataSection]:
        address = f"{inbound.base}/soap"
        match dialect:
            case names.WSDL:
                described = write_wsdl(address, sequences=self._sequences, bound=self._bound)
                yield MetadataSection(f"{{{dialect}}}definitions", NAMESPACE, described)
            case names.XSD:
                for namespace, schema in schemas(address).items():
                    yield MetadataSection(f"{{{dialect}}}schema", namespace, schema)
            case names.POLICY_1_5 | names.POLICY_2004_09:
                policy = write_policy(dialect, longest_lease=self._longest(inbound.principal))
                yield MetadataSection(f"{{{dialect}}}Policy", names.DRAGOMAN_POLICY, policy)
            case names.EVENT_DESCRIPTIONS:
                latest = self._topics.latest(inbound.principal.tenant)
                seen = [one for one in latest if sees_topic(inbound.principal, one.topic)]
                described_ = write_event_descriptions(seen)
                if described_ is not None:
                    name = f"{{{dialect}}}EventDescriptions"
                    yield MetadataSection(name, names.DRAGOMAN_EVENTS, described_)

    def _longest(self, principal: Principal) -> timedelta | None:
        return self._longest_lease if principal.limits.leases else None
