"""WS-Messenger's services as WSDL describes them: EventingService, NotificationService and
MsgBoxService, each with the messages that have types.

What has none is the publisher's own: the element of an event at EventingService, after which that
of the answer is named, and that of a message for a box. Of events there is a text,
`plainTextWrapper`.
"""

from mediation import names
from mediation.eventing.common import eventing_offers
from mediation.model.requests import Operation
from mediation.model.specification import Offer, Service
from mediation.notification import v1_0

_WSE, _WSNT = names.WSE_2004_08, names.WSN_IBM
_BOXES, _ANSWERS = names.MESSAGE_BOX_2011, names.MESSAGE_BOX_2011_SLASH
_TEXT = f"{{{names.MESSENGER_TEXT}}}plainTextWrapper"


def _notification(
    operation: Operation,
    element: str,
    answer: str = "",
    *,
    identified: bool = False,
    response: str = "",
) -> Offer:
    """An operation of NotificationService, by the local names of its elements."""
    return Offer(
        "NotificationService",
        operation,
        _WSNT,
        f"{v1_0.DRAFT.actions}{element}",
        f"{v1_0.DRAFT.actions}{response or answer}",
        empty=not answer,
        headers=(v1_0.DRAFT.subscription_key,) if identified else (),
        element=f"{{{_WSNT}}}{element}",
        answer=f"{{{_WSNT}}}{answer}",
    )


def _box(operation: Operation) -> Offer:
    name = operation.value
    return Offer(
        "MsgBoxService",
        operation,
        _BOXES,
        f"{_BOXES}/{name}",
        f"{_ANSWERS}MsgBoxPT/{name}Response",
        answer=f"{{{_ANSWERS}}}{name}Response",
    )


EVENTING = Service(
    "ws-messenger",
    "EventingService",
    ("addressing-2005-08", "messenger-text", "messenger-notification", "messenger-eventing"),
    (
        *eventing_offers(_WSE, {}, empty=(Operation.UNSUBSCRIBE,), identified=True),
        Offer(
            "EventingService",
            Operation.PUBLISH,
            names.MESSENGER_TEXT,
            names.WSE_NOTIFICATION,
            f"{_WSE}/plainTextWrapperResponse",
            headers=(f"{{{_WSNT}}}Topic",),
            element=_TEXT,
            answer=f"{{{_WSE}}}plainTextWrapperResponse",
        ),
    ),
    {},
)
NOTIFICATION = Service(
    "wsn10",
    "NotificationService",
    ("addressing-2005-08", "messenger-notification"),
    (
        _notification(Operation.PUBLISH, "Notify", "NotifyResponse"),
        _notification(
            Operation.SUBSCRIBE,
            "SubscribeRequest",
            "SubscribeResponse",
            response="SubscribeRequestResponse",
        ),
        _notification(
            Operation.PAUSE,
            "PauseSubsriptionRequest",
            identified=True,
            response="PauseSubscriptionResponse",
        ),
        _notification(
            Operation.RESUME,
            "ResumeSubsriptionRequest",
            identified=True,
            response="ResumeSubscriptionResponse",
        ),
        _notification(
            Operation.UNSUBSCRIBE,
            "UnsubsribeRequest",
            identified=True,
            response="UnsubscribeResponse",
        ),
        _notification(
            Operation.GET_CURRENT_MESSAGE, "GetCurrentMessage", "GetCurrentMessageResponse"
        ),
    ),
    {},
)
BOXES = Service(
    "msgbox",
    "MsgBoxService",
    ("messenger-box", "messenger-box-answers"),
    (
        _box(Operation.CREATE_MESSAGE_BOX),
        _box(Operation.TAKE_MESSAGES),
        _box(Operation.DESTROY_MESSAGE_BOX),
    ),
    {},
)
