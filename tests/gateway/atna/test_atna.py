"""The audit log at an audit repository: messages by DICOM's schema, over TLS that both sides show
certificates in."""

import asyncio
import json
import os
import re
import socket
import ssl
import subprocess
import sys
import zipfile
from base64 import b64decode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from lxml import etree

from gateway.atna import sender as sending
from gateway.atna.messages import Site, event_of, write_message
from gateway.atna.sender import AuditSender
from gateway.identities.file_editing import create_identities
from gateway.security import audit as auditing
from gateway.security.audit import DELIVERED, PUBLISHED, AuditLog
from gateway.security.audit_chain import read_record, segment_path
from gateway.security.identify import OPERATOR
from gateway.security.tls import client_context
from mediation.model.messages import Notification
from mediation.notification.document_metadata import ON_DEMAND, REFERENCE, STABLE
from tests.gateway.soap.test_dsub import P1, P2, of_patient, publish, subscribe
from tests.rigs.certificates import Authority
from tests.rigs.consumers import Consumers
from tests.rigs.document_metadata import (
    PATIENT_DOCUMENTS,
    SUBMISSION_SET,
    adhoc_query,
    document,
    submission,
)
from tests.rigs.envelopes import WSNT, Speaker
from tests.rigs.gateways import running
from tests.rigs.ports import free_ports
from tests.rigs.waiting import until

SCHEMA = etree.RelaxNG(etree.parse(Path(__file__).parent / "audit-message.rng"))
SITE = Site("gateway 1", "Harbour Hospital", "https://gateway.example/soap")
RECORD = {
    "number": 7, "time": "2026-01-02T03:04:05.678+00:00", "who": "user:mole", "from": "192.0.2.1",
    "did": "Subscribe", "what": "", "result": "done", "hash": "ab" * 32,
}  # fmt: skip
REFUSED = "refused: You have no right to subscribe."


KINDS: list[tuple[dict[str, Any], str, str]] = [
    ({}, "ITI-52", "0"),
    ({"did": "Unsubscribe", "what": "subscriptions 1f"}, "ITI-52", "0"),
    ({"result": REFUSED}, "ITI-52", "4"),
    ({"query": "<Filter/>"}, "ITI-52", "0"),
    ({"query": adhoc_query(PATIENT_DOCUMENTS, of_patient(P1))[:100]}, "ITI-52", "0"),
    ({"did": "CreatePullPoint"}, "ITI-69", "0"),
    (
        {
            "did": PUBLISHED,
            "what": "urn:1",
            "patients": ["P^^^&1&ISO"],
            "documents": [
                {"id": "urn:uuid:1", "type": STABLE, "unique_id": "1.2", "home": "urn:oid:1"}
            ],
        },
        "ITI-54",
        "0",
    ),
    ({"did": DELIVERED, "who": "gateway", "to": "http://[::1]:8/"}, "ITI-53", "0"),
    (
        {
            "did": DELIVERED,
            "to": "",
            "documents": [{"id": "1", "type": REFERENCE}, {"id": "2", "type": "unknown"}],
        },
        "ITI-53",
        "0",
    ),
    ({"did": "logged in to the console"}, "110122", "0"),
    ({"did": "started the gateway", "from": ""}, "110120", "0"),
    ({"did": "stopped the gateway", "who": ""}, "110121", "0"),
    ({"did": "POST /api/v1/destinations", "what": "a\x00b\x1b\ud800<&"}, "110129", "0"),
    ({"did": "POST /api/v1/channels", "result": "asked for", "request": "c41d"}, "110129", "0"),
    ({"did": "DELETE /api/v1/sources/{id}", "result": "refused: 404 None."}, "110129", "4"),
    ({"did": "POST /api/v1/keys", "result": "refused: 403 You have no right."}, "110132", "4"),
    ({"did": "POST /api/v1/keys", "result": "failed: 503 late"}, "110129", "8"),
    ({"did": "ended the subscription", "result": "done: its lease is over"}, "110129", "0"),
    ({"did": "GET /metrics", "result": REFUSED, "again": 12}, "110132", "4"),
    ({"did": None, "what": None, "who": None, "lost": 3}, "110129", "0"),
]
IPF = Path.home() / ".m2/repository/org/openehealth/ipf/commons/ipf-commons-audit/4.8.0"
"""Of a library that others audit with: its schema is of DICOM, too."""


