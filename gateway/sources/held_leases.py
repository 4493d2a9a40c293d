"""The lease that a source has at its producer, as a table: what happens, the next state, and what
is to be done. No clock, no socket, no random number: all of that comes in.

    idle ---> subscribing ---> live <---> renewing, checking
                  |              |  <---> pausing, paused, resuming
                  |              |
                  |              +-- Renew refused, SubscriptionEnd ---> lost ---> subscribing
                  |              +-- unreachable ---> backing off ---> renewing, subscribing
                  +-- failed ---> backing off ---> subscribing
    any, no longer wanted ---> removing ---> idle, or removed

Where our own address has changed, a subscription is as good as lost: its events go elsewhere.

A source has a *manager* while its subscription is believed to be there, and a *former* one while
that of a subscription which is given up has yet to be told; never both. While an exchange is under
way (`BUSY`) nothing else begins; what is wanted meanwhile is looked at when it ends. Any fault to
Renew means that the subscription is gone: WS-Eventing 2004/08 has no fault of its own for that, and
implementations answer whatever they have.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import Enum

from gateway.model.sources import Standing, State, Wanted
from mediation.model.messages import EndpointReference

BUSY = frozenset(
    {
        State.SUBSCRIBING,
        State.RENEWING,
        State.CHECKING,
        State.PAUSING,
        State.RESUMING,
        State.REMOVING,
    }
)
"""States in which an exchange with the producer is under way."""
WELL = frozenset(
    {
        State.LIVE,
        State.RENEWING,
        State.CHECKING,
        State.PAUSING,
        State.PAUSED,
        State.RESUMING,
    }
)
"""States in which a subscription is believed to be there."""
PARTINGS = 3
"""Times that a producer is told that a subscription is not wanted any more; then its lease ends
by itself."""
RENEW_AT, RENEW_AT_BY_CALL = 1 / 2, 2 / 3
"""The part of a lease after which it is renewed; the second where the same call subscribes, too."""
SHORTEST = 0.5
"""Seconds from one renewal to the next, at least."""
LONGEST_LEASE = 366 * 86_400.0
"""Seconds for which a subscription is believed in, whatever its producer says."""
BRIEF = 10.0
"""Seconds of a lease that is too short to show, by being granted alone, that all is well."""
UNAUTHORIZED = 60.0
"""Seconds until the next attempt, at least, where a producer does not take who asks: cameras lock
out who is wrong a few times."""
LONGEST_ERROR = 300


class Command(Enum):
    """What is to be done. Every command but `DISMISS` and `FORGET` is answered by an event."""

    SUBSCRIBE = "subscribe"
    RENEW = "renew"
    CHECK = "check"
    PAUSE = "pause"
    RESUME = "resume"
    UNSUBSCRIBE = "unsubscribe"
    DISMISS = "end the former subscription"
    FORGET = "forget the source"


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed, or something else is wanted."""


@dataclass(frozen=True, slots=True)
class Granted:
    """The producer granted a subscription, or went on with one, for *length* seconds from *at*,
    which is when it was asked; None: the producer did not say, or for ever. *manager* is that of a
    new subscription, *context* the element by which its events are pulled."""

    at: float
    length: float | None = None
    manager: EndpointReference | None = None
    context: bytes | None = None


@dataclass(frozen=True, slots=True)
class Confirmed:
    """The producer did what it was asked."""


@dataclass(frozen=True, slots=True)
class Failed:
    """An exchange failed: the producer *refused*, perhaps because of who asks (*unauthorized*), or
    could not be reached."""

    error: str
    refused: bool
    unauthorized: bool = False


@dataclass(frozen=True, slots=True)
class Ended:
    """The producer said that the subscription has ended."""

    error: str


