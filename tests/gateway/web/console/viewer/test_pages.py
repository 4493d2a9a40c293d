"""The pages of the Message Viewer, without a script and in a browser."""

import asyncio
import json
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from urllib.request import urlopen

import pytest
from lxml import html

from gateway.client import Client
from tests.rigs.chromium import Page
from tests.rigs.envelopes import Answer
from tests.rigs.gateways import Running, running
from tests.rigs.waiting import until

FORM = {"spec": "wsn-1.3", "topic": "storms//.", "way": "push"}
SAME = {"sec_fetch_site": "same-origin"}


async def post(run: Running, path: str, form: dict[str, str], site: str = "same-origin") -> Answer:
    return await run.admin(
        "POST",
        f"/console/viewer{path}",
        urlencode(form).encode(),
        content_type="application/x-www-form-urlencoded",
        sec_fetch_site=site,
    )


async def begun(run: Running, **fields: str) -> str:
    """Begin a viewer at this gateway; the path of its page below ``/console/viewer``."""
    answer = await post(run, "", {"url": run.url, **FORM, **fields})
    assert answer.status == 303, answer.body
    path = str(answer.headers["location"]).removeprefix("/console/viewer")

    async def accepted() -> bool:
        return "subscription: accepted" in await text(run, path)

    await until(accepted)
    return path


async def text(run: Running, path: str) -> str:
    answer = await run.admin("GET", f"/console/viewer{path}")
    assert answer.status == 200, answer.body
    return " ".join("".join(map(str, html.fromstring(answer.body).itertext())).split())


async def publish(run: Running, payload: bytes) -> None:
    async with Client(run.url) as client:
        await client.publish(payload, topic="storms/coast")


async def test_messages_are_shown_paused_cleared_and_saved(tmp_path: Path) -> None:
    async with running(tmp_path) as run:
        path = await begun(run)
        await publish(run, b"<a><b>&lt;script&gt;</b></a>")

        async def shown() -> bool:
            return "1 received" in await text(run, path)

        await until(shown)
        brief, whole = await text(run, path), await text(run, f"{path}?whole=true")
        assert "<a> <b>&lt;script&gt;</b> </a>" in brief and "Envelope" not in brief
        assert "storms/coast" in brief and "first message: seen" in brief
        assert "Envelope" in whole
        one = await text(run, f"{path}/messages/1")
        assert "Envelope" in one and "Content-Type: " in one
        assert (await run.admin("GET", f"/console/viewer{path}/messages/2")).status == 404
        saved = await run.admin("GET", f"/console/viewer{path}/messages.jsonl")
        [line] = saved.body.decode().splitlines()
        assert json.loads(line)["notifications"][0]["topic"] == "storms/coast"
        assert "attachment" in saved.headers["content-disposition"]
        assert (await post(run, path, {"action": "pause"})).status == 303
        assert "paused" in await text(run, path)
        await post(run, path, {"action": "resume"})
        await post(run, path, {"action": "clear"})
        assert "No message yet." in await text(run, path)
        assert (await post(run, path, {"action": "dance"})).status == 404
        await post(run, path, {"action": "stop"})
        assert "This viewer has ended: it was stopped" in await text(run, path)
        assert "ended: it was stopped" in await text(run, "")
        assert len(run.gateway.subscriptions.entries) == 0


async def test_what_cannot_be_read_is_shown_as_it_came(tmp_path: Path) -> None:
    async with running(tmp_path) as run:
        path = await begun(run)
        await until(lambda: run.gateway.subscriptions.entries)
        [entry] = run.gateway.subscriptions.entries
        with await asyncio.to_thread(
            urlopen, entry.subscription.consumer.address, b"<a>never closed"
        ) as answer:
            assert answer.status == 202

        async def shown() -> bool:
            return "<a>never closed" in (await text(run, path)).replace("&lt;", "<")

        await until(shown)
        saved = await run.admin("GET", f"/console/viewer{path}/messages.jsonl")
        assert json.loads(saved.body)["notifications"] == []


