"""The sending end of applications: messages are stored with what the program changes, and arrive
once, in order, though both sides and the net between them fail."""

import logging
import random
import ssl
import time
import uuid
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import replace
from enum import Enum
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Unpack

from gateway.client.application_calls import raising_exceptions
from gateway.client.reliable.addresses import check_listener, check_target
from gateway.client.reliable.deliveries import (
    Callback,
    Callbacks,
    Completed,
    GivenUp,
    NamedFunctions,
    callback_application,
)
from gateway.client.reliable.endpoint_base import (
    EndpointBase,
    completed,
    dead,
    given_up,
    new_id,
    patient,
    say,
)
from gateway.client.reliable.http_requests import Intake
from gateway.client.reliable.listener import listening
from gateway.client.reliable.transaction_threads import MAX_COMMIT
from gateway.client.reliable.transactions import (
    ClientTransaction,
    MessageOptions,
    OpenTransaction,
    Pending,
    PendingMessages,
    Threads,
    sequence_name,
)
from gateway.client.reliable.workers import STOP, Workers
from gateway.client.sequence_binding import BoundTo, binding_of, checking_by, signing_by
from gateway.group_commit import GroupCommit
from gateway.reliability.endpoint import Endpoint
from gateway.reliability.immediate_sending import send_at_once
from gateway.reliability.party import Channel, Party, anonymous
from gateway.reliability.records import OutgoingSequence, Wire
from gateway.reliability.source import (
    Source,
    is_key_of,
    keys_upto,
    takes_messages,
)
from gateway.reliability.steps import Step
from gateway.reliability.storage import (
    Conflict,
    StorageManager,
    StorageUnavailable,
    Transaction,
    in_key_order,
)
from gateway.reliability.values import (
    Application,
    DeadMessageHandler,
    Notice,
    Outgoing,
    SequenceCallback,
)
from mediation.model.messages import EndpointReference
from mediation.model.versions import Soap, Wsa
from mediation.reliable_messaging import Rm, make_connection_address
from mediation.reliable_messaging.policy import Policy
from mediation.soap.body_elements import BodyContent

if TYPE_CHECKING:
    from mediation.ws_security import Trust

log = logging.getLogger("dragoman.reliable")

PAGE = 256
KEPT = 16_384
"""Keys of sequences that are remembered."""
PAUSE, MAX_PAUSE = 0.01, 0.05
"""Seconds between two looks of `ReliableClient.drain`; more where a look takes long."""


class Replies(Enum):
    """The way on which acknowledgements and replies come back."""

    ON_CONNECTIONS = "on the connections that the client opened"
    FETCHED = "the client asks for them (WS-MakeConnection)"


