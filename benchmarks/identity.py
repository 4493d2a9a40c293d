"""Measures what it costs to know who sends.

Question: how much more processor time does an event take that is published with an API key, a
token, a password, or a digest of WS-Security, or signed, or signed and encrypted (RSA, 2048 bits),
than one at a gateway without identities; over TLS, and over TLS by a client with a certificate? How
much more where it is delivered with a password, a token or a digest of WS-Security, over TLS, with
a certificate or without, signed, or signed and encrypted, than plain? And how long does it take to
decide whether a principal may do something, with 10,000 rules, of which one or all are for it,
beside a look at each of them? Each way has a gateway of its own, in turn, in the same run; a rule
grants one topic. What does the signature of an event cost (ECDSA on P-256), that is passed on, and
that its topic demands? And what do tenants cost a message where there are none?

    .venv/bin/python -m benchmarks.identity [--seconds 5] [--repetitions 3]
"""

import argparse
import asyncio
import base64
import json
import os
import ssl
import tempfile
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import uvloop
from cryptography import x509
from joserfc import jwt
from joserfc.jwk import ECKey, KeySet

from adapters.tenant_turns import TenantTurns
from benchmarks.machine import describe, pin, spread
from benchmarks.rig import TOPIC, Poster, gateway, publish_request, subscribe_request
from filters import Topic, parse_clark
from gateway.client.signals import end_as_by_interrupt
from gateway.identities.file_editing import add_key, add_user, create_identities
from gateway.security.rights import Policy, Right, Rule, read_topics
from gateway.security.tls import client_context
from mediation.model.messages import Notification
from mediation.model.versions import Version
from mediation.names import EVENT_SIGNATURE, PUBLISHER, WSSE, WSU
from mediation.soap.properties import properties_block
from mediation.soap.username_tokens import digest_of
from mediation.tenants import as_its_tenant_knows_it, tenant_of_topic
from mediation.ws_security import (
    SigningKey,
    encrypt_envelope,
    read_recipient,
    read_signing_key,
    sign_envelope,
)
from tests.rigs import event_signatures
from tests.rigs.certificates import Authority
from tests.rigs.signers import rsa_pair

PUBLISHERS = 16
PASSWORD = "open sesame"
SOURCE = f"{PUBLISHER}anonymous:127.0.0.1"
ISSUER = "https://id.example.org"
_TYPE = (
    "http://docs.oasis-open.org/wss/2004/01/"
    "oasis-200401-wss-username-token-profile-1.0#PasswordDigest"
)
SIGNER = event_signatures.signer()
Sender = Callable[[int], bytes]
"""Makes the event with a number."""


def make_file(folder: Path) -> dict[str, str]:
    """A file of identities in *folder*. Returns the value of ``Authorization`` by its kind."""
    file = folder / "identities.toml"
    create_identities(file)
    add_user(file, "mole", PASSWORD, [], digest=True)
    key = add_key(file, "mole")
    signing = ECKey.generate_key("P-256", {"kid": "1", "use": "sig"})
    keys = KeySet([signing]).as_dict(private=False)
    (folder / "keys.json").write_text(json.dumps(keys))
    rows = f"""
[[issuers]]
issuer = "{ISSUER}"
audience = "dragoman"
keys = "keys.json"
[[rights]]
who = ["user:mole", "cert:CN=mole"]
may = ["publish"]
topics = ["{TOPIC}//."]
"""
    file.write_text(file.read_text() + rows)
    claims = {"iss": ISSUER, "aud": "dragoman", "sub": "mole", "exp": int(time.time()) + 86400}
    token = jwt.encode({"alg": "ES256", "kid": "1"}, claims, signing)
    basic = base64.b64encode(f"mole:{PASSWORD}".encode()).decode()
    return {"key": f"Bearer {key}", "token": f"Bearer {token}", "password": f"Basic {basic}"}


