"""What is asked for in a new source, by an operator, by settings, by a registration."""

import re
from dataclasses import dataclass

from filters import Reason, Refused
from gateway.egress import AddressPolicy, parse_target
from gateway.egress.credential_kinds import keeps_secrets
from gateway.model.sources import BEARER, Credential, Login, Source
from gateway.security.keys import new_key, public_id
from gateway.security.principals import Principal
from gateway.sources.negotiation import INSTALL, is_installed
from gateway.sources.requester import checked
from gateway.sources.requests import MODES, spoken
from gateway.sources.topics import filter_of, topic_named
from mediation.client import LEASED, SPECS
from mediation.model.delivery_modes import Mode
from mediation.model.messages import EndpointReference
from mediation.model.versions import Spec, Version
from mediation.names import ONVIF_TOPICS
from mediation.profiles import PRODUCERS, Producer

LONGEST_LEASE = 30 * 86400.0
SHORTEST_LEASE = 1.0
_TOKEN = re.compile(r"[!-~]{1,8192}")
LEAST_SILENCE = 10.0
"""Seconds, in the half of which a service of WS-Management is to send a heartbeat."""


@dataclass(frozen=True, slots=True)
class NewSource:
    """What is asked for in a new source: see `Source`."""

    url: str
    version: Version = Version.WSN_1_3
    topic: str | None = None
    xpath: str | None = None
    namespaces: tuple[tuple[str, str], ...] = ()
    lease: float | None = None
    """Seconds; None: as long as producers of the profile grant."""
    publish_on: str | None = None
    silence: float = 300.0
    profile: str = "standard"
    spec: Spec | None = None
    """What to speak, where that is known better than by the version and the profile."""
    reference: EndpointReference | None = None
    actions: tuple[str, ...] = ()
    resource: str | None = None
    mode: Mode = Mode.PUSH
    channel: str | None = None
    example: tuple[tuple[str, str], ...] = ()
    made_by: str = ""
    existing: bool = False
    login: Login | None = None
    """What the producer is shown, whose secret is kept in the store, encrypted."""
    credential: Credential | None = None
    """The same of the settings, which have the secret. The password of *login* is kept beside it,
    so that the subscription can be ended when they have it no more."""


def source_of(
    wanted: NewSource,
    principal: Principal,
    registration: str | None,
    *,
    policy: AddressPolicy,
    base: str,
    now: float,
) -> Source:
    """Make the source that is asked for, which *base*, the gateway's URL, can subscribe; without
    the credential of a login, whose secret is to be encrypted.

    Raises:
        Refused: The address may not be sent to, or the Subscribe cannot be written.
    """
    if wanted.version not in SPECS and wanted.version not in LEASED:
        raise Refused(Reason.MESSAGE_INVALID, "The specification has no subscribers.")
    profile = PRODUCERS.get(wanted.profile)
    if profile is None:
        offered = ", ".join(PRODUCERS)
        raise Refused(Reason.MESSAGE_INVALID, f"There is no such profile; there are {offered}.")
    lease = profile.lease if wanted.lease is None else wanted.lease
    if not SHORTEST_LEASE <= lease <= LONGEST_LEASE:
        raise Refused(Reason.EXPIRY_INVALID, "A lease is from 1 second to 30 days.")
    _check_management(wanted, profile)
    checked(wanted.url, policy, trusted=True)
    _check_login(wanted)
    if wanted.publish_on is not None:
        topic_named(wanted.publish_on, wanted.namespaces)
    source = Source(
        public_id(new_key()),
        principal.owner,
        wanted.url,
        wanted.spec or spoken(wanted.version, profile),
        wanted.topic,
        wanted.xpath,
        _with_known_prefixes(wanted, profile),
        lease,
        wanted.publish_on,
        wanted.silence if profile.checks or profile.management or profile.device else 0.0,
        wanted.profile,
        registration,
        now,
        wanted.reference,
        wanted.actions,
        wanted.resource,
        wanted.mode,
        wanted.channel,
        wanted.example,
        wanted.made_by,
        wanted.existing,
        wanted.credential,
    )
    filter_of(source, base)
    return source


def _check_management(wanted: NewSource, profile: Producer) -> None:
    """Check what is said of a service of WS-Management, and only of one."""
    if profile.device:
        _check_device(wanted, profile)
        return
    if not profile.management:
        if wanted.resource is not None or wanted.mode is not Mode.PUSH or wanted.existing:
            text = "A resource, a delivery mode and existing events go with the profile wsman."
            raise Refused(Reason.MESSAGE_INVALID, text)
        return
    if wanted.version is not profile.version or not wanted.resource:
        text = "The profile wsman goes with wse-2004-08, and with a resource."
        raise Refused(Reason.MESSAGE_INVALID, text)
    if wanted.mode is not Mode.PULL and 0 < wanted.silence < LEAST_SILENCE:
        text = f"With the profile wsman, silence is {LEAST_SILENCE:.0f} seconds or more, or 0."
        raise Refused(Reason.MESSAGE_INVALID, text)
    if wanted.mode not in MODES:
        offered = ", ".join(mode.value for mode in MODES)
        raise Refused(Reason.MESSAGE_INVALID, f"The delivery modes of sources are {offered}.")


def _check_device(wanted: NewSource, profile: Producer) -> None:
    """Check what is said of a device of ONVIF."""
    if wanted.version is not profile.version:
        raise Refused(Reason.MESSAGE_INVALID, "The profile onvif goes with wsn-1.3.")
    if wanted.resource is not None or wanted.existing:
        text = "A resource and existing events go with the profile wsman."
        raise Refused(Reason.MESSAGE_INVALID, text)
    if wanted.mode not in (Mode.PUSH, Mode.PULL):
        text = "The delivery modes of the profile onvif are push and pull."
        raise Refused(Reason.MESSAGE_INVALID, text)


def _check_login(wanted: NewSource) -> None:
    login = wanted.login or wanted.credential
    if login is None:
        return
    if login.negotiate and PRODUCERS[wanted.profile].username_token:
        text = "Negotiate goes with services of WS-Management and others over HTTP: not with ONVIF."
        raise Refused(Reason.MESSAGE_INVALID, text)
    if login.negotiate and not is_installed():
        raise Refused(Reason.MESSAGE_INVALID, f"Negotiate needs pyspnego: {INSTALL}.")
    if not isinstance(login, Login):
        return  # The settings have checked the rest.
    if login.kind == BEARER:
        _check_token(login, wanted.url)
    elif not login.user or any(ord(character) < 32 for character in login.user + login.password):
        text = "A user has a name, and neither that nor a password has control characters."
        raise Refused(Reason.MESSAGE_INVALID, text)


def _check_token(login: Login, url: str) -> None:
    if not _TOKEN.fullmatch(login.password):
        text = "A bearer token has 1 to 8192 printable characters of ASCII, and no spaces."
        raise Refused(Reason.MESSAGE_INVALID, text)
    if not login.basic and not keeps_secrets(parse_target(url)):
        text = "Over http everybody on the way can read a token: use https, or allow_http."
        raise Refused(Reason.MESSAGE_INVALID, text)


def _with_known_prefixes(wanted: NewSource, profile: Producer) -> tuple[tuple[str, str], ...]:
    """The prefixes of the filter, with the one by which everybody writes ONVIF's topics."""
    if not profile.device or "tns1:" not in (wanted.topic or ""):
        return tuple(wanted.namespaces)
    return tuple(sorted({"tns1": ONVIF_TOPICS, **dict(wanted.namespaces)}.items()))
