"""The requests that producers of sources are sent, written: no clock, no socket."""

import math
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from urllib.parse import urlsplit

from filters import Reason, Refused, dialects
from gateway.model.channels import channel_address
from gateway.model.moments import moment_of
from gateway.model.sources import Source
from gateway.security.keys import message_urn
from gateway.security.resource_addresses import ResourceKind
from mediation.client import (
    LEASED,
    SPECS,
    expiry_text,
    leasing_in,
    manager_at,
    write_create_pull_point,
    write_pull,
    write_pull_messages,
    write_subscribe,
)
from mediation.grid_events import channel_reference
from mediation.model.delivery_modes import Mode, SourceOptions
from mediation.model.messages import EndpointReference
from mediation.model.specification import LeaseOptions
from mediation.model.versions import Spec, Version, Wsa
from mediation.names import WSMAN_EVENTS, WSMAN_PULL, WSMAN_PUSH_WITH_ACK
from mediation.profiles import PRODUCERS, Producer

TIMEOUT = 20.0
"""Seconds that a service of WS-Management may work on a request."""
PULL_WAIT, PULL_GRACE = 15.0, 5.0
"""Seconds that a source may wait for an event that is pulled, and may take for its answer
besides."""
PULL_MOST = 64
"""Events that are pulled at once."""
MODES: Mapping[Mode, str | None] = {
    Mode.PUSH: None,
    Mode.PUSH_WITH_ACK: WSMAN_PUSH_WITH_ACK,
    Mode.EVENTS: WSMAN_EVENTS,
    Mode.PULL: WSMAN_PULL,
}
"""The URIs of the delivery modes that are asked for; None is the usual one."""
Written = tuple[str, bytes]
"""The action of a request, and its envelope."""


def spoken(version: Version, profile: Producer) -> Spec:
    """The versions in which a producer of *profile* is spoken to."""
    if version in LEASED:
        return LEASED[version]
    spec = SPECS[version]
    if profile.soap is not None:
        spec = replace(spec, form=profile.soap)
    if profile.wsa is not None:
        spec = replace(spec, wsa=profile.wsa)
    return spec if profile.addressing else replace(spec, wsa=None)


def subscribe_request(
    source: Source,
    base: str,
    key: str,
    at: float,
    bookmark: bytes | None = None,
    *,
    service: str | None = None,
) -> Written:
    """The Subscribe of *source* at the time *at*, from *bookmark* on: its action and its envelope.
    *service* is the address of the event service, where that is not the source's.

    Raises:
        Refused: It cannot be written.
    """
    if leasing_in(source.spec) is not None:
        return lease_request(source, f"{base}/soap", source.lease)
    if source.example:
        text = "An example is a filter of Grid SOAP Events alone; others take a topic or XPath."
        raise Refused(Reason.FILTER_DIALECT, text)
    fetched, device = source.mode is Mode.PULL, PRODUCERS[source.profile].device
    if fetched and device:
        return write_create_pull_point(
            source.spec,
            service or source.url,
            message_id=message_urn(),
            topic=source.topic,
            xpath=source.xpath,
            namespaces=dict(source.namespaces),
            expires=lease_text(source, at),
        )
    address = ResourceKind.SOURCE.address(base, key)
    consumer = EndpointReference(address, source.spec.wsa or Wsa.V2005_08)
    return write_subscribe(
        spec_to(source, source.reference),
        to=source.reference or service or source.url,
        consumer=consumer,
        end_to=None if fetched else consumer,
        message_id=message_urn(),
        topic=source.topic,
        xpath=source.xpath,
        namespaces=dict(source.namespaces),
        expires=lease_text(source, at),
        topic_dialect=dialects.TOPIC_CONCRETE_SET if device else None,
        actions=source.actions,
        mode=MODES[source.mode],
        source=options_of(source, bookmark),
    )


def lease_request(source: Source, endpoint: str, seconds: float) -> Written:
    """The call by which the channel of *source*, below *endpoint*, subscribes for *seconds*.

    Raises:
        Refused: It cannot be written.
    """
    if source.topic or source.xpath or source.actions:
        text = "Grid SOAP Events has filters by example alone: no topics, XPath and actions."
        raise Refused(Reason.FILTER_DIALECT, text)
    leasing = leasing_in(source.spec)
    if leasing is None:
        raise ValueError(f"nobody calls {source.spec.version.value} so")
    location = channel_address(endpoint, source.channel or "")
    wanted = LeaseOptions(
        producer_of(source), channel_reference(location), seconds, dict(source.example)
    )
    return leasing.subscribe(wanted)


def producer_of(source: Source) -> EndpointReference:
    """The producer of *source*."""
    return source.reference or channel_reference(source.url)


def spec_to(source: Source, to: EndpointReference | None) -> Spec:
    """The versions to speak to *to*. Reference parameters are headers of WS-Addressing, also for
    who sends none itself."""
    spec = source.spec
    if spec.wsa is None and to is not None and (to.parameters or to.properties):
        return replace(spec, wsa=to.wsa)
    return spec


def options_of(source: Source, bookmark: bytes | None = None) -> SourceOptions | None:
    """What a service of WS-Management is told; None for other producers."""
    if source.resource is None:
        return None
    beats = source.silence and source.mode is not Mode.PULL
    return SourceOptions(
        source.resource,
        timedelta(seconds=TIMEOUT),
        timedelta(seconds=math.ceil(source.silence / 2)) if beats else None,
        bookmarks=True,
        bookmark=bookmark,
    )


def lease_text(source: Source, at: float) -> str:
    length = timedelta(seconds=math.ceil(source.lease))
    return expiry_text(source.spec, length, moment_of(at))


def asked_at(source: Source, manager: EndpointReference) -> tuple[EndpointReference, str]:
    """Who requests to *manager* are written to, and the URL that they are sent to: see
    `manager_at`. A device is asked at the host where it was found, for others lead nowhere from
    here, as behind NAT."""
    manager, url = manager_at(manager, source.url)
    own, theirs = urlsplit(source.url), urlsplit(url)
    if PRODUCERS[source.profile].device and own.hostname != theirs.hostname:
        url = theirs._replace(scheme=own.scheme, netloc=own.netloc).geturl()
    return manager, url


def pull_request(
    source: Source, manager: EndpointReference | None, context: bytes
) -> tuple[Written, str]:
    """The request for the events of a subscription of *source*, and the URL that it is sent to.

    Raises:
        ValueError: Nothing is pulled there.
    """
    wait = timedelta(seconds=PULL_WAIT)
    if manager is not None and PRODUCERS[source.profile].device:
        manager, url = asked_at(source, manager)
        written = write_pull_messages(
            source.spec, manager, message_id=message_urn(), wait=wait, most=PULL_MOST
        )
        return written, url
    # To the source, with what the manager's reference has: some services of WS-Management know
    # their subscriptions by the one, some by the other.
    to = manager or EndpointReference(source.url, source.spec.wsa or Wsa.V2004_08)
    to = replace(to, address=source.url)
    options = options_of(source)
    if options is None:
        raise ValueError("only pull points and services of WS-Management are pulled from")
    written = write_pull(
        spec_to(source, to),
        to,
        context,
        message_id=message_urn(),
        source=replace(options, timeout=wait + timedelta(seconds=PULL_GRACE)),
        wait=wait,
        most=PULL_MOST,
    )
    return written, source.url
