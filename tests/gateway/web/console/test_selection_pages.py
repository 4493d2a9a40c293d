"""What buttons do with all that a list shows."""

from pathlib import Path
from typing import Any

import pytest

from gateway.web.console import selection_pages
from tests.gateway.web.console.sample_gateway import rows_of
from tests.gateway.web.console.test_pages import found, get, post, subscribe, text
from tests.rigs.consumers import Consumers, accept, status
from tests.rigs.gateways import Running, running
from tests.rigs.waiting import until

REDRIVE = {"action": "redrive", "narrowed": "reason=rejected"}


async def _bury(run: Running, consumers: Consumers, topics: tuple[str, ...]) -> str:
    """Have a message on each topic die; the address of the consumer that refused it."""
    url = consumers.fresh()
    consumers.at(url).behaviour = status(400)
    await subscribe(run, url)
    for topic in topics:
        await run.publish("<a/>", path=f"/soap/topic/{topic}")

    async def died() -> bool:
        return len(await _letters(run)) == len(topics)

    await until(died)
    return url


async def _letters(run: Running) -> list[Any]:
    return await rows_of(run, "deadletters", "dead_letters")


async def test_all_that_died_of_a_reason_is_redriven_from_the_overview(tmp_path: Path) -> None:
    async with running(tmp_path) as run, Consumers() as consumers:
        url = await _bury(run, consumers, ("storms", "storms", "tides"))
        page = await get(run, "")
        assert found(page, "//form[@action='/console/all/deadletters']/input/@value") == [
            "reason=rejected"
        ]
        asked = await post(run, "/all/deadletters", REDRIVE)
        assert b"<h1>Redrive 3 dead letters?</h1>" in asked.body and b"rejected" in asked.body
        assert len(await _letters(run)) == 3
        consumers.at(url).behaviour = accept
        done = await post(run, "/all/deadletters", {**REDRIVE, "confirmed": "yes"})
        assert b"<h1>Redrive: done</h1>" in done.body
        for _ in range(3):
            await consumers.next(url)
        assert await _letters(run) == []
        nothing = await post(run, "/all/deadletters", REDRIVE)
        assert b"there is nothing to do" in nothing.body


async def test_only_what_the_list_shows_is_purged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In steps, between which the reader sees how far it went."""
    monkeypatch.setattr(selection_pages, "STEP", 1)
    async with running(tmp_path) as run, Consumers() as consumers:
        await _bury(run, consumers, ("storms", "storms", "tides"))
        page = await get(run, "/deadletters?topic=storms")
        [narrowed] = found(page, "//input[@name='narrowed']/@value")
        form = {"action": "purge", "narrowed": narrowed, "confirmed": "yes"}
        done = await post(run, "/all/deadletters", form)
        while after := found(done, "//input[@name='after']/@value"):
            done = await post(run, "/all/deadletters", {**form, "after": after[0]})
        assert [one["topic"] for one in await _letters(run)] == ["tides"]


async def test_what_is_refused_of_all(tmp_path: Path) -> None:
    async with running(tmp_path) as run:
        for path, form in (
            ("/all/deadletters", {"action": "nothing"}),
            ("/all/subscriptions", {"action": "delete"}),
            ("/all/spool", {"action": "retry", "narrowed": "state=waiting"}),
            ("/all/nothing", REDRIVE),
        ):
            assert (await post(run, path, form)).status == 404, path
        foreign = {"sec_fetch_site": "cross-site"}
        assert (await post(run, "/all/deadletters", REDRIVE, foreign)).status == 403
        refused = {"action": "retry", "narrowed": "state=refused", "confirmed": "yes"}
        assert b"Try again: done" in (await post(run, "/all/spool", refused)).body
        wrong = {"action": "purge", "narrowed": "reason=none"}
        assert (await post(run, "/all/deadletters", wrong)).status == 422
    async with running(tmp_path, console="read") as run:
        assert (await post(run, "/all/deadletters", REDRIVE)).status == 403


async def test_a_topic_tells_its_last_message_and_who_subscribes(tmp_path: Path) -> None:
    async with running(tmp_path) as run:
        id_ = await subscribe(run)
        await run.publish("<a/>", path="/soap/topic/storms", message_id="urn:m:1")
        await run.publish("<a/>", path="/soap/topic/storms", message_id="urn:m:2")
        [topic] = [one for one in await rows_of(run, "topics") if one["topic"] == "storms"]
        assert topic["last_message"]["id"] == "urn:m:2"
        page = await get(run, f"/topics/{topic['id']}")
        leads = found(page, "//main//a/@href")
        assert "/console/messages/urn%3Am%3A2" in leads
        assert f"/console/subscriptions/{id_}" in leads
        assert "/console/subscriptions?topic=storms" in leads
        assert "Topic storms" in await text(run, f"/topics/{topic['id']}")