@pytest.mark.skipif(not IPF.exists(), reason="Maven has not fetched ipf-commons-audit 4.8.0")
def test_another_library_s_schema_takes_them() -> None:
    with zipfile.ZipFile(next(IPF.glob("*.jar"))) as jar:
        schema = etree.XMLSchema(etree.fromstring(jar.read("dicom2017c.xsd")))
    for changed, _, _ in KINDS:
        schema.assertValid(etree.fromstring(write_message({**RECORD, **changed}, SITE)))


@pytest.mark.parametrize(("changed", "type_", "outcome"), KINDS)
def test_a_record_is_a_message_of_dicom(changed: dict[str, Any], type_: str, outcome: str) -> None:
    root = etree.fromstring(write_message({**RECORD, **changed}, SITE))
    SCHEMA.assertValid(root)
    assert root.xpath("string(//EventTypeCode/@csd-code)") == type_
    assert root.xpath("string(EventIdentification/@EventOutcomeIndicator)") == outcome
    assert root.xpath("string(//@AuditSourceID)") == "gateway 1"
    roles = [one.get("csd-code") for one in root.iter("RoleIDCode")]
    if type_.startswith("ITI"):
        assert roles == ["110153", "110152"] and event_of({**RECORD, **changed}).transaction


XDS, ITI_52 = "IHE XDS Metadata", ("ITI-52", "IHE Transactions")
HOME = "urn:ihe:iti:xca:2010:homeCommunityId"
HERE = ("https://gateway.example/soap", str(os.getpid()), "1", "gateway.example")
ASKING = ("user:mole", None, "2", "192.0.2.1")
TABLES: dict[str, tuple[dict[str, Any], Any, Any, Any]] = {
    "3.52.6.1.2, Subscribe": (
        {"query": adhoc_query(PATIENT_DOCUMENTS, of_patient(P1)), "what": "subscriptions 1f"},
        ("110112", "C", "ITI-52"),
        (ASKING, HERE),
        [
            ("1", "1", ("2", "RFC-3881"), P1, None),
            ("2", "24", ITI_52, PATIENT_DOCUMENTS, None),
            ("2", "20", ITI_52, "subscriptions 1f", None),
        ],
    ),
    "3.52.6.1.2, Unsubscribe": (
        {"did": "Unsubscribe", "what": "subscriptions 1f"},
        ("110112", "D", "ITI-52"),
        (ASKING, HERE),
        [("2", "20", ITI_52, "subscriptions 1f", None)],
    ),
    "3.53.5.1.2": (
        {
            "did": DELIVERED, "who": "gateway", "to": "http://eve.example:8/a", "what": "urn:1",
            "documents": [{"id": "urn:uuid:1", "type": REFERENCE}],
        },
        ("110106", "R", "ITI-53"),
        (HERE, ("http://eve.example:8/a", None, "1", "eve.example")),
        [
            ("2", "3", (REFERENCE, XDS), "urn:uuid:1", None),
            ("2", "13", ("12", "RFC-3881"), "urn:1", None),
        ],
    ),
    "3.54.5.1.2": (
        {
            "did": PUBLISHED, "what": "urn:1", "patients": [P1],
            "documents": [
                {"id": "urn:uuid:1", "type": STABLE, "unique_id": "1.2", "home": "urn:oid:1.3"},
                {"id": "urn:uuid:2", "type": ON_DEMAND},
                {"id": "urn:uuid:3", "type": SUBMISSION_SET},
            ],
        },
        ("110107", "C", "ITI-54"),
        (ASKING, HERE),
        [
            ("1", "1", ("2", "RFC-3881"), P1, None),
            ("2", "3", (STABLE, XDS), "urn:uuid:1", "urn:oid:1.3"),
            ("2", "3", (ON_DEMAND, XDS), "urn:uuid:2", None),
            ("2", "3", (SUBMISSION_SET, XDS), "urn:uuid:3", None),
            ("2", "13", ("12", "RFC-3881"), "urn:1", None),
        ],
    ),
}  # fmt: skip
"""Messages of the broker, by the sections of ITI TF-2 with their tables: the event, its two ends,
and its objects; the last of them, where it is none of the table's, is of our log."""


