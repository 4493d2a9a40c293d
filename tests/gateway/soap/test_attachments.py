"""Attachments from publishers to consumers: in MIME, MTOM and DIME, from any to any."""

import asyncio
import gzip
import json
import re
import time
from collections.abc import Sequence
from pathlib import Path
from random import Random

import pytest
from lxml import etree

from mediation.model.messages import Attachment
from mediation.model.versions import Soap
from mediation.packaging.dime import Decoder, DimeMessage, Encoder
from mediation.packaging.mime import parse_media_type
from mediation.packaging.packages import read_package, write_package
from tests.rigs.consumers import Consumers, Receipt, status
from tests.rigs.envelopes import (
    S11,
    S12,
    WSA10,
    WSNT,
    Answer,
    Fault,
    Speaker,
    fresh_id,
    notification_message,
    notify,
    topic_expression,
)
from tests.rigs.gateways import Running, running
from tests.rigs.pace import unit
from tests.rigs.soap_tcp import RawPeer
from tests.rigs.waiting import DEADLINE

pytestmark = pytest.mark.asyncio(loop_scope="module")

XOP = "http://www.w3.org/2004/08/xop/include"
DIME = "application/dime"
BUDGET = 50.0
"""Seconds of processor time that a hostile package may cost (M01, M02)."""

SPEAKERS = [pytest.param(Speaker(soap), id=soap.name) for soap in Soap]
IMAGE = Attachment("cid:radar@weather.example", "image/png", b"\x89PNG\r\n\x1a\n\r\n--\x00\xff")
NOTE = Attachment("uuid:7", "http://weather.example/types/note", b"calm")


GATEWAY = {"adapter": "embedded:"}
"""Settings of the module's gateway."""


def swa(
    octets: bytes, attachments: Sequence[Attachment] = (), soap: Soap = S12
) -> tuple[str, bytes]:
    return write_package(octets, soap, "", attachments)


def dime(
    octets: bytes, attachments: Sequence[Attachment] = (), soap: Soap = S12
) -> tuple[str, bytes]:
    return DIME, Encoder().encode(DimeMessage(soap, octets, tuple(attachments)))


def plain(
    octets: bytes, attachments: Sequence[Attachment] = (), soap: Soap = S12
) -> tuple[str, bytes]:
    assert not attachments
    return soap.media_type, octets


PACKAGINGS = {"plain": plain, "mime": swa, "dime": dime}


def mtom(octets: bytes, parts: Sequence[Attachment], soap: Soap = S12) -> tuple[str, bytes]:
    """As CXF writes it; *octets* refer to *parts* with xop:Include."""
    line = b"--uuid:0ca0e16e"
    pieces = [
        line,
        f'Content-Type: application/xop+xml; charset=UTF-8; type="{soap.media_type}"'.encode(),
        b"Content-ID: <root.message@cxf.apache.org>",
        b"",
        octets,
    ]
    for part in parts:
        pieces += [line, f"Content-Type: {part.media_type}".encode()]
        pieces += [f"Content-ID: <{part.content_id[4:]}>".encode(), b"", part.content]
    type_ = (
        'multipart/related; type="application/xop+xml"; boundary="uuid:0ca0e16e"; '
        f'start="<root.message@cxf.apache.org>"; start-info="{soap.media_type}"'
    )
    return type_, b"\r\n".join([*pieces, line + b"--\r\n"])


def included(href: str) -> str:
    return f'<m:photo xmlns:m="urn:m"><x:Include xmlns:x="{XOP}" href="{href}"/></m:photo>'


def referring(number: int, *references: str) -> str:
    parts = "".join(f'<part href="{reference}"/>' for reference in references)
    return f"<map><n>{number}</n>{parts}</map>"


def in_dime(octets: bytes) -> DimeMessage:
    decoder = Decoder()
    [message] = decoder.feed(octets)
    decoder.eof()
    return message


def unpacked(received: Receipt | Answer) -> tuple[Receipt, tuple[Attachment, ...], str]:
    """A message without its package, its attachments, and the media type that it came in."""
    headers = received.headers
    media_type = parse_media_type(headers["content-type"])
    envelope, attachments = received.body, tuple[Attachment, ...]()
    if media_type.name == DIME:
        message = in_dime(received.body)
        envelope, attachments = message.envelope, message.attachments
        assert message.soap is not None
        assert message.soap.value.encode() in envelope
    elif media_type.name == "multipart/related":
        package = read_package(media_type.parameters, received.body)
        envelope, attachments = package.envelope, package.attachments
    return Receipt("", headers, envelope), attachments, media_type.name


