"""The state machines of a sequence as tables: Mercury's three.

S. Suriarachchi, "Queued Transaction Processing with Web Service Reliable Messaging" (University of
Moratuwa, 2010): the state of each of three objects is a few bits, which events set in any order,
and a worker looks at the state now and then and acts. A message that was lost is an event that did
not happen, so the state stays, and the worker acts again: sending again needs no logic of its own.

The value of a state is its bits, written as in the figures. What WS-ReliableMessaging 1.1 adds
(CloseSequence, the answer to TerminateSequence), numbers and reasons are data beside the bits.

========================  =========================================  ============
object                    its bits                                   valid states
========================  =========================================  ============
`SourceState`             SS started, MIB messages in the buffer,    7 of 16
(RMSSequence)             LMR last message received from the
                          client, TMS terminate message sent
`DestinationState`        FMR first message received, LMR last       5 of 16
(RMDSequence)             message received, EMR every message
                          received, TMR terminate received
`InvokerState`            MIB messages in the buffer, LMR last       4 of 8
(InvokerBuffer)           message received, EMS every message sent
                          to the application
========================  =========================================  ============
"""

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType


class OutOfTurn(Exception):
    """An event that the state does not allow; an error to who caused it."""


class SourceState(Enum):
    """Of an RMSSequence: SS MIB LMR TMS."""

    __hash__ = object.__hash__  # As of `mediation.Soap`.

    WAITING = "0100"
    """Messages wait; there is no sequence yet. CreateSequence is sent, again after the interval."""
    WAITING_ENDED = "0110"
    """The same, and the last message is known."""
    SENDING = "1100"
    """There are messages that are not acknowledged: they are sent, again after the interval."""
    SENDING_ENDED = "1110"
    """The same, and the last message is known; in 1.0 it carries LastMessage."""
    IDLE = "1000"
    """All is acknowledged; more may come."""
    COMPLETE = "1010"
    """All is acknowledged, and nothing more comes: the sequence is closed (1.1) and terminated."""
    TERMINATED = "1011"
    """TerminateSequence was sent. The object may go; in 1.1 when the answer is there."""


class SourceEvent(Enum):
    __hash__ = object.__hash__

    AMR = "application message from the client"
    LMR = "last message from the client"
    END = "the client ends the sequence, without a message"
    CRR = "CreateSequenceResponse received"
    ACKALL = "everything is acknowledged"
    TMS = "TerminateSequence handed to the transport"


class DestinationState(Enum):
    """Of an RMDSequence: FMR LMR EMR TMR."""

    __hash__ = object.__hash__  # As of `mediation.Soap`.

    CREATED = "0000"
    """CreateSequenceResponse is sent, again if the request comes again."""
    RECEIVING = "1000"
    """The end is not known."""
    GAPS = "1100"
    """The end is known, and numbers are missing."""
    COMPLETE = "1110"
    """All numbers are there: acknowledged until the sequence is terminated."""
    TERMINATED = "1111"
    """Whether all numbers were there is data beside it: the source may have given up."""


class DestinationEvent(Enum):
    __hash__ = object.__hash__

    AMR_SNC = "a message that does not complete the sequence"
    AMR_SC = "a message that completes the sequence"
    LMR_SNC = "the last message or its number, while others are missing"
    LMR_SC = "the last message or its number, and no other is missing"
    TMR = "TerminateSequence received, or the sequence given up"


class InvokerState(Enum):
    """Of an InvokerBuffer: MIB LMR EMS."""

    __hash__ = object.__hash__  # As of `mediation.Soap`.

    EMPTY = "000"
    WAITING = "100"
    """Messages wait: the run that starts after the last delivered one is delivered."""
    WAITING_ENDED = "110"
    """The same, and the end is known."""
    DELIVERED = "011"
    """Everything was given to the application."""


class InvokerEvent(Enum):
    __hash__ = object.__hash__

    AMR = "a message"
    LMR = "a message, and the end is known"
    SAM_EMPTY = "what could be delivered was; the buffer is empty"
    SAM_GAP = "what could be delivered was; a gap remains"
    SAM_ALL = "what could be delivered was; it was the last"


