"""The console in a browser: who can read it, who can work it, and what it does by itself."""

import itertools
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Literal

import pytest

from gateway.web.console.tables import OF_IDENTITIES, TABLES
from tests.gateway.web.console.sample_gateway import (
    ROWS,
    SPEAKER,
    STORM,
    multiply,
    rows_of,
    sample_gateway,
)
from tests.rigs.chromium import Page
from tests.rigs.consumers import Consumers, accept, status
from tests.rigs.gateways import Running, running
from tests.rigs.waiting import until

pytestmark = pytest.mark.slow
PHONE, DESK = 390, 1280
SCREENS: list[tuple[Literal["light", "dark"], int]] = [
    ("light", DESK),
    ("dark", PHONE),
    ("light", PHONE),
    ("dark", DESK),
]
"""Schemes and widths. Each page takes a quarter of a second of processor time on each."""

OF_ALL = [one for one in TABLES.values() if one not in OF_IDENTITIES]
"""Of a gateway without identities; the others: test_identities.py."""


async def paths_of(run: Running) -> AsyncIterator[str]:
    """The addresses of all pages: the overview, each list, a row of each, a message, a refusal."""
    for name in (
        "",
        "/topology",
        "/tap",
        "/viewer",
        "/try",
        "/try/subscription",
        "/brokers",
        "/add/links",
    ):
        yield name
    for table in OF_ALL:
        yield f"/{table.name}"
        rows = await rows_of(run, table.name, table.rows)
        if table.shown and rows:
            yield f"/{table.name}/{rows[0][table.id]}"
    [letter, *_] = await rows_of(run, "deadletters", "dead_letters")
    yield f"/deadletters/{letter['number']}?payload"
    yield f"/messages/{letter['published_id']}"
    yield f"/subscriptions/{letter['subscription']}?request"
    yield "/messages/unknown"
    yield "/subscriptions?topic=nothing/here"


@pytest.mark.parametrize("each", [1, pytest.param(len(SCREENS), marks=pytest.mark.nightly)])
async def test_everybody_can_read_every_page(page: Page, tmp_path: Path, each: int) -> None:
    """With data, on a desk and on a phone, in the light and in the dark: axe-core finds nothing
    serious, and nothing is wider than the screen. By day each page is on one screen, in turn."""
    async with sample_gateway(tmp_path) as run:
        titles = set()
        screens = itertools.cycle(SCREENS)
        async for path in paths_of(run):
            await page.go(f"{run.url}/console{path}")
            titles.add(await page.evaluate("document.title"))
            for scheme, width in itertools.islice(screens, each):
                await page.show(scheme, width)
                await _is_readable(page, f"{path}, {scheme}, {width}")
        assert len(titles) > 2 * len(OF_ALL) - 4, titles


async def _is_readable(page: Page, path: str) -> None:
    assert not await page.findings(), path
    wider = await page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
    assert wider <= 0, path
    assert await page.evaluate("document.querySelectorAll('h1').length") == 1, path


async def test_empty_lists_say_how_to_make_the_first(page: Page, tmp_path: Path) -> None:
    async with running(tmp_path) as run:
        for table in OF_ALL:
            await page.go(f"{run.url}/console/{table.name}")
            said = await page.evaluate("document.querySelector('.empty').textContent")
            assert said == table.empty.replace("`", "")
        await page.show("dark", DESK)
        assert not await page.findings()
        await page.go(f"{run.url}/console")
        assert not await page.findings()


async def test_ten_thousand_rows(page: Page, tmp_path: Path) -> None:
    """No page has them all: who scrolls gets more, and the next rows come once each."""
    async with running(tmp_path) as run, Consumers() as consumers:
        await _refused(run, consumers)
    multiply(tmp_path)
    async with running(tmp_path) as run:
        await page.show("light", DESK)
        await page.go(f"{run.url}/console")
        said = await page.evaluate("document.getElementById('state').textContent")
        assert f"{ROWS:,}" in said
        await page.go(f"{run.url}/console/topology")
        assert f"{ROWS:,} subscriptions" in await page.evaluate("document.body.textContent")
        for name in ("subscriptions", "deadletters"):
            await page.go(f"{run.url}/console/{name}")
            for rows in (100, 200, 300):
                await page.until(f"document.querySelectorAll('#rows [name=id]').length >= {rows}")
                await page.evaluate("document.getElementById('more').scrollIntoView()")
            # No more come once these are there: they are below what is seen.
            await page.until("document.querySelectorAll('#rows [name=id]').length >= 400")
            ids = await page.evaluate(
                "[...document.querySelectorAll('#rows [name=id]')].map(({value}) => value)"
            )
            assert len(ids) == len(set(ids)) >= 400
            await page.evaluate("document.querySelector('th.tick input').click()")
            ticked = "document.querySelectorAll('td.tick input:not(:checked)').length"
            assert await page.evaluate(ticked) == 0


