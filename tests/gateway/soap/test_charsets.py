"""Envelopes and events in every charset that is read, at every door: consumers get the same
characters, in UTF-8."""

import json

import pytest

from mediation.model.versions import Soap
from mediation.packaging.dime import DimeMessage, Encoder
from mediation.packaging.packages import write_package
from tests.rigs.cloudevents import event, post
from tests.rigs.consumers import Consumers
from tests.rigs.envelopes import S11, Speaker, fresh_id
from tests.rigs.gateways import Running

pytestmark = pytest.mark.asyncio(loop_scope="module")

SPEAKER = Speaker(S11)
NAME = "Ängelholm"
PAYLOAD = f'<place xmlns="urn:place">{NAME}</place>'
CHARSETS = [
    ("utf8", "utf-8"),
    ("UTF-16", "utf-16"),
    ("utf-16be", "utf-16-be"),
    ("latin1", "latin-1"),
    ("ISO_8859-15", "iso-8859-15"),
    ("cp1252", "cp1252"),
]


def envelope(declared: str = "") -> str:
    text = SPEAKER.envelope(PAYLOAD, action="urn:place", message_id=fresh_id()).decode()
    return f"<?xml version='1.0' encoding='{declared}'?>{text}" if declared else text


async def consuming(gateway: Running, consumer: Consumers) -> str:
    url = consumer.fresh()
    await gateway.subscribe(SPEAKER, SPEAKER.wse_subscribe(url))
    return url


async def check(consumer: Consumers, url: str) -> None:
    receipt = await consumer.next(url)
    assert NAME.encode() in receipt.body
    assert receipt.payload.text == NAME


@pytest.mark.parametrize(("name", "codec"), CHARSETS)
@pytest.mark.parametrize("declared", ["", "UTF-8", "ISO-8859-1", "Shift_JIS"])
async def test_the_charset_of_the_media_type(
    gateway: Running, consumer: Consumers, name: str, codec: str, declared: str
) -> None:
    url = await consuming(gateway, consumer)
    octets = envelope(declared).encode(codec)
    answer = await gateway.post(octets, type=f'text/xml; charset="{name}"')
    assert answer.status == 202, answer.body
    await check(consumer, url)


@pytest.mark.parametrize("name", ["latin1", "windows-1252", "ISO-8859-15", "utf8"])
async def test_the_charset_of_the_declaration(
    gateway: Running, consumer: Consumers, name: str
) -> None:
    """Alone, in DIME, which has no charset, and in MIME."""
    url = await consuming(gateway, consumer)
    octets = envelope(name).encode(name)
    dime = Encoder().encode(DimeMessage(Soap.V1_1, envelope(name).encode(name)))
    mime_type, mime = write_package(envelope(name).encode(name), Soap.V1_1, "", ())
    mime = mime.replace(b"text/xml; charset=utf-8", b"text/xml")
    for type_, body in (("text/xml", octets), ("application/dime", dime), (mime_type, mime)):
        answer = await gateway.post(body, type=type_)
        assert answer.status == 202, answer.body
        await check(consumer, url)


async def test_the_charset_of_a_part(gateway: Running, consumer: Consumers) -> None:
    url = await consuming(gateway, consumer)
    type_, body = write_package(envelope("UTF-8").encode("cp1252"), Soap.V1_1, "", ())
    for name, status in (("windows-1252", 202), ("shift_jis", 500)):
        part = body.replace(b"charset=utf-8", f"charset={name}".encode())
        answer = await gateway.post(part, type=type_)
        assert answer.status == status, answer.body
    assert b"'shift_jis' is not read; these are: UTF-8," in answer.body
    await check(consumer, url)


@pytest.mark.parametrize(("name", "codec"), CHARSETS)
async def test_events_in_json_and_as_they_are(
    gateway: Running, consumer: Consumers, name: str, codec: str
) -> None:
    url = await consuming(gateway, consumer)
    structured = {**event(), "datacontenttype": "application/xml", "data": PAYLOAD}
    octets = json.dumps(structured, ensure_ascii=False).encode(codec)
    type_ = f"application/cloudevents+json; charset={name}"
    answer = await post(gateway, octets, type_)
    assert answer.status == 202, answer.body
    await check(consumer, url)
    answer = await post(
        gateway,
        PAYLOAD.encode(codec),
        f"application/xml; charset={name}",
        ce_specversion="1.0",
        ce_id=fresh_id(),
        ce_source="/places",
        ce_type="place",
    )
    assert answer.status == 202, answer.body
    await check(consumer, url)


async def test_events_in_charsets_that_are_not_read(gateway: Running) -> None:
    structured = {**event(), "datacontenttype": "application/xml", "data": PAYLOAD}
    for type_, body, more in (
        ("application/cloudevents+json", json.dumps(structured), {}),
        ("text/xml", "<a/>", {"ce_specversion": "1.0", "ce_id": fresh_id(), "ce_type": "t"}),
    ):
        more = {**more, "ce_source": "/s"} if more else {}
        answer = await post(gateway, body.encode(), f"{type_}; charset=utf-7", **more)
        assert answer.status == 415
        assert b"'utf-7' is not read; these are: UTF-8," in answer.body


async def test_the_mould_of_one_charset_is_not_that_of_another(
    gateway: Running, consumer: Consumers
) -> None:
    """The same bytes, again and again, mean what each message's charset says."""
    url = await consuming(gateway, consumer)
    for _ in range(12):
        for name, text in (("utf-8", "Ä"), ("cp1252", "Ã„")):
            octets = SPEAKER.envelope("<a xmlns='urn:a'>@</a>", message_id=fresh_id()).replace(
                b"@", "Ä".encode()
            )
            answer = await gateway.post(octets, type=f"text/xml; charset={name}")
            assert answer.status == 202, answer.body
            assert (await consumer.next(url)).payload.text == text
