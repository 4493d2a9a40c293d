"""WS-BaseNotification 1.3 as a `Specification`."""

from mediation import names
from mediation.model.specification import CombinedRequests, LeaseRules, Specification
from mediation.model.versions import Family, Version
from mediation.notification import onvif
from mediation.notification.brokered import BROKERED_1_3, BrokeredRequests
from mediation.notification.properties import Properties13
from mediation.notification.v1_3.client import Client13
from mediation.notification.v1_3.faults import FAULTS
from mediation.notification.v1_3.notifications import Notifications13
from mediation.notification.v1_3.requests import BaseRequests
from mediation.notification.v1_3.services import BROKER_OPERATIONS, SERVICES
from mediation.resources.wsrf import WSRF_1_2, ResourceRequests

SPECIFICATION = Specification(
    Version.WSN_1_3,
    Family.WSN,
    "WS-BaseNotification 1.3 and ONVIF's event service",
    requests=CombinedRequests(
        BaseRequests(),
        BrokeredRequests(BROKERED_1_3, also=BROKER_OPERATIONS),
        ResourceRequests(WSRF_1_2),
        onvif.EventRequests(),
    ),
    faults=FAULTS,
    notifications=Notifications13(),
    client=Client13(),
    sequences=True,
    termination=names.WSRF_RL,
    properties=Properties13(),
    leases=LeaseRules(grace=True),
    services=SERVICES,
)
