"""The worker of outgoing sequences (RMSSequenceWorker): it looks at the state, and sends what that
asks for. A lost message is an event that did not happen, so that resending needs no logic."""

from dataclasses import dataclass, field, replace
from datetime import timedelta
from math import nextafter

from gateway.reliability import acknowledgements, sequence_end
from gateway.reliability.party import (
    SILENT,
    Party,
    is_callable,
    is_fetched,
    requests_of,
    same_place,
)
from gateway.reliability.records import (
    IncomingSequence,
    OutgoingMessage,
    OutgoingSequence,
    changed,
)
from gateway.reliability.source import Source
from gateway.reliability.source_input import awaiting
from gateway.reliability.steps import Step, begin, postpone_callback, soonest
from gateway.reliability.storage import StorageUnavailable
from gateway.reliability.values import Outgoing
from mediation.model.messages import EndpointReference
from mediation.reliable_messaging import (
    AckRequested,
    AckRequestedAlone,
    Body,
    CloseSequence,
    CreateSequence,
    Offer,
    SequenceHeader,
    TerminateSequence,
    ack_requested_block,
    sequence_block,
    uses_tls_block,
    uses_token_block,
    with_blocks,
    write_make_connection,
    write_message,
)
from mediation.reliable_messaging.machines import SourceEvent, SourceState, after_source
from mediation.soap.addressing import is_anonymous

_GUESSES = 8
"""Queries to the store for messages that are due before those that were found."""


@dataclass(slots=True)
class Work:
    """The messages to send after one look at a sequence."""

    outgoing: list[Outgoing] = field(default_factory=list)
    more: bool = False
    """There was more to send than was asked for."""
    called: list[str] = field(default_factory=list)
    """As `Step.called`."""


def send_due(
    party: Party, key: str, now: float, *, limit: int = 64, fetching: bool = False
) -> Work:
    """Look at an outgoing sequence, and decide what is sent now.

    Args:
        limit: The most messages to send.
        fetching: A peer fetches a message by WS-MakeConnection: there is a connection for it.
    """
    work = Work()
    try:
        opposite = _opposite(party, key, now)
        send_due_beside(party, key, opposite, now, work, limit, fetching=fetching)
    except StorageUnavailable:
        raise
    except Exception as error:
        if not work.called:
            raise
        postpone_callback(party, key, now, error)
        return Work()
    return work


def send_due_beside(
    party: Party,
    key: str,
    opposite: str | None,
    now: float,
    work: Work,
    limit: int,
    *,
    fetching: bool = False,
) -> None:
    """Fill *work* as `send_due` does, with *opposite*, the incoming sequence the other way."""
    with begin(party, now) as step:
        work.called = step.called
        incoming = step.tx.incoming.find(opposite) if opposite is not None else None
        acknowledgement = b""
        if incoming is not None and incoming.ended_at is None and incoming.received:
            acknowledgement = acknowledgements.block_of(step, incoming)
        sequence = step.tx.outgoing.find(key)
        if sequence is None:
            return
        if incoming is None or not same_place(sequence.target, incoming.acks_to):
            acknowledgement = b""
        due = sequence.due_at is not None and sequence.due_at <= now
        if due or (fetching and sequence.ended_at is None):
            _Look(step, sequence, incoming, acknowledgement, limit, fetching, work).send_due()
        if acknowledgement and work.outgoing and incoming is not None:
            after = acknowledgements.on_its_way(step, incoming)
            if after is not incoming and incoming.ended_at is None:
                step.tx.incoming.put(after)


def _opposite(party: Party, key: str, now: float) -> str | None:
    """The incoming sequence that goes the other way. It comes first in the lock order, so that it
    has to be known before."""
    requests = requests_of(key)
    if requests is not None:
        return requests
    with begin(party, now) as step:
        sequence = step.tx.outgoing.find(key)
    if sequence is None or sequence.offered is None:
        return None
    came_back = sequence.acks_to is not None and is_anonymous(sequence.acks_to.address)
    if sequence.ended_at is not None and came_back:
        _end_replies(party, sequence.offered, now)
    return sequence.offered


