"""The page on which an event is tried."""

import asyncio
import json
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from lxml import html

from gateway.client import Client, Consumer, subscribed
from mediation.matrix import DIALECTS, NOTIFIED, PUBLISHING
from tests.rigs.chromium import Page
from tests.rigs.envelopes import Answer
from tests.rigs.gateways import Running, running
from tests.rigs.waiting import DEADLINE

FORM = {
    "source": "wse-2004-08",
    "target": "cloudevents-structured",
    "topic": "storms/coast",
    "payload": "<speed>120</speed>",
    "action": "show",
}


async def post(run: Running, site: str = "same-origin", **fields: str) -> Answer:
    return await run.admin(
        "POST",
        "/console/try",
        urlencode({**FORM, **fields}).encode(),
        content_type="application/x-www-form-urlencoded",
        sec_fetch_site=site,
    )


def text(answer: Answer) -> str:
    return " ".join("".join(map(str, html.fromstring(answer.body).itertext())).split())


async def test_every_pair_is_shown(tmp_path: Path) -> None:
    """Each dialect once on either side; nothing of it is published."""
    pairs = {(one.name, "wsn-1.3") for one in PUBLISHING}
    pairs |= {("wsn-1.3", one.name) for one in NOTIFIED}
    async with running(tmp_path) as run:
        for source, target in sorted(pairs):
            answer = await post(run, source=source, target=target)
            assert answer.status == 200, (source, target, text(answer))
            said = text(answer)
            sent, _, got = said.partition("The subscriber gets")
            assert "120" in sent and "120" in got, (source, target)
        assert run.gateway.publishing.accepted == 0


async def test_what_is_published_reaches_subscribers(tmp_path: Path) -> None:
    async with (
        running(tmp_path) as run,
        Client(run.url) as client,
        Consumer() as consumer,
        subscribed(client, consumer.address, topic="storms//."),
    ):
        for source in [one.name for one in PUBLISHING]:
            answer = await post(run, source=source, action="send", topic="storms")
            assert answer.status == 200, (source, text(answer))
            assert "The gateway answered 20" in text(answer), (source, text(answer))
            message = await asyncio.wait_for(consumer.receive(), DEADLINE)
            assert b"120" in message.notifications[0].payload, source


async def test_losses(tmp_path: Path) -> None:
    async with running(tmp_path) as run:
        said = text(await post(run, source="wsn-1.3", target="wsn-1.3-raw"))
        assert "http://publisher.example.org/" in said.partition("What is lost")[2]
        assert "Between these two" in said
        assert "an id of the delivery's own" in text(await post(run, target="wse-2004-08"))
        answer = await post(run, source="cloudevents-binary", target="cloudevents-structured")
        assert "Nothing of this event." in text(answer)


@pytest.mark.parametrize(
    ("fields", "line"),
    [
        ({"xpath": "/speed > 100"}, "yes the filter"),
        ({"xpath": "/speed > 200"}, "no the filter"),
        ({"topics": "storms//."}, "yes the filter"),
        ({"topics": "tides"}, "no the filter"),
        ({"topics": "storms//.", "xpath": "/speed = 120"}, "yes the filter"),
    ],
)
async def test_filters(tmp_path: Path, fields: dict[str, str], line: str) -> None:
    async with running(tmp_path) as run:
        answer = await post(run, **fields)
        assert line in text(answer), text(answer)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"payload": "<a>"}, ""),
        ({"payload": "x" * 300_000}, "256 KiB"),
        ({"payload": ""}, ""),
        ({"topic": "a//b"}, "topic"),
        ({"source": "morse"}, "'morse' is no dialect"),
        ({"target": "pull"}, "'pull' is no dialect"),
        ({"xpath": "/w:a"}, "w"),
        ({"xpath": "/a["}, "ends too early"),
        ({"ns": "w"}, "prefixes are written"),
    ],
)
async def test_what_cannot_be_tried(tmp_path: Path, fields: dict[str, str], said: str) -> None:
    async with running(tmp_path) as run:
        answer = await post(run, **fields)
        assert answer.status == 422, text(answer)
        alert: Any = html.fromstring(answer.body).xpath("string(//*[@role='alert'])")
        assert alert and said in alert


async def test_who_may_not(tmp_path: Path) -> None:
    async with running(tmp_path / "full") as run:
        assert (await post(run, "cross-site")).status == 403
    async with running(tmp_path / "read", console="read") as run:
        assert (await run.admin("GET", "/console/try")).status == 404
        assert (await post(run)).status in (403, 404, 405)


@pytest.mark.slow
async def test_in_a_browser(page: Page, tmp_path: Path) -> None:
    async with running(tmp_path / "data") as run:
        await page.go(f"{run.url}/console/try")
        await page.says("The publisher speaks")
        title = DIALECTS["grid-events"].title
        await page.do(
            "[...document.querySelectorAll('[name=target] option')]"
            f".find((one) => one.textContent === '{title}').selected = true;"
            "document.querySelector('[value=send]').click()"
        )
        await page.says("The gateway answered 202")
        await page.says("handleEvent")


async def test_a_selector_is_tried_over_the_properties(tmp_path: Path) -> None:
    async with running(tmp_path) as run:
        said = text(
            await post(
                run,
                source="wsn-1.3",
                target="wsn-1.3",
                properties="severity=7 unit='m s' code=\"7\"",
                selector="severity > 5 AND unit LIKE 'm%' AND code = '7'",
            )
        )
        assert "yes the selector severity > 5" in said and "unit is 'm s'" in said
        answer = await post(
            run, properties="severity=1", selector="severity > 5", topics="storms//."
        )
        assert "no the selector" in text(answer) and "yes the filter" in text(answer)
        assert "no properties" in text(await post(run, selector="a = 1"))
        for wrong in ({"properties": "severity"}, {"properties": "a='b"}, {"selector": "a = "}):
            assert (await post(run, **wrong)).status == 422, wrong


async def test_a_message_that_is_kept_is_tried(tmp_path: Path) -> None:
    async with running(tmp_path, console_messages=5) as run, Client(run.url) as client:
        await client.publish(b"<speed>77</speed>", topic="storms", properties={"unit": "m/s"})
        [kept] = json.loads((await run.api("GET", "/messages")).body)["messages"]
        page = await run.admin("GET", f"/console/try?message={kept['id']}")
        form: Any = html.fromstring(page.body)
        assert form.xpath("//textarea")[0].text == "<speed>77</speed>"
        assert form.xpath("//input[@name='topic']/@value") == ["storms"]
        assert form.xpath("//input[@name='properties']/@value") == ["unit='m/s'"]
        assert (await run.admin("GET", "/console/try?message=urn:none")).status == 404
        listed: Any = html.fromstring((await run.admin("GET", "/console/messages")).body)
        [leads] = listed.xpath("//td/a/@href")
        opened = await run.admin("GET", f"{leads}?content")
        assert b"/console/try?message=" in opened.body
