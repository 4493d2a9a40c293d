"""The pages of the console, as a browser without scripts asks for them."""

import asyncio
import csv
import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from urllib.request import urlopen

from lxml import html

from gateway.web.console.tables import OF_IDENTITIES, TABLES
from tests.rigs.consumers import Consumers, accept, status
from tests.rigs.envelopes import Answer, Speaker, topic_expression
from tests.rigs.gateways import Running, running
from tests.rigs.waiting import until

SPEAKER = Speaker()
NOBODY = "http://127.0.0.1:9/nobody"
OWN = {"sec_fetch_site": "same-origin"}


async def get(run: Running, path: str) -> Answer:
    answer = await run.admin("GET", f"/console{path}")
    assert answer.status == 200, (path, answer.status, answer.body)
    return answer


async def text(run: Running, path: str) -> str:
    """What a page says."""
    page = html.fromstring((await get(run, path)).body)
    return " ".join("".join(map(str, page.itertext())).split())


async def post(
    run: Running, path: str, form: Mapping[str, object], headers: Mapping[str, str] = OWN
) -> Answer:
    return await run.admin(
        "POST",
        f"/console{path}",
        urlencode(form, doseq=True).encode(),
        content_type="application/x-www-form-urlencoded",
        **headers,
    )


async def subscribe(run: Running, consumer: str = NOBODY) -> str:
    """Subscribe; the id of the subscription."""
    await run.subscribe(SPEAKER, SPEAKER.wse_subscribe(consumer))
    listed = json.loads((await run.api("GET", "/subscriptions")).body)["subscriptions"]
    return str(max(listed, key=lambda one: one["created"])["id"])


async def is_there(run: Running, subscription: str) -> bool:
    return (await run.api("GET", f"/subscriptions/{subscription}")).status == 200


async def ticks(run: Running, path: str) -> list[str]:
    """The ids that can be ticked on a page."""
    return found(await get(run, path), "//td/input[@name='id']/@value")


OF_ALL = [one for one in TABLES.values() if one not in OF_IDENTITIES]


def found(page: Answer, xpath: str) -> list[str]:
    """The values of attributes in a page."""
    values: Any = html.fromstring(page.body).xpath(xpath)
    return [str(one) for one in values]


async def test_every_page_of_an_empty_gateway_says_how_to_go_on(tmp_path: Path) -> None:
    async with running(tmp_path) as run:
        assert "Nothing: deliveries to all 0 subscriptions succeed." in await text(run, "")
        for table in OF_ALL:
            if table.name == "topics":  # The gateway has some of its own.
                continue
            assert table.empty.replace("`", "") in await text(run, f"/{table.name}")


async def test_headers_keep_others_out(tmp_path: Path) -> None:
    async with running(tmp_path) as run:
        for path in ("", "/subscriptions"):
            headers = (await get(run, path)).headers
            policy = headers["content-security-policy"]
            assert "script-src 'self';" in policy and "unsafe" not in policy
            assert "frame-ancestors 'none'" in policy and headers["x-frame-options"] == "DENY"
            assert headers["cache-control"] == "no-store"
    async with running(tmp_path, console_frame_ancestors=("https://portal.example",)) as run:
        headers = (await get(run, "")).headers
        assert "frame-ancestors https://portal.example" in headers["content-security-policy"]
        assert "x-frame-options" not in headers


async def test_no_page_has_script_or_style_in_it(tmp_path: Path) -> None:
    """Its security policy would have the browser leave them out."""
    async with running(tmp_path) as run:
        id_ = await subscribe(run)
        await run.publish("<a/>", message_id="urn:uuid:storm")
        for path in ("", "/subscriptions", f"/subscriptions/{id_}", "/messages/urn:uuid:storm"):
            page = await get(run, path)
            assert not found(page, "//script[not(@src)] | //style | //@style | //@onclick")
            addresses = found(page, "//@src | //link/@href | //form/@action | //a/@href")
            assert all(one.startswith(("/", "#", "?")) for one in addresses)