@dataclass(frozen=True, slots=True)
class Signing:
    """A signer, the receiver for whom it encrypts, and the files of both."""

    signer: SigningKey
    recipient: x509.Certificate
    files: Mapping[str, Path]

    @classmethod
    def make(cls, folder: Path) -> "Signing":
        signer, receiver = rsa_pair(folder, "mole"), rsa_pair(folder, "receiver")
        return cls(
            read_signing_key(signer[1].read_bytes(), signer[0].read_bytes()),
            read_recipient(receiver[0].read_bytes()),
            {
                "signer": signer[0],
                "signer's key": signer[1],
                "receiver": receiver[0],
                "receiver's key": receiver[1],
            },
        )

    @property
    def incoming(self) -> Mapping[str, str]:
        """The settings of a gateway that verifies and decrypts."""
        return {
            "DRAGOMAN_WS_SECURITY__SIGNERS": str(self.files["signer"]),
            "DRAGOMAN_WS_SECURITY__KEY": str(self.files["receiver's key"]),
        }

    def outgoing(self, *, encrypts: bool) -> Mapping[str, str]:
        """The settings of a gateway that signs what it sends to this machine."""
        credential = {
            "kind": "x509",
            "certificate": str(self.files["signer"]),
            "secret_file": str(self.files["signer's key"]),
        }
        if encrypts:
            credential["encrypt_for"] = str(self.files["receiver"])
        row = {"address": "127.0.0.1", "credential": credential}
        return {"DRAGOMAN_CONSUMERS": json.dumps([row])}

    def signed(self, number: int) -> bytes:
        """A signed event."""
        event = publish_request(Version.WSN_1_3, number)
        return sign_envelope(event, self.signer, unique="u", now=datetime.now(UTC))

    def encrypted(self, number: int) -> bytes:
        """A signed event that is encrypted then."""
        return encrypt_envelope(self.signed(number), self.recipient, unique="u")


def with_signature(number: int) -> bytes:
    """An event with its publisher's own signature."""
    event = publish_request(Version.WSN_1_3, number)
    payload = event.partition(b"<n:Message>")[2].partition(b"</n:Message>")[0]
    signature = SIGNER.sign(
        payload, id=f"urn:{os.urandom(16).hex()}", topic=parse_clark(TOPIC), time=datetime.now(UTC)
    )
    block = properties_block({EVENT_SIGNATURE: signature})
    return event.replace(b"<s:Header>", b"<s:Header>" + block, 1)


def demanding(folder: Path) -> Mapping[str, str]:
    """The settings of a gateway that demands signed events."""
    signers = folder / "signers.pem"
    signers.write_bytes(event_signatures.pem())
    row = {"topics": [TOPIC], "signers": str(signers)}
    return {"DRAGOMAN_SIGNED_TOPICS": json.dumps([row])}


def signatures(events: int) -> tuple[float, float]:
    """Microseconds of making the signature of an event, and of checking it."""
    payload, topic, now = b"<a>%s</a>" % (b"x" * 1000), parse_clark(TOPIC), datetime.now(UTC)
    started = time.perf_counter()
    for _ in range(events):
        signature = SIGNER.sign(payload, id="urn:1", topic=topic, time=now)
    made = time.perf_counter() - started
    verifier = event_signatures.verifier()
    started = time.perf_counter()
    for _ in range(events):
        verifier.verify(signature, payload, now=now)
    return made / events * 1e6, (time.perf_counter() - started) / events * 1e6


def digested(number: int) -> bytes:
    """An event with a UsernameToken, whose nonce is its own."""
    nonce, created = os.urandom(16), f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
    digest = base64.b64encode(digest_of(PASSWORD, nonce, created)).decode()
    block = (
        f'<w:Security xmlns:w="{WSSE}"><w:UsernameToken><w:Username>mole</w:Username>'
        f'<w:Password Type="{_TYPE}">{digest}</w:Password>'
        f"<w:Nonce>{base64.b64encode(nonce).decode()}</w:Nonce>"
        f'<u:Created xmlns:u="{WSU}">{created}</u:Created></w:UsernameToken></w:Security>'
    )
    event = publish_request(Version.WSN_1_3, number)
    return event.replace(b"<s:Header>", b"<s:Header>" + block.encode(), 1)


