"""The life of a source as a table, without a clock or a socket."""

from dataclasses import replace

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from gateway.model.sources import Standing, State, Wanted
from gateway.sources.held_leases import (
    BUSY,
    PARTINGS,
    TABLE,
    WELL,
    Command,
    Confirmed,
    Ended,
    Event,
    Failed,
    Granted,
    Moment,
    Step,
    Tick,
    Timing,
    recovered,
    step,
)
from mediation.model.messages import EndpointReference
from mediation.model.versions import Wsa
from tests.rigs.examples import examples

TIMING = Timing(lease=100.0, silence=40.0, first=1.0, longest=64.0)
WAITING = frozenset(State) - BUSY
ON, OFF, REMOVED = Wanted.ON, Wanted.OFF, Wanted.REMOVED


def manager(number: int = 1) -> EndpointReference:
    return EndpointReference(f"http://producer.example.org/{number}", Wsa.V2005_08)


def moment(
    now: float = 0.0, wanted: Wanted = ON, chance: float = 0.5, last_event: float | None = None
) -> Moment:
    return Moment(wanted, TIMING, now, chance, last_event)


def at(location: str, now: float = 0.0) -> Moment:
    return replace(moment(now), location=location)


@pytest.mark.parametrize("state", [State.LIVE, State.PAUSED])
def test_our_own_address_has_changed(state: State) -> None:
    """It is subscribed anew, and the former subscription ended then; state says why."""
    asked = step(Standing(), Tick(), at("http://old")).standing
    held = step(asked, Granted(0.0, 100.0, manager()), at("http://old")).standing
    assert held.location == "http://old"
    assert step(held, Tick(), at("http://old", 1.0)).standing.state is State.LIVE
    lost = step(replace(held, state=state), Tick(), at("http://new", 1.0)).standing
    assert (lost.state, lost.former) == (State.LOST, manager())
    assert "http://old, and is http://new now" in lost.error
    again = step(lost, Tick(), at("http://new", lost.due or 0.0))
    assert again.command is Command.SUBSCRIBE
    new = step(again.standing, Granted(9.0, 100.0, manager(2)), at("http://new", 9.0))
    assert (new.command, new.standing.manager) == (Command.DISMISS, manager(2))
    assert step(new.standing, Tick(), at("http://new", 10.0)).standing.state is State.LIVE


def test_an_address_that_is_not_known_has_not_changed() -> None:
    """Of a subscription of an earlier version, and of who fetches."""
    for before, now in (("", "http://new"), ("http://old", "")):
        held = replace(live(), location=before)
        assert step(held, Tick(), at(now, 1.0)).standing.state is State.LIVE


def live(now: float = 0.0, length: float | None = 100.0) -> Standing:
    asked = step(Standing(), Tick(), moment(now)).standing
    asked = replace(asked, pending=f"key {now}")
    return step(asked, Granted(now, length, manager()), moment(now)).standing


def test_a_source_is_subscribed_at_once() -> None:
    assert step(Standing(), Tick(), moment()).command is Command.SUBSCRIBE


def test_a_granted_subscription_has_the_key_that_was_asked_with() -> None:
    standing = live(7.0)
    assert (standing.state, standing.key, standing.pending) == (State.LIVE, "key 7.0", None)


@pytest.mark.parametrize(("chance", "renew"), [(0.0, 45.0), (1.0, 55.0)])
def test_a_lease_is_renewed_at_about_its_half(chance: float, renew: float) -> None:
    asked = replace(step(Standing(), Tick(), moment()).standing, pending="key")
    granted = step(asked, Granted(0.0, 100.0, manager()), moment(chance=chance)).standing
    assert granted.renew == pytest.approx(renew)
    assert step(granted, Tick(), moment(renew - 1, last_event=renew - 1)).command is None
    assert step(granted, Tick(), moment(renew + 0.1, last_event=renew)).command is Command.RENEW


def test_a_lease_that_nobody_spoke_of_is_taken_for_the_one_asked_for() -> None:
    standing = live(length=None)
    assert standing.expires is None
    assert standing.renew == pytest.approx(50.0)


def test_silence_is_asked_about_and_renew_decides() -> None:
    standing = live()
    assert step(standing, Tick(), moment(39.0)).command is None
    asking = step(standing, Tick(), moment(40.0))
    assert asking.command is Command.CHECK
    assert step(asking.standing, Granted(40.0), moment(40.0)).standing.state is State.LIVE
    refused = step(asking.standing, Failed("No.", refused=True), moment(40.0))
    assert refused.command is Command.RENEW


def test_events_are_signs_of_life() -> None:
    assert step(live(), Tick(), moment(44.0, last_event=30.0)).command is None


