"""Credentials and signatures that consumers are shown: what is on the wire, where it is not shown,
and what is said of it."""

import asyncio
import hmac
import json
import re
from base64 import b64decode, b64encode
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr
from structlog.testing import capture_logs

from gateway.egress import (
    AddressPolicy,
    Answer,
    ClientLimits,
    Consumer,
    ConsumerOptions,
    Dialer,
    FailureKind,
    HttpTransport,
    Request,
    SendFailed,
    TransportByScheme,
)
from gateway.egress.credential_kinds import ClientCredentials
from gateway.egress.http_authentication import read_challenges
from gateway.egress.request_authentication import RequestAuthentication
from mediation.model.messages import Attachment, Packaging
from mediation.model.versions import Soap, Wsa
from mediation.soap.envelopes import write_envelope
from mediation.soap.username_tokens import read_username_token
from tests.rigs.identity_provider import identity_provider
from tests.rigs.scripted_peers import ACCEPTED, ScriptedPeer, consuming, message, read_request
from tests.rigs.waiting import until

SECRET = "ToP-s3cret-of-the-harbour"
OWNER = "user:mole"
KEYS = [f"whsec_{b64encode(bytes([n]) * 24).decode()}" for n in (1, 2)]
ENVELOPE = write_envelope(Soap.V1_2, Wsa.V2005_08, "<wsa:To>urn:x</wsa:To>", "<a/>")
UNAUTHORIZED = b"HTTP/1.1 401 No\r\nContent-Length: %d\r\n%b\r\n%b"

Says = Callable[[bytes], bytes]


def refusing(body: bytes = b"", fields: bytes = b"") -> bytes:
    return UNAUTHORIZED % (len(body), fields, body)


@asynccontextmanager
async def exchanging(
    tmp_path: Path, credential: dict[str, Any] | None, says: Says, **row: Any
) -> AsyncIterator[tuple[ScriptedPeer, TransportByScheme, list[bytes]]]:
    """A consumer that answers each request with what *says* returns, and what sends to it."""
    seen: list[bytes] = []

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            seen.append(await read_request(reader))
            writer.write(says(seen[-1]))

    if credential is not None:
        secret = tmp_path / "secret"
        secret.write_text(f"{SECRET}\n")
        row["credential"] = {"secret_file": secret, **credential}
    async with consuming(handler) as consumer:
        options = ConsumerOptions([Consumer(address=row.pop("address", "127.0.0.1"), **row)])
        limits = ClientLimits(exchange=10.0)
        policy = AddressPolicy(allow=["127.0.0.0/8", "consumer.example"])
        dialer = Dialer(policy, limits=limits, options=options)
        http = HttpTransport(dialer, limits=limits)
        transport = TransportByScheme({"http": http, "https": http}, dialer)
        try:
            yield consumer, transport, seen
        finally:
            await transport.close()


def owned(url: str, body: bytes = ENVELOPE, **fields: Any) -> Request:
    request = message(url, body)
    request.owner, request.soap, request.message_id = OWNER, Soap.V1_2, "urn:uuid:1"
    for name, value in fields.items():
        setattr(request, name, value)
    return request


def header(request: bytes, name: str) -> str:
    found = re.search(rf"(?im)^{name}: (.*?)\r$", request.partition(b"\r\n\r\n")[0].decode())
    return found[1] if found else ""


def accepts(_: bytes) -> bytes:
    return ACCEPTED


