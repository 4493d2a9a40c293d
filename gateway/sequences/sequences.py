"""`Sequences`, made by publishers: their messages are kept in the store, published in order, and
acknowledged once the messaging system holds them.

    a message comes   it is stored with its number            one operation of the store
                      what is next in order is leased         the same one
    then              it is published                         the messaging system
                      it leaves the buffer; the next is       one operation
                      leased
    only then         its number is acknowledged

A gateway that is killed in between finds the message in the buffer, and publishes it once more,
under the same id, by which ``embedded:`` knows that it has it.
"""

import asyncio
import math
import random
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol, TypeAlias

import structlog

from adapters import AdapterUnavailable
from filters import Reason
from gateway.observing.samples import Sample, counters, gauge
from gateway.reliability import acknowledgements
from gateway.reliability.back_channel import alone
from gateway.reliability.destination import (
    NO_PROOFS,
    Destination,
    Outcome,
    Proofs,
    create,
)
from gateway.reliability.destination_worker import watch
from gateway.reliability.party import Offers, Party, is_callable
from gateway.reliability.records import IncomingSequence
from gateway.reliability.steps import Step, begin
from gateway.reliability.storage import StorageManager
from gateway.reliability.values import Notice, Outgoing
from gateway.security.keys import new_key, public_id
from gateway.security.principals import Principal
from gateway.security.quotas import PrincipalRate
from gateway.sequences import register
from gateway.sequences.bindings import is_bound_to_key
from gateway.sequences.contents import MEDIA_TYPE
from gateway.sequences.delivering import LEASE, Progress, Turn
from gateway.sequences.ending import end_sequence
from gateway.sequences.listing import SequenceState, find, page
from gateway.sequences.progress import PublishingProgress
from gateway.sequences.storage import free_leases, next_due, postpone, run_in
from gateway.sequences.turns import AT_WORK, Turns
from gateway.store import Store, StoreUnavailable
from gateway.store.owner_bytes import BytesExceeded, OwnerBytes
from mediation.model.errors import MediationError
from mediation.model.messages import EndpointReference, Notification
from mediation.model.versions import Soap
from mediation.reliable_messaging import (
    CreateSequence,
    CreateSequenceResponse,
    FaultName,
    IncompleteBehaviour,
    ReliableMessage,
    RmFault,
    RmRefused,
    SequenceHeader,
)
from mediation.reliable_messaging.policy import Policy
from mediation.soap.addressing import id_to_keep

SERVICE = "publish"
TRUSTED = "trusted"
"""The owner of the sequences of all trusted peers without a name; of one that proved a name, a
space and its own owner follow."""
CREATIONS, CREATIONS_AT_ONCE = 1.0, 50.0
"""Sequences that a stranger may make: a second, and at once."""
FOR_TRUSTED = 0.1
"""The part of all sequences that strangers leave to trusted peers."""
REMEMBERED, REMEMBERED_TRUSTED = 2, 10
"""Sequences that ended and are remembered, for each that may be open: beyond, strangers get no new
one, and trusted peers."""
REQUESTS, REQUESTS_AT_ONCE = 100.0, 500.0
"""Requests about sequences of a stranger, and messages that are refused: a second, and at once."""
DUE = 64
"""Sequences that a round of work looks at, of each kind."""
SETTLED = 20.0
"""Seconds for which the end of a sequence waits for what can still be published."""
CROWDED = 1.0
"""Seconds until the next round where as many are published as may be."""
COUNTED = 5.0
"""Seconds from one count of them to the next."""
SHORTEST, LONGEST, LONGEST_SHARED = 0.05, 60.0, 5.0
"""Seconds from one round to the next, at least and at most; the last where gateways share a store:
each looks for sequences that another gateway left, of which nobody tells it."""
WAITS = "Messages of the sequence wait for the messaging system."
Sign: TypeAlias = Callable[[bytes], Awaitable[bytes]]
"""Signs an envelope.

Raises:
    Refused: ``UNAVAILABLE``: there is too much to do, or it cannot be kept in the audit log.
"""
SendElsewhere: TypeAlias = Callable[
    [EndpointReference, Soap, str, bytes, str | None, Sign | None], None
]
_log = structlog.get_logger("dragoman.sequences")


