"""Consumers that take notifications in sequences (WS-ReliableMessaging)."""

import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count

from gateway.reliability.endpoint import Endpoint
from gateway.reliability.party import Party
from gateway.reliability.storage import Transaction
from gateway.reliability.stores.memory import MemoryStore
from gateway.reliability.values import Delivered, Outgoing
from mediation.reliable_messaging import ReliableMessage, Rm, read_message
from mediation.reliable_messaging.policy import Policy
from tests.rigs.consumers import Connection, Receipt

_NUMBER = re.compile(rb"<n>([^<]+)</n>")

Loses = Callable[[ReliableMessage], str]
"""Says what is lost of an exchange: ``request``, ``answer``, or nothing."""


def policy(rm: Rm = Rm.V1_1) -> str:
    """What a subscriber says to get its notifications in a sequence."""
    inner = ""
    if rm is Rm.V1_1:
        wsp = 'xmlns:wsp="http://www.w3.org/ns/ws-policy"'
        inner = (
            f"<wsp:Policy {wsp}><r:DeliveryAssurance><wsp:Policy><r:ExactlyOnce/><r:InOrder/>"
            "</wsp:Policy></r:DeliveryAssurance></wsp:Policy>"
        )
    return f'<r:RMAssertion xmlns:r="{rm.rules.policy}">{inner}</r:RMAssertion>'


def nothing(said: ReliableMessage) -> str:
    return ""


@dataclass(eq=False)
class ReliableConsumer:
    """A behaviour of `tests.rigs.consumers`: the destination of sequences.

    Attributes:
        lifetime: Seconds after which its sequences expire; None: as the library has it.
        loses: What goes wrong on the way.
        mute: It acknowledges a message only when it is new, as gSOAP does.
        got: The events that its application took: the number that each has in its payload.
        sent: What came, as it was lost or not; in its order.
        numbers: The numbers of messages as they came, by sequence, with repeats.
        ids: The message ids that came under each number of each sequence.
        elsewhere: What it has to send, beside its answers.
    """

    lifetime: float | None = None
    loses: Loses = nothing
    mute: bool = False
    got: list[str] = field(default_factory=list)
    sent: list[ReliableMessage] = field(default_factory=list)
    numbers: dict[str, list[int]] = field(default_factory=dict)
    ids: dict[tuple[str, int], set[str]] = field(default_factory=dict)
    elsewhere: list[Outgoing] = field(default_factory=list)
    _names: Iterator[int] = field(default_factory=count)

    def __post_init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Lose all that it knew of sequences, as a process does that ends."""
        rules = Policy() if self.lifetime is None else Policy(expiry=self.lifetime)
        party = Party(
            MemoryStore(),
            lambda: f"urn:consumer:{id(self)}:{next(self._names)}",
            lambda: 0.5,
            policy=rules,
            applications={"": self._take},
        )
        self.endpoint = Endpoint(party)

    def _take(self, tx: Transaction, delivered: Delivered) -> None:
        found = _NUMBER.search(delivered.envelope)
        assert found is not None, delivered.envelope
        self.got.append(found[1].decode())

    def bodies(self) -> list[str]:
        """The protocol messages that came."""
        return [type(one.body).__name__ for one in self.sent if one.body is not None]

    @property
    def sequences(self) -> list[list[int]]:
        """The numbers that came in each sequence, each once, in the order in which they first
        did."""
        return [list(dict.fromkeys(numbers)) for numbers in self.numbers.values()]

    def __call__(self, connection: Connection, receipt: Receipt) -> None:
        said = read_message(receipt.body)
        self.sent.append(said)
        lost = self.loses(said)
        if lost == "request":
            connection.transport.abort()
            return
        if said.sequence is not None:
            identifier, number = said.sequence.identifier, said.sequence.number
            numbers = self.numbers.setdefault(identifier, [])
            numbers.append(number)
            if self.mute and numbers.count(number) > 1:
                connection.answer(202)
                return
            ids = self.ids.setdefault((identifier, number), set())
            ids.add(said.headers.message_id or "")
            assert len(ids) == 1, f"message {number} is another one"
        elif said.rm is None:
            connection.answer(202)  # A SubscriptionEnd, say.
            return
        now = time.time()
        reply = self.endpoint.received(receipt.body, now)
        self.elsewhere += [*reply.outgoing, *self.endpoint.due(now)]
        if lost == "answer":
            connection.transport.abort()
        elif reply.answer is None:
            connection.answer(202)
        else:
            status = 500 if reply.fault else 200
            headers = dict(reply.answer.http_headers)
            connection.answer(status, reply.answer.envelope, Content_Type=headers["Content-Type"])