class TestOnTheWire:
    async def test_basic(self, tmp_path: Path) -> None:
        basic = {"kind": "basic", "user": "us"}
        async with exchanging(tmp_path, basic, accepts) as (consumer, transport, seen):
            assert await transport.send(owned(consumer.url())) == Answer(202)
        scheme, _, pair = header(seen[0], "Authorization").partition(" ")
        assert (scheme, b64decode(pair).decode()) == ("Basic", f"us:{SECRET}")

    async def test_bearer(self, tmp_path: Path) -> None:
        async with exchanging(tmp_path, {"kind": "bearer"}, accepts) as (consumer, transport, seen):
            await transport.send(owned(consumer.url()))
        assert header(seen[0], "Authorization") == f"Bearer {SECRET}"

    async def test_digest_answers_a_challenge_once_for_many(self, tmp_path: Path) -> None:
        def says(request: bytes) -> bytes:
            if header(request, "Authorization"):
                return ACCEPTED
            return refusing(
                fields=b'WWW-Authenticate: Basic realm="x", Digest realm="x", nonce="n1", '
                b'qop="auth", algorithm=SHA-256\r\n'
            )

        digest = {"kind": "digest", "user": "us"}
        async with exchanging(tmp_path, digest, says) as (consumer, transport, seen):
            for _ in range(3):
                assert (await transport.send(owned(consumer.url("/hooks?a=1")))).status == 202
        assert [bool(header(one, "Authorization")) for one in seen] == [False, True, True, True]
        said = [read_challenges(header(one, "Authorization"))[0].parameters for one in seen[1:]]
        assert [one["nc"] for one in said] == ["00000001", "00000002", "00000003"]
        first = said[0]

        def hashed(text: str) -> str:
            return sha256(text.encode()).hexdigest()

        parts = ("n1", "00000001", first["cnonce"], "auth", hashed("POST:/hooks?a=1"))
        assert first["response"] == hashed(":".join((hashed(f"us:x:{SECRET}"), *parts)))
        assert SECRET.encode() not in b"".join(seen)

    async def test_digest_is_never_answered_by_basic(self, tmp_path: Path) -> None:
        digest = {"kind": "digest", "user": "us"}

        def says(_: bytes) -> bytes:
            return refusing(fields=b'WWW-Authenticate: Basic realm="x"\r\n')

        async with exchanging(tmp_path, digest, says) as (consumer, transport, seen):
            with pytest.raises(SendFailed, match="401"):
                await transport.send(owned(consumer.url()))
        assert len(seen) == 1 and not header(seen[0], "Authorization")

    @pytest.mark.parametrize("password", ["digest", "text"])
    async def test_a_username_token(self, tmp_path: Path, password: str) -> None:
        token = {"kind": "username-token", "user": "us", "password": password}
        async with exchanging(tmp_path, token, accepts) as (consumer, transport, seen):
            await transport.send(owned(consumer.url()))
            await transport.send(owned(consumer.url()))
        found = [read_username_token(one.partition(b"\r\n\r\n")[2]) for one in seen]
        assert found[0] is not None and found[1] is not None
        assert found[0].nonce != found[1].nonce
        if password == "text":
            assert found[0].password == SECRET
        else:
            assert found[0].has_digest_of(SECRET) and SECRET.encode() not in b"".join(seen)

    @pytest.mark.parametrize("keys", [1, 2])
    async def test_a_signature_by_each_key(self, tmp_path: Path, keys: int) -> None:
        places = tmp_path / "keys"
        places.write_text("\n".join(KEYS[:keys]) + "\n")
        signing = {"signature": {"secret_file": places}}
        async with exchanging(tmp_path, None, accepts, **signing) as (consumer, transport, seen):
            attachment = Attachment("a@b", "text/plain", b"x")
            await transport.send(
                owned(consumer.url(), attachments=(attachment,), packaging=Packaging.MIME)
            )
        body = seen[0].partition(b"\r\n\r\n")[2]
        assert b"text/plain" in body  # What is signed is what the consumer reads.
        signed = f"urn:uuid:1.{header(seen[0], 'webhook-timestamp')}.".encode() + body
        wanted = [
            b64encode(hmac.digest(b64decode(key[6:]), signed, "sha256")).decode()
            for key in KEYS[:keys]
        ]
        assert header(seen[0], "webhook-id") == "urn:uuid:1"
        assert header(seen[0], "webhook-signature") == " ".join(f"v1,{one}" for one in wanted)


