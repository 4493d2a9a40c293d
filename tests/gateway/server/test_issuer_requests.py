"""What issuers of tokens are asked, with the trust that the settings name, and within bounds."""

from pathlib import Path

import pytest

from gateway.security.issuer_documents import IssuerDocuments
from gateway.server.issuer_requests import IssuerRequests
from tests.rigs.certificates import server_context
from tests.rigs.scripted_peers import consuming, saying

KEYS = b'HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\n{"keys":[]}'


async def test_an_issuer_of_an_authority_of_the_settings(tmp_path: Path) -> None:
    server, _ = server_context(tmp_path, "localhost")
    async with consuming(saying(KEYS), tls=server) as issuer:
        url = f"https://localhost:{issuer.port}/keys"
        documents = IssuerDocuments(IssuerRequests(ca=tmp_path / "server.pem"))
        assert await documents.fetch(url) == {"keys": []}
        with pytest.raises(OSError, match="is not trusted"):
            await IssuerDocuments(IssuerRequests()).fetch(url)


@pytest.mark.parametrize(
    "answer",
    [
        b"SSH-2.0-OpenSSH_9.2\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 400000\r\n\r\n" + b"[" * 400_000,
        b"HTTP/1.1 200 OK\r\nContent-Length: 2000000000\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n{",
        b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1/\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n\xff",
    ],
    ids=["no HTTP", "deep", "2 GB", "short", "elsewhere", "no text"],
)
async def test_answers_that_are_none(answer: bytes) -> None:
    async with consuming(saying(answer)) as issuer:
        with pytest.raises((OSError, ValueError)):
            await IssuerDocuments(IssuerRequests()).fetch(f"http://127.0.0.1:{issuer.port}/keys")


@pytest.mark.parametrize("url", ["file:///etc/passwd", "http://a b/", "https://"])
async def test_addresses_that_are_none(url: str) -> None:
    with pytest.raises((OSError, ValueError)):
        await IssuerDocuments(IssuerRequests()).fetch(url)