async def subscribe(
    gateway: Running, url: str, topic: str, how: str, speaker: Speaker | None = None
) -> Answer:
    speaker = speaker or Speaker()
    body = speaker.wsn_subscribe(url, filter=topic_expression(topic), raw=True)
    type_, octets = PACKAGINGS[how](
        speaker.envelope(body, message_id=fresh_id()), soap=speaker.soap
    )
    answer = await gateway.post(octets, type=type_)
    assert answer.status == 200, answer.body
    return answer


async def publish(gateway: Running, topic: str, type_: str, octets: bytes) -> None:
    answer = await gateway.post(octets, f"/soap/topic/{topic}", type=type_)
    assert (answer.status, answer.body) == (202, b""), answer.body


async def dropped(gateway: Running) -> int:
    metrics = await gateway.request("GET", "/metrics")
    found = re.search(rb"^dragoman_attachments_dropped_total (\d+)", metrics.body, re.MULTILINE)
    assert found is not None
    return int(found[1])


@pytest.mark.parametrize("speaker", SPEAKERS)
@pytest.mark.parametrize("consumed", ["mime", "dime"])
@pytest.mark.parametrize("published", ["mime", "dime"])
async def test_each_packaging_to_each(
    gateway: Running, consumer: Consumers, published: str, consumed: str, speaker: Speaker
) -> None:
    topic, url = f"{published}-{consumed}-{speaker.soap.name}", consumer.fresh()
    await subscribe(gateway, url, topic, consumed, speaker)
    payload = referring(1, IMAGE.content_id, NOTE.content_id)
    octets = speaker.envelope(payload, message_id=fresh_id())
    await publish(gateway, topic, *PACKAGINGS[published](octets, [IMAGE, NOTE], speaker.soap))
    received = await consumer.next(url)
    message, attachments, media_type = unpacked(received)
    assert media_type == {"mime": "multipart/related", "dime": DIME}[consumed]
    assert message.message.soap is speaker.soap
    assert [part.get("href") for part in message.payload.iter("part")] == [
        part.content_id for part in attachments
    ]
    assert [part.content for part in attachments] == [IMAGE.content, NOTE.content]
    assert attachments[0] == IMAGE
    # MIME has no room for a type that is a URI.
    untyped = "mime" in (published, consumed)
    assert attachments[1].media_type == ("application/octet-stream" if untyped else NOTE.media_type)
    assert ("soapaction" in received.headers) == (speaker.soap is S11)


@pytest.mark.parametrize("speaker", SPEAKERS)
@pytest.mark.parametrize("how", ["plain", "mime", "dime"])
async def test_mtom_arrives_as_text(
    gateway: Running, consumer: Consumers, how: str, speaker: Speaker
) -> None:
    """With what it includes inside it, and every other part beside it."""
    topic, url = f"mtom-{how}-{speaker.soap.name}", consumer.fresh()
    await subscribe(gateway, url, topic, how, speaker)
    before = await dropped(gateway)
    payload = f"<a>{included('cid:b%40x')}</a>"
    octets = speaker.envelope(payload, message_id=fresh_id())
    parts = [IMAGE, Attachment("cid:b@x", "image/png", b"\x00\x01\x02")]
    await publish(gateway, topic, *mtom(octets, parts, speaker.soap))
    message, attachments, _ = unpacked(await consumer.next(url))
    assert message.payload.findtext("{urn:m}photo") == "AAEC"
    assert attachments == (() if how == "plain" else (IMAGE,))
    await gateway.quiet()
    assert await dropped(gateway) - before == (1 if how == "plain" else 0)


async def test_mtom_of_wse_in_dime(gateway: Running, consumer: Consumers) -> None:
    """WSE 3.0 puts the whole MIME package into DIME's first record."""
    topic, url = "mtom-in-dime", consumer.fresh()
    await subscribe(gateway, url, topic, "dime")
    octets = Speaker().envelope(included("cid:b@x"), message_id=fresh_id())
    type_, package = mtom(octets, [Attachment("cid:b@x", "image/png", b"\x00\x01\x02")])
    headed = f"MIME-Version: 1.0\r\nContent-Type: {type_}\r\n\r\n".encode() + package
    await publish(gateway, topic, *dime(headed, [IMAGE]))
    message, attachments, _ = unpacked(await consumer.next(url))
    assert message.payload.text == "AAEC"
    assert attachments == (IMAGE,)


