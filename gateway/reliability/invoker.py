"""What takes messages from the buffer to the application (InvokerBufferWorker): in order, each
once. What the application changes, and its reply, are of the transaction that marks the message as
delivered."""

from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from typing import Any, cast

from gateway.reliability.group_commit import outcome, take_all
from gateway.reliability.party import (
    Party,
    anonymous,
    is_callable,
    reply_endpoint,
    reply_key,
)
from gateway.reliability.records import (
    InvokerBuffer,
    InvokerMessage,
    OutgoingSequence,
    Wire,
    changed,
)
from gateway.reliability.sequence_end import finish_replies
from gateway.reliability.source import Message, SourceFull, append, takes_messages
from gateway.reliability.steps import Step, begin, due_now
from gateway.reliability.storage import (
    Conflict,
    InDoubt,
    OutOfOrder,
    StorageUnavailable,
    in_key_order,
)
from gateway.reliability.values import (
    Application,
    ApplicationFault,
    Delivered,
    NotHere,
    NoticeKind,
    read_again,
)
from mediation.model.messages import EndpointReference
from mediation.reliable_messaging import LastMessage, ReliableMessage, read_message
from mediation.reliable_messaging.application import (
    application_fault_action,
    write_application_fault,
)
from mediation.reliable_messaging.machines import (
    InvokerEvent,
    InvokerState,
    SourceState,
    after_invoker,
)
from mediation.soap.addressing import is_anonymous
from mediation.soap.body_elements import BodyContent


def deliver(party: Party, identifier: str, now: float, *, limit: int = 64) -> int:
    """Give the application what it may have, one transaction a message.

    Returns:
        How many messages were consumed.

    Raises:
        StorageUnavailable: What was not committed is delivered again.
    """
    for done in range(limit):
        left = _deliver_next(party, identifier, now)
        if left is None:
            return done
        if not left:
            return done + 1
    return limit


def deliver_some(
    party: Party,
    waiting: deque[str],
    now: float,
    *,
    limit: int = 64,
    at_once: int = 1,
    goes_on: Callable[[], bool] = lambda: True,
) -> dict[str, Exception | None]:
    """Give applications what they may have of several sequences, in one transaction, with a
    savepoint for each message. A store that has none gives them those of one sequence, one
    transaction a message.

    Args:
        waiting: The sequences; those that are looked at are taken out of it.
        limit: The most messages.
        at_once: How many sequences are locked and read at once. All wait for one function that
            takes long.
        goes_on: Whether there is time for one more: what was delivered waits for its commit.

    Returns:
        The sequences that were looked at, with what kept their messages from being delivered.
    """
    if not getattr(party.storage, "has_savepoints", False):
        identifier = _taken_from(waiting)
        return {} if identifier is None else {identifier: _delivered_alone(party, identifier, now)}
    batch = _Batch(waiting, limit, at_once, goes_on)
    try:
        with begin(party, now) as step:
            batch.deliver(step)
    except (Conflict, InDoubt):
        return {each: _delivered_alone(party, each, now) for each in batch.looked_at}
    except StorageUnavailable as error:
        return dict.fromkeys(batch.looked_at, error)
    except Exception:  # Of the commit: a constraint of an application, say.
        return {each: _delivered_alone(party, each, now) for each in batch.looked_at}
    if batch.failed is not None:
        (identifier, number, failure), batch.failed = batch.failed, None
        if isinstance(failure, Conflict):
            batch.looked_at[identifier] = _delivered_alone(party, identifier, now)
        else:
            take = partial(_take_failure, party, identifier, number, now, failure)
            found = outcome(party, take)
            batch.looked_at[identifier] = found if isinstance(found, Exception) else None
    return batch.looked_at