@pytest.mark.parametrize(("record", "event", "ends", "objects"), TABLES.values(), ids=TABLES)
def test_transactions_are_as_their_tables_have_them(
    record: dict[str, Any], event: Any, ends: Any, objects: Any
) -> None:
    root = etree.fromstring(write_message({**RECORD, "who": "user:mole", **record}, SITE))
    SCHEMA.assertValid(root)
    assert event == tuple(
        root.xpath(f"string({each})")
        for each in ("//EventID/@csd-code", "//@EventActionCode", "//EventTypeCode/@csd-code")
    )
    network = ("NetworkAccessPointTypeCode", "NetworkAccessPointID")
    assert ends == tuple(
        tuple(one.get(name) for name in ("UserID", "AlternativeUserID", *network))
        for one in root.iter("ActiveParticipant")
    )
    roles = [one.get("csd-code") for one in root.iter("RoleIDCode")]
    assert roles == ["110153", "110152"]
    found = []
    for one in root.iter("ParticipantObjectIdentification"):
        code = one.find("ParticipantObjectIDTypeCode")
        assert code is not None
        home = one.xpath(f"string(ParticipantObjectDetail[@type='{HOME}']/@value)")
        found.append(
            (
                one.get("ParticipantObjectTypeCode"),
                one.get("ParticipantObjectTypeCodeRole"),
                (code.get("csd-code"), code.get("codeSystemName")),
                one.get("ParticipantObjectID"),
                b64decode(str(home)).decode() or None,
            )
        )
    assert found == objects


@dataclass
class Repository:
    """What came, and whom the certificates were of."""

    messages: list[tuple[str, etree._Element]] = field(default_factory=list)
    peers: list[str] = field(default_factory=list)
    port: int = field(default_factory=lambda: free_ports(1)[0])
    tasks: list[asyncio.Task[None]] = field(default_factory=list)

    async def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.tasks.append(task)
        subject = writer.get_extra_info("peercert")["subject"]
        self.peers.append(dict(one for [one] in subject)["commonName"])
        try:
            while True:
                length = await reader.readuntil(b" ")
                said = await reader.readexactly(int(length))
                head, _, message = said.partition(b"\xef\xbb\xbf")
                self.messages.append((head.decode(), etree.fromstring(message)))
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            writer.transport.abort()

    @property
    def numbers(self) -> list[int]:
        """Of the records, as they came."""
        said = "string(//*[@type='dragoman:number']/@value)"
        return [int(b64decode(str(one.xpath(said)))) for _, one in self.messages]


@asynccontextmanager
async def repository(authority: Authority, known: Repository) -> AsyncIterator[None]:
    certificate, key = authority.issue("localhost")
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate, key)
    tls.load_verify_locations(authority.certificate)
    tls.verify_mode = ssl.CERT_REQUIRED
    server = await asyncio.start_server(known.take, "127.0.0.1", known.port, ssl=tls)
    try:
        yield
    finally:
        server.close()
        for task in known.tasks:
            task.cancel()
        await asyncio.gather(*known.tasks)


async def test_what_a_repository_missed_comes_when_it_is_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And after a restart from where it was: what counts as sent is not sent again."""
    monkeypatch.setattr(sending, "EVERY", 0.02)
    monkeypatch.setattr(sending, "SETTLED", 0.1)
    monkeypatch.setattr(sending, "LONGEST_WAIT", 0.1)
    authority, known = Authority(tmp_path), Repository()
    certificate, key = authority.issue("node")
    log = AuditLog(tmp_path / "audit.jsonl")
    log.open()

    def note(number: int) -> None:
        for _ in range(number):
            log.note(OPERATOR, "Subscribe", "subscriptions 1f")
        log.write()

    def sender() -> tuple[AuditSender, asyncio.Task[None]]:
        tls = partial(client_context, ca=authority.certificate, certificate=certificate, key=key)
        made = AuditSender(log.path, "localhost", known.port, tls, SITE)
        return made, asyncio.ensure_future(made.run())

    note(3)
    async with repository(authority, known):
        first, running_ = sender()
        await until(lambda: first.settled == 3)
        note(2)
        await until(lambda: first.settled == 5)
    note(700)  # It is away.
    for old, renewed in zip((certificate, key), authority.issue("renewed"), strict=True):
        old.write_bytes(renewed.read_bytes())
    log.path.rename(log.path.with_name("audit.000000000001.jsonl"))
    log.path.touch()
    note(2)
    async with repository(authority, known):
        await until(lambda: first.settled == 707)
        running_.cancel()
        note(1)
        again, running_ = sender()
        await until(lambda: again.settled == 708)
        running_.cancel()
    assert known.numbers == [*range(1, 709)] and known.peers[0] == "node"
    assert set(known.peers[1:]) == {"renewed"}
    head, message = known.messages[0]
    assert head.startswith("<85>1 20") and " dragoman " in head and " IHE+RFC-3881 - " in head
    SCHEMA.assertValid(message)


def test_what_was_read_is_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a log of any name, whose segments are complete in the middle of a look: all is sent once,
    and a look costs no more than what is new."""
    log = AuditLog(tmp_path / "node.1.audit.jsonl")
    log.open()
    looked = noted = sent = 0
    completes = True
    monkeypatch.setattr(sending, "AT_ONCE", 40)

    def note(number: int) -> None:
        nonlocal noted
        for _ in range(number):
            log.note(OPERATOR, "Subscribe", "subscriptions 1f")
        log.write()
        noted += number

    def complete() -> None:
        log.path.rename(segment_path(log.path, log._began[0]))
        log._began = (0, "")

    def read(line: bytes) -> dict[str, Any] | None:
        nonlocal looked, completes
        looked += 1
        if completes:
            completes = False
            complete()
            note(4)
        return read_record(line)

    monkeypatch.setattr(sending, "read_record", read)
    sender = AuditSender(log.path, "localhost", 1, ssl.create_default_context, SITE)
    for _ in range(4):
        note(23)
        complete()
        note(5)
        completes = True
        while frames := sender._next():
            sent += len(frames)
        assert (sent, sender._read) == (noted, noted)
        before = looked
        assert sender._next() == [] and looked == before
    assert looked <= noted + 8 * 23


