"""Senders that sign their messages: WS-Security with X.509 certificates."""

import json
import shutil
import threading
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from filters import Refused
from gateway.identities.file_editing import add_user, create_identities
from gateway.security import authentication
from gateway.security.keys import new_key
from gateway.settings.settings import Settings
from gateway.soap import message_security
from mediation.names import WSN_BR_1_3
from mediation.packaging.dime import DimeMessage, Encoder
from mediation.ws_security import verify_message
from tests.rigs.certificates import Authority
from tests.rigs.consumers import Consumers
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
    table = {
        "signers": signers.authority.certificate,
        "required": ["subscribe", "/soap/signed"],
        "addresses": [
            "https://proxy.example",
            "https://Shared.example/a/",
            "urn:harbour:gateway",
        ],
    }
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
@pytest.mark.parametrize(
    ("to", "taken"),
    [
        (None, True),
        ("{url}/soap", True),
        ("http://LOCALHOST:{port}/soap", True),
        ("http://[::ffff:127.0.0.1]:{port}/soap", True),
        ("https://proxy.example/events/soap", True),
        ("https://proxy.example:443/soap", True),
        ("https://shared.example./a/soap", True),
        ("https://shared.example/a/", False),
        ("https://shared.example/b/soap", False),
        ("https://shared.example/ab/soap", False),
        ("https://shared.example/soap", False),
        ("urn:harbour:gateway", True),
        ("urn:another:gateway", False),
        ("https://other.example/soap", False),
        ("http://other.example:{port}/soap", False),
        ("https://127.0.0.1:{port}/soap", False),
        ("http://127.0.0.1:1{port}/soap", False),
        ("http://proxy.example/soap", False),
        ("https://proxy.example.other.example/soap", False),
        ("https://user@proxy.example/soap/topic/a", False),
        ("soap.tcp://127.0.0.1:{port}/soap", False),
        ("http://www.w3.org/2005/08/addressing/anonymous", False),
        ("//127.0.0.1:{port}/soap", False),
        ("http://[/soap", False),
    ],
)
async def test_whose_address_a_message_was_signed_for(
    run: Running, signers: Signers, to: str | None, taken: bool
) -> None:
    """One that was signed for another gateway, which believes the same signers, counts there."""
    said = {} if to is None else {"to": to.format(url=run.url, port=run.port)}
    answer = await send(run, signers.signed("mole", made(**said)))
    assert (answer.status == 202) is taken, answer.body
    assert taken or b"another address" in answer.body


async def test_the_public_address_alone(tmp_path: Path, signers: Signers) -> None:
    table = {"signers": signers.authority.certificate}
    async with running(
        tmp_path / "data",
        identities=make_file(tmp_path),
        ws_security=table,
        public_url="https://gateway.example/dragoman",
    ) as run:
        for to, taken in (
            ("https://gateway.example/dragoman/soap", True),
            (f"http://127.0.0.1:{run.port}/soap", False),
        ):
            answer = await send(run, signers.signed("mole", made(to=to)))
            assert (answer.status == 202) is taken, answer.body


