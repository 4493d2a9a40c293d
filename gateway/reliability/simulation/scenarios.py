"""The scenario of a run, drawn from its seed: versions, the exchange, faults."""

from dataclasses import dataclass, field
from enum import Enum
from random import Random

from gateway.reliability.records import Wire
from mediation.model.versions import Soap, Wsa
from mediation.reliable_messaging import Rm
from mediation.reliable_messaging.policy import Policy


class Exchange(Enum):
    """The way in which client and service speak."""

    ONE_WAY = "one-way"
    REQUEST_REPLY = "request-reply"
    WITHOUT_OFFER = "request-reply without an offer"
    ANONYMOUS_ONE_WAY = "anonymous one-way"
    ANONYMOUS = "anonymous request-reply"
    ANONYMOUS_WITHOUT_OFFER = "anonymous request-reply without an offer"
    FETCHED_ONE_WAY = "one-way, acknowledgements fetched"
    FETCHED = "request-reply, replies fetched"

    @property
    def replies(self) -> bool:
        return self in _REPLYING

    @property
    def offers(self) -> bool:
        return self.replies and not self.name.endswith("WITHOUT_OFFER")

    @property
    def anonymous(self) -> bool:
        return self.name.startswith("ANONYMOUS")

    @property
    def fetched(self) -> bool:
        return self.name.startswith("FETCHED")


_REPLYING = (
    Exchange.REQUEST_REPLY,
    Exchange.WITHOUT_OFFER,
    Exchange.ANONYMOUS,
    Exchange.ANONYMOUS_WITHOUT_OFFER,
    Exchange.FETCHED,
)

WAYS: tuple[tuple[Wire, tuple[Exchange, ...]], ...] = tuple(
    (Wire(rm, wsa, soap), exchanges)
    for rm, wsas, exchanges in (
        (
            Rm.V1_0,
            (Wsa.V2004_08, Wsa.V2005_08),
            tuple(each for each in Exchange if not each.fetched),
        ),
        (Rm.V1_1, (Wsa.V2005_08, Wsa.V2004_08), tuple(Exchange)),
    )
    for wsa in wsas
    for soap in Soap
)
"""The combinations of versions; WS-MakeConnection came with 1.1."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """A run.

    Attributes:
        messages: The number of messages that the client sends.
        pace: Seconds between two of them, on average.
        loss, doubling, delay: The part of requests and answers to which that happens.
        crash: The part of commits at which the process ends, before or after.
        unavailable: The part of transactions that the store refuses, or is in doubt of.
        partitions: Times between which nothing comes through.
        calm_at: The time after which nothing goes wrong.
        faulty: The part of messages that the application answers with a fault.
        failing: The part of messages that it takes only the second or third time.
        says_last: The client marks its last message, instead of ending the sequence.
        interleaving: The part of transactions before which another thread does something.
        names: The number of sequences that the client has side by side.
        tells_room: Acknowledgements say how many messages there is room for.
        policy: The policy of both sides.
        harsh: Sides may give up: messages that were not acknowledged may be missing then.
        together: The most messages that a side takes in one turn. Above 1, due sequences share
            transactions.
        torn: The part of transactions in which the store refuses one of the changes.
        nacks: Missing messages are asked for.
    """

    seed: int
    wire: Wire
    exchange: Exchange
    messages: int
    pace: float
    loss: float = 0.0
    doubling: float = 0.0
    delay: float = 0.0
    crash: float = 0.0
    unavailable: float = 0.0
    partitions: tuple[tuple[float, float], ...] = ()
    calm_at: float = 120.0
    faulty: float = 0.0
    failing: float = 0.0
    says_last: bool = False
    interleaving: float = 0.0
    names: int = 1
    tells_room: bool = False
    policy: Policy = field(default_factory=Policy)
    harsh: bool = False
    together: int = 1
    torn: float = 0.0
    nacks: bool = False

    @classmethod
    def drawn(cls, seed: int, exchange: Exchange | None = None) -> "Scenario":
        """The scenario of a seed: any mixture of what can go wrong."""
        random = Random(seed)
        ways = [way for way in WAYS if exchange is None or exchange in way[1]]
        wire, exchanges = ways[random.randrange(len(ways))]
        chosen = exchange or exchanges[random.randrange(len(exchanges))]
        calm_at = random.uniform(20, 150)

        def maybe(highest: float) -> float:
            return random.uniform(0, highest) if random.random() < 0.6 else 0.0

        partitions: tuple[tuple[float, float], ...] = ()
        if random.random() < 0.3:
            start = random.uniform(0, 40)
            partitions = ((start, start + random.uniform(1, 60)),)
        return cls(
            seed,
            wire,
            chosen,
            random.randint(1, 12),
            random.choice((0.01, 0.5, 3.0)),
            maybe(0.4),
            maybe(0.3),
            maybe(0.5),
            maybe(0.05),
            maybe(0.1),
            partitions,
            calm_at,
            maybe(0.3) if chosen.replies else 0.0,
            maybe(0.3),
            random.random() < 0.3,
            maybe(0.3),
            random.choice((1, 1, 2, 3, 6)),
            random.random() < 0.3,
            *_drawn_policy(random, chosen),
            random.choice((1, 2, 4, 8, 8)),
            maybe(0.1),
            random.random() < 0.4,
        )

    def name_of(self, number: int) -> str:
        """The name of the sequence that message *number* goes in."""
        return f"orders {number % self.names + 1}"

    def __str__(self) -> str:
        wire = self.wire
        spoken = f"WS-RM {wire.rm.number}, {wire.wsa.name}, SOAP {wire.soap.name}"
        parts = (
            ("loss", self.loss),
            ("doubling", self.doubling),
            ("delay", self.delay),
            ("crash", self.crash),
            ("unavailable", self.unavailable),
            ("faulty", self.faulty),
            ("failing", self.failing),
            ("interleaving", self.interleaving),
            ("torn", self.torn),
        )
        wrong = ", ".join(f"{name} {part:.0%}" for name, part in parts if part)
        turns = f"; up to {self.together} in a turn" if self.together > 1 else ""
        harsh = ", whoever waits long gives up" if self.harsh else ""
        cut = "".join(f", no network from {a:.0f} to {b:.0f} s" for a, b in self.partitions)
        return (
            f"seed {self.seed}: {spoken}, {self.exchange.value}, {self.messages} messages,"
            f" calm at {self.calm_at:.0f} s; {wrong or 'nothing goes wrong'}{cut}{harsh}"
            f"{turns}{', Nack for what is missing' if self.nacks else ''}"
        )


def _drawn_policy(random: Random, exchange: Exchange) -> tuple[Policy, bool]:
    """The policy of both sides; and whether they give up soon."""
    harsh = random.random() < 0.2
    policy = Policy(
        window=random.choice((64, 64, 5, 2)),
        # Replies that are in no sequence are kept until the end.
        stored=10_000 if not exchange.offers else random.choice((10_000, 10_000, 3)),
        ack_every=random.choice((32, 3, 1)),
        tries=3 if harsh else 10,
        expiry=random.choice((40.0, 24 * 3600.0)) if harsh else 24 * 3600.0,
    )
    return policy, harsh
