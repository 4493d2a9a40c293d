"""Publications on topics that take signed events, over a gateway."""

import asyncio
import json
import threading
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

from adapters.memory import MemoryAdapter
from adapters.protocol import EVERYTHING_WANTED
from dragoman.client import CloudEventsClient, GatewayError, GridEventsClient, WseClient, WsnClient
from dragoman.signing import Signer
from filters import parse_clark
from gateway.parsing import Parsing
from gateway.security.quotas import QuotaExceeded
from gateway.signed_topics import checks as checking
from gateway.signed_topics import signer_quotas
from gateway.signed_topics.checks import NotSigned, SignatureChecks
from gateway.signed_topics.requirements import SignedTopics, SignersUnusable
from gateway.signed_topics.settings import SignedTopicsRow
from gateway.store import Store, signed_events
from mediation.event_signatures import EventSignature, EventVerifier
from mediation.model.messages import Notification
from mediation.names import EVENT_SIGNATURE
from tests.rigs.certificates import revocation_list
from tests.rigs.event_signatures import authority, credentials, now, pem, signer, verifier
from tests.rigs.gateways import Running, running
from tests.rigs.waiting import until

GALE = b'<w:gale xmlns:w="urn:w">8</w:gale>'
TOPIC = "{urn:harbour}storms/coast"


def row(folder: Path, **more: Any) -> dict[str, Any]:
    (folder / "signers.pem").write_bytes(pem())
    return {
        "topics": ["h:storms//."],
        "namespaces": {"h": "urn:harbour"},
        "signers": folder / "signers.pem",
        **more,
    }


def signed(
    name: str = "North mole",
    topic: str = TOPIC,
    payload: bytes = GALE,
    id: str = "urn:uuid:1",
    age: float = 0.0,
) -> dict[str, str]:
    signature = signer(name).sign(
        payload, id=id, topic=parse_clark(topic), time=now() - timedelta(seconds=age)
    )
    return {EVENT_SIGNATURE: signature}


async def outcomes(run: Running) -> dict[str, int]:
    lines = (await run.admin("GET", "/metrics")).body.decode().splitlines()
    start = 'dragoman_event_signatures_total{outcome="'
    found = (one.removeprefix(start).split('"} ') for one in lines if one.startswith(start))
    return {name: int(float(number)) for name, number in found if float(number)}


async def test_a_signature_is_needed_whatever_is_spoken(tmp_path: Path) -> None:
    rows = (SignedTopicsRow(**row(tmp_path)),)
    async with running(tmp_path / "data", signed_topics=rows) as run:
        for make in (WseClient, WsnClient, CloudEventsClient, GridEventsClient):
            async with make(run.url) as client:
                with pytest.raises(GatewayError, match="must be signed: it has no signature") as no:
                    await client.publish(GALE, topic=TOPIC)
                assert no.value.status in (403, 500), make
                await client.publish(GALE, topic=TOPIC, sign=Signer(signer()))
                await client.publish(GALE, topic="{urn:other}storms")
        assert await outcomes(run) == {"signed": 4, "unsigned": 4}


@pytest.mark.parametrize(
    ("properties", "why"),
    [
        (signed(payload=b"<w:gale xmlns:w='urn:w'>9</w:gale>"), "not what was signed"),
        (signed(topic="{urn:harbour}storms"), "it was signed for {urn:harbour}storms"),
        (signed("South mole"), "South mole is not one of its signers"),
        (signed(age=3700), "which does not count now"),
        (signed(age=-3000), "which does not count now"),
        ({EVENT_SIGNATURE: "a..b"}, "cannot be read"),
    ],
)
async def test_another_signature_is_refused(
    tmp_path: Path, properties: dict[str, str], why: str
) -> None:
    rows = (SignedTopicsRow(**row(tmp_path, names=["North mole"])),)
    async with running(tmp_path / "data", signed_topics=rows) as run:
        async with WsnClient(run.url) as client:
            with pytest.raises(GatewayError) as refused:
                await client.publish(GALE, topic=TOPIC, properties=properties)
        assert why in str(refused.value)