async def test_a_repository_that_takes_little_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It gets all: what it has taken counts, and is not sent again and again."""
    log = AuditLog(tmp_path / "audit.jsonl", documents=True)
    log.open()
    for number in range(60):
        log.note(OPERATOR, "Subscribe", f"subscriptions {number}", query="x" * 16_000)
    log.write()
    taken = bytearray()

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while octets := await reader.read(2**15):
            taken.extend(octets)
            await asyncio.sleep(0.02)
        writer.close()

    monkeypatch.setattr(sending, "PATIENCE", 0.5)
    monkeypatch.setattr(sending, "SETTLED", 0.05)
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2**15)
    sock.bind(("127.0.0.1", 0))
    server = await asyncio.start_server(take, sock=sock, limit=2**15)
    sender = AuditSender(log.path, "127.0.0.1", sock.getsockname()[1], lambda: None, SITE)  # type: ignore[arg-type, return-value]  # Without TLS.
    task = asyncio.create_task(sender.run())
    try:
        await until(lambda: sender.settled == 60)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        server.close()
    numbers = re.findall(rb'type="dragoman:number" value="([^"]+)"', taken)
    assert [int(b64decode(one)) for one in dict.fromkeys(numbers)] == [*range(1, 61)]


async def test_a_log_that_has_begun_anew(tmp_path: Path) -> None:
    """It was moved away while no gateway ran: what comes is not taken for what was sent."""
    path = tmp_path / "audit.jsonl"
    before = AuditLog(path)
    before.open()
    for _ in range(5):
        before.note(OPERATOR, "Subscribe")
    before.write()
    (tmp_path / "audit.jsonl.sent").write_text('{"number": 5}')
    sender = AuditSender(path, "127.0.0.1", 1, ssl.create_default_context, SITE)
    assert sender._settled_before() == 5
    path.rename(tmp_path / "audit.jsonl.1")
    anew = AuditLog(path)
    anew.open()
    assert sender._settled_before() == 0
    anew.note(OPERATOR, "Subscribe")
    anew.write()
    assert sender._settled_before() == 0
    assert len(sender._next()) == 1


def test_a_record_with_an_error_of_ours_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = AuditLog(tmp_path / "audit.jsonl")
    log.open()
    for number in range(3):
        log.note(OPERATOR, "Subscribe", str(number))
    log.write()

    def write(record: Any, site: Site) -> bytes:
        assert record["what"] != "1"
        return write_message(record, site)

    monkeypatch.setattr(sending, "write_message", write)
    sender = AuditSender(log.path, "127.0.0.1", 1, ssl.create_default_context, SITE)
    assert len(sender._next()) == 2


async def test_a_gateway_sends_its_log(tmp_path: Path) -> None:
    authority, known = Authority(tmp_path), Repository()
    certificate, key = authority.issue("node")
    identities = tmp_path / "identities.toml"
    create_identities(identities)
    async with repository(authority, known):
        table = {
            "host": "localhost", "port": known.port, "certificate": certificate, "key": key,
            "ca": authority.certificate,
        }  # fmt: skip
        async with running(tmp_path / "data", identities=identities, atna=table):
            await until(lambda: len(known.messages) > 0)
    _, first = known.messages[0]
    assert first.xpath("string(//EventTypeCode/@csd-code)") == "110120"


EVERYBODY = """
[[rights]]
who = ["everybody"]
may = ["publish", "subscribe", "manage"]
"""


async def test_documents_on_their_way_are_transactions(tmp_path: Path) -> None:
    """Who subscribed with which query, who published which documents of whom, and who was told of
    them; other events, and what waits in a pull point, are none."""
    authority, known = Authority(tmp_path), Repository()
    certificate, key = authority.issue("node")
    identities = tmp_path / "identities.toml"
    create_identities(identities)
    identities.write_text(identities.read_text() + EVERYBODY)
    query = adhoc_query(PATIENT_DOCUMENTS, of_patient(P1))
    async with repository(authority, known), Consumers() as consumer:
        table = {
            "host": "localhost", "port": known.port, "certificate": certificate, "key": key,
            "ca": authority.certificate,
        }  # fmt: skip
        data = tmp_path / "data"
        async with running(data, identities=identities, atna=table) as run:
            url = consumer.fresh()
            assert (await subscribe(run, url, query)).status == 200
            boxed = await run.ask(Speaker(), f'<n:CreatePullPoint xmlns:n="{WSNT}"/>')
            [pull_point] = (str(one.text) for one in boxed.message.body[0].iter("{*}Address"))
            assert (await subscribe(run, pull_point, query)).status == 200
            await publish(run, document(P1, id="a"), document(P2, id="b"))
            await run.publish("<storm/>", path="/soap/topic/storms")
            await consumer.next(url)
            await until(lambda: len(of_type(known, "ITI-53")) > 0)
            await run.quiet()
    assert [len(of_type(known, name)) for name in ("ITI-52", "ITI-54", "ITI-53")] == [2, 1, 1]
    for _, message in known.messages:
        SCHEMA.assertValid(message)
    asked = of_type(known, "ITI-52")[0].findtext(".//ParticipantObjectQuery") or ""
    assert etree.fromstring(b64decode(asked)).xpath("string(//@id)") == PATIENT_DOCUMENTS
    for name, source, event in (("ITI-54", "127.0.0.1", "110107"), ("ITI-53", "", "110106")):
        [message] = of_type(known, name)
        assert message.xpath("string(//EventID/@csd-code)") == event
        objects = message.iter("ParticipantObjectIdentification")
        ids = [one.get("ParticipantObjectID") for one in objects]
        assert ids[:4] == [P1, P2, "a", "b"]
        roles = [one.get("csd-code") for one in message.iter("RoleIDCode")]
        assert roles == ["110153", "110152"]
        ends = list(message.iter("ActiveParticipant"))
        if source:
            assert ends[0].get("NetworkAccessPointID") == source
        else:
            assert ends[1].get("UserID") == url


def of_type(known: Repository, name: str) -> list[etree._Element]:
    said = "string(//EventTypeCode/@csd-code)"
    return [one for _, one in known.messages if one.xpath(said) == name]


def test_what_is_read_of_events_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond that the record does not say which documents; where nothing is sent to a repository,
    nothing is noted at all."""
    payload = submission(document(P1, id="a")).encode()
    event = Notification("urn:1", "urn:x", payload, datetime.now(UTC))
    monkeypatch.setattr(auditing, "UNREAD", 2 * len(payload))
    for documents, named in ((True, [True, True, False]), (False, [])):
        log = AuditLog(tmp_path / f"{documents}.jsonl", documents=documents)
        log.open()
        for _ in range(3):
            log.note_documents("user:mole", "192.0.2.1", PUBLISHED, event)
        log.note_documents("user:mole", "192.0.2.1", PUBLISHED, replace(event, payload=b"<a/>"))
        log.write()
        records = [json.loads(line) for line in log.path.read_text().splitlines()]
        assert ["documents" in one for one in records] == named
        assert "payload" not in log.path.read_text()


def test_the_log_is_exported_as_messages(tmp_path: Path) -> None:
    log = AuditLog(tmp_path / "audit.jsonl")
    log.open()
    for number in range(3):
        log.note(OPERATOR, "Subscribe", f"subscriptions <{number}>")
    log.write()
    command = [sys.executable, "-m", "gateway", "audit", "export", "--format", "atna"]
    ended = subprocess.run(
        [*command, "--file", str(log.path)], capture_output=True, timeout=60, cwd=tmp_path
    )
    assert ended.returncode == 0, ended.stderr
    messages = [etree.fromstring(one) for one in ended.stdout.splitlines()]
    assert len(messages) == 3
    for message in messages:
        SCHEMA.assertValid(message)
