"""Dates and durations that peers write: whatever stands there, the answer is one of ours, and the
lists of operators still are."""

import asyncio
import json
import re

import pytest

from tests.gateway.sources.test_sources import add, shown
from tests.rigs.envelopes import WSE, WSNT, Speaker
from tests.rigs.gateways import Running
from tests.rigs.producers import Producer, Script, Told, producers
from tests.rigs.waiting import until

pytestmark = pytest.mark.asyncio(loop_scope="module")

GATEWAY = {"adapter": "memory:", "wsrm": "offered"}
DATES = (
    "0001-01-01T00:00:00Z",
    "0001-01-01T00:00:00+14:00",
    "9999-12-31T23:59:59Z",
    "9999-12-31T24:00:00-14:00",
    "10000-01-01T00:00:00Z",
    "-0001-01-01T00:00:00Z",
    "1970-01-01T00:00:00Z",
)
ODD = (
    *DATES,
    "P99999999Y",
    "P99999999999999999999Y",
    "PT99999999999999999999S",
    "PT0.0000000001S",
    "-P99999999Y",
    "P0D",
    "99999999999999999999",
    "-1",
    "INF",
)
LISTS = (
    "/subscriptions", "/sources", "/links", "/channels", "/sequences", "/mailboxes", "/deadletters",
    "/destinations", "/topics",
)  # fmt: skip
CONSUMER = "http://127.0.0.1:18999/"
RM = "http://docs.oasis-open.org/ws-rx/wsrm/200702"
RL = "http://docs.oasis-open.org/wsrf/rl-2"
BR = "http://docs.oasis-open.org/wsn/br-2"
ONVIF = "http://www.onvif.org/ver10/events/wsdl"


async def lists_are_whole(gateway: Running) -> None:
    for path in LISTS:
        answer = await gateway.api("GET", path)
        assert answer.status == 200, (path, answer.body)
    assert (await gateway.request("GET", "/metrics")).status == 200
    assert (await gateway.request("GET", "/xregistry/endpoints")).status == 200


@pytest.mark.parametrize("odd", ODD)
async def test_what_subscribers_and_publishers_write(gateway: Running, odd: str) -> None:
    speaker = Speaker()
    renew = f'<n:Renew xmlns:n="{WSNT}"><n:TerminationTime>{odd}</n:TerminationTime></n:Renew>'
    renew_wse = f'<e:Renew xmlns:e="{WSE}"><e:Expires>{odd}</e:Expires></e:Renew>'
    moved = (
        f'<r:SetTerminationTime xmlns:r="{RL}"><r:RequestedTerminationTime>{odd}'
        "</r:RequestedTerminationTime></r:SetTerminationTime>"
    )
    wsn = await gateway.subscribe(speaker, speaker.wsn_subscribe(CONSUMER))
    wse = await gateway.subscribe(speaker, speaker.wse_subscribe(CONSUMER))
    register = (
        f'<b:RegisterPublisher xmlns:b="{BR}"><b:InitialTerminationTime>{odd}'
        "</b:InitialTerminationTime><b:Demand>false</b:Demand></b:RegisterPublisher>"
    )
    create = (
        f'<r:CreateSequence xmlns:r="{RM}"><r:AcksTo>{speaker.epr(CONSUMER)}</r:AcksTo>'
        f"<r:Expires>{odd}</r:Expires></r:CreateSequence>"
    )
    pull = f'<o:PullMessages xmlns:o="{ONVIF}"><o:Timeout>{odd}</o:Timeout><o:MessageLimit>1</o:MessageLimit></o:PullMessages>'
    asked = (
        (speaker.wsn_subscribe(CONSUMER, expires=odd), "/soap"),
        (speaker.wse_subscribe(CONSUMER, expires=odd), "/soap"),
        (speaker.wse11_subscribe(CONSUMER, expires=odd), "/soap"),
        (renew, wsn), (renew_wse, wse), (moved, wsn), (register, "/soap"), (create, "/soap"),
        (pull, "/pullpoints/unknown"),
    )  # fmt: skip
    for body, path in asked:
        answer = await gateway.ask(speaker, body, path)
        assert b"went wrong here" not in answer.body, (path, body, answer.body)
    event = {"specversion": "1.0", "id": odd, "source": "/s", "type": "t", "data": {}}
    for said in ({"time": odd}, {"time": odd, "expirytime": odd}):
        answer = await gateway.request(
            "POST", "/events", json.dumps(event | said).encode(),
            content_type="application/cloudevents+json",
        )  # fmt: skip
        assert answer.status != 500, answer.body
    for path, asked_for in (
        ("/mailboxes", {"topic": "a", "expires": odd}),
        (
            "/events/subscriptions",
            {"sink": CONSUMER, "protocol": "HTTP", "config": {"expires": odd}},
        ),
        ("/api/v1/sources", {"url": CONSUMER, "spec": "wsn-1.3", "lease": odd}),
        ("/api/v1/deadletters/redrive", {"since": odd}),
        ("/api/v1/deadletters/redrive", {"since": odd.removesuffix("Z")}),
    ):
        answer = await gateway.request(
            "POST", path, json.dumps(asked_for).encode(), content_type="application/json"
        )
        assert answer.status != 500, (path, answer.body)
    await lists_are_whole(gateway)


def granting(now: str, end: str) -> Script:
    """Answers with these times, in the places of those that it would say."""

    def answer(producer: Producer, told: Told) -> tuple[int, bytes] | None:
        status, body = producer._do(told)
        text = re.sub(r"(CurrentTime>)[^<]*", rf"\g<1>{now}", body.decode())
        return status, re.sub(r"((?:TerminationTime|Expires)>)[^<]*", rf"\g<1>{end}", text).encode()

    return answer


async def test_what_producers_grant(gateway: Running) -> None:
    """Each is kept for a length that is one, and shown."""
    pairs = [(now, end) for now in DATES for end in DATES[:4]] + [(DATES[2], odd) for odd in ODD]
    async with producers() as those:
        ids = []
        for now, end in pairs:
            producer = those.add(wse=end not in DATES)
            producer.answers["Subscribe"] = granting(now, end)
            producer.answers["Renew"] = granting(now, end)
            ids.append(await add(gateway, producer))

        async def asked() -> bool:
            answer = await gateway.api("GET", "/sources?limit=1000")
            assert answer.status == 200, answer.body
            sources = json.loads(answer.body)["sources"]
            return all(one["state"] not in ("idle", "subscribing") for one in sources)

        await until(asked)
        for id_ in ids:
            assert (await shown(gateway, id_))["id"] == id_
        await lists_are_whole(gateway)
        await asyncio.gather(*(gateway.api("DELETE", f"/sources/{id_}") for id_ in ids))