async def test_an_event_counts_once_over_restarts(tmp_path: Path) -> None:
    rows = (SignedTopicsRow(**row(tmp_path)),)
    event = {
        "specversion": "1.0", "id": "7", "source": "urn:mole", "type": "gale", "topic": TOPIC,
        "datacontenttype": "application/xml", "data": GALE.decode(), **signed(),
    }  # fmt: skip
    for _ in range(2):
        async with running(tmp_path / "data", adapter="embedded:", signed_topics=rows) as run:

            async def publish(**changed: str) -> int:
                body = json.dumps({**event, **changed}).encode()
                type_ = "application/cloudevents+json"
                return (await run.request("POST", "/events", body, content_type=type_)).status

            assert await publish() == 202  # Its sender may try again.
            assert await publish() == 202
            assert await publish(id="8") == 403  # Nobody else may, nor in another message.
            assert await outcomes(run) == {"signed": 2, "replayed": 1}


async def test_copies_of_other_gateways(tmp_path: Path) -> None:
    """An event that comes on two ways is no event that somebody repeats."""
    rows = (SignedTopicsRow(**row(tmp_path)),)
    async with running(tmp_path / "data", signed_topics=rows) as run:
        for id, origin, properties, status in (
            ("1", "1f.2b", signed(), 202),
            ("2", "1f.2b", signed(), 202),
            ("3", "1f.2c", signed(), 403),
            ("4", "1f.2d", {}, 403),
        ):
            event = {
                "specversion": "1.0", "id": id, "source": "urn:mole", "type": "gale",
                "topic": TOPIC, "datacontenttype": "application/xml", "data": GALE.decode(),
                **properties,
            }  # fmt: skip
            answer = await run.request(
                "POST", "/events", json.dumps(event).encode(), dragoman_hops="1",
                dragoman_origin=origin, content_type="application/cloudevents+json",
            )  # fmt: skip
            assert answer.status == status, (id, answer.body)
        assert await outcomes(run) == {"signed": 1, "replayed": 1, "unsigned": 1}


async def test_an_event_that_was_delivered_is_not_sent_again(
    tmp_path: Path, store_url: str
) -> None:
    """Its sender may try again for minutes, or until it is delivered; then who repeats it is
    refused, though with the same message id: messaging systems forget ids sooner."""
    store = Store(store_url)
    await store.start()
    moments = [now()]
    topics = SignedTopics([SignedTopicsRow(**row(tmp_path))])
    checks = SignatureChecks(topics, store, Parsing(), now=lambda: moments[-1])
    events = [Notification("1", "urn:mole", GALE, now(), parse_clark(TOPIC), properties=signed())]
    await checks.admit(events, "")
    moments.append(moments[0] + timedelta(minutes=11))
    await checks.admit(events, "")
    system = MemoryAdapter()
    await system.start([EVERYTHING_WANTED])
    await system.publish(events)
    delivery = await checks.remember(await anext(system.deliveries()))
    assert delivery is not None
    delivery.settle()
    await checks.flush()
    with pytest.raises(NotSigned, match="came before"):
        await checks.admit(events, "")
    moments.append(moments[0] + timedelta(minutes=4))
    await checks.admit(events, "")
    await system.close()
    await store.close()