def _end_replies(party: Party, offered: str, now: float) -> None:
    """End an offered sequence whose messages came back on connections, after the sequence that
    offered it. All replies are here then: a request is kept until it has its own."""
    with begin(party, now) as step:
        incoming = step.tx.incoming.find(offered)
        if incoming is not None and incoming.ended_at is None:
            sequence_end.terminate(step, incoming, None)


def sends_messages(sequence: OutgoingSequence) -> bool:
    """Return whether a look at a sequence usually reads its messages, when it is due."""
    sending = sequence.state in (SourceState.SENDING, SourceState.SENDING_ENDED)
    return sending and sequence.ended_at is None and is_callable(sequence.target)


@dataclass(slots=True)
class _Look:
    """One look at one sequence."""

    step: Step
    sequence: OutgoingSequence
    incoming: IncomingSequence | None
    acknowledgement: bytes
    limit: int
    fetching: bool
    work: Work

    def send_due(self) -> None:
        sequence, now = self.sequence, self.step.now
        if sequence.ended_at is not None:
            self._bury(sequence.ended_at)
            return
        if sequence.expires_at is not None and sequence.expires_at <= now:
            if sequence.count or not sequence.identifier:
                self._give_up("it expired")
            else:
                Source(self.step).finish(sequence)
            return
        due = self._unfetched() if is_fetched(sequence.target) else None
        if self.sequence.ended_at is None and (is_callable(sequence.target) or self.fetching):
            due = soonest(due, self._send())
        if self.sequence.ended_at is not None:
            return
        self._poll()
        self._put(soonest(due, self.sequence.expires_at, self.sequence.poll_at))

    def _unfetched(self) -> float | None:
        """Give up a sequence whose messages nobody fetches; the time when that will be."""
        sequence, now = self.sequence, self.step.now
        if self.fetching:
            self.sequence = replace(sequence, last_acked_at=now)
            return now + self.step.party.policy.inactivity
        until = (sequence.last_acked_at or sequence.created_at) + self.step.party.policy.inactivity
        if until > now:
            return until
        if sequence.count:
            Source(self.step).give_up(sequence, "nobody fetches its messages")
        else:
            Source(self.step).finish(sequence)
        self.sequence = replace(sequence, ended_at=now)
        return None

    def _put(self, due_at: float | None) -> None:
        self.sequence = changed(self.sequence, due_at=due_at)
        self.step.tx.outgoing.put(self.sequence)

    def _send(self) -> float | None:
        """Send what the state asks for; return when there is more to send."""
        match self.sequence.state:
            case SourceState.WAITING | SourceState.WAITING_ENDED:
                return self._create()
            case SourceState.SENDING | SourceState.SENDING_ENDED:
                return self._messages()
            case SourceState.IDLE:
                return self._keep_alive()
            case SourceState.COMPLETE:
                if self.sequence.wire.rm.rules.closes and not self.sequence.closed:
                    return self._close()
                return self._terminate()
            case SourceState.TERMINATED:
                return self._terminate()

    def _create(self) -> float | None:
        sequence = self.sequence
        if sequence.create_id is None or sequence.acks_to is None:
            return None  # Replies without a sequence: they go back on connections.
        if not self._try():
            return self.sequence.next_at
        expires = timedelta(seconds=self.step.party.policy.expiry)
        offer = None
        if sequence.offered is not None:
            offer = Offer(sequence.offered, sequence.acks_to, expires)
        binding, rm, soap = self.step.party.binding, sequence.wire.rm, sequence.wire.soap
        body = CreateSequence(sequence.acks_to, expires, offer, binding.token or None)
        blocks = uses_token_block(rm, soap) if binding.token else b""
        blocks += uses_tls_block(rm, soap) if binding.tls else b""
        create_id, acks_to = sequence.create_id, sequence.acks_to
        self._add(body, message_id=create_id, reply_to=acks_to, blocks=blocks)
        return self.sequence.next_at

    def _messages(self) -> float | None:
        sequence, now = self.sequence, self.step.now
        highest = self.step.party.policy.highest_sent(sequence.acknowledged, sequence.window)
        waiting, due, crowded = self._waiting(highest)
        for message in waiting:
            if message.number > highest:
                break
            if message.next_at is not None and message.next_at > now:
                due = soonest(due, message.next_at)
                continue
            if len(self.work.outgoing) >= self.limit:
                self.work.more = True
                due = now
                break
            next_at = self._send_message(message)
            if next_at is None:
                return None
            due = next_at if due is None else min(due, next_at)
        return self._soonest(due, highest) if crowded else due

    def _waiting(self, highest: int) -> tuple[list[OutgoingMessage], float | None, bool]:
        """Read the messages that may be due.

        Returns:
            The messages, by number; when the next of those that were not read is due, where the
            store says so; whether more wait than were read, so that `_soonest` has to find out.
        """
        key, now, outgoing = self.sequence.key, self.step.now, self.step.tx.outgoing
        next_due = getattr(outgoing, "next_due", None)
        if next_due is not None:  # Messages that wait for an acknowledgement need not be read.
            room = self.limit - len(self.work.outgoing)
            due: float | None = next_due(key, highest, now)
            return outgoing.messages(key, room + 1, due=now), due, False
        window = self.step.party.policy.window
        waiting = outgoing.messages(key, window)
        if len(waiting) < window or waiting[-1].number >= highest:
            return waiting, None, False
        # Acknowledged messages that wait for replies are before these, and fill the window.
        more = outgoing.messages(key, window, due=now)
        found = {message.number: message for message in (*waiting, *more)}
        return [found[number] for number in sorted(found)], None, True

    def _send_message(self, message: OutgoingMessage) -> float | None:
        """Send a message that is due; return when it is sent again. None: the sequence is given up
        for it."""
        sequence, now, policy = self.sequence, self.step.now, self.step.party.policy
        # An acknowledged message waits for its reply only.
        known = message.number in sequence.acknowledged
        late = message.answer_by is not None and message.answer_by <= now
        tried = message.tries >= policy.reply_tries if known else policy.gives_up(message.tries)
        if tried or late:
            what = "answered" if known else "acknowledged"
            self._give_up(f"message {message.number} was not {what}")
            return None
        tries = message.tries + 1
        next_at = now + policy.retry_after(tries, self.step.party.random())
        sent = changed(message, tries=tries, next_at=next_at)
        if known:
            sent = awaiting(self.step, sequence, sent)
            next_at = sent.next_at or next_at
        self.step.tx.outgoing.put_message(sequence.key, sent)
        self.work.outgoing.append(
            outgoing_of(
                sequence, message, acknowledgement=self.acknowledgement, again=message.tries > 0
            )
        )
        return next_at

    def _soonest(self, due: float | None, highest: int) -> float | None:
        """When the next of all waiting messages is due; *due* is the time of some of them."""
        messages, window = self.step.tx.outgoing.messages, self.step.party.policy.window
        for _ in range(_GUESSES):
            before = nextafter(due, 0) if due is not None else None
            page = messages(self.sequence.key, window, due=before)
            times = [each.next_at or self.step.now for each in page if each.number <= highest]
            earlier = soonest(due, *times)
            if earlier == due:
                break
            due = earlier
        return due

    def _keep_alive(self) -> float | None:
        sequence, policy = self.sequence, self.step.party.policy
        if sequence.identifier is None or is_fetched(sequence.target):
            return None
        quiet_at = (sequence.last_acked_at or sequence.created_at) + policy.keep_alive
        if quiet_at > self.step.now:
            return quiet_at
        if not self._try():
            return self.sequence.next_at
        asked = ack_requested_block(sequence.wire.rm, AckRequested(sequence.identifier))
        self._add(AckRequestedAlone(), blocks=asked)
        return self.sequence.next_at

    def _close(self) -> float | None:
        assert self.sequence.identifier is not None
        if not self._try():
            return self.sequence.next_at
        body = CloseSequence(self.sequence.identifier, self.sequence.last_number)
        self._add(body, message_id=self.step.party.new_id(), reply_to=self.sequence.acks_to)
        return self.sequence.next_at

    def _terminate(self) -> float | None:
        assert self.sequence.identifier is not None
        if not self._try():
            return self.sequence.next_at
        body = TerminateSequence(self.sequence.identifier, self.sequence.last_number)
        if self.sequence.wire.rm.rules.terminate_answered:
            state = after_source(self.sequence.state, SourceEvent.TMS)
            self.sequence = replace(self.sequence, state=state)
            self._add(body, message_id=self.step.party.new_id(), reply_to=self.sequence.acks_to)
        else:
            self._add(body, message_id=self.step.party.new_id(), ends=True)
            if self.fetching:  # No answer tells whether a fetched message arrived.
                Source(self.step).finish(self.sequence)
                self.sequence = replace(self.sequence, ended_at=self.step.now)
        return self.sequence.next_at

    def _try(self) -> bool:
        """Count an attempt to send a protocol message; False where it is not time yet, or where
        the last attempt was made."""
        sequence, now = self.sequence, self.step.now
        if sequence.next_at is not None and sequence.next_at > now:
            return False
        policy = self.step.party.policy
        if policy.gives_up(sequence.tries):
            if sequence.count == 0 and sequence.state is not SourceState.IDLE:
                Source(self.step).finish(sequence)  # Only its end was never answered.
                self.sequence = replace(sequence, ended_at=now)
            else:
                self._give_up(SILENT)
            return False
        tries = sequence.tries + 1
        next_at = now + policy.retry_after(tries, self.step.party.random())
        self.sequence = replace(sequence, tries=tries, next_at=next_at)
        return True

    def _give_up(self, why: str) -> None:
        self.work.outgoing.clear()
        why = self.step.party.refusals.reason(self.sequence.key, why)
        told = abandon(self.step, self.sequence, why, blocks=self.acknowledgement)
        self.work.outgoing.extend(told)
        self.sequence = replace(self.sequence, ended_at=self.step.now)

    def _add(
        self,
        body: Body,
        *,
        message_id: str | None = None,
        reply_to: EndpointReference | None = None,
        blocks: bytes = b"",
        ends: bool = False,
    ) -> None:
        sequence = self.sequence
        action, envelope = write_message(
            sequence.wire,
            body,
            to=sequence.target,
            message_id=message_id,
            reply_to=reply_to,
            blocks=[blocks, self.acknowledgement],
        )
        label = type(body).__name__
        self.work.outgoing.append(
            Outgoing(sequence.target, envelope, action, sequence.wire, label, sequence.key, ends)
        )

    def _poll(self) -> None:
        """Fetch messages from our address, for as long as the sequence and its replies last."""
        sequence, now = self.sequence, self.step.now
        acks_to = sequence.acks_to
        if acks_to is None or not is_fetched(acks_to) or not is_callable(sequence.target):
            return
        if sequence.poll_at is not None and sequence.poll_at > now:
            return
        if sequence.poll_at is not None:
            self.work.outgoing.append(self._fetch(acks_to.address))
        self.sequence = replace(sequence, poll_at=now + self.step.party.policy.poll)

    def _fetch(self, address: str) -> Outgoing:
        sequence = self.sequence
        action, envelope = write_make_connection(
            address,
            to=sequence.target,
            message_id=self.step.party.new_id(),
            soap=sequence.wire.soap,
            wsa=sequence.wire.wsa,
        )
        return Outgoing(
            sequence.target, envelope, action, sequence.wire, "MakeConnection", sequence.key
        )

    def _bury(self, ended_at: float) -> None:
        """Keep the tombstone until its time is over, and fetch replies meanwhile."""
        gone_at = ended_at + self.step.party.policy.tombstone
        if self.step.now >= gone_at:
            self.step.tx.outgoing.remove(self.sequence.key)
            return
        acks_to, incoming = self.sequence.acks_to, self.incoming
        replies = incoming is not None and incoming.ended_at is None
        if replies and acks_to is not None and is_fetched(acks_to):
            self._poll()
        else:
            # Nothing depends on it any more: a new sequence may have its key.
            self.sequence = replace(self.sequence, poll_at=None, offered=None)
        self._put(soonest(gone_at, self.sequence.poll_at))


