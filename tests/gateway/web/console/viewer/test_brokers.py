"""The subscriptions at another broker, listed and ended from the console of this one."""

from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from lxml import html

from gateway.client import Client
from gateway.client.messaging import Subscription
from gateway.web.console.viewer.references import HeldReferences, read_reference
from mediation.model.versions import Version
from mediation.soap.addressing import write_epr
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
        narrowed = await post(here, {"url": there.url, "topic": "tides", "state": "active"})
        assert len(values(narrowed, "//input[@name='id']/@value")) == 1
        assert values(narrowed, "//input[@name='narrowed']/@value")[0] == "topic=tides&state=active"
        none = await post(here, {"url": there.url, "narrowed": "topic=fires"})
        assert b"no such subscriptions" in none.body
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
        assert set(values(asked, "//main//input[@name='url']/@value")) == {"http://broker.example"}
        assert b"It lists none" not in asked.body
    async with running(tmp_path / "read", console="read") as run:
        assert (await run.admin("GET", "/console/brokers")).status == 404


async def test_they_are_managed_by_reference(tmp_path: Path) -> None:
    """What this gateway did not make, in its own specification; what that lacks is said."""
    async with running(tmp_path / "here") as here, running(tmp_path / "there") as there:
        for version, managed in ((Version.WSN_1_3, True), (Version.WSE_2004_08, False)):
            async with Client(there.url, version) as client:
                made = await client.subscribe(NOBODY, topic="storms")
            [entry] = there.gateway.subscriptions.entries
            by_id: dict[str, object] = {"url": there.url, "id": [entry.id], "confirmed": "yes"}
            refused = await post(here, {**by_id, "action": "pause"})
            assert "its reference is needed" in values(refused, "//*[@role='alert']/text()")[0]
            given = {"url": there.url, "spec": version.value, "topic": "storms"}
            reference = write_epr(made.manager)
            element = f'<r xmlns:wsa="{made.manager.wsa.value}">{reference}</r>'
            held = await post(here, {**given, "reference": element, "action": "hold"})
            [id_] = values(held, "//input[@name='held']/@value")
            doing: dict[str, object] = {"held": [id_], "confirmed": "yes"}
            asked = await post(here, {"held": [id_], "action": "end"})
            assert b"What waits" in asked.body and len(there.gateway.subscriptions.entries) == 1
            for action, state in (("pause", True), ("resume", False)):
                answer = await post(here, {**doing, "action": action})
                alerts = values(answer, "//*[@role='alert']/text()")
                [entry] = there.gateway.subscriptions.entries
                assert entry.subscription.policy.paused is (state and managed)
                assert bool(alerts) is not managed, alerts
            paused = await post(here, {**by_id, "action": "pause"})  # Its reference is held now.
            assert bool(values(paused, "//*[@role='alert']")) is not managed
            renewed = await post(here, {**doing, "action": "renew"})
            assert not values(renewed, "//*[@role='alert']/text()")
            assert values(renewed, "//td[contains(@class, 'time')]/time/@datetime")
            await post(here, {**doing, "action": "end"})
            assert not there.gateway.subscriptions.entries
            gone = await post(here, {**doing, "action": "renew"})
            assert "held no more" in values(gone, "//*[@role='alert']/text()")[0]


@pytest.mark.parametrize(
    ("spec", "reference", "said"),
    [
        ("wsn-1.3", "", "is an address, or an element"),
        ("wsn-1.3", "<a>", "cannot be read"),
        ("wsn-1.3", "<a/>", "has no address"),
        ("wsn-1.3", "x" * 16385, "more than 16 KiB"),
        ("soap", "http://a/", "no specification"),
    ],
)
async def test_references_that_cannot_be_read(
    tmp_path: Path, spec: str, reference: str, said: str
) -> None:
    async with running(tmp_path) as run:
        form: dict[str, object] = {"url": run.url, "spec": spec, "reference": reference}
        answer = await post(run, {**form, "action": "hold"})
        assert said in values(answer, "//*[@role='alert']/text()")[0]
        assert not values(answer, "//input[@name='held']")


def test_the_first_are_forgotten() -> None:
    references = HeldReferences(most=2)
    reference = read_reference("http://broker.example/manager", Version.WSN_1_3)
    given = [
        references.hold(
            "http://broker.example", Version.WSN_1_3, Subscription(reference, None), made_by="me"
        )
        for _ in range(3)
    ]
    assert references.at("http://broker.example/") == [given[2], given[1]]
    assert references.at("http://elsewhere.example") == [] and references.find(given[0].id) is None
    references.drop(given[1].id)
    assert references.at("") == [given[2]]
    assert references.of_subscription("http://broker.example", "unknown") is None