async def test_a_subscription_that_fails_is_found_explained_and_ended(tmp_path: Path) -> None:
    async with running(tmp_path) as run, Consumers() as consumers:
        bad = consumers.fresh()
        consumers.at(bad).behaviour = status(400)
        id_ = await subscribe(run, bad)
        await run.publish("<a/>")

        async def died() -> bool:
            return bool(await ticks(run, "/deadletters"))

        await until(died)

        assert bad in await text(run, "/subscriptions?state=failing")
        assert "None of them is so." in await text(run, "/subscriptions?state=paused")
        shown = await text(run, f"/subscriptions/{id_}")
        assert "answered 400" in shown and "rejected" in shown
        [number] = await ticks(run, "/deadletters")
        assert "Show what is in it" in await text(run, f"/deadletters/{number}")
        assert "<a/>" not in await text(run, f"/deadletters/{number}")
        assert "<a/>" in await text(run, f"/deadletters/{number}?payload")

        asked = await post(run, "/subscriptions", {"id": id_, "action": "delete"})
        assert asked.status == 200 and b"It cannot be undone." in asked.body
        assert await is_there(run, id_)
        form = {"id": id_, "action": "delete", "confirmed": "yes"}
        done = await post(run, "/subscriptions", form)
        assert b"End: done" in done.body and not await is_there(run, id_)
        again = await post(run, "/subscriptions", form)
        assert b"not all could be done" in again.body and b"no such subscription" in again.body


async def test_subscriptions_are_paused_resumed_and_renewed(tmp_path: Path) -> None:
    async with running(tmp_path) as run:
        ids = [await subscribe(run), await subscribe(run)]

        async def do(action: str) -> list[Any]:
            form = {"id": ids, "action": action, "confirmed": "yes"}
            assert (
                f"{action.capitalize()}".encode() in (await post(run, "/subscriptions", form)).body
            )
            shown = [await run.api("GET", f"/subscriptions/{id_}") for id_ in ids]
            return [json.loads(one.body) for one in shown]

        before = await do("renew")
        assert [one["state"] for one in await do("pause")] == ["paused", "paused"]
        assert [one["paused"] for one in await do("resume")] == [False, False]
        after = await do("renew")
        assert all(a["expires"] > b["expires"] for a, b in zip(after, before, strict=True))
        form = {"id": ids, "action": "hold", "confirmed": "yes"}
        assert b"Pause and hold: done" in (await post(run, "/subscriptions", form)).body


async def test_a_message_is_shown_as_it_came_and_as_each_gets_it(tmp_path: Path) -> None:
    async with running(tmp_path, console_messages=10) as run:
        mine = await subscribe(run)
        other = SPEAKER.wse_subscribe(NOBODY)
        await run.subscribe(SPEAKER, other, path="/soap/topic/elsewhere")
        await run.publish("<a>secret</a>", message_id="urn:uuid:storm", path="/soap/topic/storms")
        assert "secret" not in await text(run, "/messages/urn:uuid:storm")
        shown = await text(run, "/messages/urn:uuid:storm?content")
        assert "As it came" in shown and "<a>secret</a>" in shown and "/soap/topic/storms" in shown
        assert "As it is sent" in shown and mine in shown and "no" in shown.split()
        gets = await get(run, "/messages/urn:uuid:storm?content&matched=true")
        assert found(gets, "//ol/li/@class") == ["holds"]


async def test_a_delivery_is_sent_again(tmp_path: Path) -> None:
    async with running(tmp_path, console_messages=10) as run, Consumers() as consumers:
        url = consumers.fresh()
        id_ = await subscribe(run, url)
        await run.publish("<a/>", message_id="urn:uuid:storm")
        await consumers.next(url)
        answer = await post(run, f"/subscriptions/{id_}/again", {"message": "urn:uuid:storm"})
        assert answer.status == 303
        await consumers.next(url)
        assert "sent again" in await text(run, f"/subscriptions/{id_}")
        answer = await post(run, f"/subscriptions/{id_}/again", {"message": "urn:uuid:none"})
        assert answer.status == 404 and b"not kept" in answer.body


async def test_the_tap_reads_what_its_form_says(tmp_path: Path) -> None:
    async with running(tmp_path) as run:
        page = await get(
            run, "/tap?topic=storms//.&ns=w%3Durn:w+x%3Durn:x&xpath=//w:a&payload=true"
        )
        [source] = found(page, "//*[@id='tap']/@data-source")
        assert source.startswith("/console/tap/events?") and source.count("ns=") == 2
        plain = await get(run, "/tap")
        assert found(plain, "//*[@id='tap']/@data-source") == ["/console/tap/events?"]


