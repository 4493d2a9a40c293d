"""The faults of a draft: elements without content of their own, over a draft of WS-BaseFaults."""

from dataclasses import replace

from filters import Reason
from mediation.model.requests import Operation
from mediation.model.specification import Fault, Faults
from mediation.notification.drafts.draft import Draft
from mediation.resources.base_faults import base_fault
from mediation.resources.wsrf import resource_faults

_NOT_MADE = (
    Reason.MESSAGE_INVALID,
    Reason.EPR_INVALID,
    Reason.CONSUMER_ADDRESS,
    Reason.QUOTA,
    Reason.EXPIRY_INVALID,
    Reason.EXPIRY_IN_THE_PAST,
    Reason.EXPIRY_TOO_LONG,
)
"""Reasons that nothing is subscribed or registered."""
_CREATION_FAILED = (
    *_NOT_MADE,
    Reason.PRODUCER_PROPERTIES,
    Reason.FILTER_UNKNOWN,
    Reason.FILTER_DIALECT,
    Reason.FILTER_INVALID,
    Reason.FILTER_COSTLY,
    Reason.POLICY_UNSUPPORTED,
)
"""Reasons that a draft has no fault of their own for."""
_NAMED = {
    Reason.SUBSCRIPTION_UNKNOWN: "ResourceUnknownFault",
    Reason.MAILBOX_UNKNOWN: "ResourceUnknownFault",
    Reason.RESOURCE_UNKNOWN: "ResourceUnknownFault",
    Reason.TOPIC_DIALECT: "TopicPathDialectUnknownFault",
    Reason.TOPIC_INVALID: "InvalidTopicExpressionFault",
    Reason.TOPICS_SEVERAL: "InvalidTopicExpressionFault",
    Reason.TOPIC_UNSUPPORTED: "TopicNotSupportedFault",
    Reason.NO_CURRENT_MESSAGE: "NoCurrentMessageOnTopicFault",
}
_REGISTERING = {
    **dict.fromkeys(_NOT_MADE, "PublisherRegistrationFailedFault"),
    Reason.TOPIC_INVALID: "InvalidTopicExpressionFault",
    Reason.TOPIC_DIALECT: "InvalidTopicExpressionFault",
    Reason.TOPIC_UNSUPPORTED: "TopicNotSupportedFault",
}
"""Faults of RegisterPublisher, in the namespace of WS-BrokeredNotification."""


def draft_faults(draft: Draft) -> Faults:
    """The faults of *draft*, and of its WSRF. Their actions are those of WS-Addressing."""

    def fault(name: str) -> Fault:
        return in_namespace(draft.namespace, name)

    def broker_fault(name: str) -> Fault:
        return in_namespace(draft.brokered, name)

    def in_namespace(namespace: str, name: str) -> Fault:
        made = base_fault(namespace, name, action="", base=draft.wsrf.base)
        return replace(made, spelled=tuple(draft.spelled.items()))

    creation_failed = fault("SubscribeCreationFailedFault")
    registering = Operation.REGISTER_PUBLISHER
    return {
        **{(reason, registering): broker_fault(name) for reason, name in _REGISTERING.items()},
        **{(reason, None): fault(name) for reason, name in _NAMED.items()},
        **{(reason, Operation.SUBSCRIBE): creation_failed for reason in _CREATION_FAILED},
        **resource_faults(draft.wsrf),
    }
