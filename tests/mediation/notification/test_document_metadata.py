"""Minimal notifications of documents' metadata, made of full ones."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from lxml import etree

from filters.topics import IHE, parse_clark
from mediation.model.messages import Attachment, Notification
from mediation.notification.document_metadata import (
    ON_DEMAND,
    REFERENCE,
    STABLE,
    is_of_documents,
    minimal_form,
    named_in,
)
from mediation.notification.document_metadata import RegistryObject as Named
from tests.rigs.document_metadata import (
    FOLDER,
    LCM,
    RIM,
    SUBMISSION_SET,
    XDS,
    RegistryObject,
    document,
    submission,
)

FULL = parse_clark(f"{{{IHE}}}FullDocumentEntry")
PAYLOAD = submission(document("P1", id="d1"), document("P&1", id="d2")).replace(
    'id="d2"', 'home="urn:oid:1.2&amp;3" id="d2"', 1
)
PUBLISHED = Notification(
    "urn:1",
    "urn:registry",
    PAYLOAD.encode(),
    datetime(2026, 1, 31, tzinfo=UTC),
    FULL,
    attachments=(Attachment("a", "text/plain", b"the document"),),
)


def references(payload: bytes) -> list[dict[str, str]]:
    root = etree.fromstring(payload)
    assert root.tag == f"{{{LCM}}}SubmitObjectsRequest"
    [objects] = root
    assert objects.tag == f"{{{RIM}}}RegistryObjectList"
    assert {one.tag for one in objects} == {f"{{{RIM}}}ObjectRef"}
    return [{str(name): str(value) for name, value in one.attrib.items()} for one in objects]


@pytest.mark.parametrize(
    "payload",
    [
        PAYLOAD,
        f'<x:ProvideAndRegisterDocumentSetRequest xmlns:x="{XDS}">{PAYLOAD}'
        "</x:ProvideAndRegisterDocumentSetRequest>",
    ],
    ids=["registered", "provided"],
)
def test_what_is_left_is_references(payload: str) -> None:
    published = replace(PUBLISHED, payload=payload.encode())
    minimal = minimal_form(published)
    assert references(minimal.payload) == [{"id": "d1"}, {"id": "d2", "home": "urn:oid:1.2&3"}]
    assert str(minimal.topic) == f"{{{IHE}}}MinimalDocumentEntry"
    assert minimal.attachments == ()
    assert (minimal.id, minimal.source, minimal.time) == (
        PUBLISHED.id, PUBLISHED.source, PUBLISHED.time,
    )  # fmt: skip


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(replace(PUBLISHED, topic=None), id="no topic"),
        pytest.param(replace(PUBLISHED, topic=parse_clark("tides")), id="another topic"),
        pytest.param(
            replace(PUBLISHED, topic=parse_clark(f"{{{IHE}}}MinimalDocumentEntry")), id="minimal"
        ),
        pytest.param(replace(PUBLISHED, payload=b"<a/>"), id="no document"),
        pytest.param(replace(PUBLISHED, payload=b"none"), id="no XML"),
    ],
)
def test_everything_else_is_handed_on_as_it_is(other: Notification) -> None:
    assert minimal_form(other) is other


def test_the_documents_and_patients_of_a_payload() -> None:
    """Each once, a submission set, a reference and a document on demand as such; no folder."""
    payload = submission(document("P1", id="a"), document("P1", id="b"), document("P1", id="a"))
    assert named_in(payload.encode()) == ([named("a"), named("b")], ["P1"])
    reference = RegistryObject("entry", {}, element="ObjectRef")
    assert named_in(submission(reference).encode()) == ([Named("entry", REFERENCE)], [])
    sent = RegistryObject(
        "set", {"setUniqueId": "1.3", "setPatientId": "P2"}, element="RegistryPackage",
        node=SUBMISSION_SET,
    )  # fmt: skip
    folder = replace(sent, id="folder", node=FOLDER)
    assert named_in(submission(sent, folder).encode()) == (
        [Named("set", SUBMISSION_SET, "1.3")], ["P2"]
    )  # fmt: skip
    further = document("P1", id="a").xml().replace(
        'id="a"', f'id="a" objectType="{ON_DEMAND}" home="urn:oid:1.4"', 1
    )  # fmt: skip
    assert named_in(submission(document("P1", id="a")).replace(
        document("P1", id="a").xml(), further
    ).encode())[0] == [Named("a", ON_DEMAND, "1.2.a", "urn:oid:1.4")]  # fmt: skip
    bare = submission(RegistryObject("", {"uniqueId": "1.5"}))
    assert named_in(bare.encode())[0] == [Named("1.5", STABLE, "1.5")]
    many = submission(*(document(f"P{n}", id=str(n)) for n in range(200))).encode()
    assert [len(one) for one in named_in(many)] == [100, 100]
    assert named_in(b"<a") == ([], [])
    long = submission(document("P" * 300, id="1" * 300)).encode()
    [found], [patient] = named_in(long)
    assert [len(one) for one in (found.id, found.unique_id, patient)] == [256] * 3
    assert is_of_documents(payload.encode()) and not is_of_documents(b"<storm/>")


def test_a_document_in_another_has_identifiers_of_its_own() -> None:
    """So that each is read once, however deep strangers nest documents."""
    outer, inner = document("P1", id="a").xml(), document("P2", id="b").xml()
    end = "</rim:ExtrinsicObject>"
    nested = submission(document("P0")).replace(
        document("P0").xml(), outer.replace(end, f"{inner}{end}")
    )
    assert named_in(nested.encode()) == ([named("a"), named("b")], ["P1", "P2"])


def named(id_: str) -> Named:
    """What is named of a document of the rig."""
    return Named(id_, STABLE, f"1.2.{id_}")