def test_who_cannot_be_reached_is_asked_to_renew_again() -> None:
    renewing = step(live(), Tick(), moment(60.0)).standing
    away = step(renewing, Failed("away", refused=False), moment(60.0)).standing
    assert (away.state, away.manager) == (State.BACKING_OFF, manager())
    assert step(away, Tick(), moment(62.0)).command is Command.RENEW
    assert step(away, Tick(), moment(101.0)).command is Command.SUBSCRIBE


def test_the_former_subscription_is_ended_once_there_is_another() -> None:
    renewing = step(live(), Tick(), moment(60.0)).standing
    lost = step(renewing, Failed("Who?", refused=True), moment(60.0)).standing
    assert (lost.state, lost.former, lost.key) == (State.LOST, manager(), "key 0.0")
    again = replace(step(lost, Tick(), moment(62.0)).standing, pending="other")
    taken = step(again, Granted(62.0, 100.0, manager(2)), moment(62.0))
    assert (taken.command, taken.standing.manager) == (Command.DISMISS, manager(2))


def test_what_the_producer_ended_is_not_ended_again() -> None:
    assert step(live(), Ended("bye"), moment(9.0)).standing.former is None


def refused_renewal() -> Standing:
    renewing = step(live(), Tick(), moment(60.0)).standing
    return step(renewing, Failed("Who?", refused=True), moment(60.0)).standing


def test_what_is_subscribed_anew_has_a_former_subscription_alone() -> None:
    renewing = step(live(), Tick(), moment(60.0)).standing
    away = step(renewing, Failed("away", refused=False), moment(60.0)).standing
    asked = step(away, Tick(), moment(101.0))
    assert asked.command is Command.SUBSCRIBE
    assert (asked.standing.manager, asked.standing.former) == (None, manager())


@pytest.mark.parametrize("state", sorted(WAITING, key=str))
@pytest.mark.parametrize(
    "holds", [Standing(manager=manager()), Standing(former=manager())], ids=["manager", "former"]
)
def test_after_an_end_there_is_nothing_left_that_could_end(state: State, holds: Standing) -> None:
    if (state, Ended) not in TABLE:
        assert state in (State.IDLE, State.REMOVED)
        return
    standing = replace(holds, state=state, due=1.0, key="key")
    after = step(standing, Ended("bye"), moment()).standing
    assert (after.manager, after.former) == (None, None)


def test_the_end_of_a_former_subscription_hurries_nothing() -> None:
    lost = refused_renewal()
    after = step(lost, Ended("bye"), moment(61.0)).standing
    assert after == replace(lost, former=None)


def test_a_crash_leaves_no_manager_to_what_was_being_subscribed() -> None:
    asking = Standing(State.SUBSCRIBING, key="old", pending="new", manager=manager(), expires=1.0)
    again = recovered(asking, 5.0)
    assert (again.manager, again.former, again.pending) == (None, manager(), None)


@pytest.mark.parametrize(("wanted", "end"), [(OFF, State.IDLE), (REMOVED, State.REMOVED)])
def test_a_former_subscription_is_ended_when_none_is_wanted_any_more(
    wanted: Wanted, end: State
) -> None:
    parting = step(refused_renewal(), Tick(), moment(60.0, wanted))
    assert (parting.command, parting.standing.former) == (Command.UNSUBSCRIBE, manager())
    after = step(parting.standing, Confirmed(), moment(60.0, wanted)).standing
    assert (after.state, after.former) == (end, None)


def test_a_former_subscription_whose_lease_is_over_is_not_told() -> None:
    renewing = step(live(), Tick(), moment(60.0)).standing
    away = step(renewing, Failed("away", refused=False), moment(60.0)).standing
    asked = replace(step(away, Tick(), moment(101.0)).standing, pending="other")
    failed = step(asked, Failed("away", refused=False), moment(101.0)).standing
    assert failed.former == manager()
    assert step(failed, Tick(), moment(101.0, OFF)).standing.state is State.IDLE


def test_failures_of_what_was_asked_before_are_no_partings() -> None:
    standing, now = live(length=None), 60.0
    for _ in range(PARTINGS + 2):
        renewing = step(standing, Tick(), moment(now))
        assert renewing.command is Command.RENEW
        standing = step(renewing.standing, Failed("away", refused=False), moment(now)).standing
        now = standing.due or now
    now -= 0.1  # It need not wait for what is not wanted any more.
    asked = 0
    for _ in range(2 * PARTINGS):
        taken = step(standing, Tick(), moment(now, REMOVED))
        standing = taken.standing
        if taken.command is Command.UNSUBSCRIBE:
            asked += 1
            failed = Failed("away", refused=False)
            standing = step(standing, failed, moment(now, REMOVED)).standing
            now = standing.due or now
    assert (asked, standing.state) == (PARTINGS, State.REMOVED)


