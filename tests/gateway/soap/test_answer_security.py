"""Answers and faults that are signed, and encrypted for who asked, where that is demanded."""

import asyncio
import json
import re
import threading
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import pytest_asyncio
from cryptography.x509 import KeyUsage
from lxml import etree

from filters import Refused
from gateway.checks.certificates import check_ws_security
from gateway.checks.findings import Verdict
from gateway.identities.file_editing import create_identities
from gateway.parsing import SMALL, fair_queue
from gateway.security import authentication
from gateway.security.certificate_proofs import subject_of
from gateway.settings.settings import Settings
from gateway.soap import answer_security
from mediation import names
from mediation.model.versions import Soap
from mediation.packaging.dime import DimeMessage, Encoder
from mediation.receipts import verify_receipt
from mediation.ws_security import (
    SignedMessage,
    Trust,
    decrypt_message,
    encrypt_envelope,
    read_decryption_keys,
    read_recipient,
    read_signing_key,
    read_trust,
    sign_envelope,
    verify_message,
)
from tests.rigs.certificates import Authority
from tests.rigs.consumers import consumers
from tests.rigs.envelopes import (
    S11,
    S12,
    WSE,
    WSNT,
    Message,
    Speaker,
    fresh_id,
    notification_message,
    notify,
    topic_expression,
    wse_filter,
)
from tests.rigs.gateways import Running, running
from tests.rigs.signers import part, rsa_pair
from tests.rigs.soap_tcp import RawPeer
from tests.rigs.waiting import until

CONSUMER = "http://127.0.0.1:9999/"
EVERYTHING = '\n[[rights]]\nwho = ["everybody"]\nmay = ["everything"]\n'
FETCHING = f"{names.MAKE_CONNECTION_ANONYMOUS}00000000-0000-4000-8000-00000000000a"
RIGHTS = ["publish", "subscribe", "manage", "operate", "read"]
at_the_gateway = pytest.mark.asyncio(loop_scope="module")


@dataclass(frozen=True)
class Parties:
    """Who signs: files of a certificate, and of its key. `mole` has a key of RSA, `ship` one on a
    curve, `tug` one of RSA whose certificate is for signatures alone. `gateway` is what is encrypted
    for; what it signs with, in `own`, is of the authority."""

    mole: tuple[Path, Path]
    ship: tuple[Path, Path]
    tug: tuple[Path, Path]
    gateway: tuple[Path, Path]
    authority: Authority
    signers: Path
    own: Path

    @property
    def trust(self) -> Trust:
        return read_trust(self.authority.certificate.read_bytes())

    def signed(self, name: str, octets: bytes) -> bytes:
        certificate, key = getattr(self, name)
        signer = read_signing_key(key.read_bytes(), certificate.read_bytes())
        return sign_envelope(octets, signer, unique="u", now=datetime.now(UTC))

    def encrypted(self, octets: bytes) -> bytes:
        return encrypt_envelope(octets, read_recipient(self.gateway[0].read_bytes()), unique="x")

    def decrypted(self, name: str, octets: bytes) -> bytes:
        """An answer, which is encrypted for *name* and nobody else."""
        found = decrypt_message(octets, read_decryption_keys(getattr(self, name)[1].read_bytes()))
        assert found is not None and found.body, octets
        return found.octets

    def table(self, **settings: Any) -> dict[str, Any]:
        """Settings, without a key that decrypts: one of RSA takes 45 ms to be read."""
        return {"signers": self.signers, "signing_key": self.own, **settings}


@pytest.fixture(scope="module")
def parties(tmp_path_factory: pytest.TempPathFactory) -> Parties:
    folder = tmp_path_factory.mktemp("parties")
    only_signs = KeyUsage(True, False, False, False, False, False, False, False, False)
    mole, gateway = rsa_pair(folder, "mole"), rsa_pair(folder, "gateway")
    tug = rsa_pair(folder, "tug", usage=only_signs)
    authority = Authority(folder)
    ship = authority.issue("ship")
    signers, own = folder / "signers.pem", folder / "own.pem"
    signers.write_bytes(
        b"".join(one.read_bytes() for one in (mole[0], tug[0], authority.certificate))
    )
    own.write_bytes(b"".join(one.read_bytes() for one in authority.issue("gateway", file="its")))
    return Parties(mole, ship, tug, gateway, authority, signers, own)