def abandon(
    step: Step, sequence: OutgoingSequence, why: str, *, blocks: bytes = b""
) -> list[Outgoing]:
    """Give the sequence up, and return a TerminateSequence, so that the destination need not wait.
    It is sent once."""
    Source(step).give_up(sequence, why)
    if sequence.identifier is None or not is_callable(sequence.target):
        return []
    body = TerminateSequence(sequence.identifier, sequence.next_number - 1 or None)
    action, envelope = write_message(
        sequence.wire,
        body,
        to=sequence.target,
        message_id=step.party.new_id(),
        reply_to=sequence.acks_to if sequence.wire.rm.rules.terminate_answered else None,
        blocks=[blocks] if blocks else (),
    )
    label = type(body).__name__
    return [Outgoing(sequence.target, envelope, action, sequence.wire, label, sequence.key)]


def outgoing_of(
    sequence: OutgoingSequence,
    message: OutgoingMessage,
    *,
    acknowledgement: bytes = b"",
    again: bool = False,
) -> Outgoing:
    """Address a stored message; where it goes *again*, it asks for an acknowledgement."""
    envelope = message_with_blocks(sequence, message, acknowledgement=acknowledgement, asking=again)
    label = f"message {message.number}" + (" again" if again else "")
    return Outgoing(sequence.target, envelope, message.action, sequence.wire, label, sequence.key)


