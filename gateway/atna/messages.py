"""Records of the audit log as messages of DICOM PS3.15, A.5.

| record | EventID | EventTypeCode |
|---|---|---|
| Subscribe, Renew, Unsubscribe, ... | 110112 Query | ITI-52 |
| CreatePullPoint, DestroyPullPoint | 110112 Query | ITI-69 |
| documents' metadata that were published | 110107 Import | ITI-54 |
| documents' metadata that were delivered | 110106 Export | ITI-53 |
| logins | 110114 User Authentication | 110122 Login |
| the start, the stop | 110100 Application Activity | 110120 Start, 110121 Stop |
| another refusal of a right | 110113 Security Alert | 110132 Use of Restricted Function |
| what else was changed | 110113 Security Alert | 110129 Security Configuration |
"""

import os
import re
from base64 import b64encode
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

from lxml import etree

from gateway.security.audit import DELIVERED, PUBLISHED

_NOT_XML = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_SUBSCRIBING = frozenset(
    {
        "Subscribe", "Renew", "Unsubscribe", "PauseSubscription", "ResumeSubscription",
        "GetStatus", "GetCurrentMessage",
    }
)  # fmt: skip
_PULL_POINTS = frozenset({"CreatePullPoint", "DestroyPullPoint"})
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
_SUBSCRIBE = Event(_QUERY, _ihe("ITI-52", "Document Metadata Subscribe"), "E", transaction=True)
_PULL_POINT = Event(_QUERY, _ihe("ITI-69", "Create Destroy Pull Point"), "E", transaction=True)
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
_REFUSED = Event(_ALERT, _dcm("110132", "Use of Restricted Function"), "E")


def event_of(record: Mapping[str, Any]) -> Event:
    """The kind of event that a record is."""
    did = str(record.get("did", ""))
    if did in _SUBSCRIBING:
        return _SUBSCRIBE
    if did in _PULL_POINTS:
        return _PULL_POINT
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
    return _REFUSED if _is_refused(record) else _CHANGED


def _is_refused(record: Mapping[str, Any]) -> bool:
    return str(record.get("result", "")).startswith("refused")


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
        EventOutcomeIndicator="4" if _is_refused(record) else "0",
    )
    _write_code(identification, "EventID", event.id)
    _write_code(identification, "EventTypeCode", event.type)
    if result != "done":
        described = etree.SubElement(identification, "EventOutcomeDescription")
        described.text = _text(result)
    ends = _ends(record, event, site) if event.documents else _participants(record, event, site)
    for participant in ends:
        root.append(participant)
    source = etree.SubElement(root, "AuditSourceIdentification", AuditSourceID=_text(site.source))
    if site.site:
        source.set("AuditEnterpriseSiteID", _text(site.site))
    etree.SubElement(source, "AuditSourceTypeCode", {"csd-code": _APPLICATION_SERVER})
    if event.documents:
        _write_documents(root, record)
    _write_object(root, record, event)
    written: bytes = etree.tostring(root, encoding="UTF-8", xml_declaration=False)
    return written


def _participants(record: Mapping[str, Any], event: Event, site: Site) -> Iterator[etree._Element]:
    """Who asked, and for transactions of IHE the gateway, which was asked."""
    who, address = _text(record.get("who")) or "unknown", _text(record.get("from"))
    asked = etree.Element("ActiveParticipant", UserID=who, UserIsRequestor="true")
    if address:
        asked.set("NetworkAccessPointID", address)
        asked.set("NetworkAccessPointTypeCode", "2")
    if event.transaction:
        _write_code(asked, "RoleIDCode", _dcm("110153", "Source Role ID"))
    elif event in (_STARTED, _STOPPED):
        _write_code(asked, "RoleIDCode", _dcm("110151", "Application Launcher"))
    yield asked
    if event.transaction or event in (_STARTED, _STOPPED):
        here = etree.Element("ActiveParticipant", UserID=site.endpoint, UserIsRequestor="false")
        here.set("NetworkAccessPointID", site.endpoint)
        here.set("NetworkAccessPointTypeCode", "5")
        role = (
            _dcm("110152", "Destination Role ID")
            if event.transaction
            else _dcm("110150", "Application")
        )
        _write_code(here, "RoleIDCode", role)
        yield here


def _ends(record: Mapping[str, Any], event: Event, site: Site) -> Iterator[etree._Element]:
    """The source and the destination of documents' metadata. Who gets them counts as who asked for
    them (Document Metadata Subscription, 3.53.5.1)."""
    here = (site.endpoint, site.endpoint, str(os.getpid()))
    if event is _NOTIFIED:
        to = _text(record.get("to")) or "unknown"
        ends = (here, (to, to, ""))
    else:
        publisher = _text(record.get("who")) or "unknown"
        ends = ((publisher, _text(record.get("from")), ""), here)
    roles = (_dcm("110153", "Source Role ID"), _dcm("110152", "Destination Role ID"))
    for place, (user, address, process) in enumerate(ends):
        end = etree.Element("ActiveParticipant", UserID=user)
        if process:
            end.set("AlternativeUserID", process)
        end.set("UserIsRequestor", "true" if place else "false")
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
    """The patients and the documents of a record."""
    patient, report = ("1", "1", "2", "Patient Number"), ("2", "3", "9", "Report Number")
    for name, (type_, role, code, text) in (("patients", patient), ("documents", report)):
        for id_ in record.get(name) or ():
            named = etree.SubElement(
                root,
                "ParticipantObjectIdentification",
                ParticipantObjectID=_text(id_),
                ParticipantObjectTypeCode=type_,
                ParticipantObjectTypeCodeRole=role,
            )
            _write_code(named, "ParticipantObjectIDTypeCode", Code(code, "RFC-3881", text))
            etree.SubElement(named, "ParticipantObjectName").text = _text(id_)


def _write_object(root: etree._Element, record: Mapping[str, Any], event: Event) -> None:
    """What was asked for or changed, and the place of the record in the log."""
    id_ = _text(record.get("what")) or _text(record.get("did")) or "unknown"
    queries = event.transaction and not event.documents
    named = etree.SubElement(
        root,
        "ParticipantObjectIdentification",
        ParticipantObjectID=id_,
        ParticipantObjectTypeCode="2",
        ParticipantObjectTypeCodeRole="24" if queries else "13",
    )
    kind = event.type if queries else Code("12", "RFC-3881", "URI")
    _write_code(named, "ParticipantObjectIDTypeCode", kind)
    if record.get("query"):
        query = b64encode(_text(record["query"]).encode()).decode()
        etree.SubElement(named, "ParticipantObjectQuery").text = query
    else:  # One of the two there must be.
        etree.SubElement(named, "ParticipantObjectName").text = id_
    for name in ("did", "again", "number", "hash"):
        if record.get(name) is not None:
            value = _text(record[name])
            detail = etree.SubElement(named, "ParticipantObjectDetail", type=f"dragoman:{name}")
            detail.set("value", b64encode(value.encode()).decode())


def _write_code(parent: etree._Element, name: str, code: Code) -> None:
    etree.SubElement(
        parent,
        name,
        {"csd-code": code.code, "codeSystemName": code.system, "originalText": code.text},
    )


def _text(value: object) -> str:
    """What XML can hold of *value*."""
    return "" if value is None else _NOT_XML.sub("\ufffd", str(value))