class TestAccessTokens:
    async def test_one_token_for_many_until_a_consumer_refuses_it(self, tmp_path: Path) -> None:
        with identity_provider() as provider:
            provider.clients["gateway"] = SECRET
            revoked: set[str] = set()

            def says(request: bytes) -> bytes:
                shown = header(request, "Authorization").removeprefix("Bearer ")
                valid = shown in provider.granted and shown not in revoked
                return ACCEPTED if valid else refusing()

            row = {
                "kind": "client-credentials",
                "token_url": f"{provider.issuer}/token",
                "client_id": "gateway",
                "scope": "events",
            }
            async with exchanging(tmp_path, row, says) as (consumer, transport, _):
                requests = [transport.send(owned(consumer.url(f"/{n}"))) for n in range(20)]
                assert {one.status for one in await asyncio.gather(*requests)} == {202}
                assert len(provider.granted) == 1 and provider.asked[0]["scope"] == "events"
                revoked.update(provider.granted)
                requests = [transport.send(owned(consumer.url(f"/{n}"))) for n in range(20)]
                assert {one.status for one in await asyncio.gather(*requests)} == {202}
                assert len(provider.granted) == 2

    @pytest.mark.parametrize("authentication", ["basic", "body"])
    async def test_what_the_endpoint_says_is_a_sentence(
        self, tmp_path: Path, authentication: str
    ) -> None:
        with identity_provider() as provider:
            row = {
                "kind": "client-credentials",
                "name": "bank",
                "token_url": f"{provider.issuer}/token",
                "client_id": "gateway",
                "authentication": authentication,
            }
            async with exchanging(tmp_path, row, accepts) as (consumer, transport, seen):
                failures = []
                for _ in range(3):
                    with pytest.raises(SendFailed) as failed:
                        await transport.send(owned(consumer.url()))
                    failures.append(failed.value)
            assert len(provider.asked) == 1  # The others come within the pause.
        assert not seen
        for one in failures:
            assert one.kind is FailureKind.CREDENTIAL and not one.connecting and not one.status
            assert "no token for bank" in one.detail and "401 (invalid_client)" in one.detail
            assert SECRET not in one.detail

    @pytest.mark.parametrize(
        ("lifetime", "asked"), [(600, 1), (0, 3), pytest.param(10**400, 1, id="endless")]
    )
    async def test_a_token_is_kept_while_it_counts(
        self, tmp_path: Path, lifetime: int, asked: int
    ) -> None:
        with identity_provider() as provider:
            provider.clients["gateway"], provider.lifetime = SECRET, lifetime
            row = {
                "kind": "client-credentials",
                "token_url": f"{provider.issuer}/token",
                "client_id": "gateway",
            }
            async with exchanging(tmp_path, row, accepts) as (consumer, transport, seen):
                for _ in range(3):
                    await transport.send(owned(consumer.url()))
            assert len(provider.granted) == asked and len(seen) == 3

    async def test_a_consumer_that_takes_no_token_does_not_have_them_asked_for_each_message(
        self, tmp_path: Path
    ) -> None:
        with identity_provider() as provider:
            provider.clients["gateway"] = SECRET
            row = {
                "kind": "client-credentials",
                "token_url": f"{provider.issuer}/token",
                "client_id": "gateway",
            }
            async with exchanging(tmp_path, row, lambda _: refusing()) as (consumer, transport, _):
                for _ in range(5):
                    with pytest.raises(SendFailed, match="it answered 401"):
                        await transport.send(owned(consumer.url()))
            assert len(provider.granted) == 2