async def test_dead_letters_are_redriven(tmp_path: Path) -> None:
    async with running(tmp_path) as run, Consumers() as consumers:
        url = consumers.fresh()
        consumers.at(url).behaviour = status(400)
        await subscribe(run, url)
        for _ in range(3):
            await run.publish("<a/>")

        async def died() -> bool:
            return len(await ticks(run, "/deadletters")) == 3

        await until(died)
        consumers.at(url).behaviour = accept
        ids = await ticks(run, "/deadletters")
        form = {"id": ids, "action": "redrive", "confirmed": "yes"}
        assert b"Redrive: done" in (await post(run, "/deadletters", form)).body
        for _ in ids:
            await consumers.next(url)
        assert "Nothing has died" in await text(run, "/deadletters")


async def test_a_message_is_tried(tmp_path: Path) -> None:
    async with running(tmp_path) as run:
        id_ = await subscribe(run)
        answer = await post(run, f"/subscriptions/{id_}/try", {"payload": "<a>", "topic": ""})
        assert answer.status == 200 and b'class="error"' in answer.body
        answer = await post(run, f"/subscriptions/{id_}/try", {"payload": "<a/>", "topic": "x"})
        assert b'role="status"' in answer.body and b'class="error"' not in answer.body


FOREIGN: list[dict[str, str]] = [
    {"sec_fetch_site": "cross-site"},
    {"sec_fetch_site": "same-site"},
    {"origin": "https://evil.example"},
    {"origin": "null"},
]


async def test_a_form_of_another_site_is_refused(tmp_path: Path) -> None:
    async with running(tmp_path) as run:
        id_ = await subscribe(run)
        for headers in FOREIGN:
            form = {"id": id_, "action": "delete", "confirmed": "yes"}
            assert (await post(run, "/subscriptions", form, headers)).status == 403
            assert (await post(run, f"/subscriptions/{id_}/try", {}, headers)).status == 403
            assert await is_there(run, id_)


async def test_a_console_that_only_shows(tmp_path: Path) -> None:
    async with running(tmp_path, console="read") as run:
        id_ = await subscribe(run)
        for path in ("/subscriptions", f"/subscriptions/{id_}"):
            assert b'name="action"' not in (await get(run, path)).body
        form = {"id": id_, "action": "delete", "confirmed": "yes"}
        assert (await post(run, "/subscriptions", form)).status == 403
        assert await is_there(run, id_)


async def test_no_console(tmp_path: Path) -> None:
    async with running(tmp_path, console="off") as run:
        assert (await run.admin("GET", "/console")).status == 404


async def test_a_list_goes_on_where_a_page_ends(tmp_path: Path) -> None:
    async with running(tmp_path) as run:
        for number in range(230):
            await run.subscribe(SPEAKER, SPEAKER.wse_subscribe(f"{NOBODY}/{number}"))
        seen: list[str] = []
        path = "/subscriptions"
        while path:
            page = await get(run, path)
            seen += found(page, "//td/input[@name='id']/@value")
            path = "".join(found(page, "//tr[@id='more']//a/@href")).removeprefix("/console")
        assert len(seen) == len(set(seen)) == 230
        with await asyncio.to_thread(urlopen, f"{run.url}/console/subscriptions.csv") as answer:
            lines = (await asyncio.to_thread(answer.read)).decode()
        rows = list(csv.reader(io.StringIO(lines)))
        assert rows[0][1] == "Consumer" and len(rows) == 231


async def test_a_spreadsheet_takes_no_cell_for_a_formula(tmp_path: Path) -> None:
    async with running(tmp_path) as run:
        asked = json.dumps({"name": "lab", "xpath": "-1 < //a"}).encode()
        assert (await run.api("POST", "/channels", asked)).status == 201
        with await asyncio.to_thread(urlopen, f"{run.url}/console/channels.csv") as answer:
            lines = (await asyncio.to_thread(answer.read)).decode()
        [_, row] = csv.reader(io.StringIO(lines))
        assert row[0] == "lab" and row[2] == "'-1 < //a"


async def test_a_list_is_sorted_by_its_columns(tmp_path: Path) -> None:
    async with running(tmp_path) as run:
        for number in (3, 1, 2, 5, 4):
            await subscribe(run, f"{NOBODY}/{number}")
        await subscribe(run, f"{NOBODY}/2")

        async def consumers(query: str) -> list[str]:
            page = html.fromstring((await get(run, f"/subscriptions?{query}")).body)
            cells: Any = page.xpath("//td[@data-title='Consumer']")
            return ["".join(cell.itertext())[-1:] for cell in cells]

        assert "".join(await consumers("sort=consumer")) == "122345"
        assert "".join(await consumers("sort=consumer&descending=true")) == "543221"
        assert "".join(await consumers("sort=created&consumer=*[0-9]")) == ""
        assert "".join(await consumers("sort=created")) == "312542"
        assert "".join(await consumers("sort=consumer&after=4")) == "45"
        await run.publish("<a/>")

        async def fails() -> bool:
            return "failing" in await text(run, "/subscriptions?state=failing&sort=state")

        await until(fails)
        page = await get(run, "/subscriptions?sort=consumer")
        [again] = found(page, "//th[@aria-sort='ascending']/a/@href")
        assert again == "/console/subscriptions?sort=consumer&descending=true"


