"""Ends of sequences to subscribers, and acknowledgements at addresses of the gateway: parts of
operations of the store.

    end_sequences          the subscription ends, and its sequences with it
    end_due                the next step of ending a sequence; `take_answer`: of its consumer
    take_acknowledgements  a consumer acknowledges at an address of the gateway
"""

from collections.abc import Mapping
from dataclasses import replace

from sqlalchemy import Connection, func, select, update

from gateway.delivery.sequences.message_numbers import (
    UnsavedState,
    key_start,
    note,
    party_in,
    quiet,
    subscription_of,
)
from gateway.reliability.party import is_callable
from gateway.reliability.source import Source, is_kept_elsewhere, takes_messages
from gateway.reliability.source_input import SourceInput
from gateway.reliability.source_worker import abandon, note_handed_over, send_due
from gateway.reliability.steps import begin
from gateway.reliability.storage import StorageManager
from gateway.reliability.stores.tables import outgoing
from gateway.reliability.values import Outgoing
from gateway.store import sequence_deliveries
from mediation.reliable_messaging import ReliableMessage

GRACE = 3.0
"""Seconds that an attempt under way has for its acknowledgement when its subscription has ended."""


def end_sequences(
    storage: StorageManager,
    connection: Connection,
    subscription: str,
    now: float,
    unsaved: Mapping[str, UnsavedState],
) -> None:
    """End the sequences of a subscription, which leaves the store. Workers tell their consumers.

    Args:
        unsaved: What this process knows of them, by key.
    """
    for key in keys_of(connection, subscription):
        with begin(party_in(storage), now) as step:
            own = unsaved.get(key)
            note(step, connection, subscription, key, own)
            if own is not None:
                Source(step).take_back(key, own.unsent)
            sequence = step.tx.outgoing.find(key)
            if sequence is None or sequence.ended_at is not None:
                continue
            if sequence.identifier is None:
                step.tx.outgoing.remove(key)  # The consumer knows nothing of it.
                continue
            waits = sequence.count > 0
            Source(step).end_sequence(sequence)
            ended = step.tx.outgoing.find(key)
            if waits and ended is not None:
                step.tx.outgoing.put(replace(ended, due_at=now + GRACE))
    sequence_deliveries.forget(connection, subscription)


def keys_of(connection: Connection, subscription: str) -> list[str]:
    """The keys of the sequences of a subscription, in the order in which they are locked."""
    key, start = outgoing.c.key, key_start(subscription)
    query = select(key).where(key > f"{start}/", key < f"{start}0")  # 0 comes after a slash.
    return sorted(connection.execute(query).scalars())


def end_due(storage: StorageManager, key: str, now: float) -> tuple[list[Outgoing], str]:
    """Take the next step of ending a sequence, whose subscription has ended. Returns the messages
    to send, and the owner of the subscription. Late acknowledgements are not waited for."""
    party = party_in(storage)
    with begin(party, now) as step:
        sequence = quiet(step, key)
        if sequence is None or takes_messages(sequence):
            return [], ""
        owner = sequence.owner or ""
        if sequence.ended_at is None and sequence.count:
            waiting = step.tx.outgoing.messages(key, sequence.count)
            if any(map(is_kept_elsewhere, waiting)):
                why = "its subscription ended before all was acknowledged"
                return abandon(step, sequence, why), owner
    return send_due(party, key, now).outgoing, owner


def take_answer(
    storage: StorageManager, sent: Outgoing, said: ReliableMessage | None, now: float
) -> None:
    """Take a consumer's answer to a message of `end_due`."""
    key = sent.key or ""
    if sent.ends:
        note_handed_over(party_in(storage), key, now)
    if said is not None:
        with begin(party_in(storage), now) as step:
            sequence = step.tx.outgoing.find(key)
            if sequence is not None and said.rm is sequence.wire.rm:
                SourceInput(step, sequence.owner).take_answer(key, said)


def key_created_by(connection: Connection, create_id: str) -> str | None:
    """The key of the sequence that was made with this message id of CreateSequence."""
    query = select(outgoing.c.key).where(outgoing.c.create_id == create_id)
    found = connection.execute(query).scalar()
    return None if found is None else str(found)


def take_acknowledgements(
    storage: StorageManager, connection: Connection, key: str, said: ReliableMessage, now: float
) -> None:
    """Take a message about a sequence that a consumer sent to an address of the gateway. While
    deliveries go in it acknowledgements alone count: attempts hear the rest on their own
    connections."""
    with begin(party_in(storage), now) as step:
        sequence = step.tx.outgoing.find(key)
        if sequence is None or said.rm is not sequence.wire.rm:
            return
        if sequence.acks_to is None or not is_callable(sequence.acks_to):
            return  # It acknowledges on connections: what comes here is somebody else's.
        if not takes_messages(sequence):
            SourceInput(step, sequence.owner).take_answer(key, said)
            return
        for one in said.acknowledgements:
            if one.identifier == sequence.identifier:
                unsaved = UnsavedState(one.identifier, one.ranges)
                note(step, connection, subscription_of(key) or "", key, unsaved)


def next_due(connection: Connection) -> float | None:
    """The time of the next work on sequences whose subscriptions have ended; None: never."""
    found = connection.execute(select(func.min(outgoing.c.due_at))).scalar()
    return None if found is None else float(found)


def postpone(connection: Connection, key: str, due_at: float) -> None:
    """Have nobody look at a sequence before *due_at*."""
    connection.execute(update(outgoing).where(outgoing.c.key == key).values(due_at=due_at))
