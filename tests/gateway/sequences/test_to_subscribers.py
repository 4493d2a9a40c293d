"""Sequences to subscribers as operators see and end them, and what is counted."""

import json
from pathlib import Path
from typing import Any

import pytest

from gateway.client import Administration
from tests.rigs.consumers import Consumers, consumers
from tests.rigs.envelopes import Speaker
from tests.rigs.gateways import Running, running
from tests.rigs.reliable_consumers import ReliableConsumer, policy
from tests.rigs.reliable_publishers import ReliablePublisher
from tests.rigs.waiting import until

SETTINGS = {"wsrm": "offered", "adapter": "embedded:", "retry_delays": ",".join(["0.05"] * 30)}


async def subscribe(run: Running, some: Consumers, reliable: ReliableConsumer) -> str:
    speaker = Speaker()
    body = speaker.wse_subscribe(some.add(reliable).url, end_to=some.url("end"))
    return await run.subscribe(speaker, body.replace("</e:Delivery>", f"{policy()}</e:Delivery>"))


async def publish(run: Running, *numbers: int) -> None:
    for number in numbers:
        await run.publish(f'<t:event xmlns:t="urn:t"><n>{number}</n></t:event>')


async def asked(run: Running, rest: str = "") -> Any:
    return json.loads((await run.api("GET", f"/sequences{rest}")).body)


async def subscriptions(run: Running) -> list[Any]:
    found: list[Any] = json.loads((await run.api("GET", "/subscriptions")).body)["subscriptions"]
    return found


async def test_what_is_shown(tmp_path: Path) -> None:
    reliable = ReliableConsumer()
    async with consumers() as some, running(tmp_path, **SETTINGS) as run:
        await subscribe(run, some, reliable)
        await publish(run, 1, 2)
        await until(lambda: len(reliable.got) == 2)
        await run.quiet()
        reliable.loses = lambda said: "answer"
        await publish(run, 3)
        await until(lambda: len(reliable.got) == 3)
        [seen] = (await asked(run))["sequences"]
        [subscription] = await subscriptions(run)
        shown = {
            name: seen[name]
            for name in ("direction", "subscription", "state", "received", "published", "waiting")
        }
        assert shown == {
            "direction": "out",
            "subscription": subscription["id"],
            "state": "open",
            "received": "1-2",
            "published": 2,
            "waiting": 1,
        }
        assert seen["id"] == f"{subscription['id']}-0"
        assert not any(identifier in json.dumps(seen) for identifier in reliable.numbers)
        assert (await asked(run, f"/{seen['id']}"))["id"] == seen["id"]
        reliable.loses = lambda said: ""
        await run.quiet()


@pytest.mark.parametrize("limit", [1, 2, 100])
async def test_pages_of_both(tmp_path: Path, limit: int) -> None:
    async with consumers() as some, running(tmp_path, **SETTINGS) as run:
        for _ in range(3):
            await ReliablePublisher(run).create()
            await subscribe(run, some, ReliableConsumer())
        found: list[tuple[str, str]] = []
        after = ""
        while True:
            page = await asked(run, f"?limit={limit}&after={after}")
            found += [(each["id"], each["direction"]) for each in page["sequences"]]
            if page["next"] is None:
                break
            after = page["next"]
        assert found == sorted(set(found))
        assert sorted(direction for _, direction in found) == ["in"] * 3 + ["out"] * 3


async def test_one_that_is_terminated_ends_its_subscription(tmp_path: Path) -> None:
    reliable = ReliableConsumer()
    async with consumers() as some, running(tmp_path, **SETTINGS) as run:
        await subscribe(run, some, reliable)
        [seen] = (await asked(run))["sequences"]
        async with Administration(run.url) as administration:
            await administration.terminate_sequence(seen["id"])
            assert await subscriptions(run) == []
            told = await some.next(some.url("end"))
            assert b"SourceCancelling" in told.body
            await until(lambda: reliable.bodies()[-1] == "TerminateSequence")

            async def has_ended() -> bool:
                one = await administration.sequence(str(seen["id"]))
                return one["state"] == "ended" and one["complete"] is True

            await until(has_ended)
            await administration.terminate_sequence(seen["id"])  # Again is no error.


@pytest.mark.parametrize("mode", ["off", "offered"])
async def test_none_with_this_id(tmp_path: Path, mode: str) -> None:
    async with running(tmp_path, **{**SETTINGS, "wsrm": mode}) as run:
        for id in ("5b1f0c9a3e77-0", "5b1f0c9a3e77", "%00-0"):
            assert (await run.api("GET", f"/sequences/{id}")).status == 404


async def test_what_is_counted(tmp_path: Path) -> None:
    reliable = ReliableConsumer()
    async with consumers() as some, running(tmp_path, **SETTINGS) as run:
        await subscribe(run, some, reliable)
        await publish(run, 1)
        await until(lambda: reliable.got == ["1"])
        await run.quiet()

        async def counted() -> bool:
            text = (await run.admin("GET", "/metrics")).body.decode()
            assert 'dragoman_sequence_deliveries_total{outcome="acknowledged"} 1' in text
            return "dragoman_subscriber_sequences 1" in text

        await until(counted)
