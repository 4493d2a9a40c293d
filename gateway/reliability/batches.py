"""Receive, acknowledge and send for many sequences in one transaction."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from operator import itemgetter
from typing import Any

from filters import Refused
from gateway.reliability.exchange import Exchange
from gateway.reliability.party import Party, PeerLimits, requests_of
from gateway.reliability.receiving import receive, without_repeated_fault
from gateway.reliability.shared_transactions import Part, find_all, result_or_error, run_together
from gateway.reliability.source_input import acknowledge_all_plain
from gateway.reliability.source_worker import Work, send_due, send_due_beside, sends_messages
from gateway.reliability.steps import begin
from gateway.reliability.storage import Transaction, in_key_order
from gateway.reliability.values import Reply, read_again
from mediation.model.values import checked_dataclass
from mediation.reliable_messaging import ReliableMessage, RmFault


@checked_dataclass(frozen=True, slots=True)
class ReceivedMessage:
    """A message to receive, with the arguments of `receive`."""

    envelope: bytes
    owner: str | None = None
    content_type: str = ""
    service: str = ""
    peer: str = ""


@checked_dataclass(frozen=True, slots=True)
class AcknowledgementAnswer:
    """An answer on a connection that does nothing but acknowledge.

    Attributes:
        key: The sequence that sent the message which it answers.
    """

    key: str
    message: ReliableMessage
    envelope: bytes


def receive_all(
    party: Party,
    arrived: Sequence[ReceivedMessage],
    now: float,
    peer_limits: PeerLimits | None = None,
) -> list[Reply | Exception]:
    """Take messages that came at the same time: plain messages of sequences in one transaction,
    others as `receive` does.

    Args:
        peer_limits: How often a peer with an address hears of UnknownSequence.

    Returns:
        The reply to each, or what `receive` raises.
    """
    replies: dict[int, Reply | Exception] = {}
    plain: list[tuple[str, int, Callable[[], Exchange]]] = []
    for at, each in enumerate(arrived):
        try:
            message = read_again(each.envelope)
        except Refused:
            continue
        if message.sequence is not None and _is_plain(message):
            way = (each.owner, each.content_type, each.service, None)
            exchange = partial(Exchange, party, message, each.envelope, now, *way)
            plain.append((message.sequence.identifier, at, exchange))
    # In the lock order; the messages of one sequence stay in the order in which they came.
    plain.sort(key=itemgetter(0))
    parts: list[Part[Any]] = [
        Part(partial(_taken, exchange), incoming=(key,), invoker=(key,))
        for key, _, exchange in plain
    ]
    done = run_together(party, now, parts)
    _acknowledge_once([(key, taken) for (key, _, _), taken in zip(plain, done, strict=True)])
    for (_, at, _), taken in zip(plain, done, strict=True):
        replies[at] = (
            taken if isinstance(taken, Exception) else result_or_error(party, taken.finish)
        )
        peer, reply = arrived[at].peer, replies[at]
        if peer and isinstance(taken, Exchange) and isinstance(reply, Reply):
            replies[at] = without_repeated_fault(taken, reply, peer_limits, peer, now)
    for at, each in enumerate(arrived):
        if at not in replies:
            take = partial(receive, party, each.envelope, now, owner=each.owner, peer=each.peer)
            replies[at] = result_or_error(
                party, partial(take, content_type=each.content_type, service=each.service)
            )
    return [replies[at] for at in range(len(arrived))]


def _acknowledge_once(taken: Sequence[tuple[str, Exchange | Exception]]) -> None:
    """Keep the acknowledgement of the last message of each sequence: it covers the others."""
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
    """Return whether a message of a sequence carries nothing for any other sequence."""
    if message.acknowledgements or message.refusals or isinstance(message.fault, RmFault):
        return False
    if message.body is not None or message.makes_connection:
        return False
    own = message.sequence
    return all(own and asked.identifier == own.identifier for asked in message.ack_requested)


def acknowledge_all(
    party: Party, answers: Sequence[AcknowledgementAnswer], now: float
) -> list[Reply | Exception]:
    """Take acknowledgements that came at the same time, in one transaction.

    Returns:
        The reply to each, or the exception that it raised.
    """
    done = _acknowledge_plain(party, answers, now) if len(answers) > 1 else frozenset()
    ordered = sorted(set(range(len(answers))) - done, key=lambda at: answers[at].key)
    parts: list[Part[Any]] = []
    for at in ordered:
        each = answers[at]
        way = (None, "", "", each.key)
        exchange = partial(Exchange, party, each.message, each.envelope, now, *way)
        parts.append(Part(partial(_taken, exchange), outgoing=(each.key,)))
    taken: dict[int, Exchange | Exception]
    taken = dict(zip(ordered, run_together(party, now, parts), strict=True))
    replies: list[Reply | Exception] = [Reply()] * len(answers)
    for at, found in taken.items():
        replies[at] = (
            found if isinstance(found, Exception) else result_or_error(party, found.finish)
        )
    return replies


def _acknowledge_plain(
    party: Party, answers: Sequence[AcknowledgementAnswer], now: float
) -> frozenset[int]:
    """Take acknowledgements that only list messages, of several sequences at once.

    Returns:
        The places of those that are taken; of the others nothing is, whatever happened.
    """
    said = {each.key: (at, each.message.acknowledgements[0]) for at, each in enumerate(answers)}
    try:
        with begin(party, now) as step:
            keys = in_key_order(find_all(step.tx.outgoing, said))
            taken = acknowledge_all_plain(step, [(key, said[key][1]) for key in keys])
    except Exception:  # Taken one by one, as they are next, the one at fault shows.
        return frozenset()
    return frozenset(said[key][0] for key, was in zip(keys, taken, strict=True) if was)


def send_all_due(
    party: Party, limits: Mapping[str, int], now: float
) -> dict[str, Work | Exception]:
    """Look at outgoing sequences as `send_due` does, at those that have not ended in one
    transaction.

    Args:
        limits: The most messages to send, by the key of each sequence.
    """
    opposites = {key: requests_of(key) for key in limits}
    first = [key for key in in_key_order(limits) if opposites[key] is None]
    looks: list[Part[Any]] = [
        Part(
            partial(_send_unless_beside, party, key, now, limits[key]),
            outgoing=(key,),
            alone=partial(send_due, party, key, now, limit=limits[key]),
        )
        for key in first
    ]
    read = partial(_read_due, party, now, limits, first)
    done: dict[str, Any] = dict(zip(first, run_together(party, now, looks, read), strict=True))
    # Sequences the other way are locked before these, so that they have to be known first.
    opposites |= {key: found for key, found in done.items() if isinstance(found, str)}
    beside = [key for key in in_key_order(limits) if opposites[key] is not None]
    parts: list[Part[Any]] = [
        Part(
            partial(_send_beside, party, key, opposites[key], now, limits[key]),
            incoming=(opposite,),
            invoker=(opposite,),
            outgoing=(key,),
            alone=partial(send_due, party, key, now, limit=limits[key]),
        )
        for key in beside
        if (opposite := opposites[key]) is not None
    ]
    read = partial(_read_due, party, now, limits, beside)
    done |= dict(zip(beside, run_together(party, now, parts, read), strict=True))
    return {
        key: done[key]
        if done[key] is not None
        else result_or_error(party, partial(send_due, party, key, now, limit=limits[key]))
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
    """Read the due messages of several sequences with one statement, where the store can."""
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


def _send_unless_beside(party: Party, key: str, now: float, limit: int) -> Work | str | None:
    """Send as `send_due` does, if that needs no other sequence. Otherwise return the identifier of
    the one that goes the other way, or None where *key* has ended: the caller goes on."""
    with begin(party, now) as step:
        sequence = step.tx.outgoing.find(key)
    if sequence is None:
        return Work()
    if sequence.ended_at is not None:
        return None
    return sequence.offered or _send_beside(party, key, None, now, limit)


def _send_beside(party: Party, key: str, opposite: str | None, now: float, limit: int) -> Work:
    work = Work()
    send_due_beside(party, key, opposite, now, work, limit)
    return work