@dataclass(frozen=True, slots=True)
class Certificates:
    """Files of an authority, of a gateway, and of a client that it has certified."""

    authority: Path
    gateway: tuple[Path, Path]
    client: tuple[Path, Path]

    @classmethod
    def make(cls, folder: Path) -> "Certificates":
        authority = Authority(folder)
        return cls(
            authority.certificate,
            authority.issue("127.0.0.1"),
            authority.issue("mole", file="client"),
        )

    def listening(self, *, asks: bool) -> Mapping[str, str]:
        """The settings of a gateway that speaks TLS, and *asks* clients for certificates."""
        certificate, key = map(str, self.gateway)
        names = {"DRAGOMAN_TLS_CERTIFICATE": certificate, "DRAGOMAN_TLS_KEY": key}
        return names | ({"DRAGOMAN_TLS_CLIENT_CA": str(self.authority)} if asks else {})

    def sending(self, *, shows: bool) -> Mapping[str, str]:
        """The settings of a gateway that sends over TLS, and *shows* a certificate."""
        row = {"address": "127.0.0.1", "ca": str(self.authority)}
        if shows:
            row["client_certificate"], row["client_key"] = map(str, self.client)
        return {"DRAGOMAN_CONSUMERS": json.dumps([row])}

    def connecting(self, *, shows: bool) -> ssl.SSLContext:
        """What a client connects with."""
        certificate, key = self.client if shows else (None, None)
        return client_context(ca=self.authority, certificate=certificate, key=key)

    def accepting(self, *, asks: bool) -> ssl.SSLContext:
        """What a consumer listens with."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*self.gateway)
        if asks:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(self.authority)
        return context


def showing(folder: Path, kind: str, **more: str) -> Mapping[str, str]:
    """The settings of a gateway that shows its consumers a credential of a *kind*."""
    secret = folder / f"secret-{kind}"
    secret.write_text(PASSWORD)
    row = {"address": "127.0.0.1", "credential": {"kind": kind, "secret_file": str(secret), **more}}
    return {"DRAGOMAN_CONSUMERS": json.dumps([row])}


async def publish(
    port: int, authorization: str, make: Sender, seconds: float, tls: ssl.SSLContext | None = None
) -> int:
    """Publish from all publishers; the number of events that were accepted."""
    headers = f"Authorization: {authorization}\r\n" if authorization else ""
    posters = [
        await Poster.connect("127.0.0.1", port, "/soap", headers=headers, tls=tls)
        for _ in range(PUBLISHERS)
    ]
    until, accepted = time.perf_counter() + seconds, 0

    async def one(poster: Poster, number: int) -> None:
        nonlocal accepted
        while time.perf_counter() < until:
            status, body = await poster.post(make(number))
            if status != 202:
                raise SystemExit(f"an event was refused: {status} {body[:300]!r}")
            number += PUBLISHERS
            accepted += 1

    await asyncio.gather(*(one(poster, n) for n, poster in enumerate(posters)))
    for poster in posters:
        poster.close()
    return accepted


async def microseconds(
    environment: Mapping[str, str],
    authorization: str,
    make: Sender,
    tls: ssl.SSLContext | None,
    seconds: float,
) -> float:
    """The gateway's processor time for an event."""
    with gateway(environment=environment) as running:
        port = int(running.url.rpartition(":")[2])
        await publish(port, authorization, make, 1.0, tls)
        before = running.cpu()
        accepted = await publish(port, authorization, make, seconds, tls)
        return (running.cpu() - before) / accepted * 1e6


class Consumer(asyncio.Protocol):
    """Accepts what comes, and counts it until there were so many as are *wanted*."""

    received = wanted = 0
    complete = asyncio.Event()

    def __init__(self) -> None:
        self._buffer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while True:
            head, found, rest = self._buffer.partition(b"\r\n\r\n")
            length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0] or b"0")
            if not found or len(rest) < length:
                return
            self._buffer = rest[length:]
            Consumer.received += 1
            if Consumer.received == Consumer.wanted:
                Consumer.complete.set()
            answer = b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n"
            self._transport.write(answer)  # type: ignore[attr-defined]  # it is a stream's