@dataclass(slots=True)
class _Batch:
    """What one transaction gives to applications."""

    waiting: deque[str]
    limit: int
    at_once: int
    goes_on: Callable[[], bool]
    looked_at: dict[str, Exception | None] = field(default_factory=dict)
    failed: tuple[str, int, Exception] | None = None
    """The sequence and the number of the message that ended it, and why."""

    def deliver(self, step: Step) -> None:
        in_order = True
        while in_order and self._may_go_on():
            some = list(islice(iter(partial(_taken_from, self.waiting), None), self.at_once))
            if not some:
                break
            try:
                some = self._locked(step, some)
                while some and in_order:
                    in_order = self._give(step, some[0])
                    if in_order:
                        del some[0]
            except OutOfOrder:
                in_order = False
            except Exception:
                self.looked_at.update(dict.fromkeys(some))
                raise
            self.waiting.extendleft(reversed(some))  # They go first in another transaction.

    def _may_go_on(self) -> bool:
        return self.limit > 0 and self.failed is None and self.goes_on()

    def _locked(self, step: Step, some: list[str]) -> list[str]:
        """Lock several, and read what is given next; those that others have are left alone until
        the next look."""
        if len(some) == 1:
            return some
        buffers: Any = step.tx.invoker
        taken = take_all(buffers, some)
        self.looked_at.update((each, None) for each in some if each not in taken)
        ordered = in_key_order(taken)
        read_ahead = getattr(buffers, "read_ahead", None)
        if read_ahead is not None and len(ordered) > 1:
            read_ahead(ordered)
        return ordered

    def _give(self, step: Step, identifier: str) -> bool:
        """Give what there is of one sequence; False: it goes first in another transaction."""
        if not self._may_go_on():
            return False
        self.looked_at[identifier] = None
        numbers: list[int] = []
        try:
            failure = self._given(step, identifier, numbers)
        except OutOfOrder:
            del self.looked_at[identifier]
            return False
        if failure is not None:
            self.failed = identifier, (numbers or [0])[-1], failure
        return True

    def _given(self, step: Step, identifier: str, numbers: list[int]) -> Exception | None:
        """Give what there is of one sequence, as long as there is time; why it ended, if not for
        that."""
        savepoint = cast(Any, step.tx).savepoint
        try:
            while True:
                with savepoint():
                    left = _give_next(step, identifier, numbers)
                self.limit -= 1
                if not left or not self._may_go_on():
                    return None
        except OutOfOrder:
            raise
        except Exception as error:
            return error


def _taken_from(waiting: deque[str]) -> str | None:
    try:
        return waiting.popleft()
    except IndexError:  # Other threads take from it, too.
        return None


def _delivered_alone(party: Party, identifier: str, now: float) -> Exception | None:
    found = outcome(party, partial(deliver, party, identifier, now))
    return found if isinstance(found, Exception) else None


def _deliver_next(party: Party, identifier: str, now: float) -> int | None:
    """Deliver one message.

    Returns:
        How many are left; None: it was not consumed.
    """
    numbers: list[int] = []
    try:
        with begin(party, now) as step:
            return _give_next(step, identifier, numbers)
    except Exception as error:
        return _take_failure(party, identifier, (numbers or [0])[-1], now, error)


def _give_next(step: Step, identifier: str, numbers: list[int]) -> int | None:
    """Give the application the next message, and mark it as consumed.

    Args:
        numbers: Gets its number.

    Returns:
        How many are left; None: it may have none.
    """
    found = _next(step, identifier)
    if found is None:
        return None
    buffer, message = found
    numbers.append(message.number)
    read = read_again(message.envelope)
    if not isinstance(read.body, LastMessage):
        delivered = _delivered(buffer, message, read, step.now)
        answer = _application(step.party, buffer)(step.tx, delivered)
        if answer is not None:
            _reply(step, identifier, read, answer.action, answer.body)
    return _mark(step, buffer, message)


