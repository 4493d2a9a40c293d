"""Records of the audit log as messages of DICOM PS3.15, A.5; those of transactions of IHE as the
tables of ITI TF-2, 3.52.6.1.2, 3.53.5.1.2 and 3.54.5.1.2 (of the broker) have them.

| record | EventID | EventTypeCode |
|---|---|---|
| Subscribe, Renew, Unsubscribe, ... | 110112 Query | ITI-52 |
| CreatePullPoint, DestroyPullPoint | 110112 Query | ITI-69 |
| documents' metadata that were published | 110107 Import | ITI-54 |
| documents' metadata that were delivered | 110106 Export | ITI-53 |
| logins | 110114 User Authentication | 110122 Login |
| the start, the stop | 110100 Application Activity | 110120 Start, 110121 Stop |
| another refusal of a right | 110113 Security Alert | 110132 Use of Restricted Function |
| other changes: asked for, done or not | 110113 Security Alert | 110129 Security Configuration |
"""

import os
import re
from base64 import b64encode
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

from lxml import etree

from filters import Refused, parse_document
from gateway.security.audit import DELIVERED, PUBLISHED
from mediation.names import RIM, SUBMISSION_SET
from mediation.notification.document_metadata import ON_DEMAND, REFERENCE, STABLE

_NOT_XML = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_REGISTRY_OBJECTS: Mapping[str, str] = {
    STABLE: "document entry object type",
    ON_DEMAND: "on-demand document entry object type",
    SUBMISSION_SET: "submission set classification node",
    REFERENCE: "registry object reference",
}
"""What the id of an object is one of (ITI TF-2, 3.53.5.1, 3.54.5.1)."""
_APPLICATION_SERVER = "4"
"""AuditSourceTypeCode: an application server process (RFC 3881, section 5.4.3)."""


@dataclass(frozen=True, slots=True)
class Code:
    """A coded value."""

    code: str
    system: str
    text: str


@dataclass(frozen=True, slots=True)
class Event:
    """What kind of event a record is.

    Attributes:
        action: Create, Read, Update, Delete or Execute.
        transaction: It is one of IHE, of two ends.
        documents: It is about documents, which the record names.
    """

    id: Code
    type: Code
    action: str
    transaction: bool = False
    documents: bool = False


@dataclass(frozen=True, slots=True)
class Site:
    """Who audits.

    Attributes:
        source: The name of this gateway, by which the repository knows it.
        site: That of the enterprise; empty: not said.
        endpoint: The URL at which the gateway is asked.
    """

    source: str
    site: str
    endpoint: str


def _dcm(code: str, text: str) -> Code:
    return Code(code, "DCM", text)


def _ihe(code: str, text: str) -> Code:
    return Code(code, "IHE Transactions", text)


_QUERY = _dcm("110112", "Query")
_ALERT = _dcm("110113", "Security Alert")
_SUBSCRIBE = Event(_QUERY, _ihe("ITI-52", "Document Metadata Subscribe"), "C", transaction=True)
_PULL_POINT = Event(_QUERY, _ihe("ITI-69", "Create Destroy Pull Point"), "C", transaction=True)
_ACTIONS: Mapping[str, str] = {
    "Subscribe": "C", "CreatePullPoint": "C", "Unsubscribe": "D", "DestroyPullPoint": "D",
    "Renew": "U", "PauseSubscription": "U", "ResumeSubscription": "U", "GetStatus": "R",
    "GetCurrentMessage": "R",
}  # fmt: skip
"""EventActionCode of what is done to subscriptions and pull points."""
_PUBLISHED = Event(
    _dcm("110107", "Import"), _ihe("ITI-54", "Document Metadata Publish"), "C",
    transaction=True, documents=True,
)  # fmt: skip
_NOTIFIED = Event(
    _dcm("110106", "Export"), _ihe("ITI-53", "Document Metadata Notify"), "R",
    transaction=True, documents=True,
)  # fmt: skip
_APPLICATION = _dcm("110100", "Application Activity")
_STARTED = Event(_APPLICATION, _dcm("110120", "Application Start"), "E")
_STOPPED = Event(_APPLICATION, _dcm("110121", "Application Stop"), "E")
_LOGIN = Event(_dcm("110114", "User Authentication"), _dcm("110122", "Login"), "E")
_CHANGED = Event(_ALERT, _dcm("110129", "Security Configuration"), "U")
_RIGHT_REFUSED = re.compile(r"refused(?!: (?!401|403)\d{3}\b)")
"""A result that is no refusal for another reason, such as that there is no such thing."""
_REFUSED = Event(_ALERT, _dcm("110132", "Use of Restricted Function"), "E")


