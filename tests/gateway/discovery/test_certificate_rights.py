"""The right to a protected topic by the certificate that a client shows to TLS."""

import asyncio
import base64
import ssl
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from urllib.parse import quote
from uuid import uuid4

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from gateway.security.tls import client_context
from mediation.discovery import Authorization, Delegation, Right, authority_of, write
from tests.rigs import gateways
from tests.rigs.certificates import Authority
from tests.rigs.discovery_entities import Speaker
from tests.rigs.discovery_keys import parties
from tests.rigs.discovery_rights import OTHER, OWNER, Rig, now, numbers, protected_topic
from tests.rigs.envelopes import Answer, fresh_id
from tests.rigs.envelopes import Speaker as Peer
from tests.rigs.gateways import http_request, read_http
from tests.rigs.soap_tcp import listening
from tests.rigs.waiting import DEADLINE


def shows(folder: Path, speaker: Speaker, authority: Path) -> ssl.SSLContext:
    """What *speaker* connects with, who believes *authority*."""
    own = speaker.credentials
    assert own is not None
    file = folder / f"{speaker.id}.pem"
    key = own.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    file.write_bytes(key + own.certificate.public_bytes(Encoding.PEM))
    return client_context(ca=authority, certificate=file)


def over(context: ssl.SSLContext) -> Callable[..., Awaitable[Answer]]:
    """Sends octets over TLS."""

    async def exchange(port: int, octets: bytes, source: str = "127.0.0.1") -> Answer:
        async with asyncio.timeout(DEADLINE):
            reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
            writer.write(octets)
            first, headers, body = await read_http(reader)
            writer.close()
        return Answer(int(first.split(" ")[1]), headers, body)

    return exchange


def lent(rig: Rig, right: Right, *, days: float = 1) -> str:
    """The header with which OTHER uses what OWNER lets it, without a possession."""
    return write(Authorization(None, rig.delegation(right, days=days))).decode()


async def publish(rig: Rig, number: int, headers: str = "") -> Answer:
    path = f"/soap/topic/{quote(str(rig.topic), safe='')}"
    return await rig.run.ask(Peer(), f"<e><n>{number}</n></e>", path, headers=headers)