def test_who_cannot_pause_is_unsubscribed_then_and_later() -> None:
    pausing = step(live(), Tick(), moment(1.0, OFF))
    assert pausing.command is Command.PAUSE
    ending = step(pausing.standing, Failed("Pause?", refused=True), moment(1.0, OFF))
    assert ending.command is Command.UNSUBSCRIBE
    idle = step(ending.standing, Confirmed(), moment(1.0, OFF)).standing
    assert (idle.state, idle.plain) == (State.IDLE, True)
    assert step(replace(live(), plain=True), Tick(), moment(1.0, OFF)).command is (
        Command.UNSUBSCRIBE
    )


def test_a_paused_subscription_is_renewed_and_stays_paused() -> None:
    pausing = step(live(), Tick(), moment(1.0, OFF)).standing
    paused = step(pausing, Confirmed(), moment(1.0, OFF)).standing
    renewing = step(paused, Tick(), moment(60.0, OFF))
    assert renewing.command is Command.RENEW
    renewed = step(renewing.standing, Granted(60.0, 100.0), moment(60.0, OFF)).standing
    assert renewed.state is State.PAUSED
    assert step(renewed, Tick(), moment(61.0, ON)).command is Command.RESUME


def test_a_producer_that_is_away_is_left_after_some_partings() -> None:
    taken = step(live(), Tick(), moment(1.0, REMOVED))
    now = 1.0
    for _ in range(PARTINGS):
        assert taken.command is Command.UNSUBSCRIBE
        taken = step(taken.standing, Failed("away", refused=False), moment(now, REMOVED))
        now += 10.0
        if taken.command is None:
            taken = step(taken.standing, Tick(), moment(now, REMOVED))
    assert (taken.standing.state, taken.command) == (State.REMOVED, Command.FORGET)


@pytest.mark.parametrize(("chance", "share"), [(0.0, 0.5), (1.0, 1.0)])
def test_waits_double_and_are_bounded(chance: float, share: float) -> None:
    waits, standing, now = [], Standing(), 0.0
    for _ in range(9):
        asking = step(standing, Tick(), moment(now, chance=chance)).standing
        standing = step(asking, Failed("No.", refused=False), moment(now, chance=chance)).standing
        assert standing.due is not None
        waits.append(standing.due - now)
        now = standing.due
    assert waits == [share * wait for wait in (1, 2, 4, 8, 16, 32, 64, 64, 64)]


def test_after_a_crash_what_was_being_subscribed_is_an_orphan() -> None:
    asked = replace(step(Standing(), Tick(), moment()).standing, pending="key")
    again = recovered(asked, 5.0)
    assert (again.state, again.pending, again.due) == (State.LOST, None, 5.0)


def test_every_state_in_which_something_is_under_way_can_fail() -> None:
    for state in BUSY:
        assert (state, Failed) in TABLE
        assert (state, Tick) not in TABLE
    for state in WAITING:
        assert (state, Tick) in TABLE


