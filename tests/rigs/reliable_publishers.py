"""Publishers that send in sequences (WS-ReliableMessaging), envelope by envelope."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from mediation.model.messages import EndpointReference
from mediation.model.versions import Soap, Wsa
from mediation.reliable_messaging import (
    NO_NUMBERS,
    AckRequested,
    AckRequestedAlone,
    CloseSequence,
    CreateSequence,
    CreateSequenceResponse,
    Offer,
    Ranges,
    ReliableMessage,
    Rm,
    RmFault,
    RmSpec,
    SequenceHeader,
    TerminateSequence,
    ack_requested_block,
    read_message,
    sequence_block,
    write_message,
)
from mediation.reliable_messaging.application import write_application_message
from tests.rigs.envelopes import Answer, fresh_id
from tests.rigs.gateways import Running

SERVICE = "http://gateway.example.com/soap"
ACTION = "urn:example:Event"


@dataclass
class ReliablePublisher:
    """A publisher, in one version; acknowledgements come back on its connections unless it names an
    address for them."""

    run: Running
    rm: Rm = Rm.V1_1
    soap: Soap = Soap.V1_2
    wsa: Wsa | None = None
    acks_to: str = ""
    source: str = "127.0.0.1"
    headers: Mapping[str, str] = field(default_factory=dict)
    path: str = "/soap"
    identifier: str = ""
    acknowledged: Ranges = field(default=NO_NUMBERS)
    numbers: int = 0

    @property
    def spec(self) -> RmSpec:
        return RmSpec(self.rm, self.soap, self.wsa or self.rm.rules.wsa[0])

    @property
    def to(self) -> EndpointReference:
        return EndpointReference(SERVICE, self.spec.wsa)

    @property
    def here(self) -> EndpointReference:
        """Where acknowledgements go."""
        wsa = self.spec.wsa
        return EndpointReference(self.acks_to or wsa.anonymous, wsa)

    async def post(self, octets: bytes, path: str = "") -> Answer:
        return await self.run.request(
            "POST",
            path or self.path,
            octets,
            source=self.source,
            **self.headers,
            content_type=f"{self.soap.media_type}; charset=utf-8",
        )

    async def exchange(self, octets: bytes, path: str = "") -> ReliableMessage | None:
        """Post an envelope; what came back, of which acknowledgements are kept."""
        said = self.read((await self.post(octets, path)).body)
        for each in said.acknowledgements if said is not None else ():
            if each.identifier == self.identifier and not each.nacks:
                assert self.acknowledged | each.ranges == each.ranges, "nothing is taken back"
                self.acknowledged = each.ranges
        return said

    def read(self, answer: bytes) -> ReliableMessage | None:
        """What an answer says; None where it says nothing."""
        return read_message(answer) if answer else None

    def create_message(
        self,
        *,
        message_id: str = "",
        offer: Offer | None = None,
        asked: CreateSequence | None = None,
    ) -> bytes:
        asked = asked or CreateSequence(self.here, offer=offer)
        _, octets = write_message(
            self.spec, asked, to=self.to, message_id=message_id or fresh_id(), reply_to=EndpointReference(self.spec.wsa.anonymous, self.spec.wsa),
        )  # fmt: skip
        return octets

    async def ask_to_create(self, **asked: object) -> ReliableMessage | None:
        return await self.exchange(self.create_message(**asked))  # type: ignore[arg-type]

    async def create(self) -> str:
        said = await self.ask_to_create()
        assert said is not None
        assert isinstance(said.body, CreateSequenceResponse), said
        self.identifier = said.body.identifier
        return self.identifier

    def message(
        self,
        number: int,
        body: str,
        *,
        last: bool = False,
        asks: bool = False,
        identifier: str = "",
        message_id: str = "",
    ) -> bytes:
        """An event in the sequence."""
        spec, identifier = self.spec, identifier or self.identifier
        octets = write_application_message(
            spec.soap,
            spec.wsa,
            action=ACTION,
            body=body.encode(),
            to=self.to,
            message_id=message_id or f"urn:example:{identifier[-12:]}:{number}",
        )
        blocks = sequence_block(spec.rm, spec.soap, SequenceHeader(identifier, number, last))
        if asks:
            blocks += ack_requested_block(spec.rm, AckRequested(identifier))
        return octets.replace(b"</s:Header>", blocks + b"</s:Header>", 1)

    async def send(self, number: int, body: str = "", **how: object) -> ReliableMessage | None:
        """Send event *number*."""
        body = body or f'<e:event xmlns:e="urn:example">{number}</e:event>'
        return await self.exchange(self.message(number, body, **how))  # type: ignore[arg-type]

    async def ask(self, identifier: str = "") -> ReliableMessage | None:
        """Ask for an acknowledgement."""
        block = ack_requested_block(self.rm, AckRequested(identifier or self.identifier))
        _, octets = write_message(self.spec, AckRequestedAlone(), to=self.to, blocks=[block])
        return await self.exchange(octets)

    async def close(self, last: int | None) -> ReliableMessage | None:
        _, octets = write_message(
            self.spec, CloseSequence(self.identifier, last), to=self.to, message_id=fresh_id()
        )
        return await self.exchange(octets)

    async def terminate(
        self, last: int | None = None, identifier: str = ""
    ) -> ReliableMessage | None:
        return await self.exchange(self.terminate_message(last, identifier))

    def terminate_message(self, last: int | None = None, identifier: str = "") -> bytes:
        body = TerminateSequence(identifier or self.identifier, last)
        return write_message(self.spec, body, to=self.to, message_id=fresh_id())[1]


def fault_of(said: ReliableMessage | None) -> RmFault:
    """The fault that was answered."""
    assert said is not None
    assert isinstance(said.fault, RmFault), said
    return said.fault


def upto(last: int) -> Ranges:
    """The numbers from 1 on."""
    return Ranges.of([(1, last)]) if last else NO_NUMBERS


_NUMBER = re.compile(rb">(\d+)</e:event>")


def numbers_in(bodies: Iterable[bytes]) -> list[int]:
    """The numbers of events in what a consumer got, in the order in which they came."""
    return [int(number) for body in bodies for number in _NUMBER.findall(body)]