async def test_a_certificate_stands_for_a_possession(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = Authority(tmp_path)
    certificate, key = authority.issue("127.0.0.1")
    clients = tmp_path / "clients.pem"
    clients.write_bytes(parties().entity_authority.certificate.public_bytes(Encoding.PEM))
    settings = {"tls_certificate": certificate, "tls_key": key, "tls_client_ca": clients}
    async with protected_topic(tmp_path, **settings) as rig:
        own, other = rig.consumers.add(), rig.consumers.add()
        monkeypatch.setattr(
            gateways, "exchange", over(shows(tmp_path, OWNER, authority.certificate))
        )
        assert (await rig.subscribe(own, fresh_id())).status == 200
        assert (await publish(rig, 1)).status == 202
        monkeypatch.setattr(
            gateways, "exchange", over(shows(tmp_path, OTHER, authority.certificate))
        )
        refused = await rig.subscribe(other, fresh_id())
        assert (refused.status, b"the topic is another's" in refused.body) == (403, True)
        assert (await publish(rig, 2)).status == 403
        wrong = await rig.subscribe(other, fresh_id(), lent(rig, Right.PUBLISH))
        assert (wrong.status, b"another right" in wrong.body) == (403, True)
        header = lent(rig, Right.SUBSCRIBE, days=0.25)
        assert (await rig.subscribe(other, fresh_id(), header, expires="P1D")).status == 200
        assert (await publish(rig, 3, lent(rig, Right.PUBLISH))).status == 202
        await own.until(lambda: len(own.received) == 2)
        assert numbers(own) == ["1", "3"]
        await other.until(lambda: bool(other.received))
        assert numbers(other) == ["3"]
        ends = [entry.subscription.lease.expires for entry in rig.run.gateway.subscriptions.entries]
        assert min(end for end in ends if end is not None) <= now() + timedelta(days=0.25)


async def test_everybody_whom_an_authority_certified(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a delegation for the authority, whoever shows its certificate."""
    authority = Authority(tmp_path)
    certificate, key = authority.issue("127.0.0.1")
    clients = tmp_path / "clients.pem"
    ours = parties().entity_authority.certificate
    clients.write_bytes(ours.public_bytes(Encoding.PEM))
    settings = {"tls_certificate": certificate, "tls_key": key, "tls_client_ca": clients}
    async with protected_topic(tmp_path, **settings) as rig:
        monkeypatch.setattr(
            gateways, "exchange", over(shows(tmp_path, OTHER, authority.certificate))
        )
        for whom, status in (
            (authority_of(ours), 202),
            (authority_of(parties().node_authority.certificate), 403),
        ):
            given = Delegation(
                f"dlg-{uuid4()}", rig.topic_id, whom, frozenset({Right.PUBLISH}),
                now() - timedelta(days=1), now() + timedelta(days=1),
            )  # fmt: skip
            header = write(Authorization(None, OWNER.signed(given))).decode()
            assert (await publish(rig, 1, header)).status == status


async def test_a_proxy_hands_a_certificate_on(tmp_path: Path) -> None:
    """Where a setting names the header, and the proxy is trusted."""
    assert OWNER.credentials is not None
    shown = OWNER.credentials.certificate
    pem = quote(shown.public_bytes(Encoding.PEM).decode())
    der = base64.b64encode(shown.public_bytes(Encoding.DER)).decode()
    settings = {"trusted_proxies": "127.0.0.1", "client_certificate_header": "X-Client-Cert"}
    async with protected_topic(tmp_path, **settings) as rig:
        path = f"/soap/topic/{quote(str(rig.topic), safe='')}"

        async def ask(name: str, *values: str, source: str = "127.0.0.1") -> int:
            body = Peer().envelope("<e><n>1</n></e>", message_id=fresh_id())
            octets = http_request(rig.run.port, "POST", path, body, {"Content-Type": Peer().type})
            lines = "".join(f"{name}: {value}\r\n" for value in values).encode()
            head, _, rest = octets.partition(b"\r\n")
            return (
                await gateways.exchange(rig.run.port, head + b"\r\n" + lines + rest, source)
            ).status

        assert await ask("X-Client-Cert", pem) == 202
        assert await ask("x-client-cert", f":{der}:") == 202
        assert await ask("X-Client-Cert", f":{der}:", source="127.0.0.2") == 403, "no proxy"
        assert await ask("Client-Cert", f":{der}:") == 403, "another header"
        assert await ask("X-Client-Cert", f":{der}:", f":{der}:") == 403, "which of both?"
        for nothing in ("", ":", "::", "x", ":x:", ":PGE+:", "%", pem[:200]):
            assert await ask("X-Client-Cert", nothing) == 403


async def test_a_header_without_a_setting_counts_for_nothing(tmp_path: Path) -> None:
    assert OWNER.credentials is not None
    der = base64.b64encode(OWNER.credentials.certificate.public_bytes(Encoding.DER)).decode()
    async with protected_topic(tmp_path, trusted_proxies="127.0.0.1") as rig:
        body = Peer().envelope("<e/>", message_id=fresh_id())
        path = f"/soap/topic/{quote(str(rig.topic), safe='')}"
        answer = await rig.run.request(
            "POST", path, body, content_type=Peer().type, client_cert=f":{der}:"
        )
        assert answer.status == 403


async def test_who_is_refused_here_is_so_with_a_certificate(tmp_path: Path) -> None:
    assert OWNER.credentials is not None
    der = base64.b64encode(OWNER.credentials.certificate.public_bytes(Encoding.DER)).decode()
    settings = {"trusted_proxies": "127.0.0.1", "client_certificate_header": "Client-Cert"}
    async with protected_topic(tmp_path, **settings) as rig:
        assert rig.run.gateway.discovery is not None
        trust = rig.run.gateway.discovery.node.verifier.trust
        object.__setattr__(trust, "refused", frozenset({OWNER.id}))
        body = Peer().envelope("<e/>", message_id=fresh_id())
        path = f"/soap/topic/{quote(str(rig.topic), safe='')}"
        answer = await rig.run.request(
            "POST", path, body, content_type=Peer().type, client_cert=f":{der}:"
        )
        assert answer.status == 403


async def test_a_certificate_over_soap_tcp(tmp_path: Path) -> None:
    """Of who connected to us; that of a server that we connected to says nothing of who asks."""
    authority = Authority(tmp_path)
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    server.load_cert_chain(*authority.issue("localhost"))
    clients = parties().entity_authority.certificate.public_bytes(Encoding.PEM).decode()
    server.load_verify_locations(cadata=clients)
    server.verify_mode = ssl.CERT_REQUIRED
    assert OWNER.credentials is not None
    async with listening(tls=server) as run:
        peer = await run.peer(tls=shows(tmp_path, OWNER, authority.certificate))
        assert await peer.ask("hello") == "hello"
        [inbound] = run.talk.arrived
        assert inbound.certificate == OWNER.credentials.certificate.public_bytes(Encoding.DER)
    async with listening() as run:
        assert await (await run.peer()).ask("hello") == "hello"
        assert run.talk.arrived[0].certificate is None
