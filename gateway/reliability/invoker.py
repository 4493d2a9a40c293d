"""The invoker of an incoming sequence (InvokerBufferWorker): it gives the application the messages
of the buffer, in order, each once. What the application changes, and its reply, are of the
transaction that marks the message as delivered."""

from contextlib import suppress
from dataclasses import replace

from gateway.reliability.party import Party, anonymous, is_callable, reply_endpoint, reply_key
from gateway.reliability.records import (
    InvokerBuffer,
    InvokerMessage,
    OutgoingSequence,
    Wire,
    changed,
)
from gateway.reliability.sequence_end import finish_replies
from gateway.reliability.source import Message, Source, SourceFull, takes_messages
from gateway.reliability.steps import Step, begin, due_now
from gateway.reliability.storage import Conflict, StorageUnavailable
from gateway.reliability.values import (
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


class Invoker:
    """The invoker of one sequence at one time.

    Args:
        identifier: The sequence.
    """

    __slots__ = ("_identifier", "_now", "_number", "_party")

    def __init__(self, party: Party, identifier: str, now: float) -> None:
        self._party = party
        self._identifier = identifier
        self._now = now
        self._number = 0
        """The number of the message that the application was given last; 0: there was none."""

    def deliver(self, *, limit: int = 64) -> int:
        """Give the application the messages that it may have, each in a transaction.

        Returns:
            How many messages were consumed.

        Raises:
            StorageUnavailable: Deliveries that were not committed come again.
        """
        for done in range(limit):
            left = self._deliver_next()
            if left is None:
                return done
            if not left:
                return done + 1
        return limit

    def _deliver_next(self) -> int | None:
        """Deliver one message.

        Returns:
            How many are left; None: it was not consumed.
        """
        try:
            with begin(self._party, self._now) as step:
                return self.deliver_in(step)
        except Exception as error:
            return self.take_failure(error)

    def deliver_in(self, step: Step) -> int | None:
        """Give the application the next message in the caller's transaction, and mark it as
        consumed. After an exception, and the end of that transaction, `take_failure` goes on.

        Returns:
            How many are left; None: it may have none.
        """
        self._number = 0
        found = self._next(step)
        if found is None:
            return None
        buffer, message = found
        self._number = message.number
        read = read_again(message.envelope)
        if not isinstance(read.body, LastMessage):
            application = self._party.applications.get(buffer.service)
            if application is None:
                raise LookupError(f"there is no application {buffer.service!r}")
            answer = application(step.tx, _delivered(buffer, message, read, step.now))
            if answer is not None:
                self._reply(step, read, answer.action, answer.body)
        return self._mark(step, buffer, message)

    def _next(self, step: Step) -> tuple[InvokerBuffer, InvokerMessage] | None:
        """The message that the application gets next."""
        buffer = step.tx.invoker.find(self._identifier)
        if buffer is None or buffer.due_at is None or buffer.due_at > step.now:
            return None
        found = step.tx.invoker.messages(self._identifier, buffer.delivered + 1, 1)
        # A gap is waited for, unless nobody will fill it.
        if (
            not found
            or buffer.held
            or (found[0].number != buffer.delivered + 1 and not buffer.skips)
        ):
            step.tx.invoker.put(replace(buffer, due_at=None))
            return None
        return buffer, found[0]

    def _failed(self, step: Step) -> tuple[InvokerBuffer, InvokerMessage] | None:
        """The message whose delivery failed; None: another worker was faster."""
        found = self._next(step)
        return None if found is None or found[1].number != self._number else found

    def _mark(self, step: Step, buffer: InvokerBuffer, message: InvokerMessage) -> int:
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

    # Replies.

    def _reply(self, step: Step, request: ReliableMessage, action: str, body: BodyContent) -> None:
        """Store the reply to *request*: in the sequence that was offered for replies, or where the
        request says."""
        message = Message(action, body, relates_to=request.headers.message_id)
        key = reply_key(self._identifier)
        sequence = step.tx.outgoing.find(key)
        reply_to = reply_endpoint(request, offered=sequence is not None)
        if sequence is None and reply_to is not None and request.rm is not None:
            wire = Wire(request.rm, request.headers.wsa or reply_to.wsa, request.soap)
            sequence = _sequence_for_replies(step, key, wire, reply_to)
        if sequence is not None and takes_messages(sequence):
            Source(step).append(sequence, message)
        else:
            step.tell(NoticeKind.UNANSWERED, self._identifier)

    def _reply_fault(self, step: Step, request: ReliableMessage, fault: ApplicationFault) -> None:
        offered = step.tx.outgoing.find(reply_key(self._identifier)) is not None
        reply_to = reply_endpoint(request, offered=offered)
        if reply_to is None or request.headers.message_id is None:
            step.tell(NoticeKind.UNANSWERED, self._identifier, f"a fault: {fault}")
            return
        body = write_application_fault(
            request.soap, str(fault), receiver=fault.receiver, detail=fault.detail
        )
        wsa = request.headers.wsa or reply_to.wsa
        self._reply(step, request, application_fault_action(wsa), body)

    # Failures, each noted in a transaction of its own: that of the application is rolled back.

    def take_failure(self, error: Exception) -> int | None:
        """Handle an exception of the application, or of the store.

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
                    return self._answer_fault(error)
                except (StorageUnavailable, SourceFull):
                    raise
                except Exception as unwritten:  # Its details are no XML, say.
                    error = unwritten.with_traceback(None)
            return self._fail(error)
        except SourceFull:
            self._wait_for_room()
            return None
        except StorageUnavailable as failure:
            self._put_off(failure)
            raise
        except Exception as failure:
            self._count(failure)
            return None
        finally:
            del error

    def _answer_fault(self, fault: ApplicationFault) -> int | None:
        """Answer the fault of an application, and mark the message as consumed."""
        with begin(self._party, self._now) as step:
            found = self._failed(step)
            if found is None:
                return None
            buffer, message = found
            self._reply_fault(step, read_message(message.envelope), fault)
            return self._mark(step, buffer, message)

    def _fail(self, error: Exception) -> int | None:
        """Note a failed delivery: there is another one later, or the message is dead.

        Returns:
            How many messages are left; None: it was not consumed.
        """
        with begin(self._party, self._now) as step:
            found = self._failed(step)
            if found is None:
                return None
            buffer, message = found
            attempts, text = buffer.attempts + 1, f"{type(error).__name__}: {error}"
            if attempts < self._party.policy.attempts:
                self._try_later(step, buffer, attempts)
                step.tell(NoticeKind.DELIVERY_FAILED, self._identifier, text, message.number)
                return None
            step.tell(NoticeKind.DEAD_MESSAGE, self._identifier, text, message.number)
            self._bury(step, buffer, message, error)
            return self._mark(step, buffer, message)

    def _bury(
        self, step: Step, buffer: InvokerBuffer, message: InvokerMessage, error: Exception
    ) -> None:
        """Give a dead message to who keeps them, and answer it."""
        try:
            read = read_message(message.envelope)
        except Exception:  # A message that cannot be read cannot be answered either.
            return
        dead = self._party.dead.get(buffer.service)
        if dead is not None:
            dead(step.tx, _delivered(buffer, message, read, self._now), error)
        self._reply_fault(step, read, ApplicationFault("The message failed.", receiver=True))

    def _count(self, error: Exception) -> None:
        """Note that burying a dead message failed, too: there is another delivery later."""
        with begin(self._party, self._now) as step:
            found = self._failed(step)
            if found is None:
                return
            self._try_later(step, found[0], found[0].attempts + 1)
            text = f"{type(error).__name__}: {error}"
            step.tell(NoticeKind.FAILED, self._identifier, text, self._number)

    def _try_later(self, step: Step, buffer: InvokerBuffer, attempts: int) -> None:
        due_at = self._now + self._party.policy.retry_after(attempts, self._party.random())
        step.tx.invoker.put(replace(buffer, attempts=attempts, due_at=due_at))

    def _put_off(self, error: StorageUnavailable) -> None:
        """Deliver later, unless another process can at once, or the store does not answer."""
        if not self._number or isinstance(error, (Conflict, NotHere)):
            return
        with suppress(StorageUnavailable), begin(self._party, self._now) as step:
            found = self._failed(step)
            if found is not None:
                due_at = self._now + self._party.policy.retry_after(1, self._party.random())
                step.tx.invoker.put(replace(found[0], due_at=due_at))

    def _wait_for_room(self) -> None:
        """Deliver later: there is no room for the reply."""
        with begin(self._party, self._now) as step:
            found = self._next(step)
            if found is not None:
                due_at = self._now + self._party.policy.interval
                step.tx.invoker.put(replace(found[0], due_at=due_at))


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


def _sequence_for_replies(
    step: Step, key: str, wire: Wire, reply_to: EndpointReference
) -> OutgoingSequence | None:
    """Make a sequence for replies where none was offered: to where the first request wants its
    reply."""
    if is_anonymous(reply_to.address):
        # It only keeps them: they go back on connections, in no sequence.
        return _new_sequence(step, key, wire, anonymous(wire.wsa))
    address = step.party.address
    if not is_callable(reply_to) or address is None or not step.party.allows(reply_to.address):
        return None
    return replace(
        _new_sequence(step, key, wire, reply_to),
        acks_to=EndpointReference(address, wire.wsa),
        create_id=step.party.new_id(),
    )


def _new_sequence(step: Step, key: str, wire: Wire, target: EndpointReference) -> OutgoingSequence:
    return OutgoingSequence(key, target, wire, SourceState.WAITING, created_at=step.now)
