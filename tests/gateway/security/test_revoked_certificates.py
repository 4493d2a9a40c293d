"""Certificates that their authority has revoked, wherever a file of authorities says who counts."""

import asyncio
import contextlib
import ssl
from collections.abc import Callable
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from structlog.testing import capture_logs

from filters import parse_clark
from gateway.checks import examine_settings
from gateway.http import client_certificate
from gateway.security.certificate_proofs import CertificateProofs
from gateway.security.identities import parse_identities
from gateway.security.revoked_certificates import RevokedCertificates
from gateway.security.tls import TlsError, client_context, reload, server_context
from gateway.settings.settings import Settings
from mediation.discovery import Credentials, Trust, Verifier, read_anchors
from mediation.event_signatures import (
    EventSigner,
    EventVerifier,
    SignatureInvalid,
    read_trusted_signers,
)
from mediation.model.errors import MediationError
from mediation.revocation_lists import read_revocations
from mediation.ws_security import read_trust
from tests.gateway.discovery.test_certificate_rights import over
from tests.gateway.security.test_tls import NAME, handshake
from tests.rigs import gateways
from tests.rigs.certificates import Authority as Issuer
from tests.rigs.certificates import revocation_list
from tests.rigs.consumers import Consumers
from tests.rigs.discovery_keys import Authority, ec_key, root
from tests.rigs.envelopes import Speaker, fresh_id
from tests.rigs.gateways import Running, read_http, running
from tests.rigs.waiting import DEADLINE, until

HARBOUR, RIVER = root("Harbour", ec_key("harbour")), root("River", ec_key("river"))
NAMESAKE = root("Harbour", ec_key("another harbour"))
OFFICE = HARBOUR.below("Office", ec_key("office"))
"""An authority between, which is in the files, too."""
KEY = ec_key("mole")
MOLE, PILOT = HARBOUR.issue("mole", KEY), HARBOUR.issue("pilot", KEY)
CLERK, FERRY = OFFICE.issue("clerk", KEY), RIVER.issue("ferry", KEY)
OF_NAMESAKE = NAMESAKE.issue("mole", KEY)
NOW = datetime.now(UTC)


def pem(*certificates: x509.Certificate) -> bytes:
    return b"".join(one.public_bytes(Encoding.PEM) for one in certificates)


