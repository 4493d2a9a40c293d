"""DIME against gSOAP's own reader and writer, with no gateway between."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from mediation.model.messages import Attachment
from mediation.model.versions import Soap
from mediation.packaging.dime import Decoder, DimeMessage, Encoder
from tests.rigs.gsoap import DEADLINE, gsoap_consumer, gsoap_publish, needs_gsoap

needs_gsoap()

BODY = '<w:Warning xmlns:w="urn:weather">gusts &amp; "hail" é</w:Warning>'
NOTE = Attachment("cid:note", "text/plain; charset=utf-8", b"abc")
EMPTY = Attachment("uuid:3", "application/octet-stream", b"")
RADAR = Attachment("cid:radar", "image/png", bytes(range(256)) * 300)


async def written(folder: Path, *options: str, attachments: Sequence[Attachment]) -> bytes:
    """What gSOAP writes to soap.tcp until it closes."""
    octets: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    async def keep(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        octets.set_result(await reader.read())
        writer.close()

    async with await asyncio.start_server(keep, "127.0.0.1", 0) as server:
        url = f"soap.tcp://127.0.0.1:{server.sockets[0].getsockname()[1]}/weather"
        await gsoap_publish("tcp", url, BODY, folder, *options, attachments=attachments)
        return await asyncio.wait_for(octets, DEADLINE)


@pytest.mark.parametrize("options", [[], ["--stream"]], ids=["whole", "chunked"])
@pytest.mark.parametrize(
    "attachments", [(), (NOTE,), (RADAR, NOTE, EMPTY)], ids=["none", "one", "three"]
)
async def test_we_read_what_gsoap_writes(
    options: list[str], attachments: tuple[Attachment, ...], tmp_path: Path
) -> None:
    wire = await written(tmp_path, "-n", "3", *options, attachments=attachments)
    decoder = Decoder()
    messages = list(decoder.feed(wire))
    decoder.eof()
    assert len(messages) == 3
    for message in messages:
        assert message.soap is Soap.V1_1
        assert BODY.encode() in message.envelope
        assert message.attachments == attachments
    decoder = Decoder()
    assert messages == [one for octet in wire for one in decoder.feed(bytes([octet]))]


@pytest.mark.parametrize(
    ("encoder", "attachments"),
    [
        pytest.param(Encoder(), (), id="narrowest"),
        pytest.param(Encoder(closing=True), (), id="closed by an empty record"),
        pytest.param(Encoder(chunk=100), (), id="in chunks"),
        pytest.param(Encoder(), (RADAR, NOTE), id="attachments"),
        pytest.param(Encoder(chunk=4096), (NOTE, RADAR), id="an attachment in chunks"),
    ],
)
async def test_gsoap_reads_what_we_write(
    encoder: Encoder, attachments: tuple[Attachment, ...]
) -> None:
    envelope = f'<s:Envelope xmlns:s="{Soap.V1_1.value}"><s:Body>{BODY}</s:Body></s:Envelope>'
    wire = encoder.encode(DimeMessage(Soap.V1_1, envelope.encode(), attachments))
    async with gsoap_consumer(3) as consumer:
        _, writer = await asyncio.open_connection("127.0.0.1", consumer.port)
        writer.write(wire + wire + wire[:50])
        for _ in range(2):
            message = await consumer.message()
            assert message.body == BODY
            assert message.attachments == attachments
        writer.write(wire[50:])
        assert (await consumer.message()).attachments == attachments
        writer.close()
        await writer.wait_closed()
        await consumer.ended()