async def microseconds_out(
    environment: Mapping[str, str], tls: ssl.SSLContext | None, seconds: float
) -> float:
    """The gateway's processor time for an event that one consumer gets."""
    server = await asyncio.get_running_loop().create_server(Consumer, "127.0.0.1", 0, ssl=tls)
    consumer = f"{'https' if tls else 'http'}://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    plain: Sender = partial(publish_request, Version.WSN_1_3)
    with gateway(environment=environment) as running:
        port = int(running.url.rpartition(":")[2])
        poster = await Poster.connect("127.0.0.1", port, "/soap")
        status, body = await poster.post(subscribe_request(Version.WSN_1_3, consumer))
        if status != 200:
            raise SystemExit(f"Subscribe was refused: {status} {body[:300]!r}")
        Consumer.received = Consumer.wanted = 0
        Consumer.complete.clear()
        before = running.cpu()
        accepted = await publish(port, "", plain, seconds)
        Consumer.wanted = accepted
        if Consumer.received < accepted:
            async with asyncio.timeout(120):
                await Consumer.complete.wait()
        taken = running.cpu() - before
    server.close()
    return taken / accepted * 1e6


def decisions(rules: int, topics: int) -> tuple[float, float]:
    """Microseconds of a decision with so many *rules*, of which one is the principal's: on a topic
    that was asked for before, and on a new one."""
    policy = Policy(
        [
            Rule(n, frozenset({f"user:{n}"}), frozenset({Right.PUBLISH}), read_topics(["a//."], {}))
            for n in range(rules)
        ]
    )
    grants = policy.grants(["user:77"])
    new = [parse_clark(f"a/b{n}") for n in range(topics)]
    started = time.perf_counter()
    for topic in new:
        grants.allows(Right.PUBLISH, topic)
    first = time.perf_counter() - started
    started = time.perf_counter()
    for topic in new:
        grants.allows(Right.PUBLISH, topic)
    again = time.perf_counter() - started
    return again / topics * 1e6, first / topics * 1e6


@dataclass(frozen=True, slots=True)
class OfOnePrincipal:
    """Microseconds of processor time with many rules, all with topics, and all for one principal.

    Attributes:
        unseen: Of a decision on a topic that was never asked for: by the policy, with one rule
            instead of many, and by a look at each rule.
        pattern: Of whether anything is granted that a pattern with wildcards matches, and of that
            by a look at each rule.
        load: Of making the policy.
    """

    unseen: tuple[float, float, float]
    pattern: tuple[float, float]
    load: float


def decisions_of_one(rules: int, topics: int, looks: int = 20) -> OfOnePrincipal:
    """Decide for a principal with so many *rules*, on *topics* that are all new."""
    who, publish = frozenset({"user:mole"}), frozenset({Right.PUBLISH})
    rows = [Rule(n, who, publish, read_topics([f"site{n}//."], {})) for n in range(rules)]
    started = time.process_time()
    policy = Policy(rows)
    load = time.process_time() - started
    grants, one = policy.grants(who), Policy(rows[-1:]).grants(who)
    new = [parse_clark(f"site{rules - 1 - n % 100}/event{n}") for n in range(topics)]

    def each(decide: Callable[[Topic], object], asked: Sequence[Topic]) -> float:
        started = time.process_time()
        for topic in asked:
            decide(topic)
        return (time.process_time() - started) / len(asked) * 1e6

    def look(topic: Topic) -> bool:
        return any(rule.grants(Right.PUBLISH, topic) for rule in rows)

    ask = partial(grants.allows, Right.PUBLISH)
    unseen = each(ask, new), each(partial(one.allows, Right.PUBLISH), new), each(look, new[:looks])
    patterns = [read_topics([f"site{n}x//*/a"], {})[0] for n in range(looks)]
    started = time.process_time()
    for pattern in patterns:
        grants.may_match(Right.PUBLISH, pattern)
    asked = time.process_time() - started
    started = time.process_time()
    for pattern in patterns:
        any(own.overlaps(pattern) for rule in rows for own in rule.topics)
    looked = time.process_time() - started
    return OfOnePrincipal(unseen, (asked / looks * 1e6, looked / looks * 1e6), load * 1e6)