async def test_who_sends_signatures_that_do_not_count_waits(
    tmp_path: Path, signers: Signers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then nothing more of that address is verified, and what is not signed is taken as ever."""
    monkeypatch.setattr(authentication, "SIGNATURE_FAILURES_AT_ONCE", 3.0)
    verified = []

    def verify(*args: Any, **options: Any) -> Any:
        verified.append(threading.current_thread().name)
        return verify_message(*args, **options)

    monkeypatch.setattr(message_security, "verify_message", verify)
    file = make_file(tmp_path)
    table = {"signers": signers.authority.certificate}
    async with running(tmp_path / "data", identities=file, ws_security=table, trusted=()) as run:
        wrong = signers.signed("mole", made()).replace(b"<event/>", b"<event>1</event>")
        answers = [await send(run, wrong) for _ in range(5)]
        assert [b"FailedCheck" in one.body for one in answers] == [True] * 3 + [False] * 2
        assert {one.status for one in answers[3:]} == {429}
        assert (await send(run, signers.signed("mole", made()))).status == 429
        assert (await send(run, made())).status == 202
    assert len(verified) == 3
    assert not any(name == "MainThread" for name in verified), "what is small is not on the loop"


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


async def test_no_other_address_or_form_is_a_way_around(tmp_path: Path, signers: Signers) -> None:
    """JSON cannot be signed. A resource has the path of a proxy in front of its own, too, or is named
    by the message alone."""
    file = make_file(tmp_path)
    file.write_text(file.read_text().replace('may = ["publish"]', 'may = ["everything"]'))
    table = {"signers": signers.authority.certificate, "required": ["manage", "/publishers"]}
    async with running(tmp_path / "data", identities=file, ws_security=table) as run:
        made_one = await run.request("POST", "/mailboxes", b"{}", content_type="application/json")
        assert made_one.status == 201, made_one.body
        box = f"/mailboxes/{json.loads(made_one.body)['key']}"
        for method, path in (
            ("GET", box), ("POST", f"{box}/receive"), ("GET", f"{box}/events"), ("DELETE", box),
        ):  # fmt: skip
            answer = await run.request(method, path, b"{}", content_type="application/json")
            assert answer.status == 403 and b"signed" in answer.body, (method, path, answer.body)
        address = f"/publishers/{new_key()}"
        destroy = f'<b:DestroyRegistration xmlns:b="{WSN_BR_1_3}"/>'
        for path, to in (
            (address, None), (f"/proxy{address}", None), ("/soap", f"{run.url}{address}"),
            ("/soap", f"{run.url}/proxy{address}"),
        ):  # fmt: skip
            octets = made(destroy, to=to or f"{run.url}{path}")
            assert b"InvalidSecurity" in (await send(run, octets, path)).body
            if path != "/soap":  # One that is signed comes to the address that it names.
                answer = await send(run, signers.signed("ship", octets), path)
                assert b"ResourceUnknown" in answer.body, answer.body


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
        ({**signing, "addresses": ["gateway"]}, "neither a URL"),
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
    table = {
        "signers": signers.authority.certificate,
        "required": ["/soap"],
        "addresses": ["urn:somewhere"],
    }
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


@pytest.mark.parametrize(("named", "status"), [("port", 202), ("other", 403)])
async def test_a_rule_for_everyone_certified_by_an_authority(
    tmp_path: Path, signers: Signers, named: str, status: int
) -> None:
    """By the signature of a message: whoever the authority of the rule has certified."""
    other = tmp_path / "another"
    other.mkdir()
    files = {"port": signers.authority.certificate, "other": Authority(other).certificate}
    file = make_file(tmp_path)
    rows = "".join(
        f"[[authorities]]\nname = '{name}'\nfile = '{path}'\n" for name, path in files.items()
    )
    rule = f"[[rights]]\nwho = ['ca:{named}']\nmay = ['publish']\n"
    file.write_text(f"{file.read_text()}\n{rows}{rule}")
    table = {"signers": signers.authority.certificate}
    async with running(tmp_path / "data", identities=file, ws_security=table) as run:
        answer = await send(run, signers.signed("tug", made()))
        assert answer.status == status, answer.body


async def test_what_a_signer_subscribed_to_ends_with_its_certificate(tmp_path: Path) -> None:
    """Also by a list in the file of signers, which no connection is asked for."""
    signers = Signers.make(tmp_path, "mole", "ship")
    trusted = tmp_path / "trusted.pem"
    trusted.write_bytes(signers.authority.certificate.read_bytes())
    async with (
        Consumers() as consumer,
        running(
            tmp_path / "data", identities=make_file(tmp_path), ws_security={"signers": trusted}
        ) as run,
    ):
        url = consumer.fresh()
        subscribe = signers.signed("mole", made(SPEAKER.wse_subscribe(url)))
        assert (await send(run, subscribe)).status == 200
        revoked = signers.authority.revocation_list(signers.files["mole"][0])
        await send(run, signers.signed("ship", made("<e><n>1</n></e>")))
        assert (await consumer.next(url)).number == "1"
        trusted.write_bytes(trusted.read_bytes() + revoked)
        await until(lambda: not may_receive(run))
        answer = await send(run, signers.signed("mole", made("<e><n>2</n></e>")))
        assert b"the certificate is revoked" in answer.body
        assert (await send(run, signers.signed("ship", made("<e><n>3</n></e>")))).status == 202
        await run.quiet()
        assert not consumer.waiting(url)


def may_receive(run: Running) -> bool:
    [entry] = run.gateway.subscriptions.entries
    return run.gateway.serving.site.asking.identification.may_receive(
        entry.subscription.owner, None
    )
