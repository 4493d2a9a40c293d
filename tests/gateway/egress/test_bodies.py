"""What is sent that is no SOAP: headers of one message alone, and no way over SOAP.TCP."""

import asyncio
from dataclasses import replace

import pytest

from gateway.egress import (
    AddressPolicy,
    Dialer,
    FailureKind,
    HttpTransport,
    Request,
    SendFailed,
    TransportByScheme,
    parse_target,
)
from gateway.egress.attachments import package_attachments
from gateway.egress.soap_tcp_transport import SoapTcpTransport
from mediation.model.messages import Attachment, Packaging
from tests.rigs.scripted_peers import ACCEPTED, consuming, read_request, sending

PNG = Attachment("cid:1", "image/png", b"\x89PNG")


def body(url: str, **own: str) -> Request:
    return Request(
        parse_target(url),
        b"{}",
        (("Content-Type", "application/json"),),
        soap=None,
        own_headers=tuple((name.replace("_", "-"), value) for name, value in own.items()),
    )


async def test_own_headers_are_those_of_one_message() -> None:
    seen: list[bytes] = []

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            seen.append(await read_request(reader))
            writer.write(ACCEPTED)

    async with consuming(handler) as consumer, sending() as transport:
        for number in "12":
            await transport.send(body(consumer.url(), ce_id=number))
        await transport.send(replace(body(consumer.url(), ce_id="3"), origin="o-1"))
        await transport.send(body(consumer.url()))
    assert b"\r\nce-id: 1\r\n" in seen[0]
    assert b"\r\nce-id: 2\r\n" in seen[1]
    assert b"\r\nce-id: 3\r\n" in seen[2] and b": o-1\r\n" in seen[2]
    assert b"ce-id" not in seen[3]
    assert all(one.endswith(b"\r\n\r\n{}") for one in seen)


@pytest.mark.parametrize("value", ["a\r\nX: b", "a\nb", "a\x00", "\x7f"])
async def test_an_own_header_cannot_end_itself(value: str) -> None:
    async with sending() as transport:
        with pytest.raises(ValueError, match="control character"):
            await transport.send(body("http://127.0.0.1:8099/", ce_subject=value))


@pytest.mark.parametrize("packaging", Packaging)
def test_attachments_have_no_place_in_it(packaging: Packaging) -> None:
    request = replace(body("http://127.0.0.1/"), attachments=(PNG, PNG), packaging=packaging)
    assert package_attachments(request) == (request.headers, b"{}", 2)


async def test_only_http_carries_it() -> None:
    dialer = Dialer(AddressPolicy(allow=["127.0.0.0/8"]))
    tcp = SoapTcpTransport(dialer)
    transport = TransportByScheme({"http": HttpTransport(dialer), "soap.tcp": tcp}, dialer)
    request = body("soap.tcp://127.0.0.1:8099/")
    try:
        with pytest.raises(SendFailed) as failure:
            await transport.send(request)
        assert failure.value.kind is FailureKind.FORBIDDEN
        with pytest.raises(ValueError, match="envelopes alone"):
            tcp.octets_of(request)
    finally:
        await transport.close()