def make_file(folder: Path, rules: str = EVERYTHING) -> Path:
    file = folder / "identities.toml"
    create_identities(file)
    file.write_text(file.read_text() + rules)
    return file


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def run(tmp_path_factory: pytest.TempPathFactory, parties: Parties) -> AsyncIterator[Running]:
    """Answers to all that takes a right are signed."""
    folder = tmp_path_factory.mktemp("gateway")
    table = parties.table(sign_answers=RIGHTS, key=parties.gateway[1])
    async with running(
        folder / "data", identities=make_file(folder), ws_security=table, soap_tcp_port=0,
        egress_allow=["127.0.0.1"],
    ) as found:  # fmt: skip
        yield found


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def sealing(
    tmp_path_factory: pytest.TempPathFactory, parties: Parties
) -> AsyncIterator[Running]:
    """Answers to all but publications are encrypted; those to events on one topic, too."""
    folder = tmp_path_factory.mktemp("sealing")
    places = ["subscribe", "manage", "/soap/topic/secret"]
    table = parties.table(encrypt_answers=places, key=parties.gateway[1])
    async with running(
        folder / "data", identities=make_file(folder), ws_security=table,
        egress_allow=["127.0.0.1"],
    ) as found:  # fmt: skip
        yield found


async def over_http(run: Running, soap: Soap, octets: bytes, path: str) -> bytes:
    return (await run.post(octets, path, type=soap.media_type)).body


async def over_soap_tcp(run: Running, soap: Soap, octets: bytes, path: str) -> bytes:
    peer = await RawPeer.connect(run.soap_tcp_port)
    try:
        await peer.send(Encoder().encode(DimeMessage(soap, octets)))
        return (await peer.receive()).envelope
    finally:
        await peer.writer.drain()
        await peer.close()


def signature_of(octets: bytes, parties: Parties) -> SignedMessage:
    """That of the gateway, which covers everything."""
    found = verify_message(octets, parties.trust, now=datetime.now(UTC))
    assert found is not None, octets
    assert subject_of(found.certificate) == "CN=gateway"
    return found


def text_at(octets: bytes, name: str) -> str:
    return (part(etree.fromstring(octets), name).text or "").strip()


def made_at(answer: bytes) -> str:
    """The address of what was made."""
    [body] = etree.fromstring(answer).iterfind("{*}Body")
    [found] = body.iter("{*}Address")
    return found.text or ""


@dataclass(frozen=True)
class Kind:
    """A kind of request.

    Attributes:
        body: Of the request to the resource that `made` made.
        wrong: The same that is refused.
        made: The body that makes the resource first.
        fetches: What is answered is a message that waited.
    """

    body: Callable[[Speaker], str]
    wrong: Callable[[Speaker], str]
    made: Callable[[Speaker], str] | None = None
    action: str | None = None
    fetches: bool = False


def _subscribe(speaker: Speaker) -> str:
    return speaker.wse_subscribe(CONSUMER)


def _create(_: Speaker) -> str:
    return f'<n:CreatePullPoint xmlns:n="{WSNT}"/>'


def _connect(inner: str) -> str:
    namespace = names.MAKE_CONNECTION_1_1
    return f'<c:MakeConnection xmlns:c="{namespace}">{inner}</c:MakeConnection>'