def event_of(record: Mapping[str, Any]) -> Event:
    """The kind of event that a record is."""
    did = str(record.get("did", ""))
    if did in _ACTIONS:
        event = _PULL_POINT if did.endswith("PullPoint") else _SUBSCRIBE
        return replace(event, action=_ACTIONS[did])
    if did == PUBLISHED:
        return _PUBLISHED
    if did == DELIVERED:
        return _NOTIFIED
    if "logged in" in did:
        return _LOGIN
    if did == "started the gateway":
        return _STARTED
    if did == "stopped the gateway":
        return _STOPPED
    return _REFUSED if _RIGHT_REFUSED.match(str(record.get("result", ""))) else _CHANGED


def _outcome_of(record: Mapping[str, Any]) -> str:
    """EventOutcomeIndicator: success, minor failure, or serious failure."""
    result = str(record.get("result", ""))
    if result.startswith("failed"):
        return "8"
    return "4" if result.startswith("refused") else "0"


def write_message(record: Mapping[str, Any], site: Site) -> bytes:
    """The AuditMessage of *record*, in UTF-8, without a declaration."""
    event = event_of(record)
    root = etree.Element("AuditMessage")
    result = str(record.get("result", "done"))
    identification = etree.SubElement(
        root,
        "EventIdentification",
        EventActionCode=event.action,
        EventDateTime=_text(record.get("time")),
        EventOutcomeIndicator=_outcome_of(record),
    )
    _write_code(identification, "EventID", event.id)
    _write_code(identification, "EventTypeCode", event.type)
    if result != "done":
        described = etree.SubElement(identification, "EventOutcomeDescription")
        described.text = _text(result)
    ends = _ends(record, event, site) if event.transaction else _participants(record, event, site)
    for participant in ends:
        root.append(participant)
    source = etree.SubElement(root, "AuditSourceIdentification", AuditSourceID=_text(site.source))
    if site.site:
        source.set("AuditEnterpriseSiteID", _text(site.site))
    etree.SubElement(source, "AuditSourceTypeCode", {"csd-code": _APPLICATION_SERVER})
    if event.documents:
        _write_documents(root, record)
    if record.get("query"):
        _write_query(root, str(record["query"]), event)
    _write_subject(root, record, event)
    written: bytes = etree.tostring(root, encoding="UTF-8", xml_declaration=False)
    return written


def _participants(record: Mapping[str, Any], event: Event, site: Site) -> Iterator[etree._Element]:
    """Who asked, and of the start and the stop the gateway."""
    who, address = _text(record.get("who")) or "unknown", _text(record.get("from"))
    asked = etree.Element("ActiveParticipant", UserID=who, UserIsRequestor="true")
    if address:
        asked.set("NetworkAccessPointID", address)
        asked.set("NetworkAccessPointTypeCode", "2")
    if event in (_STARTED, _STOPPED):
        _write_code(asked, "RoleIDCode", _dcm("110151", "Application Launcher"))
    yield asked
    if event in (_STARTED, _STOPPED):
        here = etree.Element("ActiveParticipant", UserID=site.endpoint, UserIsRequestor="false")
        here.set("NetworkAccessPointID", site.endpoint)
        here.set("NetworkAccessPointTypeCode", "5")
        _write_code(here, "RoleIDCode", _dcm("110150", "Application"))
        yield here