class Life(RuleBasedStateMachine):
    """A source, a producer that may do anything, an operator, crashes; and what always holds."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 1000.0
        self.wanted = ON
        self.standing = Standing()
        self.under_way: Command | None = None
        self.numbers = 0
        self.there: set[EndpointReference] = set()
        """Subscriptions that the producer has."""
        self.orphans: set[EndpointReference] = set()
        """Those that a crash made nobody's."""
        self.chance = 0.5

    @property
    def moment(self) -> Moment:
        return moment(self.now, self.wanted, self.chance)

    @rule(seconds=st.floats(0.0, 200.0), chance=st.floats(0.0, 1.0))
    def time_passes(self, seconds: float, chance: float) -> None:
        self.now += seconds
        self.chance = chance
        self.tick()

    def tick(self) -> None:
        if self.under_way is None and self.standing.state is not State.REMOVED:
            self.follow(step(self.standing, Tick(), self.moment))

    def follow(self, taken: Step) -> None:
        self.standing = taken.standing
        command = taken.command
        if command is Command.SUBSCRIBE:
            self.numbers += 1
            self.standing = replace(self.standing, pending=f"key {self.numbers}")
        if command in (Command.DISMISS, Command.FORGET):
            return
        self.under_way = command

    @precondition(lambda self: self.under_way is not None)
    @rule(length=st.one_of(st.none(), st.floats(1.0, 1000.0)))
    def the_producer_does_it(self, length: float | None) -> None:
        self.answer(self.done(length))

    def done(self, length: float | None) -> Event:
        command = self.under_way
        if command is Command.SUBSCRIBE:
            made = manager(self.numbers)
            self.there.add(made)
            return Granted(self.now, length, made)
        if command is Command.UNSUBSCRIBE:
            ended = self.standing.manager or self.standing.former
            assert ended is not None
            self.there.discard(ended)
        if command in (Command.RENEW, Command.CHECK):
            return Granted(self.now, length)
        return Confirmed()

    @precondition(lambda self: self.under_way is not None)
    @rule(refused=st.booleans())
    def the_exchange_fails(self, refused: bool) -> None:
        self.answer(Failed("No.", refused))

    def answer(self, event: Event) -> None:
        self.under_way = None
        self.follow(step(self.standing, event, self.moment))

    @rule()
    def the_producer_ends_it(self) -> None:
        ended = self.standing.manager or self.standing.former
        if ended is not None:
            self.there.discard(ended)
        was = self.standing.state
        self.standing = step(self.standing, Ended("bye"), self.moment).standing
        if was is not self.standing.state:
            self.under_way = None  # Its answer is to a question that nobody asks any more.

    @precondition(lambda self: self.wanted is not REMOVED)
    @rule(wanted=st.sampled_from(Wanted))
    def something_else_is_wanted(self, wanted: Wanted) -> None:
        self.wanted = wanted

    @rule()
    def the_gateway_crashes(self) -> None:
        self.under_way = None
        self.standing = recovered(self.standing, self.now)

    @invariant()
    def an_exchange_is_under_way_in_busy_states_alone(self) -> None:
        assert (self.under_way is not None) == (self.standing.state in BUSY)

    @invariant()
    def what_waits_knows_for_how_long(self) -> None:
        settled = self.standing.state in (State.IDLE, State.REMOVED, *BUSY)
        assert settled or self.standing.due is not None

    @invariant()
    def a_subscription_that_is_believed_in_has_a_manager_and_a_key(self) -> None:
        if self.standing.state in WELL:
            assert self.standing.manager is not None
            assert self.standing.key is not None

    @invariant()
    def what_is_given_up_is_not_believed_in(self) -> None:
        assert self.standing.manager is None or self.standing.former is None
        assert self.standing.state is not State.SUBSCRIBING or self.standing.manager is None

    @invariant()
    def no_wait_is_longer_than_the_longest(self) -> None:
        if self.standing.state in (State.LOST, State.BACKING_OFF):
            assert self.standing.due is not None
            assert self.standing.due - self.now <= TIMING.longest

    @invariant()
    def with_a_willing_producer_it_comes_to_what_is_wanted(self) -> None:
        standing, under_way, now = self.standing, self.under_way, self.now
        there, numbers = set(self.there), self.numbers
        for _ in range(40):
            if self.under_way is not None:
                self.answer(self.done(100.0))
            else:
                self.now = max(self.now, min(self.standing.due or self.now, self.now + 100.0))
                self.tick()
            if self._has_come():
                break
        assert self._has_come(), (self.standing, self.wanted)
        self.standing, self.under_way, self.now = standing, under_way, now
        self.there, self.numbers = there, numbers

    def _has_come(self) -> bool:
        state = self.standing.state
        match self.wanted:
            case Wanted.ON:
                return state is State.LIVE
            case Wanted.OFF:
                return state in (State.IDLE, State.PAUSED)
            case Wanted.REMOVED:
                return state is State.REMOVED


TestLife = Life.TestCase
TestLife.settings = settings(max_examples=examples(day=75, night=300), stateful_step_count=40)


@pytest.mark.parametrize("length", [0.0, 0.4, 1.0, -9e11])
def test_subscriptions_that_do_not_last_come_ever_less_often(length: float) -> None:
    """A producer that grants leases of nothing, and renews none, is asked as one that is away."""
    standing, now, asked = Standing(), 0.0, 0
    while now < 10_000.0:
        taken = step(standing, Tick(), moment(now))
        standing = taken.standing
        if taken.command is Command.SUBSCRIBE:
            asked += 1
            standing = step(standing, Granted(now, length, manager()), moment(now)).standing
        elif taken.command is not None:
            refused = Failed("nothing", refused=True)
            standing = step(standing, refused, moment(now)).standing
        now = max(now + 0.1, standing.due or 0.0)
    assert asked < 10 + 10_000.0 / (TIMING.longest / 2)
    live = step(replace(standing, state=State.SUBSCRIBING), Granted(now, 100.0), moment(now))
    assert live.standing.failures == 0


@pytest.mark.parametrize("length", [9e11, -9e11])
def test_no_lease_is_longer_than_a_year_or_shorter_than_nothing(length: float) -> None:
    standing = live(0.0, length)
    assert standing.expires is not None and 0.0 < standing.expires <= 366 * 86_400
