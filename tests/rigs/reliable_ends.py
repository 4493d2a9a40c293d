"""Two ends of reliable messaging in one process: a client and a service over stores in memory, with
a clock that a test turns, and a network that loses what the test says."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

from gateway.reliability.endpoint import Endpoint
from gateway.reliability.party import Channel, Party, anonymous
from gateway.reliability.records import Wire
from gateway.reliability.source import Message, Sent
from gateway.reliability.storage import Transaction
from gateway.reliability.stores.memory import MemoryStore
from gateway.reliability.values import Answer, Delivered, Notice, Outgoing, Reply
from mediation.model.messages import EndpointReference
from mediation.model.versions import Soap, Wsa
from mediation.reliable_messaging import ReliableMessage, Rm, make_connection_address, read_message
from mediation.reliable_messaging.application import body_of

CLIENT, SERVICE = "http://client.example/rm", "http://service.example/rm"
WIRE_1_0 = Wire(Rm.V1_0, Wsa.V2004_08, Soap.V1_1)
WIRE_1_1 = Wire(Rm.V1_1, Wsa.V2005_08, Soap.V1_2)
FETCHED = make_connection_address("0f7a4f9c-5b0e-4a9b-9a43-0d9b8f6f2f11")

Loses = Callable[[str], bool]


@dataclass
class End:
    """One end.

    Attributes:
        got: What its application took.
        notices: What people were told.
    """

    name: str
    endpoint: Endpoint
    store: MemoryStore
    got: list[str]
    notices: list[Notice]
    given_up: list[str] = field(default_factory=list)


class Ends:
    """A client and a service.

    Args:
        client, service: What their `Party` has besides.
        echoes: The service answers with what it got.

    Attributes:
        log: What went over the wire, who sent it first.
        loses: Says what of that is lost.
    """

    def __init__(
        self,
        wire: Wire = WIRE_1_1,
        *,
        echoes: bool = False,
        client: dict[str, Any] | None = None,
        service: dict[str, Any] | None = None,
    ) -> None:
        self.wire = wire
        self.now = 1_000_000.0
        self.log: list[str] = []
        self.sent: list[ReliableMessage] = []
        self.envelopes: list[bytes] = []
        self.loses: Loses = lambda line: False
        self.echoes = echoes
        self.client = self._end("client", CLIENT, client or {})
        self.service = self._end("service", SERVICE, service or {})

    def _end(self, name: str, address: str, more: dict[str, Any]) -> End:
        store, numbers = MemoryStore(), count(1)
        got: list[str] = []
        notices: list[Notice] = []
        given_up: list[str] = []

        def take(tx: Transaction, delivered: Delivered) -> Answer | None:
            content = content_of(delivered.envelope)
            got.append(content)
            if name == "service" and self.echoes:
                return Answer("urn:example:Reply", f'<r xmlns="urn:example">{content}</r>'.encode())
            return None

        party = Party(
            **{
                "storage": store,
                "new_id": lambda: f"urn:{name}:{next(numbers)}",
                "random": lambda: 0.5,
                "address": address,
                "applications": {"": take},
                "given_up": {"": lambda tx, sequence: given_up.append(sequence.failure or "")},
                "notify": notices.append,
                **more,
            }
        )
        return End(name, Endpoint(party), store, got, notices, given_up)

    def forget(self, end: End) -> None:
        """Let an end lose all that it kept."""
        end.store = MemoryStore()
        end.endpoint = Endpoint(replace(end.endpoint.party, storage=end.store))

    def restart(self, end: End) -> None:
        """End the process of an end, and start it again over what it had committed."""
        end.store = end.store.surviving()
        end.endpoint = Endpoint(replace(end.endpoint.party, storage=end.store))
        end.endpoint.restart(self.now)

    def channel(self, acks_to: str = CLIENT, *, offers: bool = False) -> Channel:
        """The way of the client to the service; *acks_to* may be ``anonymous``."""
        wsa = self.wire.wsa
        back = anonymous(wsa) if acks_to == "anonymous" else EndpointReference(acks_to, wsa)
        return Channel(EndpointReference(SERVICE, wsa), self.wire, back, offers)

    def send(
        self, channel: Channel, content: str, *, wants_reply: bool = False, last: bool = False
    ) -> Sent:
        """Let the client store a message."""
        body = f'<o xmlns="urn:example">{content}</o>'.encode()
        message = Message("urn:example:Order", body, wants_reply=wants_reply, last=last)
        with self.client.store.transaction() as tx:
            return self.client.endpoint.send(tx, self.now, "orders", channel, message)

    def end(self, channel: Channel) -> bool:
        """Let the client end its sequence."""
        with self.client.store.transaction() as tx:
            return self.client.endpoint.end(tx, self.now, "orders", channel)

    def settle(self, seconds: float = 0.0) -> None:
        """Let both do what is due, for some time."""
        until = self.now + seconds
        for _ in range(10_000):
            work = [
                (end, outgoing)
                for end in (self.client, self.service)
                for outgoing in end.endpoint.due(self.now)
            ]
            for end, outgoing in work:
                self.post(end, outgoing)
            if not work:
                due = [end.endpoint.next_due() for end in (self.client, self.service)]
                known = [time for time in due if time is not None]
                if not known or min(known) > until:
                    self.now = until
                    return
                self.now = max(self.now, min(known))
        raise AssertionError("there is no end to it")

    def post(self, end: End, outgoing: Outgoing) -> None:
        """Send something to the other end, with what comes back."""
        other = self.service if end is self.client else self.client
        if self._lost(end, outgoing):
            end.endpoint.sent(outgoing, self.now, delivered=False)
            return
        reply = self.take(other, outgoing.envelope)
        answer = reply.answer
        if answer is not None and self._lost(other, answer):
            end.endpoint.sent(outgoing, self.now, delivered=False)
            return
        told = end.endpoint.sent(
            outgoing, self.now, delivered=True, answer=answer.envelope if answer else None
        )
        for each in told.outgoing:
            self.post(end, each)

    def take(self, end: End, envelope: bytes, owner: str | None = None) -> Reply:
        """Let an end take a message that came on a connection."""
        reply = end.endpoint.received(envelope, self.now, owner=owner)
        for each in reply.outgoing:
            self.post(end, each)
        return reply

    def _lost(self, end: End, outgoing: Outgoing) -> bool:
        line = f"{end.name}: {outgoing.label}"
        self.log.append(line)
        self.envelopes.append(outgoing.envelope)
        self.sent.append(read_message(outgoing.envelope))
        return self.loses(line)

    def is_empty(self) -> bool:
        """Whether neither keeps anything."""
        return self.client.store.is_empty() and self.service.store.is_empty()


def content_of(envelope: bytes) -> str:
    """The text in the body of a message."""
    body = body_of(envelope)
    return body[body.index(b">") + 1 :].split(b"<")[0].decode()


def losing(*lines: str) -> Loses:
    """Lose each of *lines* once."""
    left = list(lines)

    def loses(line: str) -> bool:
        if line in left:
            left.remove(line)
            return True
        return False

    return loses
