"""One version of a specification, whole."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from mediation.model.messages import Subscription
from mediation.model.requests import Operation
from mediation.model.specification.bodies import Bodies
from mediation.model.specification.client import Client, Leasing
from mediation.model.specification.faults import Faults
from mediation.model.specification.leases import USUAL_LEASES, LeaseRules
from mediation.model.specification.notifications import Ending, Notifications
from mediation.model.specification.properties import ResourceProperties
from mediation.model.specification.requests import Requests
from mediation.model.specification.services import Service
from mediation.model.versions import Family, Version


@dataclass(frozen=True, slots=True, eq=False)
class Specification:
    """A specification in one version: all that the version decides.

    Attributes:
        family: For metrics.
        managed: Faults of requests with header blocks of WS-Management, where they are others.
        title: What people call it, in a refusal that lists what is offered.
        events: Actions of bare events that are publications in this specification, and answered.
        termination: The namespace of the WS-ResourceLifetime whose TerminationNotification a
            consumer can subscribe for; empty without one.
        identifiers: Expanded names of elements in a request that name the subscription.
        notifications, bodies, ending, client, leasing, properties: None where the specification has
            none.
        handshake: Whether consumers are asked if they agree, before anything is sent to them.
        repeats: Whether a Subscribe that is the same as that of a subscription renews it, instead
            of making another; None: never.
        calls: The operations of elements in whatever namespace, by local name, where a message has
            no action: the methods of an RPC in SOAP 1.1.
        sequences: Whether a subscriber can ask for its notifications in a sequence.
        identity: What is the same in a subscription and in what renews it, whoever sends that:
            there is one subscription with it, in all gateways; None: any number.
    """

    version: Version
    family: Family
    title: str
    requests: Requests
    faults: Faults = field(default_factory=dict)
    managed: Faults = field(default_factory=dict)
    notifications: Notifications | None = None
    bodies: Bodies | None = None
    handshake: bool = False
    ending: Ending | None = None
    termination: str = ""
    client: Client | None = None
    properties: ResourceProperties | None = None
    leases: LeaseRules = USUAL_LEASES
    services: tuple[Service, ...] = ()
    events: frozenset[str] = frozenset()
    identifiers: frozenset[str] = frozenset()
    repeats: Callable[[Subscription], bool] | None = None
    calls: Mapping[str, Operation] = field(default_factory=dict)
    identity: Callable[[Subscription], str] | None = None
    sequences: bool = False
    leasing: Leasing | None = None
