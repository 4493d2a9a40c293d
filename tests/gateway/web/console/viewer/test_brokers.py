"""The subscriptions at another broker, listed and ended from the console of this one."""

from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from lxml import html

from gateway.client import Client
from tests.rigs.envelopes import Answer
from tests.rigs.gateways import Running, running

NOBODY = "http://127.0.0.1:9/nobody"


async def post(run: Running, form: dict[str, object], site: str = "same-origin") -> Answer:
    return await run.admin(
        "POST",
        "/console/brokers",
        urlencode(form, doseq=True).encode(),
        content_type="application/x-www-form-urlencoded",
        sec_fetch_site=site,
    )


def values(answer: Answer, xpath: str) -> list[str]:
    found: Any = html.fromstring(answer.body).xpath(xpath)
    return [str(one) for one in found]


async def test_they_are_listed_and_ended(tmp_path: Path) -> None:
    async with (
        running(tmp_path / "here") as here,
        running(tmp_path / "there") as there,
        Client(there.url) as client,
    ):
        for topic in ("storms", "tides"):
            await client.subscribe(NOBODY, topic=topic)
        listed = await post(here, {"url": there.url})
        ids = values(listed, "//input[@name='id']/@value")
        assert len(ids) == 2 and b"tides" in listed.body
        ending: dict[str, object] = {"url": there.url, "action": "end", "id": ids[:1]}
        asked = await post(here, ending)
        assert b"What waits for them is dropped" in asked.body
        assert len(there.gateway.subscriptions.entries) == 2
        ended = await post(here, {**ending, "confirmed": "yes"})
        assert values(ended, "//input[@name='id']/@value") == ids[1:]
        assert len(there.gateway.subscriptions.entries) == 1
        again = await post(here, {**ending, "confirmed": "yes"})
        assert values(again, "//*[@role='alert']/text()") == [
            f"{ids[0]}: There is no such subscription."
        ]


@pytest.mark.parametrize(
    ("url", "status", "said"),
    [
        ("ftp://broker", 422, "is not the URL"),
        ("http://127.0.0.1:1", 200, "cannot reach http://127.0.0.1:1"),
        ("http://169.254.169.254", 200, "egress_allow"),
    ],
)
async def test_what_cannot_be_listed(tmp_path: Path, url: str, status: int, said: str) -> None:
    async with running(tmp_path) as run:
        answer = await post(run, {"url": url})
        assert answer.status == status and said in answer.body.decode()


async def test_who_may_not(tmp_path: Path) -> None:
    async with running(tmp_path / "full") as run:
        assert (await post(run, {"url": run.url}, "cross-site")).status == 403
        asked = await run.admin("GET", "/console/brokers?url=http://broker.example")
        assert values(asked, "//main//input[@name='url']/@value") == ["http://broker.example"]
        assert b"It lists none" not in asked.body
    async with running(tmp_path / "read", console="read") as run:
        assert (await run.admin("GET", "/console/brokers")).status == 404
