"""One end of reliable messaging, as programs use it: `Endpoint`. It is synchronous, and the time is
an argument. A transport sends the messages that it returns, and hands it the answers."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from gateway.reliability.batches import (
    ReceivedMessage,
    receive_all,
)
from gateway.reliability.destination_worker import watch
from gateway.reliability.invoker import Invoker
from gateway.reliability.party import Channel, Party, PeerLimits, requests_of
from gateway.reliability.receiving import receive
from gateway.reliability.records import OutgoingSequence
from gateway.reliability.source import Message, Sent, Source, takes_messages
from gateway.reliability.source_worker import note_handed_over, send_due
from gateway.reliability.steps import Step, begin
from gateway.reliability.storage import StorageUnavailable, Transaction, retried
from gateway.reliability.values import Notice, NoticeKind, Outgoing, Reply

PAGE = 256
ATTEMPTS = 3
"""Attempts to take a message whose transaction is in the way of others."""


class Endpoint:
    """One end of sequences: client, service or both.

    Args:
        party: Store, address, policy and applications of this side.
    """

    def __init__(self, party: Party) -> None:
        self.party = party
        self._peer_limits = PeerLimits(party.policy)

    def send(
        self, tx: Transaction, now: float, name: str, channel: Channel, message: Message
    ) -> Sent:
        """Store a message, in a transaction of the caller: with it, what the caller changes there
        is committed, or is not.

        Args:
            name: Tells sequences of one client to one address apart.

        Raises:
            SourceFull: Too much waits already; nothing was changed.
        """
        return Source(Step(self.party, tx, now)).send(name, channel, message)

    def end(self, tx: Transaction, now: float, name: str, channel: Channel) -> bool:
        """Let no message more come in the sequence *name*. It ends when all are acknowledged.

        Returns:
            Whether there was one that took messages.
        """
        return Source(Step(self.party, tx, now)).end(name, channel)

    def received(
        self,
        envelope: bytes,
        now: float,
        *,
        owner: str | None = None,
        content_type: str = "",
        service: str = "",
        peer: str = "",
    ) -> Reply:
        """Take a message that came on a connection: see `gateway.reliability.receiving.receive`.

        Args:
            peer: The network address of who sent it: nobody makes many sequences a second, has
                many without an owner, or many faults about sequences that nobody knows.
        """
        peer_limits = self._peer_limits if peer else None
        take = partial(receive, self.party, envelope, now, owner=owner, content_type=content_type)
        take = partial(take, service=service, peer_limits=peer_limits, peer=peer)
        # Parts that were committed before a conflict are known at the next attempt, and taken once.
        return retried(take, ATTEMPTS, lambda _: None)

    def received_all(
        self, arrived: Sequence[ReceivedMessage], now: float
    ) -> list[Reply | Exception]:
        """Take messages that came at the same time, in as few transactions as can be.

        Returns:
            The reply to each, or the exception that `received` raises.
        """
        return receive_all(self.party, arrived, now, self._peer_limits)

    def sent(
        self,
        outgoing: Outgoing,
        now: float,
        *,
        delivered: bool,
        answer: bytes | None = None,
        content_type: str = "",
        owner: str | None = None,
    ) -> Reply:
        """Take the outcome of sending *outgoing*.

        Args:
            delivered: The other side took it (2xx, or a fault). A failure changes nothing: it is
                sent again when it is time.
            answer: The body that came back on the connection.
            owner: The identity of the other side, where it is known.
        """
        if delivered and outgoing.ends and outgoing.key is not None:
            note_handed_over(self.party, outgoing.key, now)
        if not answer:
            return Reply()
        back = outgoing.key or ""
        return receive(self.party, answer, now, owner=owner, content_type=content_type, back=back)

    def due(self, now: float, *, limit: int = PAGE) -> list[Outgoing]:
        """Do the due work: give applications their messages, and return the messages to send. Where
        that fails for one sequence, it goes on for the others.

        Args:
            limit: The most sequences of each kind that are looked at.

        Raises:
            StorageUnavailable: Nothing was done; to be called again later.
        """
        sent: list[Outgoing] = []
        done, failure = False, None
        try:
            for name, work in self._work(now, limit):
                try:
                    sent.extend(work())
                    done = True
                except Exception as error:
                    self._take_failure(name, error)
                    failure = failure or error.with_traceback(None)
        except StorageUnavailable as error:
            failure = failure or error.with_traceback(None)
        # Messages that were decided on are sent all the same: their transactions are committed.
        if failure is not None and not done:
            try:
                raise failure
            finally:
                del failure
        return sent

    def _work(self, now: float, limit: int) -> Iterator[tuple[str, Callable[[], list[Outgoing]]]]:
        """The work that is due, one sequence after the other, with its name."""
        party = self.party
        with party.storage.look() as look:
            invoker = look.invoker_due(now, limit)
        for identifier in invoker:
            yield identifier, partial(_deliver, party, identifier, now)
        with party.storage.look() as look:
            incoming = look.incoming_due(now, limit)
            outgoing = look.outgoing_due(now, limit)
        # Messages first: an acknowledgement travels on one where it can.
        for key in outgoing:
            yield key, partial(_send_due, party, key, now)
        for identifier in incoming:
            yield identifier, partial(watch, party, identifier, now)

    def _take_failure(self, name: str, error: Exception) -> None:
        """Tell people of *error*, unless the store refused; then raise, if it still does."""
        if isinstance(error, StorageUnavailable):
            self.next_due()
        else:
            self.party.notify(Notice(NoticeKind.FAILED, name, f"{type(error).__name__}: {error}"))

    def next_due(self) -> float | None:
        """The time of the next `due`; None: there is none, unless a message comes."""
        with self.party.storage.look() as look:
            return look.next_due()

    def restart(self, now: float) -> int:
        """Take up what a process left behind: nobody knows whether its clients had more for their
        sequences, so that those are ended, and what else they send goes in new ones. One that its
        destination has not made yet goes on: no sequence has begun, and programs that start often
        while a destination is away would run out of them.

        Returns:
            How many sequences were ended.
        """
        self.party.storage.recover()
        ended, after = 0, ""
        while True:
            with self.party.storage.look() as look:
                page = look.outgoing_page(after, PAGE)
            if not page:
                return ended
            for seen in page:
                # Replies go on: they end with the requests.
                if requests_of(seen.key) is None and _is_left(seen):
                    with begin(self.party, now) as step:
                        sequence = step.tx.outgoing.find(seen.key)
                        if sequence is not None and _is_left(sequence):
                            Source(step).end_sequence(replace(sequence, due_at=now))
                            ended += 1
            after = page[-1].key


def _deliver(party: Party, identifier: str, now: float) -> list[Outgoing]:
    Invoker(party, identifier, now).deliver()
    return []


def _send_due(party: Party, key: str, now: float) -> list[Outgoing]:
    return send_due(party, key, now).outgoing


def _is_left(sequence: OutgoingSequence) -> bool:
    return sequence.identifier is not None and takes_messages(sequence)