_S, _SE = SourceState, SourceEvent
SOURCE: Mapping[tuple[SourceState | None, SourceEvent], SourceState] = MappingProxyType(
    {
        (None, _SE.AMR): _S.WAITING,
        (None, _SE.LMR): _S.WAITING_ENDED,
        (_S.WAITING, _SE.AMR): _S.WAITING,
        (_S.WAITING, _SE.LMR): _S.WAITING_ENDED,
        (_S.WAITING, _SE.END): _S.WAITING_ENDED,
        (_S.WAITING, _SE.CRR): _S.SENDING,
        (_S.WAITING_ENDED, _SE.CRR): _S.SENDING_ENDED,
        (_S.SENDING, _SE.AMR): _S.SENDING,
        (_S.SENDING, _SE.LMR): _S.SENDING_ENDED,
        (_S.SENDING, _SE.END): _S.SENDING_ENDED,
        (_S.SENDING, _SE.ACKALL): _S.IDLE,
        (_S.IDLE, _SE.AMR): _S.SENDING,
        (_S.IDLE, _SE.LMR): _S.SENDING_ENDED,
        (_S.IDLE, _SE.END): _S.COMPLETE,
        (_S.SENDING_ENDED, _SE.ACKALL): _S.COMPLETE,
        (_S.COMPLETE, _SE.TMS): _S.TERMINATED,
        # Sent again: its answer was lost (1.1).
        (_S.TERMINATED, _SE.TMS): _S.TERMINATED,
        # A CreateSequenceResponse that came twice.
        **{
            (state, _SE.CRR): state
            for state in (_S.SENDING, _S.SENDING_ENDED, _S.IDLE, _S.COMPLETE, _S.TERMINATED)
        },
    }
)
"""None stands before the first message, which makes the object."""

_D, _DE = DestinationState, DestinationEvent
DESTINATION: Mapping[tuple[DestinationState, DestinationEvent], DestinationState] = (
    MappingProxyType(
        {
            (_D.CREATED, _DE.AMR_SNC): _D.RECEIVING,
            (_D.CREATED, _DE.LMR_SC): _D.COMPLETE,
            (_D.CREATED, _DE.LMR_SNC): _D.GAPS,
            (_D.RECEIVING, _DE.AMR_SNC): _D.RECEIVING,
            (_D.RECEIVING, _DE.LMR_SNC): _D.GAPS,
            (_D.RECEIVING, _DE.LMR_SC): _D.COMPLETE,
            (_D.GAPS, _DE.AMR_SNC): _D.GAPS,
            (_D.GAPS, _DE.AMR_SC): _D.COMPLETE,
            (_D.GAPS, _DE.LMR_SNC): _D.GAPS,
            (_D.GAPS, _DE.LMR_SC): _D.COMPLETE,
            # Duplicates: acknowledged again.
            (_D.COMPLETE, _DE.AMR_SC): _D.COMPLETE,
            (_D.COMPLETE, _DE.LMR_SC): _D.COMPLETE,
            # The source may give up at any time.
            **{(state, _DE.TMR): _D.TERMINATED for state in _D},
        }
    )
)

_I, _IE = InvokerState, InvokerEvent
INVOKER: Mapping[tuple[InvokerState, InvokerEvent], InvokerState] = MappingProxyType(
    {
        (_I.EMPTY, _IE.AMR): _I.WAITING,
        (_I.EMPTY, _IE.LMR): _I.WAITING_ENDED,
        (_I.WAITING, _IE.AMR): _I.WAITING,
        (_I.WAITING, _IE.LMR): _I.WAITING_ENDED,
        (_I.WAITING, _IE.SAM_EMPTY): _I.EMPTY,
        (_I.WAITING, _IE.SAM_GAP): _I.WAITING,
        (_I.WAITING_ENDED, _IE.AMR): _I.WAITING_ENDED,
        (_I.WAITING_ENDED, _IE.LMR): _I.WAITING_ENDED,
        (_I.WAITING_ENDED, _IE.SAM_ALL): _I.DELIVERED,
        (_I.WAITING_ENDED, _IE.SAM_GAP): _I.WAITING_ENDED,
        # The end became known by a mere number, when the buffer was empty or had all the rest.
        (_I.EMPTY, _IE.SAM_ALL): _I.DELIVERED,
        (_I.DELIVERED, _IE.AMR): _I.DELIVERED,
        (_I.DELIVERED, _IE.LMR): _I.DELIVERED,
    }
)


def after_source(state: SourceState | None, event: SourceEvent) -> SourceState:
    """The state of an RMSSequence after *event*.

    Raises:
        OutOfTurn: *state* does not allow it: a message after the last one, say.
    """
    try:
        return SOURCE[state, event]
    except KeyError:
        raise OutOfTurn(f"{event.value}: not while {state and state.value}") from None


def after_destination(state: DestinationState, event: DestinationEvent) -> DestinationState:
    """The state of an RMDSequence after *event*.

    Raises:
        OutOfTurn: *state* does not allow it.
    """
    try:
        return DESTINATION[state, event]
    except KeyError:
        raise OutOfTurn(f"{event.value}: not while {state.value}") from None


def after_invoker(state: InvokerState, event: InvokerEvent) -> InvokerState:
    """The state of an InvokerBuffer after *event*.

    Raises:
        OutOfTurn: *state* does not allow it.
    """
    try:
        return INVOKER[state, event]
    except KeyError:
        raise OutOfTurn(f"{event.value}: not while {state.value}") from None
