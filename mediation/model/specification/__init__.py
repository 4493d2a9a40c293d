"""One version of a specification as one value, `Specification`, and the types of its parts.

    requests        the elements and actions that are its own, how they are read and answered
    notifications   how a notification is wrapped for its subscribers
    bodies          how it is written for subscribers that speak no SOAP
    ending          how a subscriber is told that its subscription ended early
    client          how the gateway's own clients speak it
    properties      what of a subscription, and of the gateway, can be read as WS-Resource
    faults          what it calls what is wrong
    leases          what a source may grant
    services        what its WSDL describes

A new version is a module that makes a `Specification`, a member of `Version`, and a row of
`mediation.specifications.SPECIFICATIONS`.
"""

from mediation.model.specification.bodies import (
    NO_HOLES,
    Bodies,
    Body,
    BodyRendering,
    BodyShape,
    Filling,
    Holes,
)
from mediation.model.specification.client import (
    Client,
    LeaseOptions,
    Leasing,
    RequestParts,
    SubscribeOptions,
    UnwrappedEvent,
    refuse_actions,
    refuse_operation,
)
from mediation.model.specification.faults import (
    MAX_NAMES,
    Code,
    Detail,
    Fault,
    Faults,
)
from mediation.model.specification.leases import (
    LeaseRules,
)
from mediation.model.specification.notifications import (
    Ending,
    EnvelopeParts,
    Notifications,
    Wrapping,
)
from mediation.model.specification.properties import (
    PropertyDocument,
    ResourceProperties,
)
from mediation.model.specification.requests import (
    NO_REQUESTS,
    NOTHING,
    Answer,
    CombinedRequests,
    Requests,
)
from mediation.model.specification.services import (
    Offer,
    Service,
)
from mediation.model.specification.whole import (
    Specification,
)

__all__ = [
    "MAX_NAMES",
    "NOTHING",
    "NO_HOLES",
    "NO_REQUESTS",
    "Answer",
    "Bodies",
    "Body",
    "BodyRendering",
    "BodyShape",
    "Client",
    "Code",
    "CombinedRequests",
    "Detail",
    "Ending",
    "EnvelopeParts",
    "Fault",
    "Faults",
    "Filling",
    "Holes",
    "LeaseOptions",
    "LeaseRules",
    "Leasing",
    "Notifications",
    "Offer",
    "PropertyDocument",
    "RequestParts",
    "Requests",
    "ResourceProperties",
    "Service",
    "Specification",
    "SubscribeOptions",
    "UnwrappedEvent",
    "Wrapping",
    "refuse_actions",
    "refuse_operation",
]
