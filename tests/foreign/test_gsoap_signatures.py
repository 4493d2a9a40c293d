"""gSOAP's ``wsseapi``: the gateway takes what it signs and its UsernameTokens, and it takes what we
sign."""

import asyncio
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import pytest

from gateway.identities.file_editing import add_user, create_identities
from mediation import names
from mediation.ws_security import read_signing_key, sign_envelope
from tests.rigs.consumers import Consumers
from tests.rigs.envelopes import S11, Speaker
from tests.rigs.gateways import running
from tests.rigs.gsoap import needs_gsoap
from tests.rigs.signers import rsa_pair

needs_gsoap()
PLUGINS = Path("/usr/share/gsoap/plugin")
if not (PLUGINS / "wsseapi.c").exists():
    pytest.skip("needs wsseapi.c of gSOAP", allow_module_level=True)
# gSOAP's plugins take 6 s to compile.
pytestmark = pytest.mark.nightly

HERE = Path(__file__).parent
EVENT = '<e:event xmlns:e="urn:event"><e:text>tide</e:text></e:event>'
PASSWORD = "open sesame"
DEVICES = '\n[[rights]]\nwho = ["role:devices"]\nmay = ["publish"]\n'
RULES = '\n[[rights]]\nwho = ["cert:CN=mole"]\nmay = ["publish"]\n'


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("gsoap")
    imports = PLUGINS.parent / "import"
    header = str(HERE / "gsoap_signed.h")
    run("soapcpp2", "-c", "-w", "-x", f"-I{imports}", f"-d{folder}", header)
    # With what Debian's library was built, or the structures differ.
    flags = ["-std=gnu99", "-DWITH_IPV6", "-DWITH_DOM", "-DWITH_OPENSSL", f"-I{folder}"]
    plugins = [
        PLUGINS / f"{name}.c" for name in ("wsseapi", "wsaapi", "smdevp", "mecevp", "threads")
    ]
    times = PLUGINS.parent / "custom" / "struct_timeval.c"
    generated = [folder / f"{name}.c" for name in ("soapC", "soapClient", "soapServer")]
    sources = map(str, (HERE / "gsoap_signed.c", times, *plugins, *generated))
    program = folder / "gsoap_signed"
    libraries = ["-lgsoapssl", "-lssl", "-lcrypto", "-lpthread"]
    run("cc", *flags, f"-I{PLUGINS}", "-w", *sources, *libraries, "-o", str(program))
    return program


def run(*words: str, said: bytes = b"") -> bytes:
    done = subprocess.run(words, input=said, capture_output=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


async def test_the_gateway_takes_what_it_signs(program: Path, tmp_path: Path) -> None:
    certificate, key = rsa_pair(tmp_path, "mole")
    stranger = rsa_pair(tmp_path, "stranger")
    file = tmp_path / "identities.toml"
    create_identities(file)
    file.write_text(file.read_text() + RULES)
    table = {"signers": certificate, "required": ["publish"]}
    async with running(tmp_path / "data", identities=file, ws_security=table) as gateway:
        words = [str(program), "publish", f"{gateway.url}/soap", str(key), str(certificate)]
        assert await asyncio.to_thread(run, *words) == b"sent\n"
        words[3:] = map(str, reversed(stranger))
        with pytest.raises(
            AssertionError, match="HTTP 500"
        ):  # It reads no fault of what is one-way.
            await asyncio.to_thread(run, *words)


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("form", ["text", "digest"])
async def test_the_gateway_takes_its_passwords(
    program: Path, tmp_path: Path, consumer: Consumers, form: str
) -> None:
    """Also as octets that somebody else has seen: a password again, a digest once."""
    file = tmp_path / "identities.toml"
    create_identities(file)
    add_user(file, "camera", PASSWORD, ["devices"], digest=True)
    file.write_text(file.read_text() + DEVICES)
    words = [str(program), "token", form]
    url = consumer.fresh()
    assert await asyncio.to_thread(run, *words, url, "camera", PASSWORD) == b"sent\n"
    seen = await consumer.next(url)
    async with running(tmp_path / "data", identities=file) as gateway:
        soap = f"{gateway.url}/soap"
        assert await asyncio.to_thread(run, *words, soap, "camera", PASSWORD) == b"sent\n"
        for user, password in (("camera", "wrong"), ("nobody", PASSWORD)):
            with pytest.raises(AssertionError, match="HTTP 500"):
                await asyncio.to_thread(run, *words, soap, user, password)
        answers = [
            await gateway.request(
                "POST", "/soap", seen.body, content_type="text/xml; charset=utf-8"
            )
            for _ in range(2)
        ]
        assert [one.status for one in answers] == [202, 202 if form == "text" else 500]
        assert (b"used before" in answers[1].body) is (form == "digest")


async def test_it_takes_an_answer(program: Path, tmp_path: Path) -> None:
    """Of a gateway that signs them: an event that waited for who fetches it."""
    certificate, key = rsa_pair(tmp_path, "gateway")
    file, own = tmp_path / "identities.toml", tmp_path / "own.pem"
    create_identities(file)
    everybody = RULES.replace("cert:CN=mole", "everybody").replace("publish", "everything")
    file.write_text(file.read_text() + everybody)
    own.write_bytes(key.read_bytes() + certificate.read_bytes())
    uri = f"{names.MAKE_CONNECTION_ANONYMOUS}00000000-0000-4000-8000-00000000000b"
    fetch = f'<c:MakeConnection xmlns:c="{names.MAKE_CONNECTION_1_1}"><c:Address>{uri}</c:Address>'
    speaker, table = Speaker(S11), {"signing_key": own, "sign_answers": ["manage"]}
    async with running(tmp_path / "data", identities=file, ws_security=table) as gateway:
        await gateway.subscribe(speaker, speaker.wse_subscribe(uri))
        await gateway.publish(EVENT, speaker=speaker)
        await gateway.quiet()
        answer = await gateway.ask(speaker, f"{fetch}</c:MakeConnection>")
    assert b"Action" in answer.body
    words = str(program), "read", str(certificate)
    assert run(*words, said=answer.body) == b"tide\n"
    for said in (b"tide<", b"event/event<", b"000b<", b"wseTopic<"):
        assert said in answer.body
        with pytest.raises(AssertionError, match="FailedCheck"):
            run(*words, said=answer.body.replace(said, b"x" + said))


def test_it_takes_what_we_sign(program: Path, tmp_path: Path) -> None:
    certificate, key = rsa_pair(tmp_path, "gateway")
    signer = read_signing_key(key.read_bytes(), certificate.read_bytes())
    plain = (f'<s:Envelope xmlns:s="{S11.value}"><s:Body>{EVENT}</s:Body></s:Envelope>').encode()
    octets = sign_envelope(plain, signer, unique="u", now=datetime.now(UTC))
    words = str(program), "read", str(certificate)
    assert run(*words, said=octets) == b"tide\n"
    with pytest.raises(AssertionError, match="FailedCheck"):
        run(*words, said=octets.replace(b">tide<", b">tidy<"))
