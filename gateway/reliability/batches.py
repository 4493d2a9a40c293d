"""Receive, acknowledge and send for many sequences in one transaction."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from operator import itemgetter
from typing import Any

from filters import Refused
from gateway.reliability.exchange import Exchange
from gateway.reliability.group_commit import Part, find_all, outcome, run_together
from gateway.reliability.party import Manners, Party, requests_of
from gateway.reliability.receiving import hushed, receive
from gateway.reliability.source_input import acknowledge_all_plain
from gateway.reliability.source_worker import Work, act, act_beside, sends_messages
from gateway.reliability.steps import begin
from gateway.reliability.storage import Transaction, in_key_order
from gateway.reliability.values import Reply, read_again
from mediation.model.values import checked_dataclass
from mediation.reliable_messaging import ReliableMessage, RmFault


@checked_dataclass(frozen=True, slots=True)
class Arrived:
    """A message that came, with the arguments of `receive`."""

    octets: bytes
    owner: str | None = None
    content_type: str = ""
    service: str = ""
    peer: str = ""


@checked_dataclass(frozen=True, slots=True)
class Acknowledging:
    """An answer that does nothing but acknowledge.

    Attributes:
        key: The sequence whose message it answers.
    """

    key: str
    message: ReliableMessage
    octets: bytes


def receive_all(
    party: Party, arrived: Sequence[Arrived], now: float, manners: Manners | None = None
) -> list[Reply | Exception]:
    """Take messages that came at the same time: those that only have a place in a sequence, in one
    transaction; others as `receive` does.

    Args:
        manners: How often those who say where they are hear that nobody knows their sequence.

    Returns:
        The reply to each, or what `receive` raises.
    """
    replies: dict[int, Reply | Exception] = {}
    plain: list[tuple[str, int, Callable[[], Exchange]]] = []
    for at, each in enumerate(arrived):
        try:
            message = read_again(each.octets)
        except Refused:
            continue
        if message.sequence is not None and _is_plain(message):
            way = (each.owner, each.content_type, each.service, None)
            exchange = partial(Exchange, party, message, each.octets, now, *way)
            plain.append((message.sequence.identifier, at, exchange))
    plain.sort(
        key=itemgetter(0)
    )  # As sequences are locked; of one in the order in which they came.
    parts: list[Part[Any]] = [
        Part(partial(_taken, exchange), incoming=(key,), invoker=(key,))
        for key, _, exchange in plain
    ]
    done = run_together(party, now, parts)
    _say_once([(key, taken) for (key, _, _), taken in zip(plain, done, strict=True)])
    for (_, at, _), taken in zip(plain, done, strict=True):
        replies[at] = taken if isinstance(taken, Exception) else outcome(party, taken.finish)
        peer, reply = arrived[at].peer, replies[at]
        if peer and isinstance(taken, Exchange) and isinstance(reply, Reply):
            replies[at] = hushed(taken, reply, manners, peer, now)
    for at, each in enumerate(arrived):
        if at not in replies:
            take = partial(receive, party, each.octets, now, owner=each.owner, peer=each.peer)
            replies[at] = outcome(
                party, partial(take, content_type=each.content_type, service=each.service)
            )
    return [replies[at] for at in range(len(arrived))]


def _say_once(taken: Sequence[tuple[str, Exchange | Exception]]) -> None:
    """Acknowledge with one answer what was taken of a sequence: the last one says it of all."""
    said: set[str] = set()
    for key, exchange in reversed(taken):
        if isinstance(exchange, Exception) or not exchange.only_acknowledges:
            continue
        if key not in said:
            said.add(key)
        elif not exchange.is_asked:
            exchange.blocks.clear()


def _taken(make: Callable[[], Exchange]) -> Exchange:
    exchange = make()
    exchange.take()
    return exchange


def _is_plain(message: ReliableMessage) -> bool:
    """Whether a message of a sequence has nothing else to say."""
    if message.acknowledgements or message.refusals or isinstance(message.fault, RmFault):
        return False
    if message.body is not None or message.makes_connection:
        return False
    own = message.sequence
    return all(own and asked.identifier == own.identifier for asked in message.ack_requested)


def acknowledge_all(
    party: Party, answers: Sequence[Acknowledging], now: float
) -> list[Reply | Exception]:
    """Take acknowledgements that came at the same time, in one transaction.

    Returns:
        The reply to each, or the exception.
    """
    done = _acknowledge_plain(party, answers, now) if len(answers) > 1 else frozenset()
    ordered = sorted(set(range(len(answers))) - done, key=lambda at: answers[at].key)
    parts: list[Part[Any]] = []
    for at in ordered:
        each = answers[at]
        way = (None, "", "", each.key)
        exchange = partial(Exchange, party, each.message, each.octets, now, *way)
        parts.append(Part(partial(_taken, exchange), outgoing=(each.key,)))
    taken: dict[int, Exchange | Exception]
    taken = dict(zip(ordered, run_together(party, now, parts), strict=True))
    replies: list[Reply | Exception] = [Reply()] * len(answers)
    for at, found in taken.items():
        replies[at] = found if isinstance(found, Exception) else outcome(party, found.finish)
    return replies


def _acknowledge_plain(
    party: Party, answers: Sequence[Acknowledging], now: float
) -> frozenset[int]:
    """Take what only says that messages arrived, of several sequences at once.

    Returns:
        The places of those that are taken; nothing of the others is, whatever happened.
    """
    said = {each.key: (at, each.message.acknowledgements[0]) for at, each in enumerate(answers)}
    try:
        with begin(party, now) as step:
            keys = in_key_order(find_all(step.tx.outgoing, said))
            taken = acknowledge_all_plain(step, [(key, said[key][1]) for key in keys])
    except Exception:  # Whoever takes each for itself finds out.
        return frozenset()
    return frozenset(said[key][0] for key, was in zip(keys, taken, strict=True) if was)


def act_all(party: Party, limits: Mapping[str, int], now: float) -> dict[str, Work | Exception]:
    """Look at outgoing sequences, as `source_worker.act` does, those that have not ended in one
    transaction.

    Args:
        limits: The most messages to send, by the key of each sequence.
    """
    if len(limits) == 1:
        return {
            key: outcome(party, partial(act, party, key, now, limit=limits[key])) for key in limits
        }
    opposites = {key: requests_of(key) for key in limits}
    first = [key for key in in_key_order(limits) if opposites[key] is None]
    looks: list[Part[Any]] = [
        Part(
            partial(_act_unless_beside, party, key, now, limits[key]),
            outgoing=(key,),
            alone=partial(act, party, key, now, limit=limits[key]),
        )
        for key in first
    ]
    read = partial(_read_due, party, now, limits, first)
    done: dict[str, Any] = dict(zip(first, run_together(party, now, looks, read), strict=True))
    # What goes the other way is locked before them, and has to be known for that.
    opposites |= {key: found for key, found in done.items() if isinstance(found, str)}
    beside = [key for key in in_key_order(limits) if opposites[key] is not None]
    parts: list[Part[Any]] = [
        Part(
            partial(_act_beside, party, key, opposites[key], now, limits[key]),
            incoming=(opposite,),
            invoker=(opposite,),
            outgoing=(key,),
            alone=partial(act, party, key, now, limit=limits[key]),
        )
        for key in beside
        if (opposite := opposites[key]) is not None
    ]
    read = partial(_read_due, party, now, limits, beside)
    done |= dict(zip(beside, run_together(party, now, parts, read), strict=True))
    return {
        key: done[key]
        if done[key] is not None
        else outcome(party, partial(act, party, key, now, limit=limits[key]))
        for key in limits
    }


def _read_due(
    party: Party,
    now: float,
    limits: Mapping[str, int],
    keys: Sequence[str],
    tx: Transaction,
    places: Sequence[int],
) -> None:
    """Read what is due of several sequences with one statement, where the store can do that."""
    read = getattr(tx.outgoing, "read_due", None)
    if read is None:
        return
    wanted: dict[str, tuple[int, int]] = {}
    for key in (keys[at] for at in places):
        sequence = tx.outgoing.find(key)
        if sequence is not None and sends_messages(sequence):
            highest = party.policy.highest_sent(sequence.acknowledged, sequence.window)
            wanted[key] = highest, limits[key] + 1
    read(wanted, now)


def _act_unless_beside(party: Party, key: str, now: float, limit: int) -> Work | str | None:
    """Act as `act` does; or return the sequence that goes the other way, or None where it has
    ended, for whoever can look at those."""
    with begin(party, now) as step:
        sequence = step.tx.outgoing.find(key)
    if sequence is None:
        return Work()
    if sequence.ended_at is not None:
        return None
    return sequence.offered or _act_beside(party, key, None, now, limit)


def _act_beside(party: Party, key: str, opposite: str | None, now: float, limit: int) -> Work:
    work = Work()
    act_beside(party, key, opposite, now, work, limit)
    return work