KINDS: dict[str, Kind] = {
    "WS-Eventing's Subscribe": Kind(
        _subscribe, lambda one: one.wse_subscribe(CONSUMER, filter=wse_filter("/["))
    ),
    "WS-BaseNotification's Subscribe": Kind(
        lambda one: one.wsn_subscribe(CONSUMER),
        lambda one: one.wsn_subscribe(CONSUMER, filter=topic_expression("a//", "urn:none")),
    ),
    "GetStatus": Kind(
        lambda _: f'<e:GetStatus xmlns:e="{WSE}"/>',
        lambda _: f'<e:Renew xmlns:e="{WSE}"><e:Expires>soon</e:Expires></e:Renew>',
        _subscribe,
    ),
    "GetMessages": Kind(
        lambda _: f'<n:GetMessages xmlns:n="{WSNT}"/>',
        lambda _: f'<n:Renew xmlns:n="{WSNT}"/>',
        _create,
    ),
    "a publication": Kind(
        lambda one: one.wse_subscribe(CONSUMER),  # One has no answer but a fault.
        lambda _: f'<n:Notify xmlns:n="{WSNT}"/>',
    ),
    "MakeConnection": Kind(
        lambda _: _connect(f"<c:Address>{FETCHING}</c:Address>"),
        lambda _: _connect(""),
        lambda one: one.wse_subscribe(FETCHING),
        f"{names.MAKE_CONNECTION_1_1}/MakeConnection",
        fetches=True,
    ),
    "an operation that there is not": Kind(
        lambda one: one.wse_subscribe(CONSUMER), lambda _: f'<e:Sing xmlns:e="{WSE}"/>'
    ),
}


@at_the_gateway
@pytest.mark.parametrize("transport", [over_http, over_soap_tcp])
@pytest.mark.parametrize("soap", [S11, S12])
@pytest.mark.parametrize("fault", [False, True], ids=["answer", "fault"])
@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS.keys())
async def test_every_answer_is_signed(
    run: Running, parties: Parties, kind: Kind, fault: bool, soap: Soap, transport: Any
) -> None:
    """Whoever asks for it; with what it relates to."""
    speaker, to = Speaker(soap), f"{run.url}/soap"
    if kind.made is not None:
        made = speaker.envelope(kind.made(speaker), message_id=fresh_id(), to=to)
        answer = await transport(run, soap, made, "/soap")
        signature_of(answer, parties)
        to = to if kind.fetches else made_at(answer)
    if kind.made is _create:
        event = notify(notification_message('<e xmlns="urn:e" xmlns:w="urn:w">w:1</e>'))
        assert (await run.post(speaker.envelope(event), urlsplit(to).path)).status == 202
    if kind.fetches and not fault:
        await run.publish("<event/>")
        await run.quiet()
    body, message_id = (kind.wrong if fault else kind.body)(speaker), fresh_id()
    request = speaker.envelope(body, message_id=message_id, to=to, action=kind.action)
    answer = await transport(run, soap, request, urlsplit(to).path)
    signature_of(answer, parties)
    assert (b"Fault>" in answer) is fault, answer
    if fault or not kind.fetches:  # Else it is a message, not an answer.
        assert Message(answer).soap is soap
        assert text_at(answer, "RelatesTo") == message_id


@at_the_gateway
@pytest.mark.parametrize("wsa", [True, False], ids=["WS-Addressing", "none"])
async def test_an_answer_to_no_message_id(run: Running, parties: Parties, wsa: bool) -> None:
    """It relates to nothing, and nothing in it says that it does."""
    speaker = Speaker() if wsa else Speaker(wsa=None)
    body = speaker.wse_subscribe(CONSUMER)
    for octets in (speaker.envelope(body), speaker.envelope(body.replace("Delivery", "Other"))):
        answer = await over_http(run, S12, octets, "/soap")
        signature_of(answer, parties)
        assert b"RelatesTo" not in answer
    answer = await over_http(run, S12, b"<no", "/soap")  # Nor is it known what it asks for.
    signature_of(answer, parties)
    assert (await run.post(b"<no", "/soap/topic/%FF%20//", type=S12.media_type)).status >= 400


def _blocks(octets: bytes) -> list[str]:
    header = etree.fromstring(octets)[0]
    return [etree.QName(one).localname for one in header if "Security" not in str(one.tag)]


