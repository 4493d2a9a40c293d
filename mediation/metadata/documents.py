"""Metadata documents: the policy of the event source, and the descriptions of events (WS-Eventing
2011/03, section 8; WS-EventDescriptions 2011/03, section 3)."""

from collections.abc import Iterable
from datetime import timedelta

from lxml import etree

from filters import content_dialects, dialects, topic_dialects
from mediation import names
from mediation.model.expiry import format_duration
from mediation.model.messages import Notification
from mediation.soap.actions import payload_action, payload_name
from mediation.soap.envelopes import xml_attribute

DIALECTS = (
    names.WSDL,
    names.XSD,
    names.POLICY_1_5,
    names.POLICY_2004_09,
    names.EVENT_DESCRIPTIONS,
)
"""Every dialect in which there is metadata."""
CHOSEN = (names.WSDL, names.POLICY_1_5, names.EVENT_DESCRIPTIONS)
"""What is told to who leaves the choice to us: the schemas are in the WSDL."""
MAX_EVENT_TYPES = 256
"""The most event types that are described."""
LOOKED_AT = 1024
"""The notifications that are looked at for event types, the first ones."""


def write_policy(namespace: str, *, longest_lease: timedelta | None) -> bytes:
    """Write the policy of the event source.

    Args:
        namespace: Of the version of WS-Policy.
        longest_lease: The longest lease that the asker may get; None where there is no longest.
    """
    filters = (dialects.XPATH_1_0_EVENT, *content_dialects(), *topic_dialects())
    formats = (names.WSE_2011_03_UNWRAP, names.WSE_2011_03_WRAP)
    parts = [f"<wse:FilterDialect URI={xml_attribute(uri)}/>" for uri in filters]
    parts += [f"<wse:FormatName URI={xml_attribute(uri)}/>" for uri in formats]
    parts.append("<wse:DateTimeSupported/>")
    if longest_lease is not None:
        parts.append(f'<wse:Expires max="{format_duration(longest_lease)}"/>')
    parts.append("<wse:EndToSupported/>")
    return (
        f'<wsp:Policy xmlns:wsp="{namespace}" xmlns:wse="{names.WSE_2011_03}">'
        f"<wse:EventSource>{''.join(parts)}</wse:EventSource></wsp:Policy>"
    ).encode()


def write_event_descriptions(notifications: Iterable[Notification]) -> bytes | None:
    """Describe the types of *notifications*: the name of the root element, and the action. None
    where there is none: the schema wants one at least."""
    types: dict[tuple[str, str, str], None] = {}
    for notification, _ in zip(notifications, range(LOOKED_AT), strict=False):
        try:
            namespace, local = payload_name(notification.payload)
            action = notification.action or payload_action(notification.payload)
        except (ValueError, etree.XMLSyntaxError):
            continue  # Of a messaging system that holds other things, too.
        types[namespace, local, action] = None
        if len(types) == MAX_EVENT_TYPES:
            break
    if not types:
        return None
    described = []
    for number, (namespace, local, action) in enumerate(types, 1):
        bound = f" xmlns:e={xml_attribute(namespace)}" if namespace else ""
        name = f"e:{local}" if namespace else local
        described.append(
            f'<evd:eventType{bound} id="event{number}" element="{name}"'
            f" actionURI={xml_attribute(action)}/>"
        )
    return (
        f'<evd:EventDescriptions xmlns:evd="{names.EVENT_DESCRIPTIONS}" '
        f'targetNamespace="{names.DRAGOMAN_EVENTS}"><evd:types/>{"".join(described)}'
        "</evd:EventDescriptions>"
    ).encode()