async def test_who_reads_no_packaging_gets_the_message_without(
    gateway: Running, consumer: Consumers
) -> None:
    topic, bare, whole = "without", consumer.fresh(), consumer.fresh()
    await subscribe(gateway, bare, topic, "plain")
    await subscribe(gateway, whole, topic, "mime")
    before = await dropped(gateway)
    octets = Speaker().envelope(referring(1, IMAGE.content_id), message_id=fresh_id())
    await publish(gateway, topic, *swa(octets, [IMAGE, NOTE]))
    message, attachments, media_type = unpacked(await consumer.next(bare))
    assert (attachments, media_type) == ((), "application/soap+xml")
    assert message.payload.findtext("n") == "1"
    assert len(unpacked(await consumer.next(whole))[1]) == 2
    await gateway.quiet()
    assert await dropped(gateway) - before == 2
    left_out = [log for log in gateway.logs if log["event"] == "delivery.without-attachments"]
    assert left_out[-1]["attachments"] == 2


async def test_without_attachments_mime_is_plain_and_dime_is_dime(
    gateway: Running, consumer: Consumers
) -> None:
    topic, mime, dime_url = "none", consumer.fresh(), consumer.fresh()
    await subscribe(gateway, mime, topic, "mime")
    await subscribe(gateway, dime_url, topic, "dime")
    await gateway.publish(referring(1), path=f"/soap/topic/{topic}")
    assert unpacked(await consumer.next(mime))[2] == "application/soap+xml"
    assert unpacked(await consumer.next(dime_url))[2] == DIME


async def test_each_notification_takes_its_own_parts(gateway: Running, consumer: Consumers) -> None:
    topic, url = "own", consumer.fresh()
    await subscribe(gateway, url, topic, "dime")
    other = Attachment("cid:other@x", "text/plain", b"for all")
    body = notify(
        notification_message(referring(1, IMAGE.content_id), topic),
        notification_message(referring(2, NOTE.content_id), topic),
    )
    octets = Speaker().envelope(body, message_id=fresh_id())
    answer = await gateway.post(dime(octets, [IMAGE, NOTE, other])[1], type=DIME)
    assert answer.status == 202
    first, second = [unpacked(await consumer.next(url)) for _ in range(2)]
    assert (first[0].payload.findtext("n"), first[1]) == ("1", (IMAGE, other))
    assert (second[0].payload.findtext("n"), second[1]) == ("2", (NOTE, other))


@pytest.mark.parametrize("speaker", SPEAKERS)
async def test_answers_come_in_what_was_asked_in(
    gateway: Running, consumer: Consumers, speaker: Speaker
) -> None:
    for how, expected in (("mime", speaker.soap.media_type), ("dime", DIME)):
        answer = await subscribe(gateway, consumer.fresh(), "answers", how, speaker)
        message, attachments, media_type = unpacked(answer)
        assert (media_type, attachments) == (expected, ())
        assert etree.QName(message.message.body[0]).localname == "SubscribeResponse"
        type_, octets = PACKAGINGS[how](
            speaker.envelope(
                "<x:GetStatus xmlns:x='http://schemas.xmlsoap.org/ws/2004/08/eventing'/>",
                message_id=fresh_id(),
            ),
            soap=speaker.soap,
        )
        answer = await gateway.post(octets, type=type_)
        message, _, media_type = unpacked(answer)
        assert media_type == expected
        assert answer.status == (500 if speaker.soap is S11 else 400)
        Fault.of(message.message)


@pytest.mark.parametrize("how", ["mime", "dime"])
async def test_attachments_wait_with_their_message(
    tmp_path: Path, consumer: Consumers, how: str
) -> None:
    """In the journal, where nobody settled it, and held in the store; both through a restart."""
    url = consumer.fresh()
    path = url[url.index("/", 8) :]
    consumer.at(path).behaviour = status(503)
    settings = {"adapter": "embedded:", "retry_delays": [0.2] * 20, "drain": 0.2}
    async with running(tmp_path, **settings) as gateway:
        await subscribe(gateway, url, "held", how)
        for number in range(3):
            octets = Speaker().envelope(referring(number), message_id=fresh_id())
            await publish(gateway, "held", *PACKAGINGS[how](octets, [IMAGE, NOTE]))
        await consumer.next(url)
        gateway.stop.set()
    while consumer.waiting(url):
        await consumer.next(url)
    consumer.at(path).behaviour = status(202)
    async with running(tmp_path, **settings) as gateway:
        for number in range(3):
            message, attachments, _ = unpacked(await consumer.next(url))
            assert message.payload.findtext("n") == str(number)
            assert [part.content for part in attachments] == [IMAGE.content, NOTE.content]
        assert await dropped(gateway) == 0