@at_the_gateway
async def test_each_part_of_it_counts(run: Running, parties: Parties) -> None:
    """Whatever is changed, taken out or put in."""
    speaker = Speaker()
    octets = speaker.envelope(speaker.wse_subscribe(CONSUMER), message_id=fresh_id())
    answer = await over_http(run, S12, octets, "/soap")
    signature_of(answer, parties)
    blocks = _blocks(answer)
    assert {"Action", "MessageID", "RelatesTo", "To"} <= set(blocks)
    tampered = {}
    for name in (*blocks, "Created", "Expires", "Address", "BinarySecurityToken"):
        root = etree.fromstring(answer)
        found = next(root.iter(f"{{*}}{name}"))
        found.text = f"A{found.text}"
        tampered[f"{name} is changed"] = root
    for name in (*blocks, "Timestamp"):
        root = etree.fromstring(answer)
        found = part(root, name)
        found.getparent().remove(found)  # type: ignore[union-attr]  # It has one.
        tampered[f"{name} is left out"] = root
    for name in blocks:
        root = etree.fromstring(answer)
        again = etree.SubElement(root[0], part(root, name).tag)
        again.text = "urn:another"
        tampered[f"{name} is there twice"] = root
    for what, root in tampered.items():
        with pytest.raises(Refused):
            verify_message(etree.tostring(root), parties.trust, now=datetime.now(UTC))
            pytest.fail(what)


@at_the_gateway
async def test_what_is_not_demanded(run: Running) -> None:
    """What takes no right; what says nothing."""
    speaker = Speaker()
    body = '<w:Identify xmlns:w="http://schemas.dmtf.org/wbem/wsman/identity/1/wsmanidentity.xsd"/>'
    answer = await run.ask(speaker, body, "/wsman")
    assert b"IdentifyResponse" in answer.body and b"Signature" not in answer.body
    answer = await run.ask(speaker, "<event/>")
    assert (answer.status, answer.body) == (202, b"")


async def test_a_path(tmp_path: Path, parties: Parties) -> None:
    """What is below it, and what is there that nobody understands; the other paths are as before."""
    table = parties.table(sign_answers=["/wsman", "/subscriptions"])
    async with running(
        tmp_path / "data", identities=make_file(tmp_path), ws_security=table,
        egress_allow=["127.0.0.1"],
    ) as run:  # fmt: skip
        speaker = Speaker()
        subscribed = await run.ask(speaker, speaker.wse_subscribe(CONSUMER))
        assert b"Signature" not in subscribed.body
        manager = await run.subscribe(speaker, speaker.wse_subscribe(CONSUMER))
        for path, octets, signed in (
            (manager, speaker.envelope(f'<e:GetStatus xmlns:e="{WSE}"/>'), True),
            ("/wsman", b"<no", True),
            ("/soap", b"<no", False),
        ):
            answer = await run.post(octets, path, type=S12.media_type)
            assert (b"Signature>" in answer.body) is signed, answer.body
        # A package that cannot be taken apart, of which nothing was read.
        type = 'multipart/related; type="application/xop+xml"; boundary=a'
        answer = await run.post(b"nothing", "/wsman", type=type)
        signature_of(answer.body, parties)


@at_the_gateway
async def test_what_is_sent_elsewhere(run: Running, parties: Parties) -> None:
    speaker = Speaker()
    async with consumers() as some:
        replies, faults = some.add(), some.add()
        headers = "".join(
            f"<wsa:{name}><wsa:Address>{one.url}</wsa:Address></wsa:{name}>"
            for name, one in (("ReplyTo", replies), ("FaultTo", faults))
        )
        for body in (speaker.wse_subscribe(CONSUMER), KINDS["GetStatus"].wrong(speaker)):
            answer = await run.ask(speaker, body, headers=headers)
            assert (answer.status, answer.body) == (202, b"")
        await until(lambda: bool(replies.received and faults.received))
        for received in (replies.received, faults.received):
            [one] = received
            signature_of(one.body, parties)


