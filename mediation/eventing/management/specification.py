"""WS-Management (DSP0226 1.2) as a specification: what of it is not WS-Eventing."""

from mediation.eventing.management.identify import IdentifyRequests
from mediation.eventing.management.publications import DeliveryRequests
from mediation.eventing.management.pulling import CONTEXT, PULL_FAULTS, PullRequests
from mediation.eventing.management.source_subscriptions import SourceRequests
from mediation.model.specification import CombinedRequests, Specification
from mediation.model.versions import Family, Version

SPECIFICATION = Specification(
    Version.MANAGEMENT,
    Family.MANAGEMENT,
    "WS-Management (deliveries, Pull, Release, Identify)",
    requests=CombinedRequests(
        DeliveryRequests(), PullRequests(), SourceRequests(), IdentifyRequests()
    ),
    faults=PULL_FAULTS,
    identifiers=frozenset({CONTEXT}),
)