Event = Tick | Granted | Confirmed | Failed | Ended


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds by which a source is kept.

    Attributes:
        lease: That is asked for, and assumed where a producer does not say what it granted.
        silence: Without a sign of life after which the producer is asked; 0 never asks.
        first: From a failure to the next attempt; twice as many after each further one.
        longest: From one attempt to the next, at most.
        renew_at: The part of a lease after which it is renewed, about.
    """

    lease: float = 3600.0
    silence: float = 0.0
    first: float = 1.0
    longest: float = 300.0
    renew_at: float = RENEW_AT


@dataclass(frozen=True, slots=True)
class Moment:
    """What a transition may look at.

    Attributes:
        wanted: What is wanted now.
        now: A POSIX time.
        chance: From 0 to 1, drawn anew for each transition, so that many sources that lose one
            producer do not come back at one time.
        last_event: When the last event came.
        location: Where a producer would be told to send now; empty where it sends nowhere.
    """

    wanted: Wanted
    timing: Timing
    now: float
    chance: float = 0.5
    last_event: float | None = None
    location: str = ""


@dataclass(frozen=True, slots=True)
class Step:
    """How a source stands now, and what is to be done."""

    standing: Standing
    command: Command | None = None


def step(standing: Standing, event: Event, moment: Moment) -> Step:
    """The transition that *event* causes. What the table does not have changes nothing: it is the
    answer to a question that is not asked any more."""
    transition = TABLE.get((standing.state, type(event)))
    return Step(standing) if transition is None else transition(standing, event, moment)


def recovered(standing: Standing, now: float) -> Standing:
    """How a source stands for a gateway that takes it on, of what was under way knowing nothing.

    A subscription that may have been granted when the former gateway died is an orphan: what it
    sends comes with a key that is not known any more, and its lease ends.
    """
    if standing.state is State.SUBSCRIBING:
        return replace(_given_up(standing), state=State.LOST, since=now, due=now, pending=None)
    if standing.state in BUSY:
        if standing.manager is None:
            return replace(standing, state=State.LOST, since=now, due=now)
        state = State.PAUSED if standing.paused else State.LIVE
        return replace(standing, state=state, since=now, due=now)
    return replace(standing, due=now) if standing.due is None else standing


# Transitions.


def _into(standing: Standing, state: State, moment: Moment, **changes: object) -> Standing:
    since = standing.since if state is standing.state else moment.now
    return replace(standing, state=state, since=since, **changes)  # type: ignore[arg-type]


def _begin(standing: Standing, state: State, command: Command, moment: Moment) -> Step:
    return Step(_into(standing, state, moment, due=None), command)


def _tick_idle(standing: Standing, _: Event, moment: Moment) -> Step:
    match moment.wanted:
        case Wanted.ON:
            return _begin(standing, State.SUBSCRIBING, Command.SUBSCRIBE, moment)
        case Wanted.OFF:
            return Step(replace(standing, due=None))
        case Wanted.REMOVED:
            return _forget(standing, moment)


def _tick_well(standing: Standing, _: Event, moment: Moment) -> Step:
    """Of a source that is live, or paused."""
    wanted, now, paused = moment.wanted, moment.now, standing.state is State.PAUSED
    if wanted is Wanted.REMOVED or (wanted is Wanted.OFF and not paused and standing.plain):
        return _part(standing, moment)
    if standing.expires is not None and now >= standing.expires:
        return Step(_lose(standing, moment, "The lease is over.", gone=True))
    if standing.location and moment.location and standing.location != moment.location:
        error = f"Our own address was {standing.location}, and is {moment.location} now."
        return Step(_lose(standing, moment, error, gone=False))
    if wanted is Wanted.OFF and not paused:
        return _begin(standing, State.PAUSING, Command.PAUSE, moment)
    if wanted is Wanted.ON and paused:
        return _begin(standing, State.RESUMING, Command.RESUME, moment)
    if standing.renew is not None and now >= standing.renew:
        return _begin(standing, State.RENEWING, Command.RENEW, moment)
    silent = None if paused else _silent_at(standing, moment)
    if silent is not None and now >= silent:
        return _begin(standing, State.CHECKING, Command.CHECK, moment)
    return Step(replace(standing, due=_earliest(standing.renew, standing.expires, silent)))


def _tick_waiting(standing: Standing, _: Event, moment: Moment) -> Step:
    """Of a source that is lost, or backs off."""
    now, wanted = moment.now, moment.wanted is Wanted.ON
    over = standing.expires is not None and now >= standing.expires
    if not wanted and (over or (standing.manager is None and standing.former is None)):
        return _parted(standing, Confirmed(), moment)
    if not wanted and not standing.parting:
        return _part(standing, moment)
    if standing.due is not None and now < standing.due:
        return Step(standing)
    if not wanted:
        return _part(standing, moment)
    if standing.manager is not None and not over:
        return _begin(standing, State.RENEWING, Command.RENEW, moment)
    return _begin(_given_up(standing), State.SUBSCRIBING, Command.SUBSCRIBE, moment)


def _part(standing: Standing, moment: Moment) -> Step:
    """Begin to end the subscription: failures of what was asked before do not count."""
    parting = standing if standing.parting else replace(standing, failures=0)
    return _begin(parting, State.REMOVING, Command.UNSUBSCRIBE, moment)


def _given_up(standing: Standing) -> Standing:
    """Believe in the subscription no more; its producer may, and is told later."""
    return replace(standing, manager=None, former=standing.former or standing.manager)


def _subscribed(standing: Standing, event: Event, moment: Moment) -> Step:
    assert isinstance(event, Granted)
    live = _leased(standing, event, moment, State.LIVE)
    if _is_brief(live):
        live = replace(live, failures=standing.failures)
    live = replace(
        live,
        key=standing.pending,
        pending=None,
        manager=event.manager,
        former=None,
        paused=False,
        location=moment.location,
    )
    return Step(live, Command.DISMISS if standing.former is not None else None)


def _renewed(standing: Standing, event: Event, moment: Moment) -> Step:
    assert isinstance(event, Granted)
    state = State.PAUSED if standing.paused else State.LIVE
    return Step(_leased(standing, event, moment, state))


def _leased(standing: Standing, event: Granted, moment: Moment, state: State) -> Standing:
    granted = moment.timing.lease if event.length is None else event.length
    length = min(max(granted, 0.0), LONGEST_LEASE)
    renew = event.at + max(SHORTEST, length * (moment.timing.renew_at - 0.05 + 0.1 * moment.chance))
    return _into(
        standing,
        state,
        moment,
        due=moment.now,
        renew=renew,
        # What is assumed is no reason to give a subscription up.
        expires=None if event.length is None else event.at + max(length, 2 * SHORTEST),
        asked=moment.now,
        failures=0,
    )


def _checked(standing: Standing, _: Event, moment: Moment) -> Step:
    return Step(_into(standing, State.LIVE, moment, due=moment.now, asked=moment.now, failures=0))


def _check_refused(standing: Standing, event: Event, moment: Moment) -> Step:
    """A fault to GetStatus does not end the source, because not every manager offers it; only Renew
    decides."""
    assert isinstance(event, Failed)
    if not event.refused:
        return _unreachable(standing, event, moment)
    return _begin(standing, State.RENEWING, Command.RENEW, moment)


def _paused(standing: Standing, _: Event, moment: Moment) -> Step:
    return Step(_into(standing, State.PAUSED, moment, due=moment.now, paused=True, failures=0))


def _resumed(standing: Standing, _: Event, moment: Moment) -> Step:
    live = _into(standing, State.LIVE, moment, due=moment.now, paused=False, failures=0)
    return Step(replace(live, asked=moment.now))


def _pause_failed(standing: Standing, event: Event, moment: Moment) -> Step:
    """What cannot pause is ended instead."""
    assert isinstance(event, Failed)
    if not event.refused:
        return _unreachable(standing, event, moment)
    return _part(replace(standing, plain=True), moment)


def _exchange_failed(standing: Standing, event: Event, moment: Moment) -> Step:
    """Of an exchange with the manager of a subscription."""
    assert isinstance(event, Failed)
    if event.refused:
        return Step(_lose(standing, moment, event.error, gone=False))
    return _unreachable(standing, event, moment)


def _subscribe_failed(standing: Standing, event: Event, moment: Moment) -> Step:
    assert isinstance(event, Failed)
    return _unreachable(replace(standing, pending=None), event, moment)


def _unreachable(standing: Standing, event: Failed, moment: Moment) -> Step:
    least = UNAUTHORIZED if event.unauthorized else 0.0
    return Step(_failing(standing, State.BACKING_OFF, event.error, moment, least))


def _ended(standing: Standing, event: Event, moment: Moment) -> Step:
    assert isinstance(event, Ended)
    if standing.manager is None:  # The former one: what comes next is as before.
        return Step(replace(standing, former=None))
    return Step(_lose(standing, moment, event.error, gone=True))


def _lose(standing: Standing, moment: Moment, error: str, *, gone: bool) -> Standing:
    """Return how a source stands whose subscription was lost. Unless the subscription is surely
    *gone*, its producer is told to end it once there is another one."""
    former = None if gone else standing.manager
    lost = replace(standing, manager=None, former=former, expires=None, renew=None, paused=False)
    if _is_brief(standing):
        return _failing(lost, State.LOST, error, moment)
    lost = _failing(replace(lost, failures=0), State.LOST, error, moment)
    return replace(lost, failures=0)


def _is_brief(standing: Standing) -> bool:
    """Whether the lease is so short that a subscription may be lost and granted without an end."""
    return (
        standing.expires is not None
        and standing.asked is not None
        and standing.expires - standing.asked < BRIEF
    )


def _failing(
    standing: Standing, state: State, error: str, moment: Moment, least: float = 0.0
) -> Standing:
    timing = moment.timing
    wait = min(timing.longest, max(least, timing.first * 2.0 ** min(standing.failures, 30)))
    return _into(
        standing,
        state,
        moment,
        due=moment.now + wait * (0.5 + 0.5 * moment.chance),
        failures=standing.failures + 1,
        parting=standing.state is State.REMOVING,
        error=error[:LONGEST_ERROR],
        error_at=moment.now,
    )


def _parted(standing: Standing, _: Event, moment: Moment) -> Step:
    """There is no subscription any more, and none is to be there."""
    if moment.wanted is Wanted.REMOVED:
        return _forget(standing, moment)
    rest = replace(standing, key=None, manager=None, former=None, expires=None, renew=None)
    rest = replace(rest, paused=False, failures=0)
    return Step(_into(rest, State.IDLE, moment, due=moment.now))


def _parting_failed(standing: Standing, event: Event, moment: Moment) -> Step:
    """A fault to Unsubscribe means that there is nothing to end."""
    assert isinstance(event, Failed)
    if event.refused or standing.failures + 1 >= PARTINGS:
        return _parted(standing, Confirmed(), moment)
    return _unreachable(standing, event, moment)


def _forget(standing: Standing, moment: Moment) -> Step:
    gone = _into(standing, State.REMOVED, moment, due=None, key=None, manager=None, former=None)
    return Step(gone, Command.FORGET)


def _silent_at(standing: Standing, moment: Moment) -> float | None:
    if not moment.timing.silence:
        return None
    signs = [sign for sign in (moment.last_event, standing.asked) if sign is not None]
    return max(signs, default=standing.since) + moment.timing.silence


def _earliest(*times: float | None) -> float | None:
    return min((time for time in times if time is not None), default=None)


Transition = Callable[[Standing, Event, Moment], Step]
TABLE: Mapping[tuple[State, type[Event]], Transition] = {
    (State.IDLE, Tick): _tick_idle,
    (State.REMOVED, Tick): _tick_idle,
    (State.LIVE, Tick): _tick_well,
    (State.PAUSED, Tick): _tick_well,
    (State.LOST, Tick): _tick_waiting,
    (State.BACKING_OFF, Tick): _tick_waiting,
    (State.SUBSCRIBING, Granted): _subscribed,
    (State.SUBSCRIBING, Failed): _subscribe_failed,
    (State.LIVE, Failed): _exchange_failed,
    (State.RENEWING, Granted): _renewed,
    (State.RENEWING, Failed): _exchange_failed,
    (State.CHECKING, Granted): _checked,
    (State.CHECKING, Failed): _check_refused,
    (State.PAUSING, Confirmed): _paused,
    (State.PAUSING, Failed): _pause_failed,
    (State.RESUMING, Confirmed): _resumed,
    (State.RESUMING, Failed): _exchange_failed,
    (State.REMOVING, Confirmed): _parted,
    (State.REMOVING, Failed): _parting_failed,
    (State.LIVE, Ended): _ended,
    (State.PAUSED, Ended): _ended,
    (State.RENEWING, Ended): _ended,
    (State.CHECKING, Ended): _ended,
    (State.PAUSING, Ended): _ended,
    (State.RESUMING, Ended): _ended,
    (State.LOST, Ended): _ended,
    (State.BACKING_OFF, Ended): _ended,
    (State.SUBSCRIBING, Ended): _ended,
    (State.REMOVING, Ended): _ended,
}
"""Every transition, by state and event. After `Ended` there is nothing left that could end: else
the keeper, which carries out what the store says was told, would go on for ever."""