@at_the_gateway
async def test_it_is_signed_in_a_thread(
    run: Running, parties: Parties, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = []

    def sign(*args: Any, **options: Any) -> bytes:
        threads.append(threading.current_thread().name)
        return sign_envelope(*args, **options)

    monkeypatch.setattr(answer_security, "sign_envelope", sign)
    speaker = Speaker()
    signature_of((await run.ask(speaker, speaker.wse_subscribe(CONSUMER))).body, parties)
    assert threads and "MainThread" not in threads


async def pulled(run: Running, parties: Parties, payload: str, *events: str) -> tuple[str, bytes]:
    """The path of a pull point with events, and what GetMessages is answered there."""
    speaker = Speaker()
    made = parties.signed("mole", speaker.envelope(_create(speaker), message_id=fresh_id()))
    answer = await over_http(run, S12, made, "/soap")
    if b"EncryptedData" in answer:
        answer = parties.decrypted("mole", answer)
    path = urlsplit(made_at(answer)).path
    for event in (payload, *events):
        octets = speaker.envelope(notify(notification_message(event)), message_id=fresh_id())
        assert (await run.post(octets, path, type=S12.media_type)).status == 202
    asking = speaker.envelope(f'<n:GetMessages xmlns:n="{WSNT}"/>', message_id=fresh_id())
    asking = parties.signed("mole", asking)
    return path, await over_http(run, S12, asking, path)


@at_the_gateway
async def test_what_cannot_be_signed_stops_nothing(run: Running, parties: Parties) -> None:
    """An event with a namespace of a relative name has no canonical form: who sends it to a pull
    point is told so; of a subscriber it is a dead letter. What comes behind it is handed out."""
    speaker, relative, good = Speaker(), '<e xmlns="relative"/>', '<e xmlns="urn:e">good</e>'
    path, _ = await pulled(run, parties, good)

    async def handed_out() -> bytes:
        asking = speaker.envelope(f'<n:GetMessages xmlns:n="{WSNT}"/>', message_id=fresh_id())
        answer = await over_http(run, S12, parties.signed("mole", asking), path)
        signature_of(answer, parties)
        return answer

    sent = speaker.envelope(notify(notification_message(relative)), message_id=fresh_id())
    answer = await run.post(sent, path, type=S12.media_type)
    assert answer.status == 400 and b"a namespace has a relative name" in answer.body
    subscribe = speaker.wsn_subscribe(f"{run.url}{path}")
    subscribed = speaker.envelope(subscribe, message_id=fresh_id())
    answer_to = await over_http(run, S12, parties.signed("mole", subscribed), "/soap")
    assert b"SubscribeResponse" in answer_to
    for event in (relative, good.replace("good", "better")):
        published = speaker.envelope(event, message_id=fresh_id())
        published = parties.signed("mole", published) if event != relative else published
        assert (await run.post(published, type=S12.media_type)).status == 202
    await run.quiet()
    assert b"better" in await handed_out()
    letters = json.loads((await run.api("GET", "/deadletters")).body)["dead_letters"]
    assert letters and all("relative name" in str(one["failure"]) for one in letters)


@at_the_gateway
async def test_an_event_that_is_pulled_is_encrypted(sealing: Running, parties: Parties) -> None:
    path, _ = await pulled(sealing, parties, '<e xmlns="urn:e">secret</e>')
    event = Speaker().envelope('<e xmlns="urn:e">secret</e>', message_id=fresh_id())
    assert (await sealing.post(event, path, type=S12.media_type)).status == 202
    asking = Speaker().envelope(f'<n:GetMessages xmlns:n="{WSNT}"/>', message_id=fresh_id())
    asking = parties.encrypted(parties.signed("mole", asking))
    answer = await over_http(sealing, S12, asking, path)
    assert b"secret" not in answer and b"GetMessagesResponse>" not in answer.split(b"Body")[1]
    opened = parties.decrypted("mole", answer)
    signature_of(opened, parties)
    assert b">secret</e>" in opened
    for name in ("gateway", "tug"):
        with pytest.raises(Refused):
            parties.decrypted(name, answer)


@at_the_gateway
@pytest.mark.parametrize("encrypted", [False, True])
@pytest.mark.parametrize("who", ["", "ship", "tug"])
async def test_for_whom_nothing_can_be_encrypted(
    sealing: Running, parties: Parties, who: str, encrypted: bool
) -> None:
    """It is refused before anything is done, by a fault that is signed, in the clear."""
    speaker = Speaker()
    before = len(sealing.gateway.subscriptions.entries)
    octets = speaker.envelope(speaker.wse_subscribe(CONSUMER), message_id=fresh_id())
    octets = parties.signed(who, octets) if who else octets
    octets = parties.encrypted(octets) if encrypted else octets
    answer = await sealing.post(octets, type=S12.media_type)
    signature_of(answer.body, parties)
    assert b"InvalidSecurity" in answer.body and b"must be encrypted here" in answer.body
    assert len(sealing.gateway.subscriptions.entries) == before


SECRETS: dict[str, str] = {
    "what cannot be read": Speaker().wse_subscribe(CONSUMER, filter=wse_filter("/secret[")),
    "an operation that there is not": f'<e:secret xmlns:e="{WSE}"/>',
    "a topic": Speaker().wsn_subscribe(CONSUMER, filter=topic_expression("secret", "urn:secret")),
    "no time": Speaker().wse_subscribe(CONSUMER, expires="secret"),
    "no address": Speaker().wse_subscribe("secret"),
}


@at_the_gateway
@pytest.mark.parametrize("body", SECRETS.values(), ids=SECRETS.keys())
async def test_faults_repeat_no_secret(sealing: Running, parties: Parties, body: str) -> None:
    """To who can decrypt them they say what is wrong; to others nothing of what came encrypted."""
    octets = Speaker().envelope(body, message_id=fresh_id())
    for who in ("", "ship"):
        signed = parties.signed(who, octets) if who else octets
        answer = await over_http(sealing, S12, parties.encrypted(signed), "/soap")
        signature_of(answer, parties)
        assert b"secret" not in answer and b"must be encrypted here" in answer, answer
    octets = Speaker().envelope(body, message_id=fresh_id())
    sealed = parties.encrypted(parties.signed("mole", octets))
    answer = await over_http(sealing, S12, sealed, "/soap")
    assert b"secret" not in answer
    opened = parties.decrypted("mole", answer)
    signature_of(opened, parties)
    assert b"must be encrypted here" not in opened and b"Fault>" in opened


@at_the_gateway
async def test_faults_about_a_signature(sealing: Running, parties: Parties) -> None:
    """What cannot be decrypted, or was changed, is said, and of which message."""
    speaker, message_id = Speaker(), fresh_id()
    octets = speaker.envelope(speaker.wse_subscribe(CONSUMER), message_id=message_id)
    signed = parties.signed("mole", octets)
    changed = parties.encrypted(signed.replace(b":9999/", b":9998/"))
    lost = re.sub(rb"(<xenc:CipherValue>)(.{8})", rb"\1AAAAAAAA", parties.encrypted(signed))
    for wrong, text in ((changed, b"Body is not what was signed"), (lost, b"cannot be decrypted")):
        answer = await over_http(sealing, S12, wrong, "/soap")
        signature_of(answer, parties)
        assert b"FailedCheck" in answer and text in answer, answer
        assert text_at(answer, "RelatesTo") == message_id


@at_the_gateway
async def test_what_is_sent_elsewhere_is_encrypted(sealing: Running, parties: Parties) -> None:
    speaker = Speaker()
    async with consumers() as some:
        there = some.add()
        reply_to = f"<wsa:ReplyTo><wsa:Address>{there.url}</wsa:Address></wsa:ReplyTo>"
        body = speaker.wse_subscribe(CONSUMER)
        octets = speaker.envelope(body, message_id=fresh_id(), headers=reply_to)
        answer = await sealing.post(parties.signed("mole", octets), type=S12.media_type)
        assert (answer.status, answer.body) == (202, b"")
        await until(lambda: bool(there.received))
        [one] = there.received
        assert b"SubscribeResponse>" not in one.body.split(b"Body")[1]
        signature_of(parties.decrypted("mole", one.body), parties)


@at_the_gateway
async def test_a_receipt_is_signed_once(run: Running, sealing: Running, parties: Parties) -> None:
    """And is encrypted as any answer is."""
    for gateway, path in ((run, "/soap"), (sealing, "/soap/topic/secret")):
        octets = Speaker().envelope("<event/>", message_id=fresh_id())
        signed = parties.signed("mole", octets)
        answer = await gateway.post(signed, path, type=S12.media_type, prefer="receipt")
        assert answer.status == 200, answer.body
        opened = answer.body
        if gateway is sealing:
            assert b"NonRepudiationInformation" in opened  # It is a header block.
            opened = parties.decrypted("mole", opened)
        assert opened.count(b"</ds:Signature>") == 1
        verify_receipt(opened, parties.trust).check_message(signed)


async def test_who_sends_too_much_costs_no_signature(
    tmp_path: Path, parties: Parties, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(authentication, "SIGNATURE_FAILURES_AT_ONCE", 1.0)
    table, file = parties.table(sign_answers=["/soap"]), make_file(tmp_path)
    async with running(tmp_path / "data", identities=file, ws_security=table, trusted=()) as run:
        signed = parties.signed("mole", Speaker().envelope("<event/>", message_id=fresh_id()))
        answers = [
            await run.post(signed.replace(b"<event/>", b"<other/>"), type=S12.media_type)
            for _ in range(2)
        ]
        assert [one.status for one in answers] == [400, 429]
        signature_of(answers[0].body, parties)
        assert b"Signature>" not in answers[1].body


async def test_where_too_much_waits(
    tmp_path: Path, parties: Parties, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer is not given, what it would have handed out stays, and 503 is told as it is."""
    table, file = parties.table(sign_answers=["manage"]), make_file(tmp_path)
    async with running(tmp_path / "data", identities=file, ws_security=table) as run:
        path, answer = await pulled(run, parties, "<e1/>")
        signature_of(answer, parties)
        octets = Speaker().envelope(notify(notification_message("<e2/>")), message_id=fresh_id())
        assert (await run.post(octets, path, type=S12.media_type)).status == 202
        asking = Speaker().envelope(f'<n:GetMessages xmlns:n="{WSNT}"/>', message_id=fresh_id())
        done, queue = threading.Event(), run.gateway.parsing
        busy = [
            asyncio.create_task(queue.run_off_loop(SMALL + 1, done.wait, owner="others"))
            for _ in range(fair_queue.AT_A_TIME)
        ]
        monkeypatch.setattr(fair_queue, "WAITING", 0)
        for _ in range(2):
            told = await run.post(asking, path, type=S12.media_type)
            assert told.status == 503 and b"Signature>" not in told.body, told.body
            assert b"<e2/>" not in told.body
        done.set()
        await asyncio.gather(*busy)
        monkeypatch.undo()
        told = await run.post(asking, path, type=S12.media_type)
        signature_of(told.body, parties)
        assert b"<e2/>" in told.body


def test_settings_that_contradict_each_other(tmp_path: Path, parties: Parties) -> None:
    for table, text in (
        ({"sign_answers": ["manage"]}, "sign_answers: needs signing_key"),
        ({"encrypt_answers": ["manage"]}, "encrypt_answers: needs signing_key"),
        ({"encrypt_answers": ["manage"], "signing_key": parties.own}, "needs signers"),
        ({"sign_answers": ["sing"], "signing_key": parties.own}, "neither a right"),
    ):
        with pytest.raises(ValueError, match=text):
            Settings(data=tmp_path, ws_security=table)


def test_doctor_looks_at_the_key(tmp_path: Path, parties: Parties) -> None:
    def found(own: Path) -> list[tuple[Verdict, str]]:
        table = parties.table(sign_answers=["manage"], signing_key=own)
        settings = Settings(data=tmp_path, identities=tmp_path / "i.toml", ws_security=table)
        return [(one.verdict, one.text) for one in check_ws_security(settings)]

    assert (Verdict.OK, f"{parties.own} is valid for 19 days") in found(parties.own)
    [(verdict, text)] = found(parties.mole[0])
    assert verdict is Verdict.FAIL and "ws_security.signing_key" in text
    [(verdict, text)] = found(tmp_path / "none.pem")
    assert verdict is Verdict.FAIL and "cannot be read" in text