class TestWhereItIsNotShown:
    async def test_to_nobody_where_no_subscription_asks(self, tmp_path: Path) -> None:
        async with exchanging(tmp_path, {"kind": "bearer"}, accepts) as (consumer, transport, seen):
            await transport.send(owned(consumer.url(), owner=None))
        assert not header(seen[0], "Authorization")

    @pytest.mark.parametrize(("owner", "shown"), [(OWNER, True), ("user:other", False)])
    async def test_for_its_owner_alone(self, tmp_path: Path, owner: str, shown: bool) -> None:
        bearer = {"kind": "bearer"}
        async with exchanging(tmp_path, bearer, accepts, owner=OWNER) as (
            consumer,
            transport,
            seen,
        ):
            await transport.send(owned(consumer.url(), owner=owner))
        assert bool(header(seen[0], "Authorization")) is shown

    async def test_not_to_where_an_answer_redirects(self, tmp_path: Path) -> None:
        async with exchanging(tmp_path, None, accepts) as (other, _, seen):

            def says(_: bytes) -> bytes:
                to = other.url("/elsewhere").encode()
                return b"HTTP/1.1 307 x\r\nLocation: %b\r\nContent-Length: 0\r\n\r\n" % to

            async with exchanging(tmp_path, {"kind": "bearer"}, says) as (consumer, transport, _):
                assert (await transport.send(owned(consumer.url()))).status == 307
        assert not seen

    @pytest.mark.parametrize(
        ("row", "url"),
        [
            ("127.0.0.2", "http://127.0.0.1:{}/hooks"),
            ("127.0.0.1/hooks", "http://127.0.0.1:{}/other"),
            ("127.0.0.1/hooks", "http://127.0.0.1:{}/hooks2"),
            ("127.0.0.1/hooks", "http://127.0.0.1:{}/hooks/../other"),
            ("127.0.0.1/hooks", "http://127.0.0.1:{}/hooks/%2e%2E/other"),
            ("127.0.0.1/hooks", "http://127.0.0.1:{}/hooks/..;x=1/other"),
            ("127.0.0.1/hooks", "http://127.0.0.1:{}/hooks/..%3Bx/other"),
            ("127.0.0.1/hooks", "http://127.0.0.1:{}/hooks/a%2F..%2f..%2Fother"),
            ("127.0.0.1/hooks", "http://127.0.0.1:{}/hooks/%5c..%5cother"),
            ("127.0.0.1:1", "http://127.0.0.1:{}/hooks"),
        ],
    )
    async def test_not_beside_its_row(self, tmp_path: Path, row: str, url: str) -> None:
        async with exchanging(tmp_path, {"kind": "bearer"}, accepts, address=row) as (
            consumer,
            transport,
            seen,
        ):
            await transport.send(owned(url.format(consumer.port)))
        assert not header(seen[0], "Authorization")

    @pytest.mark.parametrize(
        ("credential", "sent"),
        [
            ({"kind": "bearer"}, False),
            ({"kind": "bearer", "allow_http": True}, True),
            ({"kind": "basic", "user": "u"}, False),
            ({"kind": "username-token", "user": "u", "password": "text"}, False),
            ({"kind": "username-token", "user": "u"}, True),
            ({"kind": "digest", "user": "u"}, True),
        ],
    )
    async def test_over_plain_http_beyond_loopback(
        self, tmp_path: Path, credential: dict[str, Any], sent: bool
    ) -> None:
        row = {"address": "consumer.example"}
        async with exchanging(tmp_path, credential, accepts, **row) as (_, transport, _):
            transport._dialer._resolver = _Nowhere()
            with pytest.raises(SendFailed) as failed:
                await transport.send(owned("http://consumer.example:9999/hooks"))
        kind = FailureKind.NAME if sent else FailureKind.CREDENTIAL
        assert failed.value.kind is kind
        assert sent or "allow_http" in failed.value.detail


class _Nowhere:
    """Knows no name."""

    async def resolve(self, host: str) -> list[Any]:
        return []

    def close(self) -> None:
        pass