def message_with_blocks(
    sequence: OutgoingSequence,
    message: OutgoingMessage,
    *,
    acknowledgement: bytes = b"",
    asking: bool = False,
) -> bytes:
    """The envelope of a message, with its place in the sequence.

    Args:
        asking: It asks for an acknowledgement.
    """
    if sequence.identifier is None:  # A reply without a sequence.
        return with_blocks(message.envelope, [acknowledgement] if acknowledgement else [])
    last = message.number == sequence.last_number
    rm, soap = sequence.wire.rm, sequence.wire.soap
    header = SequenceHeader(sequence.identifier, message.number, last)
    blocks = [sequence_block(rm, soap, header), acknowledgement]
    if asking:
        blocks.append(ack_requested_block(rm, AckRequested(sequence.identifier)))
    return with_blocks(message.envelope, blocks)


def note_handed_over(party: Party, key: str, now: float) -> None:
    """Note that the transport handed over TerminateSequence of 1.0, which has no answer."""
    with begin(party, now) as step:
        sequence = step.tx.outgoing.find(key)
        if sequence is None or sequence.ended_at is not None:
            return
        if sequence.state is SourceState.COMPLETE:
            Source(step).finish(sequence)


def note_messages_pending(party: Party, key: str, now: float) -> None:
    """Note that more messages wait at the address from which the sequence fetches."""
    with begin(party, now) as step:
        sequence = step.tx.outgoing.find(key)
        if sequence is not None and sequence.poll_at is not None:
            step.tx.outgoing.put(replace(sequence, poll_at=now, due_at=now))
