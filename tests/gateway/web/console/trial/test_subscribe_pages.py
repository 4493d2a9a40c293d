"""The page on which a subscription is tried."""

from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from lxml import html

from gateway.web.console.viewer.versions import SPOKEN
from tests.rigs.envelopes import Answer
from tests.rigs.gateways import Running, running

FORM = {
    "spec": "wsn-1.3",
    "consumer": "http://127.0.0.1:9/",
    "topic": "storms",
    "lease": "PT10M",
    "mode": "",
}


async def post(run: Running, site: str = "same-origin", **fields: str) -> Answer:
    return await run.admin(
        "POST",
        "/console/try/subscription",
        urlencode({"url": run.url, **FORM, **fields}).encode(),
        content_type="application/x-www-form-urlencoded",
        sec_fetch_site=site,
    )


def text(answer: Answer) -> str:
    return " ".join("".join(map(str, html.fromstring(answer.body).itertext())).split())


def links(answer: Answer) -> list[str]:
    found: Any = html.fromstring(answer.body).xpath("//*[@role='status']//a/@href")
    return [str(one) for one in found]


async def test_every_specification(tmp_path: Path) -> None:
    """The request and the answer are shown, and where the subscription is."""
    async with running(tmp_path) as run:
        for number, version in enumerate(SPOKEN, 1):
            answer = await post(run, spec=version.value, topic=f"storms{number}")
            said = text(answer)
            assert answer.status == 200 and "Subscribed" in said, (version, said[-700:])
            assert "The answer: 20" in said and f"storms{number}" in said
            assert len(run.gateway.subscriptions.entries) == number
            [link] = links(answer)
            if link.startswith("/console/subscriptions/"):
                shown = await run.admin("GET", link)
                assert shown.status == 200 and version.value in text(shown)
            else:
                assert version.value == "grid-events" and link.startswith("/console/brokers?url=")


@pytest.mark.parametrize(
    ("fields", "shape"),
    [
        ({"mode": "raw"}, "UseRaw"),
        ({"spec": "wse-2004-08", "mode": "ack"}, "wsman/1/wsman/PushWithAck"),
        ({"spec": "wse-2004-08", "mode": "batches", "topic": ""}, "wsman/1/wsman/Events"),
        ({"spec": "wse-2004-08", "mode": "pull"}, "wsman/1/wsman/Pull"),
        ({"xpath": "//w:a > 1", "ns": "w=urn:w", "lease": "600"}, "//w:a &gt; 1"),
    ],
)
async def test_what_is_asked_for_is_sent(
    tmp_path: Path, fields: dict[str, str], shape: str
) -> None:
    async with running(tmp_path) as run:
        answer = await post(run, **fields)
        sent = text(answer).partition("POST http")[2].partition("The answer")[0]
        assert answer.status == 200 and shape in sent, text(answer)[-900:]


@pytest.mark.parametrize(
    ("fields", "status", "said"),
    [
        ({"spec": "wsrm-1.1"}, 422, "is no specification that the console subscribes in"),
        ({"lease": "soon"}, 422, "must be seconds, or a duration"),
        ({"lease": "P2D"}, 422, "a day at most"),
        ({"mode": "mail"}, 422, "is not a delivery mode"),
        ({"xpath": "//["}, 422, "XPath"),
        ({"url": "ftp://broker"}, 422, "is not the URL"),
        ({"mode": "pull"}, 200, "alone has delivery modes"),
        ({"spec": "cloudevents", "mode": "raw"}, 200, "one way of delivery alone"),
        ({"spec": "grid-events", "xpath": "//a"}, 200, "there is no XPath"),
        ({"url": "http://127.0.0.1:1"}, 200, "There was no answer"),
        ({"url": "http://169.254.169.254"}, 200, "egress_allow"),
        ({"consumer": "nowhere"}, 200, "There is no subscription"),
    ],
)
async def test_what_cannot_be_done(
    tmp_path: Path, fields: dict[str, str], status: int, said: str
) -> None:
    async with running(tmp_path) as run:
        answer = await post(run, **fields)
        assert (answer.status, said in text(answer)) == (status, True), text(answer)[-900:]
        assert not run.gateway.subscriptions.entries


async def test_who_may_not(tmp_path: Path) -> None:
    async with running(tmp_path / "full") as run:
        assert (await post(run, "cross-site")).status == 403
        assert (await run.admin("GET", "/console/try/subscription")).status == 200
    async with running(tmp_path / "read", console="read") as run:
        assert (await run.admin("GET", "/console/try/subscription")).status == 404
