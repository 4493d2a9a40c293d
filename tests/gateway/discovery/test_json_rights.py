"""The right to a protected topic, of those who ask in JSON."""

import base64
import json
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from mediation.discovery import Right
from tests.rigs.cloudevents import agreeing, received
from tests.rigs.discovery_rights import OTHER, OWNER, Rig, now, protected_topic
from tests.rigs.envelopes import Answer, fresh_id

EVENTS, ADMINISTRATION, MAILBOXES = "/events/subscriptions", "/api/v1/subscriptions", "/mailboxes"


@pytest_asyncio.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    async with protected_topic(tmp_path) as rig:
        yield rig


def proved(rig: Rig, **more: Any) -> dict[str, Any]:
    """What says that the owner asks."""
    request = fresh_id()
    header = rig.header(more.pop("speaker", OWNER), Right.SUBSCRIBE, request, EVENTS, **more)
    return {
        "tdn_authorization": base64.b64encode(header.encode()).decode(),
        "tdn_request": request,
    }


async def subscribe(rig: Rig, sink: str, path: str = EVENTS, **config: Any) -> Answer:
    steps = "/".join(step.name for step in rig.topic.steps)
    config = {"topic": f"t:{steps}", "namespaces": {"t": rig.topic.steps[0].namespace}, **config}
    wanted = config if path == MAILBOXES else {"sink": sink, "protocol": "HTTP", "config": config}
    body = json.dumps(wanted).encode()
    return await rig.run.request("POST", path, body, content_type="application/json")


@pytest.mark.parametrize("path", [EVENTS, ADMINISTRATION, MAILBOXES])
async def test_who_asks_in_json_proves_the_right(rig: Rig, path: str) -> None:
    sink = rig.consumers.add(agreeing())
    refused = await subscribe(rig, sink.url, path)
    assert (refused.status, b"proves no right" in refused.body) == (403, True), refused.body
    proof = proved(rig)
    other = await subscribe(rig, sink.url, path, **proof | {"tdn_request": fresh_id()})
    assert (other.status, b"another request" in other.body) == (403, True), other.body
    answer = await subscribe(rig, sink.url, path, **proof)
    assert answer.status == 201, answer.body
    again = await subscribe(rig, sink.url, path, **proof)
    assert (again.status, b"came before" in again.body) == (403, True), again.body


async def test_who_proved_the_right_gets_events(rig: Rig) -> None:
    sink = rig.consumers.add(agreeing())
    assert (await subscribe(rig, sink.url, **proved(rig))).status == 201
    assert (await rig.publish(1, OWNER)).status == 202
    await sink.until(lambda: len(sink.received) == 2)
    assert "<n>1</n>" in received(sink.received[-1])["data"]


@pytest.mark.parametrize("path", [EVENTS, MAILBOXES])
async def test_the_lease_ends_with_the_delegation(rig: Rig, path: str) -> None:
    sink = rig.consumers.add(agreeing())
    delegation = rig.delegation(Right.SUBSCRIBE, days=0.25)
    proof = proved(rig, speaker=OTHER, delegation=delegation)
    answer = await subscribe(rig, sink.url, path, expires=2 * 86400.0, **proof)
    assert answer.status == 201, answer.body
    latest = now() + timedelta(days=0.25)

    def ends(answer: Answer) -> datetime:
        said = json.loads(answer.body)
        return datetime.fromisoformat(said.get("config", said)["expires"])

    assert latest - timedelta(minutes=2) < ends(answer) <= latest
    if path == EVENTS:
        body = json.dumps({"config": {"expires": 2 * 86400.0}}).encode()
        key = json.loads(answer.body)["id"]
        extended = await rig.run.request(
            "PUT", f"{EVENTS}/{key}", body, content_type="application/json"
        )
        assert ends(extended) <= latest


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"tdn_request": "urn:m:1"}, b"go together"),
        ({"tdn_authorization": "PGEvPg=="}, b"go together"),
        ({"tdn_authorization": "?", "tdn_request": "urn:m:1"}, b"is not base64"),
    ],
)
async def test_what_cannot_be_read(rig: Rig, given: dict[str, str], why: bytes) -> None:
    sink = rig.consumers.add(agreeing())
    for path in (EVENTS, MAILBOXES):
        answer = await subscribe(rig, sink.url, path, **given)
        assert (answer.status, why in answer.body) == (422, True), answer.body
