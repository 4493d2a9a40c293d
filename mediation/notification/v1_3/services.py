"""The services of WS-BaseNotification 1.3 as WSDL describes them."""

from mediation import names
from mediation.model.requests import Operation
from mediation.model.specification import Offer, Service
from mediation.notification import onvif
from mediation.notification.brokered import brokered_offers
from mediation.notification.v1_3.actions import NAMESPACE, NOTIFY_ACTION, action_of
from mediation.resources.wsrf import WSRF_1_2, resource_offers


def _named(*faults: str, unknown: bool = False) -> tuple[str, ...]:
    own = tuple(f"{{{NAMESPACE}}}{fault}" for fault in faults)
    return (f"{{{names.WSRF_R}}}ResourceUnknownFault", *own) if unknown else own


_FILTERING = _named(
    "InvalidFilterFault",
    "TopicExpressionDialectUnknownFault",
    "InvalidTopicExpressionFault",
    "TopicNotSupportedFault",
    "InvalidProducerPropertiesExpressionFault",
    "InvalidMessageContentExpressionFault",
    "UnacceptableInitialTerminationTimeFault",
    "UnrecognizedPolicyRequestFault",
    "UnsupportedPolicyRequestFault",
    "SubscribeCreationFailedFault",
)
_DECLARED = {
    Operation.SUBSCRIBE: _FILTERING,
    Operation.GET_CURRENT_MESSAGE: _named(
        "TopicExpressionDialectUnknownFault",
        "InvalidTopicExpressionFault",
        "TopicNotSupportedFault",
        "NoCurrentMessageOnTopicFault",
        "MultipleTopicsSpecifiedFault",
    ),
    Operation.RENEW: _named("UnacceptableTerminationTimeFault", unknown=True),
    Operation.UNSUBSCRIBE: _named("UnableToDestroySubscriptionFault", unknown=True),
    Operation.PAUSE: _named("PauseFailedFault", unknown=True),
    Operation.RESUME: _named("ResumeFailedFault", unknown=True),
    Operation.CREATE_PULL_POINT: _named("UnableToCreatePullPointFault"),
    Operation.GET_MESSAGES: _named("UnableToGetMessagesFault", unknown=True),
    Operation.DESTROY_PULL_POINT: _named("UnableToDestroyPullPointFault", unknown=True),
    Operation.CREATE_PULL_POINT_SUBSCRIPTION: _FILTERING,
    Operation.PULL_MESSAGES: _named("UnableToGetMessagesFault", unknown=True),
    Operation.SET_SYNCHRONIZATION_POINT: _named(unknown=True),
}
"""The faults of operations as bw-2 and event.wsdl declare them."""
_FAULT_ACTIONS = {
    NAMESPACE: names.WSN_1_3_FAULT_ACTION,
    names.WSN_BR_1_3: names.WSN_1_3_FAULT_ACTION,
    names.WSRF_R: names.WSRF_FAULT_ACTION,
    names.WSRF_RP: names.WSRF_FAULT_ACTION,
    names.WSRF_RL: names.WSRF_FAULT_ACTION,
}


def _offers(port_type: str, *operations: Operation) -> tuple[Offer, ...]:
    return tuple(
        Offer(
            port_type,
            operation,
            NAMESPACE,
            action_of(port_type, operation),
            action_of(port_type, operation, "Response"),
            faults=_DECLARED.get(operation, ()),
        )
        for operation in operations
    )


_PRODUCER = _offers("NotificationProducer", Operation.SUBSCRIBE, Operation.GET_CURRENT_MESSAGE)
_MANAGER = _offers(
    "PausableSubscriptionManager",
    Operation.RENEW,
    Operation.UNSUBSCRIBE,
    Operation.PAUSE,
    Operation.RESUME,
)
_CONSUMER = Offer("NotificationConsumer", Operation.PUBLISH, NAMESPACE, NOTIFY_ACTION)
_BROKER = brokered_offers(
    (_CONSUMER, *_PRODUCER),
    _named(
        "InvalidTopicExpressionFault",
        "TopicNotSupportedFault",
        "UnacceptableInitialTerminationTimeFault",
    ),
)
BROKER_OPERATIONS = {
    offer.action: offer.operation
    for offer in _BROKER
    if offer.operation in (Operation.SUBSCRIBE, Operation.GET_CURRENT_MESSAGE)
}
_SCHEMAS = ("addressing-2005-08", "bf-2", "r-2", "t-1", "b-2")
SERVICES = (
    Service(
        "wsn",
        "WSNotification",
        (*_SCHEMAS, "rp-2", "rl-2"),
        (
            _CONSUMER,
            *_PRODUCER,
            *_MANAGER,
            *_offers("CreatePullPoint", Operation.CREATE_PULL_POINT),
            *_offers("PullPoint", Operation.GET_MESSAGES, Operation.DESTROY_PULL_POINT),
            *resource_offers(WSRF_1_2),
        ),
        _FAULT_ACTIONS,
    ),
    Service(
        "wsnbr",
        "WSNotificationBroker",
        (*_SCHEMAS, "br-2", "rp-2", "rl-2"),
        (*_BROKER, *resource_offers(WSRF_1_2)),
        _FAULT_ACTIONS,
    ),
    Service(
        "onvif",
        "ONVIFEvents",
        (*_SCHEMAS, "onvif-events"),
        (*onvif.offers(_DECLARED), *_PRODUCER, *_MANAGER),
        _FAULT_ACTIONS,
    ),
)
