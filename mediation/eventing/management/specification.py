"""WS-Management (DSP0226 1.2) as a specification: what of it is not WS-Eventing."""

from mediation.eventing.management.identify import IdentifyRequests
from mediation.model.specification import Specification
from mediation.model.versions import Family, Version

SPECIFICATION = Specification(
    Version.MANAGEMENT,
    Family.MANAGEMENT,
    "WS-Management's Identify",
    requests=IdentifyRequests(),
)
