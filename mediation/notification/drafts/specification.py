"""A draft as a Specification."""

from mediation.model.requests import Operation
from mediation.model.specification import (
    CombinedRequests,
    LeaseRules,
    Offer,
    Service,
    Specification,
)
from mediation.model.versions import Family, Version, Wsa
from mediation.notification.brokered import BrokeredRequests
from mediation.notification.drafts.client import DraftClient
from mediation.notification.drafts.draft import Draft
from mediation.notification.drafts.faults import draft_faults
from mediation.notification.drafts.notifications import DraftNotifications
from mediation.notification.drafts.properties import DraftProperties
from mediation.notification.drafts.requests import DraftRequests
from mediation.resources.wsrf import ResourceRequests, resource_offers

_TOPICS = ("TopicPathDialectUnknownFault", "InvalidTopicExpressionFault", "TopicNotSupportedFault")
_OFFERED = (
    (
        "NotificationProducer",
        Operation.SUBSCRIBE,
        (*_TOPICS, "ResourceUnknownFault", "SubscribeCreationFailedFault"),
    ),
    (
        "NotificationProducer",
        Operation.GET_CURRENT_MESSAGE,
        (*_TOPICS, "ResourceUnknownFault", "NoCurrentMessageOnTopicFault"),
    ),
    (
        "SubscriptionManager",
        Operation.PAUSE,
        ("ResourceUnknownFault", "PauseFailedFault"),
    ),
    (
        "SubscriptionManager",
        Operation.RESUME,
        ("ResourceUnknownFault", "ResumeFailedFault"),
    ),
)
"""Port types, operations and faults as the WSDL of the 1.2 draft declares them."""
_REGISTERING = (
    "ResourceUnknownFault",
    "InvalidTopicExpressionFault",
    "TopicNotSupportedFault",
    "PublisherRegistrationFailedFault",
)
"""The faults of RegisterPublisher there."""


def draft_specification(
    draft: Draft, version: Version, title: str, *, wsa: Wsa, services: tuple[Service, ...] = ()
) -> Specification:
    """Make the Specification of *draft*; our clients speak it with *wsa*."""
    return Specification(
        version,
        Family.WSN,
        title,
        requests=CombinedRequests(
            DraftRequests(draft, version),
            BrokeredRequests(draft.broker),
            ResourceRequests(draft.wsrf),
        ),
        faults=draft_faults(draft),
        notifications=DraftNotifications(draft),
        client=DraftClient(draft, wsa),
        properties=DraftProperties(draft),
        termination=draft.wsrf.lifetime,
        leases=LeaseRules(grace=True, absolute=True),
        services=services,
        identifiers=frozenset({draft.subscription_key}),
        repeats=(lambda _: True) if draft.repeats else None,
    )


def draft_offers(draft: Draft, suffix: str) -> tuple[Offer, ...]:
    """The operations of *draft*, in port types whose names end in *suffix*."""
    return (
        Offer(
            f"NotificationConsumer{suffix}",
            Operation.PUBLISH,
            draft.namespace,
            draft.notify_action,
        ),
        *(
            Offer(
                f"{port_type}{suffix}",
                operation,
                draft.namespace,
                f"{draft.actions}{operation.value}",
                f"{draft.actions}{operation.value}Response",
                faults=tuple(f"{{{draft.namespace}}}{fault}" for fault in faults),
            )
            for port_type, operation, faults in _OFFERED
        ),
        Offer(
            f"NotificationBroker{suffix}",
            Operation.REGISTER_PUBLISHER,
            draft.brokered,
            draft.broker.register[0],
            f"{draft.broker.register[0]}Response",
            faults=tuple(f"{{{draft.brokered}}}{fault}" for fault in _REGISTERING),
        ),
        *resource_offers(draft.wsrf, suffix),
    )
