"""The requests that producers of sources are sent, written: no clock, no socket."""

import math
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta

from filters import Reason, Refused
from gateway.model.channels import channel_address
from gateway.model.moments import moment_of
from gateway.model.sources import Source
from gateway.security.keys import message_urn
from gateway.security.resource_addresses import ResourceKind
from mediation.client import LEASED, SPECS, expiry_text, leasing_in, write_pull, write_subscribe
from mediation.grid_events import channel_reference
from mediation.model.delivery_modes import Mode, SourceOptions
from mediation.model.messages import EndpointReference
from mediation.model.specification import LeaseOptions
from mediation.model.versions import Spec, Version, Wsa
from mediation.names import WSMAN_EVENTS, WSMAN_PULL, WSMAN_PUSH_WITH_ACK
from mediation.profiles import Producer

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
    source: Source, base: str, key: str, at: float, bookmark: bytes | None = None
) -> Written:
    """The Subscribe of *source* at the time *at*, from *bookmark* on: its action and its envelope.

    Raises:
        Refused: It cannot be written.
    """
    if leasing_in(source.spec) is not None:
        return lease_request(source, f"{base}/soap", source.lease)
    if source.example:
        text = "An example is a filter of Grid SOAP Events alone; others take a topic or XPath."
        raise Refused(Reason.FILTER_DIALECT, text)
    fetched = source.mode is Mode.PULL
    address = ResourceKind.SOURCE.address(base, key)
    consumer = EndpointReference(address, source.spec.wsa or Wsa.V2005_08)
    return write_subscribe(
        spec_to(source, source.reference),
        to=source.reference or source.url,
        consumer=consumer,
        end_to=None if fetched else consumer,
        message_id=message_urn(),
        topic=source.topic,
        xpath=source.xpath,
        namespaces=dict(source.namespaces),
        expires=lease_text(source, at),
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


def pull_request(source: Source, manager: EndpointReference | None, context: bytes) -> Written:
    """The Pull of the events of a subscription of *source*. It goes to the source, with what the
    manager's reference has: some know their subscriptions by the one, some by the other.

    Raises:
        ValueError: It is no service of WS-Management.
    """
    to = manager or EndpointReference(source.url, source.spec.wsa or Wsa.V2004_08)
    to = replace(to, address=source.url)
    options = options_of(source)
    if options is None:
        raise ValueError("only services of WS-Management are pulled from")
    wait = timedelta(seconds=PULL_WAIT)
    return write_pull(
        spec_to(source, to),
        to,
        context,
        message_id=message_urn(),
        source=replace(options, timeout=wait + timedelta(seconds=PULL_GRACE)),
        wait=wait,
        most=PULL_MOST,
    )