class TestWhatIsSaid:
    async def test_a_consumer_that_says_what_it_was_sent(self, tmp_path: Path) -> None:
        def says(request: bytes) -> bytes:
            return b"HTTP/1.1 400 x\r\nContent-Length: %d\r\n\r\n%b" % (len(request), request)

        basic = {"kind": "basic", "user": "us"}
        async with exchanging(tmp_path, basic, says) as (consumer, transport, seen):
            answer = await transport.send(owned(consumer.url()))
        assert answer.status == 400 and b"Authorization: Basic ***" in answer.body
        assert header(seen[0], "Authorization").partition(" ")[2].encode() not in answer.body

    async def test_an_answer_that_says_a_token_before_the_latest(self) -> None:
        tokens, asked, go_on = iter(("an-early-token", "a-late-token")), [], asyncio.Event()

        async def post(_: Request) -> Answer:
            said = {"access_token": next(tokens), "token_type": "Bearer", "expires_in": 0}
            return Answer(200, json.dumps(said).encode())

        async def send(request: Request) -> Answer:
            asked.append(dict(request.own_headers)["Authorization"])
            if len(asked) == 1:
                await go_on.wait()
            return Answer(400, asked[0].encode())

        row = ClientCredentials(
            kind="client-credentials",
            token_url="https://login.example/token",
            client_id="gateway",
            secret_variable="SECRET",
        )
        showing = RequestAuthentication(row, SecretStr(SECRET))
        request = owned("https://bank.example/")
        early = asyncio.create_task(showing.send(request, request.target, send, post))
        await until(lambda: len(asked) == 1)
        await showing.send(request, request.target, send, post)
        go_on.set()
        assert asked == ["Bearer an-early-token", "Bearer a-late-token"]
        assert (await early).body == b"Bearer ***"

    @pytest.mark.parametrize(
        ("credential", "answer"),
        [
            ({"kind": "bearer", "name": "bank"}, refusing()),
            (
                {"kind": "username-token", "user": "u", "name": "bank"},
                b"HTTP/1.1 500 x\r\nContent-Length: 25\r\n\r\nwsse:FailedAuthentication",
            ),
        ],
    )
    async def test_a_refused_credential_is_tried_again(
        self, tmp_path: Path, credential: dict[str, Any], answer: bytes
    ) -> None:
        async with exchanging(tmp_path, credential, lambda _: answer) as (consumer, transport, _):
            with pytest.raises(SendFailed, match="credential bank") as failed:
                await transport.send(owned(consumer.url()))
        assert failed.value.kind is FailureKind.CREDENTIAL and failed.value.status is None

    async def test_a_username_token_needs_an_envelope(self, tmp_path: Path) -> None:
        token = {"kind": "username-token", "user": "us"}
        async with exchanging(tmp_path, token, accepts) as (consumer, transport, seen):
            with pytest.raises(SendFailed, match="is for SOAP"):
                await transport.send(owned(consumer.url(), b"{}", soap=None))
            with pytest.raises(SendFailed, match="does not fit"):
                await transport.send(owned(consumer.url(), ENVELOPE.decode().encode("utf-16")))
        assert not seen


async def test_a_secret_is_rotated_while_messages_go_on(tmp_path: Path) -> None:
    async with exchanging(tmp_path, {"kind": "bearer"}, accepts) as (consumer, transport, seen):
        with capture_logs() as logs:
            watching = asyncio.create_task(transport._dialer.options.watch(every=0.01))
            for text, said, shown in (
                ("two\nlines\n", "credential.file-unusable", SECRET),
                ("another\n", "credential.read", "another"),
            ):
                (tmp_path / "secret").write_text(text)
                await until(lambda: said in [one["event"] for one in logs])  # noqa: B023
                await transport.send(owned(consumer.url()))
                assert header(seen[-1], "Authorization") == f"Bearer {shown}"
            watching.cancel()
    assert "two" not in str(logs) and "another" not in str(logs)