class ReliableClient(EndpointBase):
    """Sends messages in sequences of WS-ReliableMessaging.

    ::

        with ReliableClient("sqlite:///shop.db") as client:
            with client.transaction() as tx:
                tx.connection.execute(insert(orders).values(item="tea"))
                tx.send("http://127.0.0.1:8000/orders", b"<order>tea</order>",
                        action="urn:example:orders/Order")

    A sequence is of one address and one *key*. What is sent when the client does not run is stored,
    and goes when it does.

    Args:
        store: The store of messages, or its URL.
        rm, soap, wsa: The versions that it speaks.
        replies: The way on which acknowledgements and replies come back. A URL: they are posted to
            it, where the client listens while it runs. It should be the same after a restart.
        bind: The host and port to listen on, where the URL names others.
        policy: Attempts, intervals and limits. Messages that are not acknowledged when the sequence
            expires, by default after a day, are given up.
        reply_within: Seconds that a request waits for its reply, from when it is acknowledged; then
            its sequence is given up, and ``on_error`` is told. None: about a day, and for ever if
            they do not come on connections.
        timeout: Seconds for a whole exchange over HTTP.
        tls: For ``https``; what the system trusts, when None.
        bound_to: What its sequences are bound to at their destinations, which take nothing in them
            then that is by another. A key: to its certificate, and whatever is sent is signed
            (WS-Security). ``tls`` (1.1): to the certificate that *tls* shows.
        trust: Those by whom acknowledgements and all else that answers must be signed, where
            *bound_to* is a key; what is not counts as lost. None: whoever answers is believed.
        on_notice: Is told what people should know; logged by default.

    Raises:
        StorageUnavailable: The store cannot be opened.
        ValueError: *replies* is no URL to listen on, or it or *bound_to* needs another version;
            *trust* goes with no key.
    """

    def __init__(
        self,
        store: StorageManager | str,
        *,
        rm: Rm = Rm.V1_1,
        soap: Soap = Soap.V1_2,
        wsa: Wsa | None = None,
        replies: Replies | str = Replies.ON_CONNECTIONS,
        bind: tuple[str, int] | None = None,
        policy: Policy | None = None,
        reply_within: float | None = None,
        timeout: float = 30.0,
        tls: ssl.SSLContext | None = None,
        bound_to: BoundTo = None,
        trust: "Trust | None" = None,
        on_notice: Callable[[Notice], None] = say,
    ) -> None:
        if replies is Replies.FETCHED and rm is Rm.V1_0:
            raise ValueError("WS-MakeConnection goes with WS-ReliableMessaging 1.1 only")
        back = make_connection_address(str(uuid.uuid4())) if replies is Replies.FETCHED else None
        own = replies if isinstance(replies, str) else None
        if own is not None:
            check_listener(own)
            back = own
        super().__init__(store)
        self._wire = Wire(rm, wsa or rm.rules.wsa[0], soap)
        binding, self._sign = binding_of(bound_to, rm), signing_by(bound_to)
        check = checking_by(trust, bound_to)
        self._over_tls = binding.tls
        rules = patient(policy)
        if reply_within is not None:
            rules = replace(rules, reply_within=reply_within)
        self._acks_to = EndpointReference(back, self._wire.wsa) if back else None
        self._applications = NamedFunctions[Application](nameless=True)
        self._given_up = NamedFunctions[SequenceCallback]()
        self._completed = NamedFunctions[SequenceCallback]()
        self._dead: dict[str, DeadMessageHandler] = {}
        self._endpoint = Endpoint(
            Party(
                self.store,
                new_id,
                random.random,
                address=own,
                # It takes the sequences that it offered, and no others.
                policy=replace(rules, sequences=0, sequences_per_peer=0),
                allows=lambda address: False,
                applications=self._applications,
                given_up=self._given_up,
                completed=self._completed,
                dead=self._dead,
                notify=raising_exceptions(on_notice),
                binding=binding,
            )
        )
        beside: Callable[[], AbstractAsyncContextManager[None]] = nullcontext
        if own is not None:
            beside = partial(listening, own, bind, self._own_intake, check)
        self._workers = Workers(
            self._endpoint, timeout=timeout, tls=tls, sign=self._sign, check=check, beside=beside
        )
        self._threads: Threads | None = None
        self._channels: dict[tuple[str | EndpointReference, str | None], Channel] = {}
        """By what a message is sent to, and the name of its callbacks; `KEPT` at most."""
        self._messages = PendingMessages(self._channel, new_id, self._sign)
        self._missing: set[str] = set()
        """Names of callbacks that were named and not registered; `KEPT` at most."""
        self._open: dict[str, str] = {}
        """The sequence that took a message, by the key of the first one of its name."""
        self._commits: GroupCommit[Pending, None] = GroupCommit(
            self._store_shared, MAX_COMMIT, name="reliable-send", leaves_out_cancelled=True
        )

    def callbacks(
        self,
        name: str = "",
        *,
        on_message: Callback | None = None,
        on_fault: Callback | None = None,
        on_error: Callable[[GivenUp], Awaitable[None] | None] | None = None,
        on_complete: Callable[[Completed], Awaitable[None] | None] | None = None,
    ) -> None:
        """Register what gets the replies of requests that name it. To be done before the start:
        after a restart they are found again by *name*, and replies without one wait.

        Each is called in the transaction that takes the reply out of the store; where it raises,
        that is rolled back, and the reply comes again later.

        Args:
            name: "" is told of sequences that nobody answers: they have no replies, but errors and
                ends.
            on_message: Gets a reply.
            on_fault: Gets a reply that is a fault.
            on_error: Is told when a sequence is given up, or a reply that no call could take.
            on_complete: Is told when a sequence that was terminated has ended, with all its
                messages acknowledged; replies in a sequence of theirs may come later.
        """
        if name.startswith("/"):
            raise ValueError(f"{name!r} looks like the path of a service")
        callbacks = Callbacks(on_message, on_fault)
        self._applications.register(name, callback_application(callbacks, self._calls))
        self._given_up.register(name, given_up(on_error, self._calls))
        self._completed.register(name, completed(on_complete, self._calls))
        self._dead[name] = dead(on_error, self._calls)

    def start(self) -> None:
        """Start sending, unless it does: what a former process left is sent, too; its sequences
        are ended, and messages go in new ones.

        Raises:
            StorageUnavailable: The store does not answer.
            GatewayError: It cannot listen for replies.
        """
        super().start()

    def close(self) -> None:
        """Stop; messages that are not acknowledged stay in the store."""
        self._workers.stop()
        if self._threads is not None:
            self._threads.close()
            self._threads = None
        self._commits.close(STOP)
        self._commits.refuse(lambda _: True, partial(StorageUnavailable, "the client was closed"))
        super().close()

    def transaction(self) -> OpenTransaction:
        """A transaction for ``with`` or ``async with``: changes through its connection or session,
        and messages sent in it, are committed together. The store waits for it, so it should be
        short."""
        return OpenTransaction(
            self.store.transaction,
            lambda transaction: ClientTransaction(transaction, self._messages),
            self._store_pending,
            lambda own: self._go_on(own.pending, own.at_once),
            self._own_threads,
        )

    def send(
        self,
        address: str | EndpointReference,
        body: BodyContent = b"",
        **options: Unpack[MessageOptions],
    ) -> str:
        """Send a message that nothing else is committed with: see `ClientTransaction.send`.
        Messages of threads that send at the same time share a transaction."""
        return self._send(self._messages.make(address, body, **options))

    async def send_async(
        self,
        address: str | EndpointReference,
        body: BodyContent = b"",
        **options: Unpack[MessageOptions],
    ) -> str:
        """As `send`, in any event loop, which goes on meanwhile: what tasks send at the same time
        shares a transaction, on a thread. Messages of one key come in the order of the calls.
        """
        pending = self._messages.make(address, body, **options)
        await self._commits.submit(pending)
        return pending.message_id

    def request(
        self,
        address: str | EndpointReference,
        body: BodyContent = b"",
        *,
        callbacks: str,
        **options: Unpack[MessageOptions],
    ) -> str:
        """Send a request that nothing else is committed with: see `ClientTransaction.request`."""
        return self._send(self._messages.make(address, body, callbacks=callbacks, **options))

    def _send(self, pending: Pending) -> str:
        self._commits.run(pending)
        return pending.message_id

    def terminate(self, key: str = "", address: str | None = None) -> int:
        """End the sequences of *key*, to *address* or to all: when their messages are acknowledged
        they are terminated. What is sent later goes in new ones.

        Returns:
            How many sequences were ended.
        """
        ended = 0
        for sequence in self._sequences():
            if address is not None and sequence.target.address != address:
                continue
            if not takes_messages(sequence) or not _is_of(sequence, key):
                continue
            with self.store.transaction() as tx:
                found = tx.outgoing.find(sequence.key)
                if found is not None and takes_messages(found):
                    Source(Step(self._endpoint.party, tx, time.time())).end_sequence(found)
                    ended += 1
        self._workers.wake()
        return ended

    def waiting(self) -> int:
        """Count the messages that are not acknowledged, or wait for their replies."""
        with self.store.look() as look:
            return look.waiting()

    def drain(self, seconds: float) -> bool:
        """Wait until nothing waits.

        Returns:
            Whether that was so within *seconds*.
        """
        end, pause = time.monotonic() + seconds, PAUSE
        while True:
            began = time.monotonic()
            if not self.waiting():
                return True
            if time.monotonic() >= end:
                return False
            time.sleep(max(pause, 8 * (time.monotonic() - began)))
            pause = min(2 * pause, MAX_PAUSE)

    def _sequences(self) -> list[OutgoingSequence]:
        """The sequences that clients made, without those of replies."""
        found: list[OutgoingSequence] = []
        after = ""
        with self.store.look() as look:
            while page := look.outgoing_page(after, PAGE):
                found += [each for each in page if each.create_id is not None]
                after = page[-1].key
        return found

    def _channel(self, address: str | EndpointReference, callbacks: str | None) -> Channel:
        channel = self._channels.get((address, callbacks))
        if channel is None:
            if len(self._channels) >= KEPT:
                self._channels.clear()
            channel = self._channels[address, callbacks] = self._new_channel(address, callbacks)
        return channel

    def _new_channel(self, address: str | EndpointReference, callbacks: str | None) -> Channel:
        wire = self._wire
        check_target(address)
        if callbacks is not None:
            self._warn_of_missing(callbacks)
        if isinstance(address, str):
            address = EndpointReference(address, wire.wsa)
        if self._over_tls and not address.address.startswith("https:"):
            raise ValueError(f"{address.address!r} is not https, to which sequences are bound here")
        acks_to = self._acks_to or anonymous(wire.wsa)
        return Channel(address, wire, acks_to, callbacks is not None, callbacks)

    def _warn_of_missing(self, callbacks: str) -> None:
        """Log, once for each name, that nothing in this process takes the replies of requests."""
        if callbacks in self._applications or callbacks in self._missing:
            return
        if len(self._missing) < KEPT:
            self._missing.add(callbacks)
        known = ", ".join(sorted(map(repr, self._applications))) or "none"
        log.warning(
            "a request names the callbacks %r, which are not registered here (registered: %s): its "
            "reply waits until a process that has client.callbacks(%r, ...) runs with this store",
            callbacks,
            known,
            callbacks,
        )

    def _store_pending(self, own: ClientTransaction) -> None:
        own.at_once = self._store_in(own.transaction, own.pending)

    def _go_on(self, stored: Sequence[Pending], at_once: Sequence[Outgoing]) -> None:
        """Have the workers send the committed messages; those *at_once* count as sent."""
        self._workers.post_soon(at_once)
        if len(at_once) < len(stored):
            self._workers.wake()

    def _store_in(self, transaction: Transaction, pending: Sequence[Pending]) -> list[Outgoing]:
        """Store messages; those that are to be sent once that is committed."""
        step = Step(self._endpoint.party, transaction, time.time())
        at_once: list[Outgoing] = []
        # In the order in which sequences are locked; of one sequence in the order of the calls.
        for each in sorted(pending, key=_place):
            if self._workers.has_room(self._open.get(each.place)):
                sent, outgoing = send_at_once(step, each.name, each.channel, each.message)
                if outgoing is not None:
                    at_once.append(outgoing)
            else:
                sent = Source(step).send(each.name, each.channel, each.message)
            if len(self._open) >= KEPT:
                self._open.clear()
            self._open[each.place] = sent.key
        return at_once

    def _lock_all(self, transaction: Transaction, pending: Sequence[Pending]) -> None:
        """Lock the sequences of several messages with one statement, if all of them are known to
        exist: a missing one has to be locked in its turn."""
        find_all = getattr(transaction.outgoing, "find_all", None)
        firsts = {each.place: each for each in pending}
        known = [
            keys_upto(each.name, each.channel.target, self._open.get(place))
            for place, each in firsts.items()
        ]
        keys = in_key_order(key for some in known for key in some)
        if find_all is None or len(keys) < 2 or not all(known):
            return
        if find_all(keys) != keys:
            self._open.clear()
            raise Conflict("a sequence has ended meanwhile")

    def _store_shared(self, pending: Sequence[Pending]) -> list[Exception | None]:
        """Store messages in one transaction; each by itself where that cannot be, since one of
        them may be the reason."""
        try:
            with self.store.transaction() as transaction:
                self._lock_all(transaction, pending)
                at_once = self._store_in(transaction, pending)
        except Exception as error:
            undone = isinstance(error, Conflict) or not isinstance(error, StorageUnavailable)
            if len(pending) == 1 or not undone:
                return [error] * len(pending)
            return [self._store_shared([each])[0] for each in pending]
        self._go_on(pending, at_once)
        return [None] * len(pending)

    def _own_intake(self) -> Intake:
        return Intake(self._workers, hold=0.0)

    def _own_threads(self) -> Threads:
        if self._threads is None:
            self._threads = Threads()
        return self._threads


_place = attrgetter("place")


def _is_of(sequence: OutgoingSequence, key: str) -> bool:
    """Return whether a sequence is of a client's *key*."""
    return is_key_of(sequence.key, sequence_name(key, sequence.callback), sequence.target)
