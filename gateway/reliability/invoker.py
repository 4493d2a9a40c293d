"""What takes messages from the buffer to the application (InvokerBufferWorker): in order, each
once. What the application changes, and its reply, are of the transaction that marks the message as
delivered."""

from dataclasses import replace

from gateway.reliability.ending import finish_replies
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
)
from gateway.reliability.source import Message, SourceFull, append, takes_messages
from gateway.reliability.steps import Step, begin
from gateway.reliability.storage import StorageUnavailable
from gateway.reliability.values import Application, ApplicationFault, Delivered, NoticeKind
from mediation import EndpointReference, is_anonymous
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


def deliver(party: Party, identifier: str, now: float, *, limit: int = 64) -> int:
    """Give the application what it may have, one transaction a message.

    Returns:
        How many messages were consumed.

    Raises:
        StorageUnavailable: What was not committed is delivered again.
    """
    for done in range(limit):
        if not _deliver_next(party, identifier, now):
            return done
    return limit


def _deliver_next(party: Party, identifier: str, now: float) -> bool:
    number = 0
    try:
        with begin(party, now) as step:
            found = _next(step, identifier)
            if found is None:
                return False
            buffer, message = found
            number = message.number
            read = read_message(message.envelope)
            if not isinstance(read.body, LastMessage):
                delivered = _delivered(buffer, message, read, now)
                answer = _application(party, buffer)(step.tx, delivered)
                if answer is not None:
                    _reply(step, identifier, read, answer.action, answer.body)
            _mark(step, buffer, message)
        return True
    except StorageUnavailable:
        raise
    except SourceFull:
        _wait(party, identifier, now)
        return False
    except Exception as error:
        return _take_failure(party, identifier, number, now, error)


def _take_failure(party: Party, identifier: str, number: int, now: float, error: Exception) -> bool:
    """Do what follows from an exception of an application, in a transaction of its own.

    Returns:
        Whether the message was consumed.
    """
    try:
        if isinstance(error, ApplicationFault):
            return _consume_faulted(party, identifier, number, now, error)
        return _fail(party, identifier, number, now, error)
    except SourceFull:
        _wait(party, identifier, now)
        return False


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


def _mark(step: Step, buffer: InvokerBuffer, message: InvokerMessage) -> None:
    """Note that a message is consumed."""
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
        replace(
            buffer,
            state=state,
            delivered=message.number,
            count=count,
            attempts=0,
            due_at=step.now if count else None,
        )
    )
    if state is InvokerState.DELIVERED:
        finish_replies(step, buffer.identifier)


def _reply(step: Step, identifier: str, request: ReliableMessage, action: str, body: bytes) -> None:
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
) -> bool:
    """Answer the fault of an application, and mark the message as consumed. What the application
    changed is rolled back already."""
    with begin(party, now) as step:
        found = _next(step, identifier)
        if found is None or found[1].number != number:
            return False  # Another worker was faster.
        buffer, message = found
        _reply_fault(step, identifier, read_message(message.envelope), fault)
        _mark(step, buffer, message)
        return True


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


def _fail(party: Party, identifier: str, number: int, now: float, error: Exception) -> bool:
    """Note a failed delivery: there is another one later, or the message is dead.

    Returns:
        Whether the message was consumed.
    """
    with begin(party, now) as step:
        found = _next(step, identifier)
        if found is None or found[1].number != number:
            return False
        buffer, message = found
        attempts = buffer.attempts + 1
        if attempts < party.policy.attempts:
            due_at = now + party.policy.retry_after(attempts, party.random())
            step.tx.invoker.put(replace(buffer, attempts=attempts, due_at=due_at))
            return False
        text = f"{type(error).__name__}: {error}"
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
        _mark(step, buffer, message)
        return True