def tenants(messages: int) -> float:
    """Microseconds of a message for telling tenants apart and giving them turns, where there is
    none but the default one."""
    event = Notification("1", SOURCE, b"<a/>", datetime.now(UTC), parse_clark("a/b"))
    turns: TenantTurns[object] = TenantTurns()
    line: deque[object] = deque()
    started = time.perf_counter()
    for _ in range(messages):
        line.append(event)
        line.popleft()
    without = time.perf_counter() - started
    started = time.perf_counter()
    for _ in range(messages):
        known = as_its_tenant_knows_it(event)
        tenant = tenant_of_topic(event.topic)
        turns.append(known, tenant)
        turns.popleft()
        turns.sent(tenant, 4)
    return (time.perf_counter() - started - without) / messages * 1e6


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--repetitions", type=int, default=3)
    options = parser.parse_args()
    pin(1)
    print(describe())
    with tempfile.TemporaryDirectory() as folder:
        said = make_file(Path(folder))
        known = {"DRAGOMAN_IDENTITIES": f"{folder}/identities.toml"}
        plain: Sender = partial(publish_request, Version.WSN_1_3)
        ways: dict[str, tuple[Mapping[str, str], str, Sender, ssl.SSLContext | None]] = {
            "nobody is known": ({}, "", plain, None),
            **{name: (known, value, plain, None) for name, value in said.items()},
            "digest": (known, "", digested, None),
        }
        files = Certificates.make(Path(folder))
        ways["TLS"] = (files.listening(asks=False), "", plain, files.connecting(shows=False))
        mutual = {**known, **files.listening(asks=True)}
        ways["mutual TLS"] = (mutual, "", plain, files.connecting(shows=True))
        ways["signed event"] = ({}, "", with_signature, None)
        ways["and demanded"] = (demanding(Path(folder)), "", with_signature, None)
        signing = Signing.make(Path(folder))
        known = {**known, **signing.incoming}
        ways["signature"] = (known, "", signing.signed, None)
        ways["and encryption"] = (known, "", signing.encrypted, None)
        out: dict[str, tuple[Mapping[str, str], ssl.SSLContext | None]] = {
            "out: plain": ({}, None),
            "out: password": (showing(Path(folder), "basic", user="mole"), None),
            "out: token": (showing(Path(folder), "bearer"), None),
            "out: digest": (showing(Path(folder), "username-token", user="mole"), None),
            "out: TLS": (files.sending(shows=False), files.accepting(asks=False)),
            "out: mutual TLS": (files.sending(shows=True), files.accepting(asks=True)),
            "out: signature": (signing.outgoing(encrypts=False), None),
            "and encryption, out": (signing.outgoing(encrypts=True), None),
        }
        found: dict[str, list[float]] = {name: [] for name in (*ways, *out)}
        for _ in range(options.repetitions):
            for name, way in ways.items():
                found[name].append(await microseconds(*way, options.seconds))
            for name, to in out.items():
                found[name].append(await microseconds_out(*to, options.seconds))
    base: Any = median(found["nobody is known"])
    for name, values in found.items():
        least = median(found["out: plain"]) if name in out else base
        print(f"{name:<20} {spread(values)} us an event   ratio {median(values) / least:.2f}")
    made, checked = signatures(2000)
    print(f"of an event:     {made:.0f} us to sign, {checked:.0f} us to verify")
    again, first = decisions(10_000, 4000)
    print(f"10,000 rules: {again:.2f} us a decision, {first:.2f} us the first of a topic")
    mine = decisions_of_one(10_000, 20_000)
    unseen, single, look = mine.unseen
    print(
        f"10,000 rules with topics for one principal: {unseen:.1f} us for an unseen topic "
        f"(ratio {unseen / single:.2f} to one rule), {look:,.0f} us by a look at each "
        f"(ratio {look / unseen:,.0f}); {mine.load / 1000:.0f} ms to load them"
    )
    asked, looked = mine.pattern
    print(
        f"the same for a pattern with wildcards: {asked:.0f} us, {looked:,.0f} us by a look at "
        f"each (ratio {looked / asked:,.0f})"
    )
    extra = tenants(1_000_000)
    print(f"no tenants:      {extra:.2f} us a message   ratio {(base + extra) / base:.3f}")


if __name__ == "__main__":
    end_as_by_interrupt()
    uvloop.run(main())
