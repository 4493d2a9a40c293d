"""The simulator finds what it is there to find: the runtime is broken on purpose, in one place at a
time, and some seed shows it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from gateway.reliability import destination, destination_worker, exchange, shared_transactions
from gateway.reliability.acknowledgements import block_of
from gateway.reliability.invoker import Invoker
from gateway.reliability.party import Party
from gateway.reliability.records import IncomingSequence, OutgoingSequence
from gateway.reliability.simulation import scenarios
from gateway.reliability.simulation.run import simulate
from gateway.reliability.simulation.scenarios import Exchange, Scenario
from gateway.reliability.source import Message, Sent, Source
from gateway.reliability.steps import Step, begin, sharing
from gateway.reliability.storage import StorageUnavailable
from mediation.reliable_messaging import Ranges
from mediation.reliable_messaging.policy import Policy, Verdict

SEEDS = 400


@contextmanager
def hasty(party: Party, now: float) -> Iterator[Step]:
    """A transaction whose failed commit nobody hears of."""
    done = False
    try:
        with begin(party, now) as step:
            yield step
            done = True
    except StorageUnavailable:
        if not done:
            raise


def acknowledge_before_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is acknowledged may still be lost with the transaction."""
    monkeypatch.setattr(exchange, "begin", hasty)


def forget_duplicates(monkeypatch: pytest.MonkeyPatch) -> None:
    """A number that is known is taken as a new one."""
    verdict = Policy.verdict

    def careless(self: Policy, *args: Any, **named: Any) -> Verdict:
        found = verdict(self, *args, **named)
        return Verdict.TAKE if found is Verdict.DUPLICATE else found

    monkeypatch.setattr(Policy, "verdict", careless)


def number_outside_the_transaction(monkeypatch: pytest.MonkeyPatch) -> None:
    """A number is used up, even where the transaction is rolled back."""
    append = Source.append
    used: dict[str, int] = {}

    def counted(self: Source, sequence: OutgoingSequence, message: Message) -> Sent:
        number = max(used.get(sequence.key, 0) + 1, sequence.next_number)
        if sequence.next_number > 1:  # The first message makes the sequence.
            used[sequence.key] = number
            sequence = replace(sequence, next_number=number)
        return append(self, sequence, message)

    monkeypatch.setattr(Source, "append", counted)


def drop_the_tombstone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sequence is forgotten where it ends."""
    monkeypatch.setattr(scenarios, "Policy", partial(Policy, tombstone=0.0))


def deliver_across_gaps(monkeypatch: pytest.MonkeyPatch) -> None:
    """The application gets what is there, in whatever order it came."""
    new_buffer = destination.new_buffer

    def skipping(sequence: IncomingSequence) -> Any:
        return replace(new_buffer(sequence), skips=True)

    monkeypatch.setattr(destination, "new_buffer", skipping)


def reply_in_a_transaction_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reply is stored, even where what the application did is rolled back."""
    reply = Invoker._reply

    def apart(self: Invoker, step: Step, *args: Any) -> None:
        with begin(step.party, step.now) as own:
            reply(self, own, *args)

    monkeypatch.setattr(Invoker, "_reply", apart)


def acknowledge_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """An acknowledgement lists everything up to the highest number."""

    def whole(step: Step, sequence: IncomingSequence) -> bytes:
        if sequence.received:
            filled = Ranges.of([(1, sequence.received.highest)])
            sequence = replace(sequence, received=filled)
        return block_of(step, sequence)

    monkeypatch.setattr("gateway.reliability.acknowledgements.block_of", whole)


def never_send_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is lost stays lost."""
    monkeypatch.setattr(Policy, "retry_after", lambda self, tries, random: 1e9)


def keep_tombstones(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is ever removed."""

    def keep(step: Step, sequence: IncomingSequence, ended_at: float) -> None:
        step.tx.incoming.put(replace(sequence, due_at=None))

    monkeypatch.setattr(destination_worker, "_bury", keep)


def acknowledge_before_the_shared_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    """What several parts said is sent, even where their commit fails."""
    monkeypatch.setattr(shared_transactions, "begin", hasty)


def keep_what_failed_in_the_shared_transaction(monkeypatch: pytest.MonkeyPatch) -> None:
    """A part that failed is committed with the others, as far as it came."""

    @contextmanager
    def careless(step: Step) -> Iterator[None]:
        with sharing(step):
            yield
        step.failures.clear()

    monkeypatch.setattr(shared_transactions, "sharing", careless)


MUTATIONS = [
    (acknowledge_before_the_shared_commit, Exchange.ANONYMOUS_ONE_WAY),
    (keep_what_failed_in_the_shared_transaction, Exchange.ANONYMOUS_ONE_WAY),
    (acknowledge_before_commit, Exchange.ANONYMOUS_ONE_WAY),
    (acknowledge_what_is_missing, Exchange.ANONYMOUS_ONE_WAY),
    (deliver_across_gaps, Exchange.ONE_WAY),
    (drop_the_tombstone, Exchange.ONE_WAY),
    (forget_duplicates, Exchange.ONE_WAY),
    (keep_tombstones, Exchange.ONE_WAY),
    (never_send_again, Exchange.ONE_WAY),
    (number_outside_the_transaction, Exchange.ONE_WAY),
    (reply_in_a_transaction_of_its_own, Exchange.REQUEST_REPLY),
]
BY_DAY = {acknowledge_before_commit, deliver_across_gaps, reply_in_a_transaction_of_its_own}
"""One of each exchange; the others are looked for by night."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mutate", "exchange"),
    [
        pytest.param(
            mutate,
            exchange,
            id=mutate.__name__,
            marks=() if mutate in BY_DAY else pytest.mark.nightly,
        )
        for mutate, exchange in MUTATIONS
    ],
)
def test_a_broken_runtime_is_found(
    mutate: Callable[[pytest.MonkeyPatch], None],
    exchange: Exchange,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mutate(monkeypatch)
    for seed in range(SEEDS):
        outcome = simulate(Scenario.drawn(seed, exchange))
        if outcome.broken is not None:
            print(seed, outcome.broken)
            return
    pytest.fail(f"{SEEDS} seeds do not show it")