@pytest.mark.parametrize(
    ("says", "how", "expected"),
    [
        ("mime", "plain", "multipart/related"),
        ("dime", "plain", DIME),
        ("none", "mime", "application/soap+xml"),
        (None, "plain", "application/soap+xml"),
    ],
)
async def test_what_the_operator_says_of_a_consumer_counts(
    tmp_path: Path, consumer: Consumers, says: str | None, how: str, expected: str
) -> None:
    url = consumer.fresh()
    rows = [{"address": "127.0.0.1", "attachments": says}] if says else []
    async with running(tmp_path, consumers=rows) as gateway:
        await subscribe(gateway, url, "options", how)
        octets = Speaker().envelope(referring(1), message_id=fresh_id())
        await publish(gateway, "options", *swa(octets, [IMAGE]))
        _, attachments, media_type = unpacked(await consumer.next(url))
        assert media_type == expected
        assert attachments == ((IMAGE,) if says in ("mime", "dime") else ())
        await gateway.quiet()
        assert await dropped(gateway) == (0 if attachments else 1)


async def test_a_large_package(gateway: Running, consumer: Consumers) -> None:
    """Larger than an envelope may be, compressed on its way."""
    topic, url = "large", consumer.fresh()
    await subscribe(gateway, url, topic, "mime")
    large = Attachment("cid:large@x", "text/plain", Random(1).randbytes(3 * 2**20))
    type_, octets = swa(Speaker().envelope(referring(1), message_id=fresh_id()), [large])
    packed = gzip.compress(octets, 1)
    answer = await gateway.post(packed, f"/soap/topic/{topic}", type=type_, content_encoding="gzip")
    assert answer.status == 202
    assert unpacked(await consumer.next(url))[1] == (large,)
    answer = await gateway.post(octets + bytes(2**20), type=type_)
    assert answer.status == 413


GOOD = Speaker().envelope("<a/>")
ENVELOPE_11 = Speaker(S11).envelope("<a/>")


def _swapped(old: bytes, new: bytes) -> tuple[str, bytes]:
    type_, octets = swa(GOOD, [IMAGE])
    assert old in octets
    return type_, octets.replace(old, new)


def _xop(body: str, *parts: Attachment) -> tuple[str, bytes]:
    return mtom(Speaker().envelope(body), parts)


PNG = Attachment("cid:a@x", "image/png", b"1")
MULTIPART = 'multipart/related; type="application/soap+xml"; boundary=b'
FAULTS = {
    # M01: what is wrong with the package is the sender's fault.
    "an include over http": _xop(included("http://127.0.0.1:1/x")),
    "an include of a file": _xop(included("file:///etc/passwd")),
    "an include of nothing": _xop(included("cid:b@x"), PNG),
    "a part included twice": _xop(included("cid:a@x") * 2, PNG),
    "an include beside text": _xop(included("cid:a@x").replace("<x:", "text<x:"), PNG),
    "a DTD in front of an include": mtom(b"<!DOCTYPE a [<!ENTITY b 'c'>]><a>&b;</a>", []),
    "no Content-ID": _swapped(b"Content-ID: <radar@weather.example>\r\n", b""),
    "one Content-ID twice": _swapped(b"radar@weather.example", b"envelope@dragoman.invalid"),
    "a nested multipart": _swapped(b"image/png", b"multipart/mixed; boundary=c"),
    "a foreign transfer encoding": _swapped(b"binary", b"x-uuencode"),
    "no end": _swapped(b"--\r\n", b"\r\n"),
    "the root is a picture": (MULTIPART, b"--b\r\nContent-Type: image/png\r\n\r\n1\r\n--b--"),
    "a header without end": (MULTIPART, b"--b\r\n" + b"X: y\r\n" * 4000 + b"\r\n\r\n--b--"),
    "65 parts": (MULTIPART, b"--b\r\nContent-ID: <a>\r\n\r\n\r\n" * 65 + b"--b--"),
    "endless boundaries": (MULTIPART, b"--b\r\n\r\n" * 500_000),
    "nothing": (MULTIPART, b""),
    "too many elements": _xop("<a/>" * 500_000),
    "depth": _xop("<a>" * 300_000),
}