def der(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(Encoding.DER)


def list_of(authority: Authority, *revoked: x509.Certificate, **more: Any) -> bytes:
    key: Any = authority.key
    return revocation_list(authority.certificate.subject, key, revoked, **more)


def key_pem() -> bytes:
    return KEY.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


AUTHORITIES = pem(*(one.certificate for one in (HARBOUR, OFFICE, RIVER, NAMESAKE)))
WITH_LISTS: dict[str, tuple[bytes, dict[str, x509.Certificate]]] = {
    "no list": (b"", {}),
    "a list without anybody": (list_of(HARBOUR), {}),
    "one is named": (list_of(HARBOUR, MOLE), {"mole": MOLE}),
    "lists of two": (
        list_of(HARBOUR, MOLE) + list_of(RIVER, FERRY), {"mole": MOLE, "ferry": FERRY}
    ),
    "an authority between is": (list_of(HARBOUR, OFFICE.certificate), {"clerk": CLERK}),
    "by the one between": (list_of(OFFICE, CLERK, MOLE), {"clerk": CLERK}),
    "the next list is due": (
        list_of(HARBOUR, days=-1), {"mole": MOLE, "pilot": PILOT, "clerk": CLERK}
    ),
    "that of another is": (list_of(RIVER, days=-1), {"ferry": FERRY}),
    "a newer one has one more": (
        list_of(HARBOUR, age=3) + list_of(HARBOUR, MOLE), {"mole": MOLE}
    ),
    "a newer one leaves one out": (list_of(HARBOUR) + list_of(HARBOUR, MOLE, age=3), {}),
    "an old one is due beside it": (list_of(HARBOUR, days=-1) + list_of(HARBOUR), {}),
    "of a part of what it issues": (
        list_of(HARBOUR) + list_of(HARBOUR, PILOT, extensions=[(
            x509.IssuingDistributionPoint(None, None, True, False, None, False, False), True
        )]),
        {"pilot": PILOT},
    ),
    "of a namesake": (list_of(NAMESAKE, MOLE, OF_NAMESAKE), {"of namesake": OF_NAMESAKE}),
    "of a namesake, due": (list_of(NAMESAKE, days=-1), {"of namesake": OF_NAMESAKE}),
}  # fmt: skip
"""Lists beside the authorities, and whom they refuse."""
EVERYBODY = {
    "mole": MOLE, "pilot": PILOT, "clerk": CLERK, "ferry": FERRY, "of namesake": OF_NAMESAKE,
}  # fmt: skip


def signs_a_message(octets: bytes, folder: Path) -> Callable[[x509.Certificate], bool]:
    trust = read_trust(octets)

    def counts(leaf: x509.Certificate) -> bool:
        try:
            trust.check((der(leaf),), NOW)
        except MediationError:
            return False
        return True

    return counts


def signs_an_event(octets: bytes, folder: Path) -> Callable[[x509.Certificate], bool]:
    verifier = EventVerifier(read_trusted_signers(octets))

    def counts(leaf: x509.Certificate) -> bool:
        signed = EventSigner(Credentials(KEY, (leaf,))).sign(b"<e/>", id="1", topic=None, time=NOW)
        try:
            verifier.verify(signed, b"<e/>", now=NOW)
        except SignatureInvalid:
            return False
        return True

    return counts


def signs_in_topic_discovery(octets: bytes, folder: Path) -> Callable[[x509.Certificate], bool]:
    verifier = Verifier(Trust(entities=read_anchors(octets)))
    return lambda leaf: bool(verifier.authorities_of(der(leaf), now=NOW))


def shakes_hands(octets: bytes, folder: Path) -> Callable[[x509.Certificate], bool]:
    issuer = Issuer(folder)
    (folder / "clients.pem").write_bytes(octets)
    certificate, key = issuer.issue(NAME)
    server = server_context(
        Settings(tls_certificate=certificate, tls_key=key, tls_client_ca=folder / "clients.pem")
    )
    assert server is not None

    def counts(leaf: x509.Certificate) -> bool:
        (folder / "own.pem").write_bytes(key_pem() + pem(leaf))
        shown = client_context(ca=issuer.certificate, certificate=folder / "own.pem")
        try:
            handshake(server, shown)
        except ssl.SSLError:
            return False
        return True

    return counts


def is_proved(octets: bytes, folder: Path) -> Callable[[x509.Certificate], bool]:
    """By the file of an authority of the identities, for a rule of the subject alone."""
    (folder / "authority.pem").write_bytes(octets)
    text = b"""
        [[authorities]]
        name = "harbour"
        file = "authority.pem"
    """
    path = folder / "identities.toml"
    proofs = CertificateProofs(parse_identities(text, path), folder)
    return lambda leaf: proofs.identity(der(leaf)) is not None


def is_proved_to_tls(octets: bytes, folder: Path) -> Callable[[x509.Certificate], bool]:
    """On a connection that was open before, or handed on by a proxy."""
    clients = RevokedCertificates(folder / "clients.pem")
    clients.read(octets)()
    proofs = CertificateProofs(parse_identities(b"", folder / "x"), folder, clients)
    return lambda leaf: proofs.identity(der(leaf)) is not None


PLACES = (
    signs_a_message, signs_an_event, signs_in_topic_discovery, shakes_hands, is_proved,
    is_proved_to_tls,
)  # fmt: skip


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(("lists", "refused"), WITH_LISTS.values(), ids=WITH_LISTS)
def test_whom_lists_refuse(
    place: Any, lists: bytes, refused: dict[str, x509.Certificate], tmp_path: Path
) -> None:
    counts = place(AUTHORITIES + lists, tmp_path)
    for _ in range(2):  # What is remembered of a chain is so of its revocation, too.
        found = {name for name, leaf in EVERYBODY.items() if not counts(leaf)}
        assert found == set(refused)


UNUSABLE = {
    "by none of its authorities": list_of(root("Sea", ec_key("sea"))),
    "by another key of the name": list_of(root("Harbour", ec_key("sea"))),
    "changes alone": list_of(HARBOUR, extensions=[(x509.DeltaCRLIndicator(1), True)]),
    "of others, too": list_of(
        HARBOUR,
        extensions=[
            (x509.IssuingDistributionPoint(None, None, False, False, None, True, False), True)
        ],
    ),
    "what nobody knows": list_of(
        HARBOUR,
        extensions=[(x509.UnrecognizedExtension(x509.ObjectIdentifier("1.2.3.4"), b"\5\0"), True)],
    ),
    "spoilt": list_of(HARBOUR).replace(b"MI", b"AA", 1),
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("lists", UNUSABLE.values(), ids=UNUSABLE)
def test_a_list_that_cannot_be_used(place: Any, lists: bytes, tmp_path: Path) -> None:
    octets = AUTHORITIES + list_of(RIVER) + lists
    if place is is_proved:  # The gateway starts, and the authority certifies nobody.
        with capture_logs() as logs:
            place(octets, tmp_path)
        assert "list of revoked certificates" in logs[0]["why"]
        return
    with pytest.raises((ValueError, TlsError), match="list of revoked certificates"):
        place(octets, tmp_path)


def test_one_between_that_is_shown_alone(tmp_path: Path) -> None:
    """An authority of which only the chain tells that is shown."""
    trusted = pem(HARBOUR.certificate)
    for lists, counts in ((b"", True), (list_of(HARBOUR, OFFICE.certificate), False)):
        issuer = Issuer(tmp_path)
        (tmp_path / "clients.pem").write_bytes(trusted + lists)
        (tmp_path / "own.pem").write_bytes(key_pem() + pem(CLERK, OFFICE.certificate))
        server = listening(tmp_path, issuer)
        shown = client_context(ca=issuer.certificate, certificate=tmp_path / "own.pem")
        refused = pytest.raises(ssl.SSLCertVerificationError, match="the certificate is revoked")
        with contextlib.nullcontext() if counts else refused:
            handshake(server[0], shown)
        chain = (der(CLERK), der(OFFICE.certificate))
        with contextlib.nullcontext() if counts else pytest.raises(MediationError, match="revoked"):
            read_trust(trusted + lists).check(chain, NOW)


def test_what_was_learnt_of_a_chain_is_forgotten_when_a_list_is_due() -> None:
    octets = AUTHORITIES + list_of(HARBOUR, days=1) + list_of(RIVER, days=9)
    trust = read_trust(octets)
    events = EventVerifier(read_trusted_signers(octets))
    signed = EventSigner(Credentials(KEY, (MOLE,))).sign(b"<e/>", id="1", topic=None, time=NOW)
    discovery = Verifier(Trust(entities=read_anchors(octets)))
    for days, counts in ((0, True), (2, False), (0.5, True)):
        now = NOW + timedelta(days=days)
        with contextlib.nullcontext() if counts else pytest.raises(MediationError, match="date"):
            trust.check((der(MOLE),), now)
        with contextlib.nullcontext() if counts else pytest.raises(SignatureInvalid, match="date"):
            events.verify(signed, b"<e/>", now=now)
        assert bool(discovery.authorities_of(der(MOLE), now=now)) is counts


def listening(folder: Path, issuer: Issuer) -> tuple[Any, Settings]:
    """A context that asks for certificates by ``clients.pem``, and its settings."""
    certificate, key = issuer.issue(NAME)
    chosen = Settings(
        tls_certificate=certificate, tls_key=key, tls_client_ca=folder / "clients.pem"
    )
    context = server_context(chosen)
    assert context is not None
    return context, chosen


def test_a_list_that_cannot_be_used_changes_nothing(tmp_path: Path) -> None:
    """Neither whose certificates count, nor which are revoked."""
    issuer, clients = Issuer(tmp_path), tmp_path / "clients.pem"
    clients.write_bytes(AUTHORITIES + list_of(HARBOUR, MOLE))
    server, chosen = listening(tmp_path, issuer)
    clients.write_bytes(AUTHORITIES + UNUSABLE["spoilt"])
    with pytest.raises(TlsError, match=r"^tls_client_ca: .*clients\.pem cannot be used: a list"):
        reload(server, chosen)
    (tmp_path / "own.pem").write_bytes(key_pem() + pem(MOLE))
    shown = client_context(ca=issuer.certificate, certificate=tmp_path / "own.pem")
    with pytest.raises(ssl.SSLCertVerificationError, match="revoked"):
        handshake(server, shown)


@pytest.mark.parametrize("spoilt", [b"nothing", AUTHORITIES + UNUSABLE["spoilt"]])
def test_what_an_authority_has_revoked_stays_so_when_its_file_is_spoilt(
    tmp_path: Path, spoilt: bytes
) -> None:
    text = b'[[authorities]]\nname = "harbour"\nfile = "authority.pem"\n'
    file = tmp_path / "authority.pem"
    file.write_bytes(AUTHORITIES + list_of(HARBOUR, MOLE))
    rows = parse_identities(text, tmp_path / "identities.toml")
    before = CertificateProofs(rows, tmp_path)
    file.write_bytes(spoilt)
    after = CertificateProofs(rows, tmp_path, former=before)
    assert after.identity(der(MOLE)) is None
    pilot = after.identity(der(PILOT))
    assert pilot is not None and not pilot.authorities, "who cannot be read certifies nobody"


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize("after", [AUTHORITIES + list_of(HARBOUR, MOLE), pem(RIVER.certificate)])
def test_a_session_of_before_is_not_resumed(
    tmp_path: Path, version: ssl.TLSVersion, after: bytes
) -> None:
    """Nobody verifies a certificate again when a session is resumed."""
    issuer, clients = Issuer(tmp_path), tmp_path / "clients.pem"
    clients.write_bytes(AUTHORITIES)
    server, chosen = listening(tmp_path, issuer)
    server.clients.read_at -= 10.0  # A session says in whole seconds when it began.
    (tmp_path / "own.pem").write_bytes(key_pem() + pem(MOLE))
    shown = client_context(ca=issuer.certificate, certificate=tmp_path / "own.pem")
    shown.maximum_version = version

    def connect(session: ssl.SSLSession | None = None) -> ssl.SSLObject:
        to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
        client = shown.wrap_bio(to_client, to_server, server_hostname=NAME, session=session)
        ends = [client, server.wrap_bio(to_server, to_client, server_side=True)]
        shake_hands(ends)
        for end in (*ends, *ends):  # Else OpenSSL would forget the session.
            with contextlib.suppress(ssl.SSLWantReadError):
                end.unwrap()
        return client

    session = connect().session
    resumed = connect(session).session_reused
    assert resumed is (version is ssl.TLSVersion.TLSv1_2), "no tickets are given"
    clients.write_bytes(after)
    reload(server, chosen)
    with pytest.raises(ssl.SSLError):
        connect(session)


def shake_hands(ends: list[ssl.SSLObject]) -> None:
    waiting = list(ends)
    for _ in range(10):
        for end in list(waiting):
            with contextlib.suppress(ssl.SSLWantReadError):
                end.do_handshake()
                waiting.remove(end)
    assert not waiting
    with contextlib.suppress(ssl.SSLWantReadError):
        ends[0].read(1)


def test_a_list_that_is_out_of_date_is_told_once(tmp_path: Path) -> None:
    clients = RevokedCertificates(tmp_path / "clients.pem")
    with capture_logs() as logs:
        for octets in (list_of(HARBOUR, days=-1), list_of(HARBOUR), list_of(HARBOUR, days=-2)):
            clients.read(AUTHORITIES + octets)()
            for leaf in (MOLE, PILOT, MOLE):
                with contextlib.suppress(ValueError):
                    clients.check([der(leaf)])
    assert [(one["event"], one["authority"]) for one in logs] == [
        ("certificates.list-out-of-date", "CN=Harbour")
    ] * 2


def test_numbers_of_certificates() -> None:
    """By these what an owner showed is known, when the certificate itself is gone."""
    found = read_revocations(AUTHORITIES + list_of(HARBOUR, OFFICE.certificate, MOLE))
    named = {
        name: any(map(found.is_named, found.numbers_of(der(leaf))))
        for name, leaf in EVERYBODY.items()
    }
    assert named == {name: name in ("mole", "clerk") for name in EVERYBODY}


# A gateway at work.

RULES = """
[[authorities]]
name = "harbour"
file = "authority.pem"

[[rights]]
who = ["ca:harbour"]
may = ["publish", "subscribe", "manage"]

[[rights]]
who = ["cert:CN=ferry"]
may = ["publish", "subscribe"]

[[rights]]
who = ["everybody"]
may = ["publish"]
topics = ["tide"]
"""
SPEAKER = Speaker()


def shown_by(folder: Path, issuer: Issuer, leaf: x509.Certificate) -> ssl.SSLContext:
    (folder / "own.pem").write_bytes(key_pem() + pem(leaf))
    return client_context(ca=issuer.certificate, certificate=folder / "own.pem")


def of_tls(folder: Path, issuer: Issuer, **more: Any) -> dict[str, Any]:
    """The settings of a gateway whose clients show certificates."""
    certificate, key = issuer.issue("127.0.0.1")
    clients = folder / "clients.pem"
    return {"tls_certificate": certificate, "tls_key": key, "tls_client_ca": clients, **more}


def times(run: Running, event: str) -> int:
    return len([one for one in run.logs if one["event"] == event])


async def test_new_and_open_connections(tmp_path: Path) -> None:
    """Also where no rules say who is who: without a certificate that counts nobody gets in."""
    issuer, clients = Issuer(tmp_path), tmp_path / "clients.pem"
    clients.write_bytes(AUTHORITIES)
    contexts = {leaf: shown_by(tmp_path, issuer, leaf) for leaf in (MOLE, PILOT)}
    async with (
        running(tmp_path / "data", **of_tls(tmp_path, issuer)) as run,
        AsyncExitStack() as stack,
    ):

        async def connect(leaf: x509.Certificate) -> Streams:
            reader, writer = await asyncio.open_connection(
                "127.0.0.1", run.port, ssl=contexts[leaf]
            )
            stack.push_async_callback(closed, writer)
            return reader, writer

        opened = {leaf: await connect(leaf) for leaf in contexts}
        assert await is_answered(*opened[MOLE]) and await is_answered(*opened[PILOT])
        clients.write_bytes(AUTHORITIES + list_of(HARBOUR, MOLE))
        await until(lambda: times(run, "tls.renewed"))
        for leaf in contexts:
            assert await is_answered(*opened[leaf]) is (leaf is PILOT)
            assert await is_answered(*await connect(leaf)) is (leaf is PILOT)


Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def is_answered(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
    try:
        async with asyncio.timeout(DEADLINE):
            writer.write(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            return "200" in (await read_http(reader))[0]
    except (OSError, asyncio.IncompleteReadError):
        return False


async def closed(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()


async def test_what_is_written_to_an_open_connection(tmp_path: Path) -> None:
    """Who only waits for what is sent, as SOAP.TCP is to consumers, gets nothing more."""
    issuer, clients = Issuer(tmp_path), tmp_path / "clients.pem"
    clients.write_bytes(AUTHORITIES)
    server, chosen = listening(tmp_path, issuer)
    accepted: asyncio.Queue[asyncio.StreamWriter] = asyncio.Queue()

    async def accept(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        accepted.put_nowait(writer)

    async with await asyncio.start_server(accept, "127.0.0.1", 0, ssl=server) as listener:
        port = listener.sockets[0].getsockname()[1]
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", port, ssl=shown_by(tmp_path, issuer, MOLE), server_hostname=NAME
        )
        async with asyncio.timeout(DEADLINE):
            sending = await accepted.get()
            sending.write(b"before")
            assert await reader.readexactly(6) == b"before"
            clients.write_bytes(AUTHORITIES + list_of(HARBOUR, MOLE))
            reload(server, chosen)
            sending.write(b"after")
            with contextlib.suppress(OSError):
                assert await reader.read() == b""
        await closed(writer)
        await closed(sending)


def proxied(folder: Path, **more: Any) -> dict[str, Any]:
    """The settings of a gateway behind a proxy that hands certificates on."""
    (folder / "identities.toml").write_text(RULES)
    return {
        "identities": folder / "identities.toml",
        "trusted_proxies": ["127.0.0.1"],
        "client_certificate_header": "X-Certificate",
        **more,
    }


async def send(
    run: Running, leaf: x509.Certificate, body: str, path: str = "/soap/topic/calm"
) -> int:
    envelope = SPEAKER.envelope(body, message_id=fresh_id())
    shown = quote(pem(leaf).decode(), safe="")
    answer = await run.post(envelope, path, type=SPEAKER.type, x_certificate=shown)
    return answer.status


async def publish(run: Running, leaf: x509.Certificate, number: int) -> int:
    return await send(run, leaf, f"<e><n>{number}</n></e>")


async def change(run: Running, file: Path, octets: bytes) -> None:
    """Have the gateway go by a file of authorities that changes."""
    read = times(run, "identity.read") + times(run, "tls.renewed")
    file.write_bytes(octets)
    await until(lambda: times(run, "identity.read") + times(run, "tls.renewed") > read)


def receives(run: Running) -> bool:
    """Whether the only subscriber may get something."""
    [entry] = run.gateway.subscriptions.entries
    may_receive = run.gateway.serving.site.asking.identification.may_receive
    return may_receive(entry.subscription.owner, parse_clark("calm"))


@pytest.mark.parametrize("leaf", [MOLE, FERRY], ids=["of an authority", "of a subject alone"])
@pytest.mark.parametrize("kept_in", ["authority.pem", "clients.pem"])
async def test_what_an_owner_subscribed_to(
    tmp_path: Path, leaf: x509.Certificate, kept_in: str
) -> None:
    """It ends with the certificate, and stays so over a restart, when lists do not name any more
    what has expired; it goes on when its owner shows another."""
    by = HARBOUR if leaf is MOLE else RIVER
    for name in ("authority.pem", "clients.pem"):
        # The lists of both are asked of whatever certificate.
        (tmp_path / name).write_bytes(AUTHORITIES)
    again = by.issue(str(leaf.subject.rfc4514_string()).removeprefix("CN="), KEY)
    issuer, file = Issuer(tmp_path, "gateway"), tmp_path / kept_in
    chosen = proxied(tmp_path, adapter="embedded:")
    if kept_in == "clients.pem":  # The proxy shows a certificate of its own to TLS.
        chosen |= of_tls(tmp_path, issuer)
    shown = shown_by(tmp_path, issuer, PILOT)
    with pytest.MonkeyPatch.context() as patch:
        if kept_in == "clients.pem":
            patch.setattr(gateways, "exchange", over(shown))
        async with Consumers() as consumer:
            url = consumer.fresh()
            async with running(tmp_path / "data", **chosen) as run:
                assert await send(run, leaf, SPEAKER.wse_subscribe(url), "/soap") == 200
                assert await publish(run, PILOT, 1) == 202
                assert (await consumer.next(url)).number == "1"
                await change(run, file, AUTHORITIES + list_of(by, leaf))
                assert await publish(run, leaf, 2) == 401
                assert await send(run, leaf, "<e/>", "/soap/topic/tide") == 202, "as anybody may"
                await until(lambda: not receives(run))
                assert await publish(run, PILOT, 3) == 202
                await run.quiet()
            async with running(tmp_path / "data", **chosen) as run:
                await change(run, file, AUTHORITIES + list_of(by))
                assert await publish(run, PILOT, 4) == 202
                await run.quiet()
                # It may prove somebody again; nobody else does by having its name.
                assert await publish(run, again, 5) == 202
                assert (await consumer.next(url)).number == "5", "those before went to nobody"
                await run.quiet()


@pytest.mark.slow
async def test_a_proxy_of_whose_clients_lists_tell(tmp_path: Path) -> None:
    """A new file of an authority counts within a second, without a change of the rules."""
    file = tmp_path / "authority.pem"
    file.write_bytes(pem(HARBOUR.certificate))
    async with running(tmp_path / "data", **proxied(tmp_path)) as run:
        for octets, status in (
            (pem(HARBOUR.certificate) + list_of(HARBOUR, days=-1), 401),
            (pem(HARBOUR.certificate) + list_of(HARBOUR), 202),
            (pem(HARBOUR.certificate) + list_of(HARBOUR, MOLE), 401),
            (pem(NAMESAKE.certificate), 403),  # It counts, and no rule has its name.
            (AUTHORITIES, 202),
        ):
            await change(run, file, octets)
            assert await publish(run, MOLE, 1) == status
            assert is_handed_on(run, MOLE) is (status != 401)


def is_handed_on(run: Running, leaf: x509.Certificate) -> bool:
    """Whether it is there for what asks for a certificate itself: protected topics, sequences."""
    shown = quote(pem(leaf).decode(), safe="").encode()
    scope: Any = {"client": ("127.0.0.1", 1), "headers": [(b"x-certificate", shown)]}
    http = run.gateway.serving.site.asking.http
    return client_certificate(scope, http) == der(leaf)


@pytest.mark.parametrize(
    ("lists", "verdict", "said"),
    [
        (list_of(HARBOUR, MOLE), "ok", "the list of CN=Harbour has 1, and counts until "),
        (list_of(HARBOUR, days=0.5, age=0.9), "ok", "counts until "),
        (list_of(HARBOUR, days=2, age=20), "warn", "and from then on no certificate of it does"),
        (list_of(HARBOUR, days=-1), "FAIL", "no certificate of it counts; put the new list there"),
        (UNUSABLE["spoilt"], "FAIL", "a list of revoked certificates cannot be read"),
    ],
)
@pytest.mark.parametrize("file", ["clients", "messages", "events", "authority"])
def test_doctor_tells_when_a_list_is_due(
    tmp_path: Path, file: str, lists: bytes, verdict: str, said: str
) -> None:
    issuer = Issuer(tmp_path, "gateway")
    for name in ("clients", "messages", "events", "authority"):
        octets = AUTHORITIES + (lists if name == file else b"")
        (tmp_path / f"{name}.pem").write_bytes(octets)
    given = proxied(
        tmp_path,
        **of_tls(tmp_path, issuer),
        ws_security={"signers": tmp_path / "messages.pem"},
        signed_topics=[{"topics": ["storms"], "signers": tmp_path / "events.pem"}],
    )
    found = list(examine_settings(given, ()))
    told = [one.verdict.value for one in found if said in one.text and f"{file}.pem" in one.text]
    assert told and set(told) == {verdict}, [one.text for one in found]
