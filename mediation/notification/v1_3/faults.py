"""The faults of WS-BaseNotification 1.3, with those of its profiles."""

from filters import Reason
from mediation import names
from mediation.model.requests import Operation
from mediation.model.specification import Code, Detail, Fault, Faults
from mediation.notification import onvif
from mediation.notification.brokered import brokered_faults
from mediation.notification.v1_3.actions import NAMESPACE
from mediation.resources.base_faults import base_fault
from mediation.resources.wsrf import WSRF_1_2, resource_faults


def _fault(
    name: str,
    detail: Detail = Detail.NONE,
    inner: str = "",
    *,
    code: Code = Code.SENDER,
    otherwise: str = "",
) -> Fault:
    return base_fault(
        NAMESPACE,
        name,
        action=names.WSN_1_3_FAULT_ACTION,
        code=code,
        detail=detail,
        inner=inner,
        otherwise=otherwise,
    )


_INITIAL_TIME = _fault("UnacceptableInitialTerminationTimeFault", Detail.TIMES)
_TIME = _fault("UnacceptableTerminationTimeFault", Detail.TIMES)
_CREATION_FAILED = _fault("SubscribeCreationFailedFault")
_BAD_CONTENT = _fault("InvalidMessageContentExpressionFault")
_BAD_TOPIC = _fault("InvalidTopicExpressionFault")
_PULLING = Operation.CREATE_PULL_POINT_SUBSCRIPTION
FAULTS: Faults = {
    **resource_faults(WSRF_1_2),
    # Sections 3 to 6.
    (Reason.MESSAGE_INVALID, Operation.SUBSCRIBE): _CREATION_FAILED,
    (Reason.EPR_INVALID, Operation.SUBSCRIBE): _CREATION_FAILED,
    (Reason.CONSUMER_ADDRESS, Operation.SUBSCRIBE): _CREATION_FAILED,
    (Reason.QUOTA, Operation.SUBSCRIBE): _CREATION_FAILED,
    (Reason.NOT_ALLOWED, Operation.SUBSCRIBE): _CREATION_FAILED,
    (Reason.EXPIRY_INVALID, Operation.SUBSCRIBE): _INITIAL_TIME,
    (Reason.EXPIRY_IN_THE_PAST, Operation.SUBSCRIBE): _INITIAL_TIME,
    (Reason.EXPIRY_TOO_LONG, Operation.SUBSCRIBE): _INITIAL_TIME,
    (Reason.EXPIRY_INVALID, Operation.RENEW): _TIME,
    (Reason.EXPIRY_IN_THE_PAST, Operation.RENEW): _TIME,
    (Reason.EXPIRY_TOO_LONG, Operation.RENEW): _TIME,
    (Reason.FILTER_UNKNOWN, None): _fault(
        "InvalidFilterFault",
        Detail.QNAMES,
        "UnknownFilter",
        otherwise=f"{{{NAMESPACE}}}Filter",
    ),
    (Reason.FILTER_DIALECT, None): _BAD_CONTENT,
    (Reason.FILTER_INVALID, None): _BAD_CONTENT,
    (Reason.FILTER_COSTLY, None): _BAD_CONTENT,
    (Reason.PRODUCER_PROPERTIES, None): _fault("InvalidProducerPropertiesExpressionFault"),
    (Reason.TOPIC_DIALECT, None): _fault("TopicExpressionDialectUnknownFault"),
    (Reason.TOPIC_INVALID, None): _BAD_TOPIC,
    (Reason.TOPIC_UNSUPPORTED, None): _fault("TopicNotSupportedFault"),
    (Reason.TOPIC_UNREGISTERED, None): _fault("TopicNotSupportedFault"),
    (Reason.TOPICS_SEVERAL, None): _fault("MultipleTopicsSpecifiedFault"),
    (Reason.NO_CURRENT_MESSAGE, None): _fault("NoCurrentMessageOnTopicFault"),
    (Reason.POLICY_UNRECOGNIZED, None): _fault(
        "UnrecognizedPolicyRequestFault", Detail.QNAMES, "UnrecognizedPolicy"
    ),
    (Reason.POLICY_UNSUPPORTED, None): _fault(
        "UnsupportedPolicyRequestFault", Detail.QNAMES, "UnsupportedPolicy"
    ),
    # Pull points: section 5; ONVIF Core, "Event handling".
    (Reason.MESSAGE_INVALID, _PULLING): _CREATION_FAILED,
    (Reason.QUOTA, _PULLING): _CREATION_FAILED,
    (Reason.EXPIRY_INVALID, _PULLING): _INITIAL_TIME,
    (Reason.EXPIRY_IN_THE_PAST, _PULLING): _INITIAL_TIME,
    (Reason.EXPIRY_TOO_LONG, _PULLING): _INITIAL_TIME,
    (Reason.QUOTA, Operation.CREATE_PULL_POINT): _fault("UnableToCreatePullPointFault"),
    (Reason.MAILBOX_BUSY, None): _fault("UnableToGetMessagesFault", code=Code.RECEIVER),
    **onvif.FAULTS,
    **brokered_faults(_INITIAL_TIME, _BAD_TOPIC),
}
