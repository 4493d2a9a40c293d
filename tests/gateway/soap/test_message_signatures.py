"""Senders that sign their messages: WS-Security with X.509 certificates."""

import shutil
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import pytest_asyncio

from filters import Refused
from gateway.security.identities_editing import add_user, create_identities
from gateway.settings.settings import Settings
from mediation.packaging.dime import DimeMessage, Encoder
from tests.rigs.envelopes import Answer, Speaker, fresh_id
from tests.rigs.gateways import Running, running
from tests.rigs.signers import Signers
from tests.rigs.soap_tcp import RawPeer
from tests.rigs.waiting import until

SPEAKER = Speaker()
RULES = """
[[rights]]
who = ["cert:CN=mole"]
may = ["publish", "subscribe", "manage"]

[[rights]]
who = ["anonymous", "cert:CN=ship"]
may = ["publish"]

[[certificates]]
subject = "CN=tug"
user = "tug"
"""


def make_file(folder: Path) -> Path:
    file = folder / "identities.toml"
    create_identities(file)
    add_user(file, "tug", "secret", [])
    file.write_text(file.read_text() + RULES)
    return file


@pytest.fixture(scope="module")
def signers(tmp_path_factory: pytest.TempPathFactory) -> Signers:
    return Signers.make(tmp_path_factory.mktemp("signers"), "mole", "ship", "tug")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def run(tmp_path_factory: pytest.TempPathFactory, signers: Signers) -> AsyncIterator[Running]:
    folder = tmp_path_factory.mktemp("gateway")
    table = {"signers": signers.authority.certificate, "required": ["subscribe", "/soap/signed"]}
    async with running(
        folder / "data",
        identities=make_file(folder),
        ws_security=table,
        egress_allow=["127.0.0.1"],
    ) as found:
        yield found


at_the_gateway = pytest.mark.asyncio(loop_scope="module")


def made(body: str = "<event/>", **envelope: str) -> bytes:
    return SPEAKER.envelope(body, message_id=fresh_id(), **envelope)


async def send(run: Running, octets: bytes, path: str = "/soap") -> Answer:
    return await run.post(octets, path, type=SPEAKER.type)


@at_the_gateway
async def test_a_signed_event(run: Running, signers: Signers) -> None:
    """Small and large ones; from users whose certificate is in the file, too, who have no right."""
    assert (await send(run, signers.signed("mole", made()))).status == 202
    large = made(f"<event>{'x' * 100_000}</event>")
    assert (await send(run, signers.signed("mole", large))).status == 202
    answer = await send(run, signers.signed("tug", made()))
    assert b"You have no right to publish" in answer.body


@at_the_gateway
async def test_a_message_counts_once(run: Running, signers: Signers) -> None:
    octets = signers.signed("mole", made())
    assert (await send(run, octets)).status == 202
    again = await send(run, octets)
    assert again.status >= 400
    assert b"FailedCheck" in again.body and b"was sent before" in again.body


@at_the_gateway
@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ((b"<event/>", b"<event>1</event>"), b"FailedCheck"),
        ((b"xmldsig-more#ecdsa-sha256", b"xmldsig-more#md5"), b"UnsupportedAlgorithm"),
        ((b"<wsu:Created>2", b"<wsu:Created>1"), b"FailedCheck"),
        ((b"X509v3", b"other"), b"UnsupportedSecurityToken"),
        ((b"<wsu:Timestamp", b"<wsu:Time"), b"FailedCheck"),
    ],
)
async def test_what_is_no_signature(
    run: Running, signers: Signers, change: tuple[bytes, bytes], fault: bytes
) -> None:
    octets = signers.signed("mole", made()).replace(*change)
    if change[0] == b"<wsu:Timestamp":
        octets = octets.replace(b"</wsu:Timestamp", b"</wsu:Time")
    answer = await send(run, octets)
    assert answer.status >= 400 and fault in answer.body, answer.body


@at_the_gateway
async def test_an_old_message(run: Running, signers: Signers) -> None:
    octets = signers.signed("mole", made(), now=datetime.now(UTC) - timedelta(minutes=6))
    answer = await send(run, octets)
    assert answer.status >= 400 and b"MessageExpired" in answer.body


@at_the_gateway
async def test_a_message_for_another_address(run: Running, signers: Signers) -> None:
    to = f"{run.url}/soap/topic/a"
    octets = signers.signed("mole", made(to=to))
    answer = await send(run, octets)
    assert answer.status >= 400 and b"another address" in answer.body
    assert (await send(run, signers.signed("mole", made(to=to)), "/soap/topic/a")).status == 202