def _take_failure(
    party: Party, identifier: str, number: int, now: float, error: Exception
) -> int | None:
    """Do what follows from an exception of an application, in a transaction of its own.

    Returns:
        How many messages are left; None: it was not consumed.

    Raises:
        StorageUnavailable: It was that, or is now.
    """
    try:
        if isinstance(error, (StorageUnavailable, SourceFull)):
            raise error
        if isinstance(error, ApplicationFault):
            try:
                return _consume_faulted(party, identifier, number, now, error)
            except (StorageUnavailable, SourceFull):
                raise
            except Exception as unwritten:  # Its details are no XML, say.
                error = unwritten.with_traceback(None)
        return _fail(party, identifier, number, now, error)
    except SourceFull:
        _wait(party, identifier, now)
        return None
    except StorageUnavailable as failure:
        _put_off(party, identifier, number, now, failure)
        raise
    except Exception as failure:
        _count(party, identifier, number, now, failure)
        return None
    finally:
        del error


def _put_off(
    party: Party, identifier: str, number: int, now: float, error: StorageUnavailable
) -> None:
    """Deliver later, unless another process can at once, or the store does not answer."""
    if not number or isinstance(error, (Conflict, NotHere)):
        return
    with suppress(StorageUnavailable), begin(party, now) as step:
        found = _next(step, identifier)
        if found is not None and found[1].number == number:
            due_at = now + party.policy.retry_after(1, party.random())
            step.tx.invoker.put(replace(found[0], due_at=due_at))


def _count(party: Party, identifier: str, number: int, now: float, error: Exception) -> None:
    """Note that what gets dead messages failed, too: there is another delivery later."""
    with begin(party, now) as step:
        found = _next(step, identifier)
        if found is None or found[1].number != number:
            return
        attempts = found[0].attempts + 1
        due_at = now + party.policy.retry_after(attempts, party.random())
        step.tx.invoker.put(replace(found[0], attempts=attempts, due_at=due_at))
        step.tell(NoticeKind.FAILED, identifier, f"{type(error).__name__}: {error}", number)


def _application(party: Party, buffer: InvokerBuffer) -> Application:
    application = party.applications.get(buffer.service)
    if application is None:
        raise LookupError(f"there is no application {buffer.service!r}")
    return application


def _next(step: Step, identifier: str) -> tuple[InvokerBuffer, InvokerMessage] | None:
    """The message that the application gets next."""
    buffer = step.tx.invoker.find(identifier)
    if buffer is None or buffer.due_at is None or buffer.due_at > step.now:
        return None
    found = step.tx.invoker.messages(identifier, buffer.delivered + 1, 1)
    # A gap is waited for, unless nobody will fill it.
    if not found or buffer.held or (found[0].number != buffer.delivered + 1 and not buffer.skips):
        step.tx.invoker.put(replace(buffer, due_at=None))
        return None
    return buffer, found[0]


def _delivered(
    buffer: InvokerBuffer, message: InvokerMessage, read: ReliableMessage, now: float
) -> Delivered:
    return Delivered(
        buffer.identifier,
        message.number,
        read,
        message.envelope,
        message.content_type,
        buffer.service,
        buffer.owner,
        now,
    )


def _mark(step: Step, buffer: InvokerBuffer, message: InvokerMessage) -> int:
    """Note that a message is consumed.

    Returns:
        How many are left.
    """
    step.tx.invoker.remove_message(buffer.identifier, message.number)
    count = buffer.count - 1
    if count:
        event = InvokerEvent.SAM_GAP
    elif buffer.state is InvokerState.WAITING_ENDED:
        event = InvokerEvent.SAM_ALL
    else:
        event = InvokerEvent.SAM_EMPTY
    state = after_invoker(buffer.state, event)
    step.tx.invoker.put(
        changed(
            buffer,
            state=state,
            delivered=message.number,
            count=count,
            attempts=0,
            due_at=due_now(buffer.due_at, step.now) if count else None,
        )
    )
    if state is InvokerState.DELIVERED:
        finish_replies(step, buffer.identifier)
    return count


