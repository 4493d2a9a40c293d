"""Documents' metadata of IHE: what a payload names, and minimal notifications, made of full ones
(IHE ITI TF-2, 3.53.4.1.2).

lcm:SubmitObjectsRequest                  lcm:SubmitObjectsRequest
rim:RegistryObjectList                    rim:RegistryObjectList
rim:ExtrinsicObject id, home   ---->      rim:ObjectRef id, home
all that is known of it
"""

from dataclasses import dataclass, replace

from lxml import etree

from filters import Filter, Refused, asks_for_minimal, parse_document
from filters.topics import MINIMAL_FORMS
from mediation import names
from mediation.model.messages import Notification
from mediation.soap.envelopes import xml_attribute

_DOCUMENT = f"{{{names.RIM}}}ExtrinsicObject"
_REFERENCE = f"{{{names.RIM}}}ObjectRef"
_PACKAGE = f"{{{names.RIM}}}RegistryPackage"
_CLASSIFICATION = f"{{{names.RIM}}}Classification"
_IDENTIFIER = f"{{{names.RIM}}}ExternalIdentifier"
STABLE, ON_DEMAND = (
    "urn:uuid:7edca82f-054d-47f2-a032-9b2a5b5186c1",
    "urn:uuid:34268e47-fdf5-41a6-ba33-82133c465248",
)
"""Types of documents' entries (IHE ITI TF-3, 4.2.5.2)."""
REFERENCE = "urn:ihe:iti:2017:ObjectRef"
"""A reference, of which the type is not known (IHE ITI TF-2, 3.53.5.1.1)."""
_UNIQUE_IDS = (
    "urn:uuid:2e82c1f6-a085-4c72-9da3-8640a32e42ab",
    "urn:uuid:96fdda7c-d067-4183-912e-bf5ee74998a8",
)
"""XDSDocumentEntry.uniqueId and XDSSubmissionSet.uniqueId, as schemes of identifiers."""
_PATIENT_IDS = (
    "urn:uuid:58a6f841-87b3-4a3e-92fd-a8ffeff98427",
    "urn:uuid:6b5aea1a-874d-4603-a4bc-96a0a7b38446",
)
"""XDSDocumentEntry.patientId and XDSSubmissionSet.patientId."""
_BEGINNING = 4096
"""Bytes of a payload in which its namespace stands."""
_MOST = 100
"""Documents and sets, and patients, of one event that are named."""
_LONGEST = 256
"""Characters of such a name: no identifier of XDS is longer."""
_SHOWN = ("id", "home")
"""The attributes of a reference: the document's entry, and the community that has it."""


@dataclass(frozen=True, slots=True)
class RegistryObject:
    """What a payload names: a document, a submission set, or a reference to one.

    Attributes:
        id: Its entryUUID.
        type: `STABLE`, `ON_DEMAND`, `names.SUBMISSION_SET` or `REFERENCE`.
        unique_id: Empty where it is not said.
        home: The community that has it (``homeCommunityId``); empty where it is not said.
    """

    id: str
    type: str
    unique_id: str = ""
    home: str = ""


def is_of_documents(payload: bytes) -> bool:
    """Return whether *payload* seems to be documents' metadata, by its beginning."""
    return names.RIM.encode() in payload[:_BEGINNING]


def named_in(payload: bytes) -> tuple[list[RegistryObject], list[str]]:
    """The documents and submission sets in *payload*, and the ids of their patients. None where it
    cannot be read."""
    found: dict[RegistryObject, None] = {}
    patients: dict[str, None] = {}
    try:
        root = parse_document(payload)
    except Refused:
        return [], []
    sets = {
        str(one.get("classifiedObject"))
        for one in root.iter(_CLASSIFICATION)
        if one.get("classificationNode") == names.SUBMISSION_SET
    }
    for element in root.iter(_DOCUMENT, _REFERENCE, _PACKAGE):
        id_ = str(element.get("id", ""))
        if element.tag == _PACKAGE and id_ not in sets:
            continue
        known = {
            str(one.get("identificationScheme")): str(one.get("value", ""))
            for one in element.iterchildren(_IDENTIFIER)  # Documents may be nested, by strangers.
        }
        unique_id, patient = (
            next((known[scheme] for scheme in schemes if known.get(scheme)), "")[:_LONGEST]
            for schemes in (_UNIQUE_IDS, _PATIENT_IDS)
        )
        home = str(element.get("home", ""))[:_LONGEST]
        if id_ := id_[:_LONGEST] or unique_id:
            found[RegistryObject(id_, _type_of(element), unique_id, home)] = None
        if patient:
            patients[patient] = None
    return list(found)[:_MOST], list(patients)[:_MOST]


def _type_of(element: etree._Element) -> str:
    if element.tag == _PACKAGE:
        return names.SUBMISSION_SET
    if element.tag == _REFERENCE:
        return REFERENCE
    return ON_DEMAND if element.get("objectType") == ON_DEMAND else STABLE


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
