"""WS-BaseNotification 1.0 of IBM and Globus, as WS-Messenger's clients speak it: `SPECIFICATION`.

Three of its requests are misspelt in WS-Messenger's services, and right in the stubs of its
clients; both are read. Its clients need ``wsnt:Identifier`` in the reference of a subscription, and
an envelope in answer to Notify.
"""

from filters import Topic, dialects
from mediation import names
from mediation.model.facts import Fact
from mediation.model.requests import Operation
from mediation.model.versions import Version, Wsa
from mediation.notification.drafts import Draft, draft_specification
from mediation.notification.topics import messenger_topic_element, topic_element
from mediation.resources.wsrf import WSRF_IBM

DIALECTS = {
    dialects.TOPIC_SIMPLE: dialects.TOPIC_IBM_SIMPLE,
    dialects.TOPIC_CONCRETE: dialects.TOPIC_IBM_CONCRETE,
    dialects.TOPIC_FULL: dialects.TOPIC_IBM_FULL,
}
_PATHS = frozenset({dialects.TOPIC_CONCRETE, dialects.TOPIC_FULL})


def _write_topic(name: str, topic: Topic, dialect: str | None, declarations: str) -> str:
    """Write a topic in a dialect of paths for subscribers who used one, else as WS-Messenger's
    broker does."""
    if dialect in _PATHS:
        return topic_element(name, topic, dialect, declarations, DIALECTS)
    return messenger_topic_element(name, topic, declarations)


DRAFT = Draft(
    namespace=names.WSN_IBM,
    brokered=names.WSN_BR_IBM,
    actions=f"{names.WSN_IBM}/",
    wsrf=WSRF_IBM,
    requests={
        "SubscribeRequest": Operation.SUBSCRIBE,
        "Subscribe": Operation.SUBSCRIBE,
        "PauseSubsriptionRequest": Operation.PAUSE,
        "PauseSubscriptionRequest": Operation.PAUSE,
        "PauseSubscription": Operation.PAUSE,
        "ResumeSubsriptionRequest": Operation.RESUME,
        "ResumeSubscriptionRequest": Operation.RESUME,
        "ResumeSubscription": Operation.RESUME,
        "UnsubsribeRequest": Operation.UNSUBSCRIBE,
        "UnsubscribeRequest": Operation.UNSUBSCRIBE,
        "Unsubscribe": Operation.UNSUBSCRIBE,
        "GetCurrentMessageRequest": Operation.GET_CURRENT_MESSAGE,
        "GetCurrentMessage": Operation.GET_CURRENT_MESSAGE,
        "Notify": Operation.PUBLISH,
    },
    subscription_key=f"{{{names.WSN_IBM}}}Identifier",
    write_topic=_write_topic,
    spelled=DIALECTS,
    simple_is_blind=True,
    responses={Operation.SUBSCRIBE: "SubscribeRequestResponse"},
    empty_answers=frozenset({Operation.PAUSE, Operation.RESUME, Operation.UNSUBSCRIBE}),
    answers_notify=True,
    raw_as_notify=True,
    keeps_topic_element=True,
    names_gateway=False,
    repeats=True,
    # Its clients read what follows the first colon: no namespace, no levels.
    untold=frozenset({Fact.LEVELS, Fact.NAMESPACES}),
)

SPECIFICATION = draft_specification(
    DRAFT, Version.WSN_1_0, "WS-BaseNotification 1.0", wsa=Wsa.V2005_08
)
