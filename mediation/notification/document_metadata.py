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
_REFERENCE = f"{{{names.RIM}}}ObjectRef"
_IDENTIFIER = f"{{{names.RIM}}}ExternalIdentifier"
_UNIQUE_ID = "urn:uuid:2e82c1f6-a085-4c72-9da3-8640a32e42ab"
"""XDSDocumentEntry.uniqueId, as a scheme of identifiers (IHE ITI TF-3, 4.2.5.2)."""
_PATIENT_ID = "urn:uuid:58a6f841-87b3-4a3e-92fd-a8ffeff98427"
"""XDSDocumentEntry.patientId."""
_BEGINNING = 4096
"""Bytes of a payload in which its namespace stands."""
_MOST = 100
"""Documents, and patients, of one event that are named."""
_LONGEST = 256
"""Characters of such a name: no identifier of XDS is longer."""
_SHOWN = ("id", "home")
"""The attributes of a reference: the document's entry, and the community that has it."""


def is_of_documents(payload: bytes) -> bool:
    """Return whether *payload* seems to be documents' metadata, by its beginning."""
    return names.RIM.encode() in payload[:_BEGINNING]


def named_in(payload: bytes) -> tuple[list[str], list[str]]:
    """The unique ids of the documents in *payload*, of one without that the id of its entry; and
    the ids of their patients. None where it cannot be read."""
    documents: dict[str, None] = {}
    patients: dict[str, None] = {}
    try:
        root = parse_document(payload)
    except Refused:
        return [], []
    for document in root.iter(_DOCUMENT, _REFERENCE):
        known = {
            str(one.get("identificationScheme")): str(one.get("value", ""))
            for one in document.iterchildren(_IDENTIFIER)  # Documents may be nested, by strangers.
        }
        documents[(known.get(_UNIQUE_ID) or str(document.get("id", "")))[:_LONGEST]] = None
        patients[known.get(_PATIENT_ID, "")[:_LONGEST]] = None
    return [one for one in documents if one][:_MOST], [one for one in patients if one][:_MOST]


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
