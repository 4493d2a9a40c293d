"""A proof of possession protects what it is sent with, and is good at the gateway that it names."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from gateway.client.errors import GatewayError
from gateway.client.events import EventClient
from gateway.client.messaging import Authorize, Client
from mediation.discovery import Authorization, Right, event_digest, write
from mediation.model.messages import Notification
from mediation.model.versions import Version
from tests.rigs.cloudevents import agreeing
from tests.rigs.discovery_rights import OWNER, Rig, now, numbers, protected_topic
from tests.rigs.envelopes import fresh_id
from tests.rigs.intermediaries import Intermediary, intermediary

SPEAKING = [Version.WSN_1_3, Version.WSE_2004_08, Version.WSE_2011_03, Version.WSN_1_2]
LOOKALIKE = b"<e><n>1</n>see wsa:Address, s:Body and wsnt:Topic</e>"


@asynccontextmanager
async def between(folder: Path, **settings: Any) -> AsyncIterator[tuple[Rig, Intermediary]]:
    """A gateway, and an intermediary that it knows as its own address."""
    async with protected_topic(folder, **settings) as rig, intermediary(rig.run.url) as found:
        yield rig, found


def authorize(rig: Rig, right: Right, *, digest: bool = True) -> Authorize:
    """The owner's proofs, for the gateway's own address."""

    def prove(request: str, address: str, said: str) -> str:
        path = "/soap" if address.endswith("/soap") else "/events/subscriptions"
        return rig.header(OWNER, right, request, path, digest=said if digest else None)

    return prove


@pytest.mark.parametrize("version", SPEAKING)
async def test_what_is_changed_on_the_way_is_refused(version: Version, tmp_path: Path) -> None:
    """The payload of an event, and where a subscription is to be delivered to."""
    async with between(tmp_path) as (rig, way), Client(way.url, version) as client:
        own, thief = rig.consumers.add(), rig.consumers.add()
        await client.subscribe(
            own.url, topic=str(rig.topic), authorize=authorize(rig, Right.SUBSCRIBE)
        )
        await client.publish(
            LOOKALIKE, topic=str(rig.topic), authorize=authorize(rig, Right.PUBLISH)
        )
        await own.until(lambda: bool(own.received))
        way.changes = {b"<n>1</n>": b"<n>9999</n>", own.url.encode(): thief.url.encode()}
        with pytest.raises(GatewayError, match="made for other content"):
            await client.publish(
                LOOKALIKE, topic=str(rig.topic), authorize=authorize(rig, Right.PUBLISH)
            )
        with pytest.raises(GatewayError, match="made for other content"):
            await client.subscribe(
                own.url, topic=str(rig.topic), authorize=authorize(rig, Right.SUBSCRIBE)
            )
        assert numbers(own) == ["1"]


async def test_a_subscription_in_json_that_is_changed_on_the_way_is_refused(
    tmp_path: Path,
) -> None:
    async with between(tmp_path) as (rig, way), EventClient(way.url) as client:
        own, thief = rig.consumers.add(agreeing()), rig.consumers.add(agreeing())
        steps = "/".join(step.name for step in rig.topic.steps)
        scope = {"t": rig.topic.steps[0].namespace or ""}
        subscribe: dict[str, Any] = {"topic": f"t:{steps}", "namespaces": scope}
        subscribe["authorize"] = authorize(rig, Right.SUBSCRIBE)
        await client.subscribe(own.url, **subscribe)
        way.changes = {own.url.encode(): thief.url.encode()}
        with pytest.raises(GatewayError, match="made for other content"):
            await client.subscribe(own.url, **subscribe)


async def test_a_native_message_with_another_payload_is_not_its_creators(tmp_path: Path) -> None:
    """Also where it comes before the one that the proof was made for."""
    async with protected_topic(tmp_path) as rig:
        sink, request = await rig.owner_subscribes(), fresh_id()
        said = Notification(request, "urn:native", b"<e><n>1</n></e>", now(), rig.topic)
        proof = rig.proof(request, event_digest(said))
        properties = {"tdn_authorization": proof, "tdn_request": request}
        await rig.native(2, properties)
        await rig.native(1, properties)
        await rig.publish(3, OWNER)
        await sink.until(lambda: "3" in numbers(sink))
        assert numbers(sink) == ["1", "3"]
        metrics = (await rig.run.admin("GET", "/metrics")).body
        assert b'denials_total{reason="publish-other-content"} 1.0' in metrics


@pytest.mark.parametrize("needed", [False, True])
async def test_a_proof_without_a_digest_is_enough_unless_one_is_asked_for(
    needed: bool, tmp_path: Path
) -> None:
    async with protected_topic(tmp_path) as rig, Client(rig.run.url) as client:
        assert rig.run.gateway.rights is not None
        rig.run.gateway.rights.proofs._needs_digest = needed
        publish = client.publish(
            b"<e/>", topic=str(rig.topic), authorize=authorize(rig, Right.PUBLISH, digest=False)
        )
        if not needed:
            await publish
            return
        with pytest.raises(GatewayError, match="has no digest"):
            await publish
        await client.publish(b"<e/>", topic=str(rig.topic), authorize=authorize(rig, Right.PUBLISH))


HEADERS = [
    pytest.param({"Host": "gateway-b.example"}, id="host"),
    pytest.param({"X-Forwarded-Host": "gateway-b.example"}, id="x-forwarded"),
    pytest.param({"Forwarded": "host=gateway-b.example;proto=http"}, id="forwarded"),
]


@pytest.mark.parametrize("headers", HEADERS)
@pytest.mark.parametrize("public", [None, "https://gateway-a.example"])
async def test_a_proof_for_another_gateway_is_none_whatever_the_request_says(
    headers: dict[str, str], public: str | None, tmp_path: Path
) -> None:
    """Gateway B has got it from who speaks to B, and sends it to this one, as if it were B."""
    settings = {"public_url": public, "trusted_proxies": ("127.0.0.1",), "hosts": ("*",)}
    async with between(tmp_path, **settings) as (rig, way):
        way.headers = headers

        def for_b(request: str, address: str, digest: str) -> str:
            to = "http://gateway-b.example/soap"
            proof = rig.possession(OWNER, Right.PUBLISH, request, to, digest=digest)
            return write(Authorization(proof)).decode()

        async with Client(way.url) as client:
            with pytest.raises(GatewayError, match="made for another address"):
                await client.publish(b"<e/>", topic=str(rig.topic), authorize=for_b)