class SignAcknowledgement(Protocol):
    """As `Sign`, for an owner."""

    async def __call__(self, body: bytes, owner: str, *, trusted: bool) -> bytes: ...


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """The acknowledgement that goes back on the connection of a message; an empty *block*: none."""

    sequence: IncomingSequence | None = None
    block: bytes = b""


class Sequences:
    """The sequences of publishers.

    Args:
        publish: Publishes events; they are durable when it returns.
        may_name: Returns whether messages may be sent to an address that a principal names.
        send: Sends a message with an action to an address that an owner named; None is a trusted
            one. What it is given last signs the message.
        sign: Signs an acknowledgement for an owner, who may be trusted; None where the gateway has
            no key for that.
        shared: Other gateways have the same store.
        octets_per_owner: Bytes of messages that may wait in all sequences of one owner.
        settled: Seconds for which the end of a sequence waits for what is being published.
        lease_seconds: For which what is next in a sequence is one gateway's to publish.
        at_work: The number of waiting sequences that are published at a time.
        nacks: Publishers are asked for what is missing.
    """

    def __init__(
        self,
        store: Store,
        policy: Policy,
        *,
        publish: Callable[[Sequence[Notification]], Awaitable[None]],
        may_name: Callable[[str, Principal], bool],
        send: SendElsewhere,
        sign: SignAcknowledgement | None = None,
        shared: bool,
        octets_per_owner: int,
        owner_bytes: OwnerBytes | None = None,
        settled: float = SETTLED,
        lease_seconds: float = LEASE,
        at_work: int = AT_WORK,
        nacks: bool = False,
    ) -> None:
        self._store = store
        self._nacks = nacks
        self._octets_per_owner = octets_per_owner
        self._owner_bytes = owner_bytes
        self._settled = settled
        self._may_name = may_name
        self._send, self._sign = send, sign
        self._shared = shared
        self._policy = policy
        self._woken = asyncio.Event()
        self._turns = Turns(store, publish, self._party, self._woken, lease_seconds, at_work)
        self.messages = self._turns.messages
        """The numbers of messages in sequences, by outcome."""
        self._creations = PrincipalRate(CREATIONS, CREATIONS_AT_ONCE, "Too many sequences.")
        self._requests = PrincipalRate(REQUESTS, REQUESTS_AT_ONCE, "Too many messages.")
        self.open, self._counted = 0, 0.0
        """How many sequences had not ended, as of a few seconds ago."""

    # Requests of peers.

    async def create(
        self,
        said: ReliableMessage,
        asked: CreateSequence,
        principal: Principal,
        bound_to: Proofs = NO_PROOFS,
    ) -> CreateSequenceResponse:
        """Make a sequence.

        Args:
            bound_to: What all of its messages must prove.

        Raises:
            RmRefused: It is not made. Refused: ``RATE``.
        """
        self._creations.take(principal)
        now, owner = time.time(), owner_of(principal)
        if self._owner_bytes is not None:
            try:
                self._owner_bytes.check(owner)
            except BytesExceeded as exceeded:
                refused = RmFault(FaultName.CREATE_SEQUENCE_REFUSED, reason=exceeded.text)
                raise RmRefused(refused) from None

        share = REMEMBERED if principal.limits.quotas else REMEMBERED_TRUSTED
        remembered = share * self._policy.sequences
        message_id = said.headers.message_id

        def work(storage: StorageManager) -> CreateSequenceResponse | RmFault:
            party = self._party(storage, principal)
            with begin(party, now) as step:
                made = None
                if message_id:
                    made = step.tx.incoming.find_created(id_to_keep(message_id), owner)
                if made is None:
                    ended = register.count(step.tx.connection) - step.tx.incoming.count()
                    if ended >= remembered:
                        text = "There are too many sequences that ended just now."
                        return RmFault(FaultName.CREATE_SEQUENCE_REFUSED, reason=text)
            answer, _ = create(
                party, said, asked, now, owner=owner, service=SERVICE, bound_to=bound_to
            )
            if made is None and isinstance(answer, CreateSequenceResponse):
                with begin(party, now) as step:
                    register.add(step.tx.connection, answer.identifier, owner)
            return answer

        answer = await run_in(self._store, work)
        if isinstance(answer, RmFault):
            raise RmRefused(answer, answer.reason)
        _log.info("sequence.created", sequence=public_id(answer.identifier), owner=owner)
        self._woken.set()
        return answer

    async def take(
        self,
        said: ReliableMessage,
        content: bytes,
        principal: Principal,
        proofs: Proofs = NO_PROOFS,
    ) -> Acknowledged:
        """Take a message of a sequence, and return once it is published, unless others have to come
        before it, or the messaging system is away: the acknowledgement says so.

        Args:
            content: The output of `write_content` for its events; empty, where there is nothing to
                publish.
            proofs: What the message proves.

        Raises:
            RmRefused: The sequence cannot take it.
            Refused: ``TOKEN_REFUSED``: it is bound to something else. ``UNAVAILABLE``, ``RATE``.
        """
        header = said.sequence
        assert header is not None
        if not content:
            self._requests.take(principal)  # Events were counted already.
        outcome, turn, progress = await self._store_message(
            said, header, content, principal, proofs
        )
        _check_proved(outcome)
        if outcome.fault is not None:
            raise _refused(outcome.fault, outcome)
        sequence = outcome.sequence
        if sequence is None or not (outcome.taken or outcome.known):
            self.messages["dropped"] += 1
            return Acknowledged()
        if outcome.known:
            self.messages["repeated"] += 1
        tail = self._turns.tails.of(header.identifier)
        tail.advance(replace(progress, sequence=sequence))
        if turn is not None:
            self._turns.start(tail, turn)
        if header.number < sequence.received.first_gap:
            await tail.reached(header.number)
        if is_callable(sequence.acks_to):
            self._woken.set()
            if outcome.nack:
                self._post([alone(sequence, outcome.nack)], sequence)
            return Acknowledged(sequence)
        if outcome.nack:
            return Acknowledged(sequence, outcome.nack)
        return self._acknowledgement(tail, sequence)

    async def _store_message(
        self,
        said: ReliableMessage,
        header: SequenceHeader,
        content: bytes,
        principal: Principal,
        proofs: Proofs,
    ) -> tuple[Outcome, Turn | None, Progress]:
        now, owner, identifier = time.time(), owner_of(principal), header.identifier
        over = self._owner_bytes is not None and self._owner_bytes.over(owner) > 0
        most = 0 if over else self._octets_per_owner  # The next message in order may always come.
        media_type = MEDIA_TYPE if content else ""

        def work(storage: StorageManager) -> tuple[Outcome, Turn | None, Progress]:
            party = self._party(storage, principal)
            with begin(party, now) as step:
                before = step.tx.incoming.find(identifier)
                if not register.has_room(step, header, len(content), owner, most):
                    return Outcome(), None, Progress(0, None)
                mine = _destination_of(step, identifier, principal, proofs)
                outcome = mine.receive(said, header, content, media_type)
                if outcome.fault is None and (outcome.taken or outcome.known):
                    if outcome.taken:
                        register.grow(step.tx.connection, identifier, len(content))
                    turn = self._turns.lease_in(step, identifier)
                    buffer = step.tx.invoker.find(identifier)
                    delivered = buffer.delivered if buffer else 0
                    return outcome, turn, Progress(delivered, outcome.sequence)
            with begin(party, now) as step:  # It counts rows, which are written where a part ends.
                register.follow(step, before)
            return outcome, None, Progress(0, None)

        return await run_in(self._store, work, identifier)

    def _acknowledgement(
        self, tail: PublishingProgress, sequence: IncomingSequence
    ) -> Acknowledged:
        """Acknowledge the published messages on the connection."""
        newest = tail.sequence
        if newest is None or len(newest.received) <= len(sequence.received):
            newest = sequence
        return Acknowledged(newest, acknowledgements.block_upto(newest, tail.delivered))

    async def ask(
        self, identifier: str, principal: Principal, proofs: Proofs = NO_PROOFS
    ) -> Acknowledged:
        """Answer AckRequested.

        Raises:
            RmRefused: It is no sequence of *principal*. StoreUnavailable.
            Refused: ``TOKEN_REFUSED``: it is bound to what the request does not prove.
        """
        self._requests.take(principal)
        now = time.time()

        def work(storage: StorageManager) -> Outcome:
            party = self._party(storage, principal)
            with begin(party, now) as step:
                mine = _destination_of(step, identifier, principal, proofs)
                return mine.acknowledge(identifier)

        return self._answered(await run_in(self._store, work, identifier))

    async def end(
        self,
        identifier: str,
        last: int | None,
        principal: Principal,
        proofs: Proofs = NO_PROOFS,
        *,
        terminate: bool,
    ) -> Acknowledged:
        """Close or terminate a sequence. What can be published soon is, before; of what then is
        left nobody knows whether the messaging system has it, so that there is no last word on it.

        Raises:
            RmRefused: It is no sequence of *principal*.
            Refused: ``UNAVAILABLE``: something of it waits for the messaging system.
                ``TOKEN_REFUSED``: it is bound to what the request does not prove.
        """
        self._requests.take(principal)
        change = Destination.terminate if terminate else Destination.close

        def work(storage: StorageManager) -> Outcome | None:
            party = self._party(storage, principal)
            return end_sequence(
                party,
                identifier,
                last,
                lambda step: _destination_of(step, identifier, principal, proofs),
                change,
            )

        deadline = time.monotonic() + self._settled
        for _ in range(3):
            await self._turns.settle(identifier, max(0.0, deadline - time.monotonic()))
            outcome = await run_in(self._store, work, identifier)
            if outcome is not None:
                return self._answered(outcome)
        raise AdapterUnavailable(WAITS)

    def _answered(self, outcome: Outcome) -> Acknowledged:
        _check_proved(outcome)
        if outcome.fault is not None:
            raise RmRefused(outcome.fault)
        sequence = outcome.sequence
        if sequence is not None and is_callable(sequence.acks_to):
            self._woken.set()
        return Acknowledged(sequence, outcome.acknowledgement)

    # The work that is due.

    async def start(self) -> None:
        """Give up what a process that was killed had leased: `run` publishes it, which may take as
        long as the messaging system likes."""
        if not self._shared:
            now = time.time()
            await self._store.submit(lambda connection: free_leases(connection, now))

    async def run(self) -> None:
        """Acknowledge, publish, end and forget, each when it is due."""
        longest = LONGEST_SHARED if self._shared else LONGEST
        woken_at = 0.0
        while True:
            self._woken.clear()
            try:
                due_at = await self._look()
            except StoreUnavailable:
                due_at = time.time() + 1.0
            if woken_at > self._counted:  # There may be a sequence more, or one less.
                due_at = min(due_at or math.inf, self._counted + COUNTED)
            pause = longest if due_at is None else min(max(due_at - time.time(), SHORTEST), longest)
            try:
                async with asyncio.timeout(pause):
                    await self._woken.wait()
                woken_at = time.time()
                await asyncio.sleep(SHORTEST)
            except TimeoutError:
                pass

    async def _look(self) -> float | None:
        """Do the due work; return when there is more to do."""
        now = time.time()

        counts = now >= self._counted + COUNTED

        def work(storage: StorageManager) -> tuple[list[str], list[str], int | None]:
            with storage.look() as look:
                due = look.invoker_due(now, DUE), look.incoming_due(now, DUE)
            if not counts:
                return *due, None
            with storage.transaction() as tx:
                return *due, tx.incoming.count()

        waiting, watched, open_ = await run_in(self._store, work)
        if open_ is not None:
            self.open, self._counted = open_, now
        for identifier in waiting:
            if not self._turns.has_place:
                break
            await self._guarded(identifier, self._publish_due)
        for identifier in watched:
            await self._guarded(identifier, self._watch)
        due_at = await self._store.submit(next_due)
        if due_at is None or self._turns.has_place:
            return due_at
        return max(due_at, time.time() + CROWDED)  # One that ends wakes us.

    async def _guarded(self, identifier: str, work: Callable[[str], Awaitable[None]]) -> None:
        """Do *work* on a sequence; what goes wrong with one is no matter of the others."""
        try:
            await work(identifier)
        except StoreUnavailable:
            raise
        except Exception:
            _log.exception("sequence.internal-error", sequence=public_id(identifier))
            later = time.time() + LONGEST
            await self._store.submit(lambda connection: postpone(connection, identifier, later))

    async def _publish_due(self, identifier: str) -> None:
        turn = await self._turns.lease(identifier)
        if turn is not None:
            self._turns.start(self._turns.tails.of(identifier), turn)

    async def _watch(self, identifier: str) -> None:
        now = time.time()

        def work(storage: StorageManager) -> tuple[list[Outgoing], IncomingSequence | None]:
            party = self._party(storage)
            with begin(party, now) as step:
                before = step.tx.incoming.find(identifier)
            outgoing = watch(party, identifier, now)
            with begin(party, now) as step:
                register.follow(step, before)
            return outgoing, before

        self._post(*await run_in(self._store, work, identifier))

    def _post(self, outgoing: Sequence[Outgoing], sequence: IncomingSequence | None) -> None:
        """Send what goes to another address about a *sequence*: signed, where its messages are."""
        owner = sequence.owner if sequence is not None else None
        trusted, sign = is_trusted(owner), None
        if self._sign is not None and sequence is not None and is_bound_to_key(sequence.token):
            who = (owner or TRUSTED).removeprefix(f"{TRUSTED} ")
            sign = partial(self._sign, owner=who, trusted=trusted)
        for each in outgoing:
            stranger = None if trusted else owner
            self._send(each.to, each.wire.soap, each.action, each.envelope, stranger, sign)

    # Requests of operators.

    async def listed(self, after: str = "", limit: int = 100) -> list[SequenceState]:
        """Sequences in the order of their public ids, from behind *after*, at most *limit*."""
        return await self._store.submit(lambda connection: page(connection, after, limit))

    async def by_id(self, id: str) -> SequenceState | None:
        """The sequence with this public id."""
        return await self._store.submit(lambda connection: find(connection, id))

    async def terminate(self, state: SequenceState) -> None:
        """End a sequence for its maker, who may be sending without a pause: it takes no message
        more while those that it has are published.

        Raises:
            Refused: ``UNAVAILABLE``: something of it waits for the messaging system. It takes
                nothing more, and can be ended later.
        """
        identifier = state.sequence.identifier
        owner = state.sequence.owner
        proofs = frozenset((state.sequence.token or b"").split())  # Operators need none.

        def makers(step: Step) -> Destination:
            return Destination(step, owner, proofs)

        def close(storage: StorageManager) -> None:
            end_sequence(
                self._party(storage), identifier, None, makers, Destination.close, waits=True
            )

        def terminate(storage: StorageManager) -> Outcome | None:
            return end_sequence(
                self._party(storage), identifier, None, makers, Destination.terminate
            )

        await run_in(self._store, close, identifier)
        await self._turns.settle(identifier, self._settled)
        if await run_in(self._store, terminate, identifier) is None:
            raise AdapterUnavailable(WAITS)
        _log.info("sequence.terminated", sequence=state.id)
        self._woken.set()

    def metrics(self) -> Iterator[Sample]:
        """Sequences, and what became of their messages."""
        yield gauge("sequences", "Sequences of publishers that have not ended.", self.open)
        yield counters(
            "sequence_messages", "Messages in sequences, by outcome.", "outcome", self.messages
        )

    async def close(self) -> None:
        """Wait for messages that are being published."""
        working = self._turns.tails.working()
        if working:
            await asyncio.wait(working, timeout=5.0)

    def _party(self, storage: StorageManager, principal: Principal | None = None) -> Party:
        policy, allows = self._policy, _nowhere
        if principal is not None:
            named = principal

            def allows(address: str) -> bool:
                return self._may_name(address, named)

            most = policy.sequences
            if not principal.limits.quotas:
                policy = replace(policy, sequences_per_peer=most)
            else:
                policy = replace(policy, sequences=most - int(most * FOR_TRUSTED))
        return Party(
            storage,
            _new_id,
            random.random,
            policy=policy,
            offers=Offers.DECLINE,
            allows=allows,
            notify=_tell,
            incomplete=IncompleteBehaviour.DISCARD_FOLLOWING_FIRST_GAP,
            nacks=self._nacks,
            after_delivery=True,
        )