async def _refused(run: Running, consumers: Consumers) -> str:
    """Have a consumer refuse a message for good; its address."""
    url = consumers.fresh()
    consumers.at(url).behaviour = status(400, b"Not now.")
    await run.subscribe(SPEAKER, SPEAKER.wse_subscribe(url))
    await run.publish(STORM, path="/soap/topic/storms/coast")
    await consumers.next(url)
    await run.quiet()
    return url


async def test_a_broker_that_is_away(page: Page, tmp_path: Path, unused_tcp_port: int) -> None:
    """All pages are there, and say so: what is published meanwhile is in the spool."""
    adapter = f"amqp://127.0.0.1:{unused_tcp_port}/"
    async with running(tmp_path, adapter=adapter, spool=True) as run:
        await run.publish(STORM, path="/soap/topic/storms/coast")
        await page.go(f"{run.url}/console")
        said = await page.evaluate("document.getElementById('state').textContent")
        assert "not connected" in said
        assert not await page.findings()
        await page.go(f"{run.url}/console/spool")
        [spooled] = await rows_of(run, "spool", "messages")
        await page.evaluate("document.querySelector('#rows a').click()")
        await page.until(f"location.pathname == '/console/spool/{spooled['number']}'")
        assert not await page.findings()


async def test_by_keyboard_alone(page: Page, tmp_path: Path) -> None:
    """To skip what is before the content, to tick a row, and to end a subscription."""
    async with running(tmp_path) as run:
        await run.subscribe(SPEAKER, SPEAKER.wse_subscribe("http://consumer.example.org/"))
        await page.go(f"{run.url}/console/subscriptions")
        await page.press("Tab")
        assert await _focused(page) == "Skip to the content"
        assert await page.evaluate("getComputedStyle(document.activeElement).left") == "8px"
        await page.press("Enter")
        await page.until("location.hash == '#main'")
        await _tab_to(page, "document.activeElement.name == 'id'")
        assert await page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == (
            "solid"
        )
        await page.press(" ")
        await _tab_to(page, "document.activeElement.value == 'delete'", shift=True)
        await page.press("Enter")
        await page.until("document.activeElement.name == 'confirmed'")
        assert not await page.findings()
        assert "cannot be undone" in await page.evaluate("document.body.textContent")
        await page.press("Enter")
        await page.until("document.querySelector('h1')?.textContent == 'End: done'")
        assert not await page.findings()
        assert await rows_of(run, "subscriptions") == []


async def _focused(page: Page) -> Any:
    return await page.evaluate("document.activeElement.textContent")


async def _tab_to(page: Page, holds: str, *, shift: bool = False) -> None:
    for _ in range(40):
        await page.press("Tab", shift=shift)
        if await page.evaluate(holds):
            return
    raise AssertionError(holds)


LINK = "document.querySelector('a[href$=\"reason=rejected\"]')"


async def test_from_the_alarm_to_the_redrive(page: Page, tmp_path: Path) -> None:
    """The overview says that messages died, and why; the operator has them delivered again."""
    async with running(tmp_path) as run, Consumers() as consumers:
        url = await _refused(run, consumers)

        async def says_so() -> object:  # Its counts are left out where the store takes long.
            await page.go(f"{run.url}/console")
            return await page.evaluate(f"{LINK} !== null")

        await until(says_so)
        await page.evaluate(f"{LINK}.click()")
        await page.until("location.search == '?reason=rejected'")
        await page.until("document.querySelectorAll('#rows tr').length == 1")
        row = await page.evaluate("document.querySelector('#rows tr').textContent")
        assert url in row and "Not now." not in row and "400" in row
        await page.evaluate("document.querySelector('#rows a').click()")
        await page.until("location.pathname.startsWith('/console/deadletters/')")
        await page.until("document.querySelector('a[href=\"?payload\"]') !== null")
        assert await page.evaluate("document.querySelector('pre')") is None
        await page.evaluate("document.querySelector('a[href=\"?payload\"]').click()")
        await page.until("document.querySelector('pre')?.textContent.includes('<region>')")
        consumers.at(url).behaviour = accept  # It was mended.
        await page.evaluate("document.querySelector('button[value=redrive]').click()")
        await page.until("document.activeElement.name == 'confirmed'")
        await page.evaluate("document.activeElement.click()")
        await page.until("document.querySelector('h1')?.textContent == 'Redrive: done'")
        again = await consumers.next(url)
        assert b"<region>coast" in again.body
        await run.quiet()
        await page.go(f"{run.url}/console/deadletters")
        await page.until("document.querySelector('.empty') !== null")