LEADS = [
    ("", "/console"),
    ("storms/coast", "/console/subscriptions?topic=storms%2Fcoast"),
    (
        "http://127.0.0.1:9/*",
        "/console/subscriptions?consumer=http%3A%2F%2F127.0.0.1%3A9%2F%2A",
    ),
]


async def test_a_search_leads_on(tmp_path: Path) -> None:
    async with running(tmp_path) as run:
        for asked, leads in LEADS:
            answer = await run.admin("GET", f"/console/search?{urlencode({'q': asked})}")
            assert (answer.status, answer.headers["location"]) == (303, leads)


async def test_a_subscription_and_a_message_are_found(tmp_path: Path) -> None:
    async with running(tmp_path) as run:
        id_ = await subscribe(run)
        answer = await run.admin("GET", f"/console/search?q={id_}")
        assert answer.headers["location"] == f"/console/subscriptions/{id_}"
        await run.publish("<a/>", message_id="urn:uuid:storm")
        answer = await run.admin("GET", "/console/search?q=urn:uuid:storm")
        assert answer.headers["location"] == "/console/messages/urn%3Auuid%3Astorm"
        assert id_ in await text(run, "/messages/urn:uuid:storm")


BAD = ["/subscriptions?sort=size", "/subscriptions.csv?sort=size", "/subscriptions?sort=spec&after=abc", "/nothing", "/subscriptions/nobody", "/subscriptions/a/b", "/subscriptions?topic=%20%20/",
       "/deadletters/x", "/deadletters?reason=none", "/static/../room.py", "/subscriptions.csv/x"]  # fmt: skip


async def test_what_is_not_there_is_said(tmp_path: Path) -> None:
    async with running(tmp_path) as run:
        for path in BAD:
            answer = await run.admin("GET", f"/console{path}")
            assert 400 <= answer.status < 500, path
            assert b"<h1>This cannot be shown</h1>" in answer.body or "static" in path


async def test_one_subscription_tells_what_waits_and_how_it_was_made(tmp_path: Path) -> None:
    """Nothing that is in a message, and no request, before a click; Resume for what is paused."""
    async with running(tmp_path, console_messages=5) as run, Consumers() as consumers:
        url = consumers.fresh()
        consumers.at(url).behaviour = status(503)
        id_ = await subscribe(run, url)
        await run.publish("<a>concealed</a>", message_id="urn:waits")

        async def waits() -> bool:
            return "These are the first 1 of 1." in await text(run, f"/subscriptions/{id_}")

        await until(waits)
        page = await get(run, f"/subscriptions/{id_}")
        assert "/console/messages/urn%3Awaits" in found(page, "//section//td/a/@href")
        assert b"concealed" not in page.body and b"Subscribe>" not in page.body
        assert found(page, "//form/button[@name='action']/@value") == [
            "pause", "hold", "renew", "delete",
        ]  # fmt: skip
        await run.api("POST", f"/subscriptions/{id_}/pause", b"{}")
        page = await get(run, f"/subscriptions/{id_}?request")
        assert found(page, "//form/button[@name='action']/@value") == ["resume", "renew", "delete"]
        said = await text(run, f"/subscriptions/{id_}?request")
        assert "As it came, to /soap" in said and "Subscribe>" in said and url in said


async def test_send_again_asks_where_the_filter_does_not_take_it(tmp_path: Path) -> None:
    async with running(tmp_path, console_messages=5) as run, Consumers() as consumers:
        url = consumers.fresh()
        body = SPEAKER.wsn_subscribe(url, filter=topic_expression("storms"))
        await run.subscribe(SPEAKER, body)
        [entry] = run.gateway.subscriptions.entries
        await run.publish("<a/>", path="/soap/topic/tides", message_id="urn:m")
        path, form = f"/subscriptions/{entry.id}/again", {"message": "urn:m"}
        asked = await post(run, path, form)
        assert asked.status == 409 and found(asked, "//input[@required]/@name") == ["force"]
        assert (await post(run, path, {**form, "force": "yes"})).status == 303
        assert b"<a" in (await consumers.next(url)).body