@at_the_gateway
async def test_who_subscribes_must_sign(run: Running, signers: Signers) -> None:
    body = SPEAKER.wse_subscribe("http://127.0.0.1:9999/")
    answer = await send(run, signers.signed("mole", made(body)))
    assert answer.status == 200, answer.body
    answer = await send(run, signers.signed("ship", made(body)))
    assert b"You have no right to subscribe" in answer.body
    assert (await send(run, made())).status == 202  # To publish, nobody has to.


async def test_what_must_be_signed(tmp_path: Path, signers: Signers) -> None:
    """Rights, and what is below a path; the other doors are no way around it."""
    file = make_file(tmp_path)
    file.write_text(file.read_text().replace('may = ["publish"]', 'may = ["everything"]'))
    table = {"signers": signers.authority.certificate, "required": ["subscribe", "/soap/topic/a"]}
    async with running(tmp_path / "data", identities=file, ws_security=table) as run:
        subscribe = made(SPEAKER.wse_subscribe("http://127.0.0.1:9999/"))
        for octets, path, taken in (
            (subscribe, "/soap", False),
            (signers.signed("ship", subscribe), "/soap", True),
            (made(), "/soap", True),
            (made(), "/soap/topic/a", False),
            (signers.signed("ship", made()), "/soap/topic/a", True),
        ):
            answer = await send(run, octets, path)
            assert (answer.status < 300) is taken, answer.body
            assert taken or b"InvalidSecurity" in answer.body
        asked = b'{"sink": "http://127.0.0.1:9999/", "protocol": "HTTP"}'
        answer = await run.request(
            "POST", "/events/subscriptions", asked, content_type="application/json"
        )
        assert answer.status == 403 and b"signed" in answer.body, answer.body


async def test_signers_are_read_again(tmp_path: Path, signers: Signers) -> None:
    """A file that cannot be used changes nothing; another authority does. Signatures are remembered
    over restarts."""
    file, others = make_file(tmp_path), Signers.make(tmp_path, "mole")
    chosen = tmp_path / "signers.pem"
    shutil.copy(signers.authority.certificate, chosen)
    settings = {"identities": file, "ws_security": {"signers": chosen}}
    octets = signers.signed("mole", made())
    async with running(tmp_path / "data", **settings) as run:
        assert (await send(run, octets)).status == 202
        assert b"FailedCheck" in (await send(run, others.signed("mole", made()))).body
        chosen.write_text("nothing")
        await until(lambda: any(one["event"] == "ws-security.file-unusable" for one in run.logs))
        assert (await send(run, signers.signed("mole", made()))).status == 202
        shutil.copy(others.authority.certificate, chosen)
        await until(lambda: any(one["event"] == "ws-security.read" for one in run.logs))
        assert (await send(run, others.signed("mole", made()))).status == 202
        assert b"FailedCheck" in (await send(run, signers.signed("mole", made()))).body
    shutil.copy(signers.authority.certificate, chosen)
    async with running(tmp_path / "data", **settings) as run:
        assert b"was sent before" in (await send(run, octets)).body


async def test_settings_that_contradict_each_other(tmp_path: Path, signers: Signers) -> None:
    signing = {"signers": signers.authority.certificate}
    for table, text in (
        ({"required": ["subscribe"]}, "needs signers"),
        ({"encrypted": ["publish"]}, "needs key"),
        ({**signing, "required": ["sing"]}, "neither a right"),
        (signing, "needs identities"),
    ):
        with pytest.raises(ValueError, match=text):
            Settings(data=tmp_path, ws_security=table)
    missing = {"signers": tmp_path / "none.pem"}
    with pytest.raises(Refused, match=r"ws_security.signers: .*none\.pem cannot be read"):
        async with running(tmp_path / "data", identities=make_file(tmp_path), ws_security=missing):
            pass


async def test_over_soap_tcp(tmp_path: Path, signers: Signers) -> None:
    """It has no path: the address in the message says which endpoint it is for."""
    file = make_file(tmp_path)
    file.write_text(file.read_text().replace('may = ["publish"]', 'may = ["everything"]'))
    table = {"signers": signers.authority.certificate, "required": ["/soap"]}
    async with running(
        tmp_path / "data",
        identities=file,
        ws_security=table,
        soap_tcp_port=0,
        egress_allow=["127.0.0.1"],
    ) as run:
        peer = await RawPeer.connect(run.soap_tcp_port)
        body = SPEAKER.wse_subscribe("http://127.0.0.1:9999/")
        for envelope in ({}, {"to": f"{run.url}/soap"}, {"to": "urn:somewhere"}):
            for octets, said in (
                (made(body, **envelope), b"must be signed"),
                (signers.signed("mole", made(body, **envelope)), b"SubscribeResponse"),
            ):
                await peer.send(Encoder().encode(DimeMessage(SPEAKER.soap, octets)))
                answer = (await peer.receive()).envelope
                assert said in answer, answer
        await peer.close()