async def test_a_list_is_narrowed_in_its_place(page: Page, tmp_path: Path) -> None:
    """By what is chosen, which its address then has; the way back goes back."""
    async with sample_gateway(tmp_path) as run:
        await page.go(f"{run.url}/console/subscriptions")
        everything = await _count(page)
        await page.evaluate("document.querySelector('[name=topic]').focus()")
        await page.write("fires/coast")
        await page.press("Enter")
        await page.until("location.search.includes('topic=fires%2Fcoast')")
        await page.until(f"document.querySelectorAll('#rows tr').length < {everything}")
        assert await page.evaluate("document.activeElement.name") == "topic"
        narrowed = await page.evaluate("location.href")
        await page.go(narrowed)
        assert await _count(page) < everything
        assert await page.evaluate("document.querySelector('[name=topic]').value") == "fires/coast"


async def _count(page: Page) -> int:
    return int(await page.evaluate("document.querySelectorAll('#rows tr').length"))


async def test_the_overview_refreshes_itself(page: Page, tmp_path: Path) -> None:
    """But not while somebody is in it: they would lose their place."""
    refresh = (
        "htmx.ajax('GET', '/console', {source: '#state', target: '#state', select: '#state',"
        " swap: 'outerHTML'}).then(() => null)"
    )
    async with sample_gateway(tmp_path) as run:
        await page.go(f"{run.url}/console")
        times = "[...document.querySelectorAll('#state time')].every((one) => one.title)"
        assert await page.evaluate(times)
        assert (await page.evaluate("document.querySelector('time').title")).endswith(" UTC")
        await page.evaluate("document.getElementById('state').dataset.first = 'yes'")
        await page.evaluate("document.querySelector('#state a').focus()")
        await page.evaluate(refresh)
        assert await page.evaluate("document.getElementById('state').dataset.first") == "yes"
        await page.evaluate("document.activeElement.blur()")
        await page.evaluate(refresh)
        await page.until("!document.getElementById('state').dataset.first")
        await page.until(times)


async def test_what_passes_is_watched_on_the_overview(page: Page, tmp_path: Path) -> None:
    """Once somebody asks for it; who asks again watches once."""
    async with running(tmp_path) as run:
        await page.go(f"{run.url}/console")
        taps = run.gateway.dispatchers.scheduler.taps
        assert not taps.watchers
        await page.evaluate("document.querySelector('[name=sample]').value = ''")
        watch = "document.querySelector('form[action=\"/console/tap\"] button').click()"
        for topic in ("tides", "storms"):
            await page.evaluate(f"document.querySelector('[name=topic]').value = '{topic}'")
            await page.evaluate(watch)
            await page.until(f"document.querySelector('#tap')?.dataset.source.includes('{topic}')")
            await page.until("document.querySelector('#said').textContent == 'Watching.'")
        await until(lambda: len(taps.watchers) == 1)
        await run.publish(STORM, path="/soap/topic/storms")
        await page.until("document.querySelector('#tap tr') !== null")
        assert "nobody subscribes" in await page.evaluate(
            "document.getElementById('tap').innerText"
        )
        assert not await page.findings()


async def test_try_a_message_in_a_subscription(page: Page, tmp_path: Path) -> None:
    async with sample_gateway(tmp_path) as run:
        [one] = [row for row in await rows_of(run, "subscriptions") if row["topics"]]
        await page.go(f"{run.url}/console/subscriptions/{one['id']}")
        await page.evaluate("document.querySelector('[name=topic]').focus()")
        await page.write("fires/coast")
        await page.press("Tab")
        await page.write("<fire/>")
        await page.press("Tab")
        await page.press("Enter")
        await page.until("document.querySelector('[role=status] .fails') !== null")
        assert not await page.findings()
        assert await page.evaluate("document.querySelector('textarea').value") == "<fire/>"