async def test_masked_fields_are_neither_shown_nor_kept(tmp_path: Path) -> None:
    async with running(tmp_path, console_mask=["ssn"]) as run:
        path = await begun(run)
        await publish(run, b"<a><ssn>078-05</ssn><name>Ada</name></a>")

        async def shown() -> bool:
            return "1 received" in await text(run, path)

        await until(shown)
        for page in ("", "?whole=true", "/messages/1"):
            said = await text(run, f"{path}{page}")
            assert "078-05" not in said and "Ada" in said and "***" in said, page
        saved = await run.admin("GET", f"/console/viewer{path}/messages.jsonl")
        assert b"078-05" not in saved.body and b"Ada" in saved.body


async def test_a_gateway_that_listens_everywhere_reaches_itself(tmp_path: Path) -> None:
    """Its own policy lets it send to no address of this machine: messages are fetched."""
    async with running(tmp_path, host="0.0.0.0") as run:
        page: Any = html.fromstring((await run.admin("GET", "/console/viewer")).body)
        [url] = page.xpath("//input[@name='url']/@value")
        assert url == run.url
        assert page.xpath("//select[@name='way']/option[@selected]/@value") == ["pull"]
        path = await begun(run, way="pull")
        await publish(run, b"<a/>")

        async def shown() -> bool:
            return "1 received" in await text(run, path)

        await until(shown)
        refused = await post(run, "", {"url": run.url, **FORM})
        path = str(refused.headers["location"]).removeprefix("/console/viewer")

        async def ended() -> bool:
            return "has ended" in await text(run, path)

        await until(ended)
        assert "The policy of this gateway" in await text(run, path)


async def test_every_viewer_ends_with_its_gateway(tmp_path: Path) -> None:
    async with running(tmp_path / "there") as there:
        async with running(tmp_path / "here") as here:
            await begun(here, url=there.url)
            await begun(here, url=there.url, way="pull")
            assert len(there.gateway.subscriptions.entries) == 2
        assert len(there.gateway.subscriptions.entries) == 0


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"url": "ftp://broker"}, "is not the URL"),
        ({"url": ""}, "is not the URL"),
        ({"spec": "wsrm-1.1"}, "is no specification that the console subscribes in"),
        ({"way": "mail"}, "is no way in which messages come"),
        ({"way": "pull", "url": "soap.tcp://127.0.0.1"}, "are fetched over HTTP"),
        ({"way": "tcp", "spec": "cloudevents"}, "is not spoken over SOAP.TCP"),
        ({"spec": "grid-events", "url": "soap.tcp://127.0.0.1"}, "is not spoken over SOAP.TCP"),
        ({"xpath": "/a["}, "XPath: "),
        ({"xpath": "/w:a"}, "XPath: "),
        ({"ns": "w"}, "prefixes are written"),
    ],
)
async def test_what_a_form_says_is_checked(
    tmp_path: Path, fields: dict[str, str], said: str
) -> None:
    async with running(tmp_path) as run:
        answer = await post(run, "", {"url": run.url, **FORM, **fields})
        assert answer.status == 422
        alert: Any = html.fromstring(answer.body).xpath("string(//*[@role='alert'])")
        assert said in alert


async def test_who_may_not(tmp_path: Path) -> None:
    async with running(tmp_path / "full") as run:
        answer = await post(run, "", {"url": run.url, **FORM}, "cross-site")
        assert answer.status == 403
        assert (await run.admin("GET", "/console/viewer/nothing")).status == 404
    async with running(tmp_path / "read", console="read") as run:
        assert (await run.admin("GET", "/console/viewer")).status == 404
        assert b"/console/viewer" not in (await run.admin("GET", "/console")).body


@pytest.mark.nightly
@pytest.mark.slow
async def test_in_a_browser(page: Page, tmp_path: Path) -> None:
    async with running(tmp_path / "data") as run:
        await page.go(f"{run.url}/console/viewer")
        await page.says("URL of the broker")
        await page.do(
            "document.querySelector('[name=topic]').value = 'storms//.';"
            "document.querySelector('main form').requestSubmit()"
        )
        await page.says("subscription: accepted")
        await publish(run, b"<speed>120</speed>")
        await page.says("<speed>120</speed>")
        await page.do("document.querySelector('[value=pause]').click()")
        await page.says("paused")
        await publish(run, b"<speed>130</speed>")
        await page.says("2 received")
        assert "130" not in str(await page.evaluate("document.querySelector('#state')?.innerText"))
        await page.do("document.querySelector('[value=resume]').click()")
        await page.says("<speed>130</speed>")
        await page.do("document.querySelector('a[href$=\"whole=true\"]').click()")
        await page.says("Envelope")
