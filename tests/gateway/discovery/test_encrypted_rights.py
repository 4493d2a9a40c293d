"""A topic whose advertisement is encrypted is protected as others are, in every protocol."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import quote

import pytest
import pytest_asyncio

from mediation.discovery import Right, Synopsis, SynopsisType, integer_topic
from tests.gateway.discovery.test_json_rights import proved, subscribe
from tests.rigs.cloudevents import agreeing, event, publish
from tests.rigs.discovery_rights import (
    OTHER,
    OWNER,
    PLACEHOLDER,
    Rig,
    made_topic,
    numbers,
    protected_topic,
)
from tests.rigs.envelopes import Speaker, fresh_id, wse_filter

RP = "http://docs.oasis-open.org/wsrf/rp-2"
WSTOP = "http://docs.oasis-open.org/wsn/t-1"
CONCRETE = "http://docs.oasis-open.org/wsn/t-1/TopicExpression/Concrete"
PLACEHOLDERS = {
    "path": PLACEHOLDER,
    "path, the UUID in between": Synopsis(SynopsisType.PATH, "A/{uuid}/B", PLACEHOLDER.namespace),
    "integer": Synopsis(SynopsisType.INTEGER),
}


@pytest_asyncio.fixture(params=list(PLACEHOLDERS))
async def rig(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Rig]:
    made = made_topic(PLACEHOLDERS[request.param], encrypted=True)
    async with protected_topic(tmp_path, made) as rig:
        yield rig


async def test_a_stranger_neither_hears_nor_says_anything(rig: Rig) -> None:
    sink, everything, json_sink, peer = (
        rig.consumers.add(), rig.consumers.add(), rig.consumers.add(agreeing()), Speaker(),
    )  # fmt: skip
    first, *others = rig.topic.steps
    path = "/".join([f"t:{first.name}", *(step.name for step in others)])
    where = wse_filter(path, CONCRETE, f'xmlns:t="{first.namespace}"')
    asked = {
        "WS-Notification": await rig.subscribe(sink, fresh_id()),
        "WS-Eventing": await rig.run.ask(peer, peer.wse_subscribe(sink.url, filter=where)),
        "CloudEvents": await subscribe(rig, json_sink.url),
        "another's right": await rig.subscribe(
            sink, (id_ := fresh_id()), rig.header(OTHER, Right.SUBSCRIBE, id_)
        ),
        "a publication in SOAP": await rig.publish(1, None),
        "one in CloudEvents": await publish(rig.run, event(topic=str(rig.topic), data="<n>2</n>")),
    }
    for how, answer in asked.items():
        assert answer.status == 403, (how, answer.body)
    await rig.run.subscribe(peer, peer.wsn_subscribe(everything.url))
    await rig.native(3, {})
    own = await rig.owner_subscribes()
    assert (await rig.publish(4, OWNER)).status == 202
    await own.until(lambda: bool(own.received))
    await rig.run.publish("<e><n>5</n></e>", path="/soap/topic/open")
    await everything.until(lambda: bool(everything.received))
    assert (numbers(own), numbers(everything)) == (["4"], ["5"])


async def test_the_owner_and_whom_it_lets(rig: Rig) -> None:
    own, lent, request = await rig.owner_subscribes(), rig.consumers.add(), fresh_id()
    in_json = rig.consumers.add(agreeing())
    delegation = rig.delegation(Right.SUBSCRIBE)
    header = rig.header(OTHER, Right.SUBSCRIBE, request, delegation=delegation)
    assert (await rig.subscribe(lent, request, header)).status == 200
    assert (await subscribe(rig, in_json.url, **proved(rig))).status == 201
    assert (await rig.publish(1, OTHER, delegation=rig.delegation(Right.PUBLISH))).status == 202
    proof = fresh_id()
    await rig.native(2, {"tdn_authorization": rig.proof(proof)}, proof)
    for sink in (own, lent):
        await sink.until(lambda: len(sink.received) == 2)  # noqa: B023  # Awaited at once.
        assert numbers(sink) == ["1", "2"]
    await in_json.until(lambda: len(in_json.received) == 3)  # The first is the handshake.


async def test_nobody_is_shown_where_its_events_are(rig: Rig) -> None:
    assert (await rig.publish(1, OWNER)).status == 202
    await rig.run.publish("<e><n>2</n></e>", path="/soap/topic/open")
    body = f'<r:GetResourceProperty xmlns:r="{RP}" xmlns:w="{WSTOP}">w:TopicSet'
    body += "</r:GetResourceProperty>"
    told = (await rig.run.ask(Speaker(), body)).body
    assert b"<open" in told
    assert f"u-{rig.topic_id}".encode() not in told
    known = json.loads((await rig.run.admin("GET", "/api/v1/topics")).body)["topics"]
    known = [one for one in known if one["topic"] != "open"]
    assert [one["id"] for one in known] == [str(rig.topic_id)]
    assert (known[0]["encrypted"], known[0]["topic"]) == (True, None)


async def test_every_topic_that_its_synopsis_might_name_is_protected(tmp_path: Path) -> None:
    async with protected_topic(tmp_path, made_topic(encrypted=True)) as rig:
        for topic in (f"A/u-{rig.topic_id}", str(integer_topic(rig.topic_id))):
            where = f"/soap/topic/{quote(topic, safe='')}"
            answer = await rig.run.ask(Speaker(), "<e><n>1</n></e>", where)
            assert answer.status == 403, answer.body