def _reply(
    step: Step, identifier: str, request: ReliableMessage, action: str, body: BodyContent
) -> None:
    """Store the reply to *request*: in the sequence that was offered for replies, or where the
    request says."""
    message = Message(action, body, relates_to=request.headers.message_id)
    key = reply_key(identifier)
    sequence = step.tx.outgoing.find(key)
    reply_to = reply_endpoint(request, offered=sequence is not None)
    if sequence is None and reply_to is not None and request.rm is not None:
        wire = Wire(request.rm, request.headers.wsa or reply_to.wsa, request.soap)
        sequence = _own_sequence(step, key, wire, reply_to)
    if sequence is not None and takes_messages(sequence):
        append(step, sequence, message)
    else:
        step.tell(NoticeKind.UNANSWERED, identifier)


def _own_sequence(
    step: Step, key: str, wire: Wire, reply_to: EndpointReference
) -> OutgoingSequence | None:
    """Make a sequence for replies where none was offered: to where the first request wants its
    reply."""
    if is_anonymous(reply_to.address):
        # It only keeps them: they go back on connections, in no sequence.
        return _new(step, key, wire, anonymous(wire.wsa))
    address = step.party.address
    if not is_callable(reply_to) or address is None or not step.party.allows(reply_to.address):
        return None
    return replace(
        _new(step, key, wire, reply_to),
        acks_to=EndpointReference(address, wire.wsa),
        create_id=step.party.new_id(),
    )


def _new(step: Step, key: str, wire: Wire, target: EndpointReference) -> OutgoingSequence:
    return OutgoingSequence(key, target, wire, SourceState.WAITING, created_at=step.now)


def _consume_faulted(
    party: Party, identifier: str, number: int, now: float, fault: ApplicationFault
) -> int | None:
    """Answer the fault of an application, and mark the message as consumed. What the application
    changed is rolled back already."""
    with begin(party, now) as step:
        found = _next(step, identifier)
        if found is None or found[1].number != number:
            return None  # Another worker was faster.
        buffer, message = found
        _reply_fault(step, identifier, read_message(message.envelope), fault)
        return _mark(step, buffer, message)


def _reply_fault(
    step: Step, identifier: str, request: ReliableMessage, fault: ApplicationFault
) -> None:
    offered = step.tx.outgoing.find(reply_key(identifier)) is not None
    reply_to = reply_endpoint(request, offered=offered)
    if reply_to is None or request.headers.message_id is None:
        step.tell(NoticeKind.UNANSWERED, identifier, f"a fault: {fault}")
        return
    body = write_application_fault(
        request.soap, str(fault), receiver=fault.receiver, detail=fault.detail
    )
    wsa = request.headers.wsa or reply_to.wsa
    _reply(step, identifier, request, application_fault_action(wsa), body)


def _wait(party: Party, identifier: str, now: float) -> None:
    """Deliver later: there is no room for the reply."""
    with begin(party, now) as step:
        found = _next(step, identifier)
        if found is not None:
            due_at = now + party.policy.interval
            step.tx.invoker.put(replace(found[0], due_at=due_at))


def _fail(party: Party, identifier: str, number: int, now: float, error: Exception) -> int | None:
    """Note a failed delivery: there is another one later, or the message is dead.

    Returns:
        How many messages are left; None: it was not consumed.
    """
    with begin(party, now) as step:
        found = _next(step, identifier)
        if found is None or found[1].number != number:
            return None
        buffer, message = found
        attempts, text = buffer.attempts + 1, f"{type(error).__name__}: {error}"
        if attempts < party.policy.attempts:
            due_at = now + party.policy.retry_after(attempts, party.random())
            step.tx.invoker.put(replace(buffer, attempts=attempts, due_at=due_at))
            step.tell(NoticeKind.DELIVERY_FAILED, identifier, text, number)
            return None
        step.tell(NoticeKind.DEAD_MESSAGE, identifier, text, number)
        dead = party.dead.get(buffer.service)
        try:
            read = read_message(message.envelope)
        except Exception:  # What cannot be read cannot be answered either.
            read = None
        if read is not None:
            if dead is not None:
                dead(step.tx, _delivered(buffer, message, read, now), error)
            _reply_fault(
                step, identifier, read, ApplicationFault("The message failed.", receiver=True)
            )
        return _mark(step, buffer, message)
