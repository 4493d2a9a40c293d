"""Operators approve of hosts and forbid them: at once, for all that is sent, and over a restart."""

import json
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

from tests.rigs.consumers import Consumers, status
from tests.rigs.envelopes import Speaker
from tests.rigs.gateways import Running, running
from tests.rigs.programs import command
from tests.rigs.waiting import until

SPEAKER = Speaker()
FORM = {"content_type": "application/x-www-form-urlencoded", "sec_fetch_site": "same-origin"}


async def listed(run: Running) -> Any:
    """What is listed of the host, by whichever destination: agreement, and why."""
    found = json.loads((await run.api("GET", "/destinations")).body)["destinations"]
    return {(one["agreement"], one["why"].partition(" at ")[0]) for one in found}


async def counts(run: Running) -> Any:
    [one] = json.loads((await run.api("GET", "/subscriptions")).body)["subscriptions"]
    return one["counts"]


async def test_nothing_is_sent_to_a_host_that_is_forbidden(tmp_path: Path) -> None:
    """What waits in memory and in the store is held, over a restart, until that is over."""
    async with Consumers() as consumer:
        url = consumer.fresh()
        host = urlsplit(url).hostname
        assert host is not None
        async with running(tmp_path, adapter="embedded:") as run:
            manager = await run.subscribe(SPEAKER, SPEAKER.wse_subscribe(url))
            await run.publish("<a><n>1</n></a>")
            await consumer.next(url)
            told = await command(run.url, "destinations", "forbid", host, cwd=tmp_path)
            assert told == f"forbade {host}\n"
            for number in (2, 3):
                await run.publish(f"<a><n>{number}</n></a>")

            async def held() -> bool:
                return bool((await counts(run))["waiting"] == 2)

            await until(held)
            refused = await run.ask(SPEAKER, SPEAKER.wse_subscribe(consumer.fresh()))
            assert refused.status == 400 and b"destinations reset" in refused.body
            [one] = json.loads((await run.api("GET", "/subscriptions")).body)["subscriptions"]
            explaining = await run.api("POST", f"/subscriptions/{one['id']}/explain", b"{}")
            explained = explaining.body.decode()
            assert "forbidden by an operator" in explained, explained
            assert await listed(run) == {("forbidden", "forbidden by anonymous:127.0.0.1")}
            await run.quiet()
        async with running(tmp_path, adapter="embedded:") as run:
            assert (await counts(run))["waiting"] == 2
            assert consumer.at(url).count == 1
            await command(run.url, "destinations", "reset", f"http://{host}:80", cwd=tmp_path)
            for number in (2, 3):
                assert f"<n>{number}</n>".encode() in (await consumer.next(url)).message.octets
            await run.quiet()
            assert (await run.request("POST", manager)).status < 500


async def test_a_host_that_is_approved_is_on_probation_no_longer(tmp_path: Path) -> None:
    async with Consumers() as consumer:
        url = consumer.add(status(500)).url
        host = urlsplit(url).hostname
        assert host is not None
        async with running(tmp_path, adapter="embedded:", trusted=(), retry_delays=(60,)) as run:
            await run.subscribe(SPEAKER, SPEAKER.wse_subscribe(url))
            await run.publish("<a/>")

            async def is_on_probation() -> bool:
                return {one for one, _ in await listed(run)} == {"probation"}

            await until(is_on_probation)
            assert (await run.api("POST", f"/destinations/{host}/approve")).status == 200
            assert await listed(run) == {("agreed", "approved by anonymous:127.0.0.1")}
            assert len(run.gateway.probations) == 0
        async with running(tmp_path, adapter="embedded:", trusted=()) as run:
            assert run.gateway.probations.has_agreed(("http", host, 1))
            assert (await run.api("POST", f"/destinations/{host}/reset")).status == 200
            assert not run.gateway.probations.has_agreed(("http", host, 1))
            events = [log for log in run.logs if log["event"] == "destination.decided"]
            assert [log["decision"] for log in events] == ["none"]
            assert (await run.api("POST", "/destinations/10.0.0.0%2F8/forbid")).status == 400


async def test_the_console_asks_and_forbids(tmp_path: Path) -> None:
    async with running(tmp_path, retry_delays=(60,)) as run, Consumers() as consumer:
        url = consumer.add(status(500)).url
        await run.subscribe(SPEAKER, SPEAKER.wse_subscribe(url))
        await run.publish("<a/>")

        async def is_listed() -> bool:
            return bool(await listed(run))

        await until(is_listed)
        page = (await run.request("GET", "/console/destinations")).body
        assert b"answered 500" in page and b"Forbid" in page
        form = {"action": "forbid", "id": urlsplit(url).hostname}
        asked = await run.request("POST", "/console/destinations", urlencode(form).encode(), **FORM)
        assert b"Forbid this destination?" in asked.body
        assert {one for one, _ in await listed(run)} == {"unknown"}
        body = urlencode({**form, "confirmed": "yes"}).encode()
        assert (await run.request("POST", "/console/destinations", body, **FORM)).status == 200
        assert {one for one, _ in await listed(run)} == {"forbidden"}