@pytest.mark.parametrize("case", FAULTS)
async def test_bad_packages_are_the_senders_fault(gateway: Running, case: str) -> None:
    type_, octets = FAULTS[case]
    spent = []
    for _ in range(3):
        started = time.process_time()
        answer = await gateway.post(octets, type=type_)
        spent.append((time.process_time() - started) / unit())
        assert answer.status == 400, answer.body
        assert answer.fault.code == f"{{{S12.value}}}Sender"
        assert b"x-uuencode" not in answer.body
        if spent[-1] < BUDGET:
            break
    assert min(spent) < BUDGET


def _record(flags: int, length: int, data: bytes = b"") -> bytes:
    return bytes([flags, 0x30, 0, 0, 0, 0, 0, 0]) + length.to_bytes(4, "big") + data


FIRST = dime(GOOD)[1]
HEAD = bytes([FIRST[0] & ~2]) + FIRST[1:]
"""The same record, but not the last of its message."""

REFUSALS = {
    # M02: after an error in the framing nothing can be told from the rest.
    "nothing": (b"", 400),
    "no DIME": (b"<a/>" * 10, 400),
    "cut": (FIRST[:-10], 400),
    "no end": (HEAD, 400),
    "octets behind it": (FIRST + b"\0\0\0\0", 400),
    "two messages": (FIRST * 2, 400),
    "many messages": (FIRST * (4 * 2**20 // len(FIRST)), 400),
    "one id twice": (dime(GOOD, [PNG, PNG])[1], 400),
    "four gigabytes announced": (HEAD + _record(0x0A, 2**32 - 1), 413),
    "2,000 records": (HEAD + _record(0x08, 4, b"abcd") * 2000, 400),
    "empty records": (HEAD + _record(0x08, 0) * 300_000, 400),
    "65 attachments": (
        dime(GOOD, [Attachment(f"cid:{n}", "a/b", b"") for n in range(65)])[1],
        400,
    ),
    "an envelope too large": (dime(GOOD + b" " * (2 * 2**20 + 1))[1], 413),
    "no SOAP": (HEAD[:1] + b"\x10" + HEAD[2:] + _record(0x0A, 0), 415),
}


@pytest.mark.parametrize("case", REFUSALS)
async def test_bad_dime_is_refused(gateway: Running, case: str) -> None:
    octets, status = REFUSALS[case]
    spent = []
    for _ in range(3):
        started = time.process_time()
        answer = await gateway.post(octets, type=DIME)
        spent.append((time.process_time() - started) / unit())
        assert answer.status == status, answer.body
        if spent[-1] < BUDGET:
            break
    assert min(spent) < BUDGET


async def test_dime_that_calls_its_envelope_another_version(gateway: Running) -> None:
    answer = await gateway.post(dime(ENVELOPE_11, soap=S12)[1], type=DIME)
    message = unpacked(answer)[0].message
    assert message.soap is S12
    assert Fault.of(message).code == f"{{{S12.value}}}VersionMismatch"


async def test_packages_of_something_else(gateway: Running) -> None:
    for type_ in (
        "multipart/related; type=text/html; boundary=b",
        "multipart/related; type=text/xml",
        "multipart/mixed; boundary=b",
        "multipart/form-data; boundary=b",
    ):
        answer = await gateway.post(b"--b--", type=type_)
        assert answer.status == 415, type_
        assert "application/dime" in answer.headers["accept-post"]


async def test_nothing_is_fetched(gateway: Running) -> None:
    """Neither what an include names, nor what an envelope refers to."""
    async with Consumers() as canary:
        for octets in (
            _xop(included(canary.url("include"))),
            swa(Speaker().envelope(f'<a href="{canary.url("href")}"/>'), [IMAGE]),
        ):
            await gateway.post(octets[1], "/soap/topic/canary", type=octets[0])
        await gateway.quiet()
        assert canary.waiting(canary.url("include")) == canary.waiting(canary.url("href")) == 0


async def test_mailboxes_keep_envelopes_alone(gateway: Running) -> None:
    """What is left out is counted, whether it was delivered to the box or sent to it."""
    speaker = Speaker()
    made = await gateway.ask(speaker, f'<n:CreatePullPoint xmlns:n="{WSNT}"/>')
    [address] = made.message.body[0].iter(f"{{{WSA10}}}Address")
    box = address.text or ""
    await subscribe(gateway, box, "boxed", "mime")
    before = await dropped(gateway)
    octets = speaker.envelope(referring(1), message_id=fresh_id())
    await publish(gateway, "boxed", *swa(octets, [IMAGE]))
    path = box[box.index("/", 8) :]
    body = notify(notification_message(referring(2)))
    type_, sent = swa(speaker.envelope(body, message_id=fresh_id()), [IMAGE, NOTE])
    assert (await gateway.post(sent, path, type=type_)).status == 202
    await gateway.quiet()
    assert await dropped(gateway) - before == 3
    taken = await gateway.ask(speaker, f'<n:GetMessages xmlns:n="{WSNT}"/>', path)
    assert sorted(n.text or "" for n in taken.message.root.iter("n")) == ["1", "2"]


async def test_a_subscription_ends_in_its_packaging(gateway: Running, consumer: Consumers) -> None:
    speaker, end_to = Speaker(S11), consumer.fresh()
    body = speaker.wse_subscribe(consumer.fresh(), end_to=end_to)
    octets = speaker.envelope(body, message_id=fresh_id())
    answer = await gateway.post(dime(octets, soap=S11)[1], type=DIME)
    assert answer.status == 200
    listed = json.loads((await gateway.api("GET", "/subscriptions")).body)
    [key] = [one["id"] for one in listed["subscriptions"] if one["end_to"] == end_to]
    assert (await gateway.api("DELETE", f"/subscriptions/{key}")).status < 300
    message, _, media_type = unpacked(await consumer.next(end_to))
    assert media_type == DIME
    assert etree.QName(message.message.body[0]).localname == "SubscriptionEnd"


async def test_the_guides_example(gateway: Running, consumer: Consumers) -> None:
    guide = (Path(__file__).parents[3] / "docs" / "attachments.md").read_text()
    [type_] = re.findall(r"-H 'Content-Type: (.*)'", guide)
    [package] = re.findall(r"```text\n(.*?)```", guide, re.DOTALL)
    url = consumer.fresh()
    await subscribe(gateway, url, "storm", "dime")
    await publish(gateway, "storm", type_, package.replace("\n", "\r\n").encode())
    message, attachments, _ = unpacked(await consumer.next(url))
    reference = message.payload[0].get("href") or ""
    assert attachments == (Attachment(reference, "text/plain", b"as dark as it gets"),)


async def test_an_envelope_that_xop_makes_too_large(gateway: Running) -> None:
    part = Attachment("cid:a@x", "a/b", bytes(2**21 * 3 // 4))
    type_, octets = mtom(Speaker().envelope(included("cid:a@x")), [part])
    answer = await gateway.post(octets, type=type_)
    assert answer.status == 413
    assert answer.fault.code == f"{{{S12.value}}}Sender"


async def test_soap_tcp_always_brings_them(tmp_path: Path, consumer: Consumers) -> None:
    """From MIME over HTTP to a consumer on SOAP.TCP, which subscribed in plain XML; and back."""
    speaker, url = Speaker(S11), consumer.fresh()
    peers: asyncio.Queue[RawPeer] = asyncio.Queue()
    server = await asyncio.start_server(
        lambda reader, writer: peers.put_nowait(RawPeer(reader, writer)), "127.0.0.1", 0
    )
    async with running(tmp_path, soap_tcp_port=0) as gateway, server:
        port = server.sockets[0].getsockname()[1]
        await subscribe(gateway, f"soap.tcp://127.0.0.1:{port}/sink", "out", "plain", speaker)
        await subscribe(gateway, url, "in", "mime", speaker)
        octets = speaker.envelope(referring(1, IMAGE.content_id), message_id=fresh_id())
        await publish(gateway, "out", *swa(octets, [IMAGE, NOTE], S11))
        sink = await asyncio.wait_for(peers.get(), DEADLINE)
        arrived = await sink.receive()
        assert [part.content for part in arrived.attachments] == [IMAGE.content, NOTE.content]
        source = await RawPeer.connect(gateway.soap_tcp_port)
        to = f"soap.tcp://127.0.0.1:{gateway.soap_tcp_port}/soap/topic/in"
        octets = speaker.envelope(
            referring(2, IMAGE.content_id), message_id=fresh_id(), to=to, action="urn:a"
        )
        await source.send(dime(octets, [IMAGE], S11)[1])
        _, attachments, media_type = unpacked(await consumer.next(url))
        assert (attachments, media_type) == ((IMAGE,), "multipart/related")
        await gateway.quiet()
        assert await dropped(gateway) == 0
        await source.close()
        await sink.close()