async def test_a_signer_fills_its_own_part_alone(
    tmp_path: Path, store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over gateways and past them; what its time refuses is forgotten when the part is full."""
    monkeypatch.setattr(signed_events, "MOST_OF_ONE", 10)
    monkeypatch.setattr(signed_events, "MOST", 15)
    monkeypatch.setattr(signer_quotas, "AGAIN", 0.0)
    store = Store(store_url)
    await store.start()
    moments = [now()]
    topics = SignedTopics([SignedTopicsRow(**row(tmp_path))])
    checks = SignatureChecks(topics, store, Parsing(), now=lambda: moments[-1])

    def event(name: str, number: int, age: float = 0.0) -> Notification:
        properties = signed(name, id=f"urn:{name}:{number}", age=age)
        id = f"{name} {number}"
        return Notification(id, "urn:mole", GALE, now(), parse_clark(TOPIC), properties=properties)

    async def take(name: str, first: int, number: int, age: float = 0.0) -> int:
        for each in range(first, first + number):
            try:
                await checks.admit([event(name, each, age)], "")
            except QuotaExceeded:
                return each - first
        return number

    assert await take("North mole", 0, 20) == 10
    assert await take("South mole", 0, 3) == 3
    system = MemoryAdapter()
    await system.start([EVERYTHING_WANTED])
    await system.publish([event("North mole", 50), event("South mole", 50)])
    deliveries = system.deliveries()
    assert await checks.once(await anext(deliveries)) is None
    assert await checks.once(await anext(deliveries)) is not None
    moments.append(moments[0] + timedelta(hours=1, minutes=2))
    assert await take("North mole", 100, 20, age=-3700.0) == 10, "in place of the old ones"
    assert await take("South mole", 100, 20, age=-3700.0) == 2, "the total holds for all"
    [sample] = checks.metrics()
    assert sample.values["crowded",] == 4
    await system.close()
    await store.close()


async def test_who_sends_signatures_that_are_wrong_waits(
    tmp_path: Path, store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is verified is verified in a thread, also when it is small."""
    monkeypatch.setattr(checking, "FAILURES_AT_ONCE", 2.0)
    store = Store(store_url)
    await store.start()
    topics = SignedTopics([SignedTopicsRow(**row(tmp_path))])
    checks = SignatureChecks(topics, store, Parsing())
    threads = set()
    verify = EventVerifier.verify

    def noting(*args: Any, **options: Any) -> EventSignature:
        threads.add(threading.current_thread())
        return verify(*args, **options)

    monkeypatch.setattr(EventVerifier, "verify", noting)
    other = signed(payload=b"<w:gale xmlns:w='urn:w'>9</w:gale>")
    wrong = Notification("1", "urn:mole", GALE, now(), parse_clark(TOPIC), properties=other)
    right = Notification("2", "urn:mole", GALE, now(), parse_clark(TOPIC), properties=signed())
    for _ in range(2):
        with pytest.raises(NotSigned):
            await checks.admit([wrong], "", "anonymous:192.0.2.1")
    with pytest.raises(QuotaExceeded):
        await checks.admit([right], "", "anonymous:192.0.2.1")
    await checks.admit([right], "", "anonymous:192.0.2.2")
    assert threading.main_thread() not in threads
    await store.close()


async def test_a_copy_is_dropped_while_the_first_is_under_way(
    tmp_path: Path, store_url: str
) -> None:
    """Of a messaging system that only gateways write to, which knows ids for ten minutes."""
    store = Store(store_url)
    await store.start()
    checks = SignatureChecks(SignedTopics([SignedTopicsRow(**row(tmp_path))]), store, Parsing())
    system = MemoryAdapter()
    await system.start([EVERYTHING_WANTED])
    copies = [
        Notification(id, "urn:mole", GALE, now(), parse_clark(TOPIC), properties=signed())
        for id in ("1", "2", "3")
    ]
    await system.publish(copies)
    deliveries = system.deliveries()
    first = await checks.remember(await anext(deliveries))
    assert first is not None
    assert await checks.remember(await anext(deliveries)) is None
    del first
    assert await checks.remember(await anext(deliveries)) is not None
    await system.close()
    await store.close()


async def test_a_copy_is_found_while_the_first_is_under_way(tmp_path: Path, store_url: str) -> None:
    """A consumer may take its time; what was let go of, and not settled, comes again."""
    store = Store(store_url)
    await store.start()
    checks = SignatureChecks(SignedTopics([SignedTopicsRow(**row(tmp_path))]), store, Parsing())
    system = MemoryAdapter()
    await system.start([EVERYTHING_WANTED])
    native = [
        Notification(id, "urn:mole", GALE, now(), parse_clark(TOPIC), properties=signed())
        for id in ("1", "2", "3")
    ]
    await system.publish(native)
    deliveries = system.deliveries()
    first = await checks.once(await anext(deliveries))
    assert first is not None
    assert await checks.once(await anext(deliveries)) is None
    del first
    assert await checks.once(await anext(deliveries)) is not None
    await system.close()
    await store.close()


def test_rows_say_which_topics_and_whose_signatures(tmp_path: Path) -> None:
    topics = SignedTopics([SignedTopicsRow(**row(tmp_path))])
    assert topics.of(parse_clark(TOPIC), "") is not None
    for topic, tenant in ((TOPIC, "acme"), ("{urn:harbour}tides", "")):
        assert topics.of(parse_clark(topic), tenant) is None
    assert topics.of(None, "") is None
    unusable = row(tmp_path)
    unusable["signers"].write_bytes(b"nothing")
    with pytest.raises(SignersUnusable, match="cannot be used"):
        SignedTopics([SignedTopicsRow(**unusable)])
    unusable["signers"].unlink()
    with pytest.raises(SignersUnusable, match="cannot be read"):
        SignedTopics([SignedTopicsRow(**unusable)])


def test_a_name_is_not_taken_for_an_identifier(tmp_path: Path) -> None:
    def said(signature: str) -> EventSignature:
        return verifier().verify(signature, GALE, now=now())

    mole = said(signed()[EVENT_SIGNATURE])
    other = said(signed(mole.identifier)[EVENT_SIGNATURE])
    assert other.name == mole.identifier != other.identifier
    rows = [SignedTopicsRow(**row(tmp_path, names=[mole.identifier]))]
    requirement = SignedTopics(rows).of(parse_clark(TOPIC), "")
    assert requirement is not None
    assert requirement.names_signer(mole) and not requirement.names_signer(other)


async def test_certificates_are_read_again(tmp_path: Path) -> None:
    made = row(tmp_path)
    topics = SignedTopics([SignedTopicsRow(**made)])
    before = topics.of(parse_clark(TOPIC), "")
    assert before is not None
    watching = asyncio.create_task(topics.watch())
    made["signers"].write_bytes(pem(credentials()))

    async def read() -> bool:
        found = topics.of(parse_clark(TOPIC), "")
        return found is not None and found.verifier is not before.verifier

    await until(read)
    watching.cancel()


def test_rows_are_checked(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="topics"):
        SignedTopicsRow(**row(tmp_path, topics=["a//b//c|"]))
    with pytest.raises(ValueError, match="max_age"):
        SignedTopicsRow(**row(tmp_path, max_age=timedelta()))


async def test_a_signer_whose_certificate_is_revoked(tmp_path: Path) -> None:
    rows = (SignedTopicsRow(**row(tmp_path)),)
    of, lost = authority(), credentials("North mole").certificate
    assert isinstance(of.key, EllipticCurvePrivateKey)
    revoked = revocation_list(of.certificate.subject, of.key, [lost])
    async with (
        running(tmp_path / "data", signed_topics=rows) as run,
        WsnClient(run.url) as client,
    ):
        await client.publish(GALE, topic=TOPIC, sign=Signer(signer()))
        (tmp_path / "signers.pem").write_bytes(pem() + revoked)
        await until(lambda: any(one["event"] == "signed-topics.read" for one in run.logs))
        with pytest.raises(GatewayError, match="the certificate is revoked"):
            await client.publish(GALE, topic=TOPIC, sign=Signer(signer()))
        await client.publish(GALE, topic=TOPIC, sign=Signer(signer("South mole")))
