"""Profiles: peculiarities of producers, as rows of data."""

from collections.abc import Mapping
from dataclasses import dataclass

from mediation.model.versions import Soap, Version, Wsa


@dataclass(frozen=True, slots=True)
class Profile:
    """What a kind of producer is asked, and how.

    Attributes:
        text: What `dragoman sources add --help` says of it.
        soap: The version of SOAP; None: what the specification's clients speak.
        addressing: Whether requests have headers of WS-Addressing.
        wsa: Their version; None: what the specification's clients speak.
        pauses: Whether its subscriptions can be paused.
        checks: Whether its subscriptions can be asked how they are, otherwise than by Renew.
        version: The only one that it goes with; None: any.
        management: Whether it is a service of WS-Management, with resources, delivery modes,
            heartbeats and bookmarks.
    """

    text: str
    soap: Soap | None = None
    addressing: bool = True
    pauses: bool = True
    checks: bool = True
    wsa: Wsa | None = None
    version: Version | None = None
    management: bool = False


PROFILES: Mapping[str, Profile] = {
    "standard": Profile("as its specification says"),
    "soap-1.1": Profile("as its specification says, in SOAP 1.1", soap=Soap.V1_1),
    "cxf": Profile(
        "Apache CXF, Red Hat A-MQ, without addressing headers, pausing and asking",
        soap=Soap.V1_1,
        addressing=False,
        pauses=False,
        checks=False,
    ),
    "dpws": Profile(
        "devices of DPWS 1.1 and SDC, with WS-Addressing 1.0, for wse-2004-08",
        soap=Soap.V1_2,
        pauses=False,
        wsa=Wsa.V2005_08,
    ),
    "dpws-1.0": Profile(
        "devices of DPWS 1.0 (WSD), for wse-2004-08",
        soap=Soap.V1_2,
        pauses=False,
        wsa=Wsa.V2004_08,
    ),
    "wsman": Profile(
        "services of WS-Management, for wse-2004-08",
        soap=Soap.V1_2,
        pauses=False,
        checks=False,  # GetStatus is discouraged; heartbeats say more.
        wsa=Wsa.V2004_08,
        version=Version.WSE_2004_08,
        management=True,
    ),
}
"""The profiles by name."""