def _destination_of(
    step: Step, identifier: str, principal: Principal, proofs: Proofs
) -> Destination:
    return Destination(step, _owner_in(step, identifier, principal), proofs)


def _check_proved(outcome: Outcome) -> None:
    """Refuse a message that is not by what its sequence is bound to.

    Raises:
        MediationError: ``TOKEN_REFUSED``.
    """
    if outcome.unproved:
        raise MediationError(
            Reason.TOKEN_REFUSED,
            "The sequence is bound to another certificate: sign its messages, or show in TLS, what "
            "its CreateSequence had.",
        )


def _refused(fault: RmFault, outcome: Outcome) -> RmRefused:
    """The refusal of a message for its Sequence header."""
    blocks = (outcome.acknowledgement,) if outcome.acknowledgement else ()
    sequence = outcome.sequence
    elsewhere = sequence is not None and is_callable(sequence.acks_to)
    acks_to = sequence.acks_to if sequence is not None and elsewhere else None
    return RmRefused(fault, blocks=blocks, acks_to=acks_to)


def _new_id() -> str:
    """The identifier of a sequence: whoever knows it could send in it."""
    return f"urn:uuid:{new_key()}"


def _nowhere(address: str) -> bool:
    return False


def is_trusted(owner: str | None) -> bool:
    """Return whether *owner*, of a sequence, is a trusted peer."""
    return owner is not None and owner.partition(" ")[0] == TRUSTED


def _owner_in(step: Step, identifier: str, principal: Principal) -> str:
    """Whose sequence *principal* would use: before names were told apart, and of who proves his
    name only later, sequences are of all trusted peers."""
    owner = owner_of(principal)
    if is_trusted(owner) and owner != TRUSTED:
        found = step.tx.incoming.find(identifier)
        if found is not None and found.owner == TRUSTED:
            return TRUSTED
    return owner


def owner_of(principal: Principal) -> str:
    """Whose sequences are those that *principal* makes; trusted peers without a name are one."""
    if principal.limits.quotas:
        return principal.owner
    return f"{TRUSTED} {principal.owner}" if principal.name else TRUSTED


def _tell(notice: Notice) -> None:
    _log.warning(
        "sequence.notice",
        sequence=public_id(notice.sequence),
        kind=notice.kind.value,
        text=notice.text[:500],
    )
