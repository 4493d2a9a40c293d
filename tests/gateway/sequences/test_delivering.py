"""Turns in a sequence, step by step: who has one, and what becomes of one that is lost."""

from collections.abc import Iterator
from contextlib import contextmanager

from gateway.reliability.destination import Destination, create
from gateway.reliability.party import Party, anonymous
from gateway.reliability.steps import Step, begin
from gateway.reliability.stores.memory import MemoryStore
from gateway.sequences.delivering import LEASE, MOST, MOST_OCTETS, Turn, is_busy, lease, published
from mediation.model.messages import MessageHeaders
from mediation.model.versions import Soap, Wsa
from mediation.reliable_messaging import (
    CreateSequence,
    CreateSequenceResponse,
    IncompleteBehaviour,
    ReliableMessage,
    Rm,
    SequenceHeader,
)

ADDRESSED = MessageHeaders(Wsa.V2005_08, message_id="urn:m")
SAID = ReliableMessage(Soap.V1_2, ADDRESSED, Rm.V1_1)
CREATE = CreateSequence(anonymous(Wsa.V2005_08))


class Trial:
    """One sequence in memory, at a time that is said."""

    def __init__(self) -> None:
        self.now = 100.0
        self.party = Party(
            MemoryStore(),
            lambda: "urn:s",
            lambda: 0.5,
            incomplete=IncompleteBehaviour.DISCARD_FOLLOWING_FIRST_GAP,
            after_delivery=True,
        )
        made, _ = create(self.party, SAID, CREATE, self.now, owner="a", service="publish")
        assert isinstance(made, CreateSequenceResponse)

    @contextmanager
    def step(self) -> Iterator[Step]:
        with begin(self.party, self.now) as step:
            yield step

    def comes(self, *numbers: int, octets: bytes = b"x") -> None:
        for number in numbers:
            header = SequenceHeader("urn:s", number)
            with self.step() as step:
                Destination(step, "a").receive(SAID, header, octets, "")

    def turn(self) -> Turn | None:
        with self.step() as step:
            return lease(step, "urn:s")

    def numbers(self) -> list[int]:
        turn = self.turn()
        return [message.number for message in turn.messages] if turn is not None else []

    def note(self, turn: Turn, count: int) -> int:
        with self.step() as step:
            return published(step, turn, count).delivered

    def busy(self) -> bool:
        with self.step() as step:
            return is_busy(step, "urn:s")


def test_what_is_next_is_one_gateways() -> None:
    trial = Trial()
    trial.comes(1, 2, 4)
    assert trial.numbers() == [1, 2]
    trial.comes(3)
    assert trial.numbers() == [], "it is somebody's already"


def test_a_turn_that_is_lost_is_anothers_after_a_while() -> None:
    trial = Trial()
    trial.comes(1)
    lost = trial.turn()
    assert lost is not None
    trial.now += LEASE - 1
    assert trial.numbers() == []
    trial.now += 2
    another = trial.turn()
    assert another is not None
    assert trial.note(lost, 1) == 0, "it is not its own any more"
    assert trial.note(another, 1) == 1
    assert trial.turn() is None


def test_what_is_leased_is_due_when_the_lease_ends() -> None:
    """Even where the sequence ends meanwhile, nobody can do anything before."""
    trial = Trial()
    trial.comes(1)
    turn = trial.turn()
    assert turn is not None
    with trial.step() as step:
        Destination(step, "a").close("urn:s", 1)
    assert trial.numbers() == []
    with trial.step() as step:
        buffer = step.tx.invoker.find("urn:s")
        assert buffer is not None
        assert buffer.due_at == buffer.leased_until == turn.leased_until
    assert trial.note(turn, 1) == 1


def test_what_could_not_be_published_is_next_again() -> None:
    trial = Trial()
    trial.comes(1, 2, 3)
    turn = trial.turn()
    assert turn is not None
    assert trial.note(turn, 1) == 1
    assert trial.busy()
    assert trial.numbers() == [2, 3]


def test_a_gap_is_waited_for() -> None:
    trial = Trial()
    trial.comes(2)
    assert not trial.busy()
    assert trial.numbers() == []
    trial.comes(1)
    assert trial.busy()
    assert trial.numbers() == [1, 2]


def test_a_turn_is_bounded() -> None:
    trial = Trial()
    trial.comes(*range(1, MOST + 10))
    assert trial.numbers() == list(range(1, MOST + 1))
    trial = Trial()
    trial.comes(1, 2, octets=b"x" * MOST_OCTETS)
    assert trial.numbers() == [1], "one at least"


def test_no_sequence_has_no_turn() -> None:
    trial = Trial()
    with trial.step() as step:
        assert lease(step, "urn:another") is None
        assert not is_busy(step, "urn:another")
