"""How large an envelope may be, which operators may say otherwise."""

import re
from pathlib import Path

import pytest

from mediation.model.versions import Soap
from mediation.packaging.dime import DimeMessage, Encoder
from mediation.packaging.packages import write_package
from tests.rigs.consumers import consumers
from tests.rigs.envelopes import S11, WSNT, Speaker, fresh_id
from tests.rigs.gateways import Running, running

SPEAKER = Speaker(S11)
WIDE = {"envelope_bytes": 8 * 2**20, "envelope_elements": 200_000}


def envelope(elements: int, text: int = 0) -> bytes:
    body = f'<r xmlns="urn:large">{"<a/>" * (elements - 1)}{"x" * text}</r>'
    return SPEAKER.envelope(body, action="urn:large", message_id=fresh_id())


async def statuses(run: Running, octets: bytes) -> list[int]:
    """Of an envelope as it is, in DIME, and in MIME."""
    dime = Encoder().encode(DimeMessage(Soap.V1_1, octets.replace(b"urn:uuid:", b"urn:uuid:d")))
    mime_type, mime = write_package(octets.replace(b"urn:uuid:", b"urn:uuid:m"), Soap.V1_1, "", ())
    return [
        (await run.post(body, type=type_)).status
        for type_, body in (
            ("text/xml", octets),
            ("application/dime", dime),
            (mime_type, mime),
        )
    ]


@pytest.mark.parametrize(("elements", "text"), [(100_000, 0), (10, 5 * 2**20)])
async def test_wider_limits(tmp_path: Path, elements: int, text: int) -> None:
    async with running(tmp_path, **WIDE) as run, consumers() as sinks:
        sink = sinks.add()
        await run.subscribe(SPEAKER, SPEAKER.wse_subscribe(sink.url))
        assert await statuses(run, envelope(elements, text)) == [202] * 3
        for _ in range(3):
            body = (await sink.next()).body
            assert body.count(b"<a/>") == elements - 1 and body.count(b"x" * 100) >= text // 200


async def test_the_usual_limits(tmp_path: Path) -> None:
    async with running(tmp_path) as run:
        assert 202 not in await statuses(run, envelope(100_000))
        assert await statuses(run, envelope(10, 3 * 2**20)) == [413] * 3


async def test_a_wide_mailbox(tmp_path: Path) -> None:
    async with running(tmp_path, **WIDE) as run:
        made = await run.ask(SPEAKER, f'<w:CreatePullPoint xmlns:w="{WSNT}"/>')
        assert made.status == 200, made.body
        address = re.findall(r">(http[^<]*/pullpoints/[^<]*)<", made.body.decode())[0]
        answer = await run.post(envelope(100_000), address.removeprefix(run.url))
        assert answer.status < 300, answer.body
