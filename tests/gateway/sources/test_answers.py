"""Producers whose answers are odd: in their heads, in their charsets, in where their managers are."""

import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
import pytest_asyncio

from tests.gateway.sources.test_sources import add, shown, state
from tests.rigs.gateways import Running
from tests.rigs.odd_answers import ODD_ANSWERS
from tests.rigs.producers import Producer, Producers, Told, producers

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def some() -> AsyncIterator[Producers]:
    async with producers() as those:
        yield those


async def removed(gateway: Running, id_: str) -> None:
    answer = await gateway.api("DELETE", f"/sources/{id_}")
    assert answer.status in (200, 202, 204), answer.body


def of_any_status(write: Callable[[bytes], bytes]) -> Callable[[int, str, bytes], bytes]:
    return lambda _code, _type, body: write(body)


async def test_odd_heads(gateway: Running, some: Producers) -> None:
    """What is in the body of each is understood, and the subscription ended like any other."""
    ids: dict[str, tuple[Producer, str]] = {}
    for name, write in ODD_ANSWERS.items():
        producer = some.add()
        producer.wire = of_any_status(write)
        ids[name] = producer, await add(gateway, producer)
    for producer, id_ in ids.values():
        assert (await state(gateway, id_, "live"))["failures"] == 0
        await removed(gateway, id_)
        await producer.asked("Unsubscribe")


async def test_what_is_wrong_with_an_answer_is_said(gateway: Running, some: Producers) -> None:
    producer = some.add()
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 1\r\n\r\nab"
    producer.wire = lambda *_: head
    how = await state(gateway, await add(gateway, producer), "backing-off")
    text = "Subscribe: answered 200 with a malformed head: two lengths, 1 and 2"
    assert how["last_error"] == text


def of_charset(codec: str, parameter: str, declared: str) -> Any:
    """Writes answers in a charset, and says so by the media type, or by the declaration."""

    def wire(code: int, type_: str, body: bytes) -> bytes:
        text = body.decode().replace("</s:Body>", "</s:Body><!-- Ängelholm -->")
        if declared:
            text = f"<?xml version='1.0' encoding='{declared}'?>{text}"
        octets, type_ = text.encode(codec), type_.partition(";")[0] + parameter
        return (
            f"HTTP/1.1 {code} Said\r\nContent-Type: {type_}\r\n"
            f"Content-Length: {len(octets)}\r\n\r\n"
        ).encode() + octets

    return wire


@pytest.mark.parametrize(
    ("codec", "parameter", "declared"),
    [
        ("latin-1", "; charset=iso-8859-1", ""),
        ("latin-1", "", "ISO-8859-1"),
        ("cp1252", '; charset="windows-1252"', "utf-8"),
        ("utf-16", "", "utf-16"),
        ("utf-8", "; charset=utf8", "ISO-8859-1"),
    ],
)
async def test_charsets(
    gateway: Running, some: Producers, codec: str, parameter: str, declared: str
) -> None:
    producer = some.add()
    producer.wire = of_charset(codec, parameter, declared)
    id_ = await add(gateway, producer)
    await state(gateway, id_, "live")
    await removed(gateway, id_)


async def test_a_fault_in_another_charset(gateway: Running, some: Producers) -> None:
    producer = some.add()

    def refuse(_: Producer, told: Told) -> tuple[int, bytes]:
        soap = told.message.soap.value
        body = (
            f'<s:Envelope xmlns:s="{soap}"><s:Body><s:Fault><s:Code><s:Value>s:Sender</s:Value>'
            '</s:Code><s:Reason><s:Text xml:lang="sv">för många</s:Text></s:Reason></s:Fault>'
            "</s:Body></s:Envelope>"
        )
        return 400, body.encode()

    producer.answers["Subscribe"] = refuse
    producer.wire = of_charset("latin-1", "; charset=latin1", "")
    how = await state(gateway, await add(gateway, producer), "backing-off")
    assert how["last_error"] == "Subscribe: answered with a fault: för många"


async def test_a_charset_that_is_not_read_is_named(gateway: Running, some: Producers) -> None:
    producer = some.add()
    producer.wire = of_charset("utf-8", "; charset=shift_jis", "")
    how = await state(gateway, await add(gateway, producer), "backing-off")
    assert "the charset 'shift_jis' is not read; these are: UTF-8, UTF-16," in how["last_error"]


MANAGERS = [
    "urn:uuid:5f5a69c2-e0ae-504f-829b-28f366d8f9a2",
    "",
    "http://www.w3.org/2005/08/addressing/anonymous",
    "{path}/sub/7",
    "http://{path}/sub/7",
    "http:{path}/sub/7",
]


@pytest.mark.slow
@pytest.mark.parametrize("wse", [False, True])
async def test_managers_whose_addresses_lead_nowhere(
    gateway: Running, some: Producers, wse: bool
) -> None:
    """One Subscribe, renewals, an Unsubscribe: all of them at the producer."""
    added: list[tuple[Producer, str]] = []
    for manager in MANAGERS:
        producer = some.add(wse=wse)
        producer.manager = manager.format(path="/" + producer.url.rpartition("/")[2])
        added.append((producer, await add(gateway, producer, lease="PT2S", silence=0)))
    for producer, id_ in added:
        await producer.asked("Renew", 2)
        how = await shown(gateway, id_)
        if producer.manager:
            assert how["manager"] == producer.manager
            assert how["manager_asked_at"].startswith(producer.url)
            assert (producer.last("Renew").text("To") == producer.manager) == (
                producer.manager.startswith("urn:")
            )
        await removed(gateway, id_)
    for producer, _ in added:
        await producer.asked("Unsubscribe")
        assert producer.count("Subscribe") == 1


@pytest.mark.slow
async def test_a_link_whose_manager_leads_nowhere(gateway: Running, some: Producers) -> None:
    producer = some.add()
    producer.manager = "urn:uuid:7"
    asked = {"url": producer.url, "spec": "wsn-1.3", "lease": "PT2S"}
    made = await gateway.api("POST", "/links", json.dumps(asked).encode())
    assert made.status == 201, made.body
    await producer.asked("Renew", 2)
    id_ = json.loads(made.body)["id"]
    answer = await gateway.api("DELETE", f"/links/{id_}")
    assert answer.status < 300, answer.body
    await producer.asked("Unsubscribe")
    assert producer.count("Subscribe") == 1
