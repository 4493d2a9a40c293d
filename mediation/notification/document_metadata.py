"""Minimal notifications of documents' metadata, made of full ones (IHE ITI TF-2, 3.53.4.1.2).

lcm:SubmitObjectsRequest                  lcm:SubmitObjectsRequest
rim:RegistryObjectList                    rim:RegistryObjectList
rim:ExtrinsicObject id, home   ---->      rim:ObjectRef id, home
all that is known of it
"""

from dataclasses import replace

from lxml import etree

from filters import Filter, Refused, asks_for_minimal, parse_document
from filters.topics import MINIMAL_FORMS
from mediation import names
from mediation.model.messages import Notification
from mediation.soap.envelopes import xml_attribute

_DOCUMENT = f"{{{names.RIM}}}ExtrinsicObject"
_SHOWN = ("id", "home")
"""The attributes of a reference: the document's entry, and the community that has it."""


def wants_minimal(filter: Filter) -> bool:
    """Return whether who subscribes with *filter* gets the minimal form of what is published in
    full."""
    return any(map(asks_for_minimal, filter.topics))


def minimal_form(notification: Notification) -> Notification:
    """The minimal form of *notification*: references to its documents, on the topic of minimal
    notifications, without what is attached. What is on no topic of full forms, or names no
    document, is returned as it is."""
    topic = MINIMAL_FORMS.get(notification.topic) if notification.topic is not None else None
    references = _references(notification.payload) if topic is not None else ""
    if not references:
        return notification
    payload = (
        f'<lcm:SubmitObjectsRequest xmlns:lcm="{names.LCM}"><rim:RegistryObjectList '
        f'xmlns:rim="{names.RIM}">{references}</rim:RegistryObjectList></lcm:SubmitObjectsRequest>'
    )
    return replace(
        notification, payload=payload.encode(), topic=topic, attachments=(), topic_header=None
    )


def _references(payload: bytes) -> str:
    try:
        root = parse_document(payload)
    except Refused:  # Of a messaging system that takes more than we do.
        return ""
    return "".join(map(_reference, root.iter(_DOCUMENT)))


def _reference(document: etree._Element) -> str:
    shown = ((name, document.get(name)) for name in _SHOWN)
    attributes = (f" {name}={xml_attribute(str(value))}" for name, value in shown if value)
    return f"<rim:ObjectRef{''.join(attributes)}/>"