def _ends(record: Mapping[str, Any], event: Event, site: Site) -> Iterator[etree._Element]:
    """The source, which asks, and the destination of a transaction of IHE."""
    here = (site.endpoint, site.endpoint, str(os.getpid()))
    if event is _NOTIFIED:
        to = _text(record.get("to")) or "unknown"
        ends = (here, (to, to, ""))
    else:
        asking = _text(record.get("who")) or "unknown"
        ends = ((asking, _text(record.get("from")), ""), here)
    roles = (_dcm("110153", "Source Role ID"), _dcm("110152", "Destination Role ID"))
    for place, (user, address, process) in enumerate(ends):
        end = etree.Element("ActiveParticipant", UserID=user)
        if process:
            end.set("AlternativeUserID", process)
        end.set("UserIsRequestor", "false" if place else "true")
        host = urlsplit(address).hostname or address if "://" in address else address
        if host:
            end.set("NetworkAccessPointID", host)
            end.set("NetworkAccessPointTypeCode", "2" if _is_ip(host) else "1")
        _write_code(end, "RoleIDCode", roles[place])
        yield end


def _is_ip(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def _write_documents(root: etree._Element, record: Mapping[str, Any]) -> None:
    """The patients, the documents and the submission sets of a record."""
    for patient in record.get("patients") or ():
        _write_patient(root, patient)
    for document in record.get("documents") or ():
        id_, type_ = _text(document.get("id")), document.get("type", "")
        code = Code(type_, "IHE XDS Metadata", _REGISTRY_OBJECTS.get(type_, ""))
        named = _write_object(root, id_, ("2", "3"), code, name=document.get("unique_id"))
        if document.get("home"):
            _write_detail(named, "urn:ihe:iti:xca:2010:homeCommunityId", document["home"])


def _write_patient(root: etree._Element, id_: object) -> None:
    _write_object(root, _text(id_), ("1", "1"), Code("2", "RFC-3881", "Patient Number"))


def _write_query(root: etree._Element, query: str, event: Event) -> None:
    """The filter of a subscription, and the patients that its query asks for."""
    id_, patients = "Filter", []
    with suppress(Refused):  # It may be cut off.
        for asked in parse_document(query.encode()).iter(f"{{{RIM}}}AdhocQuery"):
            id_ = _text(asked.get("id")) or id_
            patients = [
                str(value.text).strip("'")
                for slot in asked.iterchildren(f"{{{RIM}}}Slot")
                if str(slot.get("name")).endswith("PatientId")
                for value in slot.iter(f"{{{RIM}}}Value")
            ]
    for patient in patients:
        _write_patient(root, patient)
    _write_object(root, id_, ("2", "24"), event.type, query=query)


def _write_subject(root: etree._Element, record: Mapping[str, Any], event: Event) -> None:
    """What was asked for or changed, and the place of the record in the log."""
    id_ = _text(record.get("what")) or _text(record.get("did")) or "unknown"
    if event.transaction and not event.documents:
        named = _write_object(root, id_, ("2", "20"), event.type)
    else:
        named = _write_object(root, id_, ("2", "13"), Code("12", "RFC-3881", "URI"))
    for name in ("did", "request", "again", "number", "hash"):
        if record.get(name) is not None:
            _write_detail(named, f"dragoman:{name}", record[name])


def _write_object(
    root: etree._Element,
    id_: str,
    kind: tuple[str, str],
    of: Code,
    *,
    name: str | None = None,
    query: str = "",
) -> etree._Element:
    """An object of a *kind*: its type and its role; *of*: what its id is one of."""
    named = etree.SubElement(
        root,
        "ParticipantObjectIdentification",
        ParticipantObjectID=id_,
        ParticipantObjectTypeCode=kind[0],
        ParticipantObjectTypeCodeRole=kind[1],
    )
    _write_code(named, "ParticipantObjectIDTypeCode", of)
    if query:
        written = b64encode(_text(query).encode()).decode()
        etree.SubElement(named, "ParticipantObjectQuery").text = written
    else:  # One of the two there must be.
        etree.SubElement(named, "ParticipantObjectName").text = _text(name) or id_
    return named


def _write_detail(parent: etree._Element, type_: str, value: object) -> None:
    detail = etree.SubElement(parent, "ParticipantObjectDetail", type=type_)
    detail.set("value", b64encode(_text(value).encode()).decode())


def _write_code(parent: etree._Element, name: str, code: Code) -> None:
    etree.SubElement(
        parent,
        name,
        {"csd-code": code.code, "codeSystemName": code.system, "originalText": code.text},
    )


def _text(value: object) -> str:
    """What XML can hold of *value*."""
    return "" if value is None else _NOT_XML.sub("\ufffd", str(value))
