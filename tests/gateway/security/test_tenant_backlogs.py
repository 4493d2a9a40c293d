"""The quota ``backlog`` of a tenant: who floods, and whose consumers are down, has its oldest
deliveries given up; nobody else notices."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.security.test_tenants import Tenants, make_file
from tests.rigs.consumers import Consumers, accept, status
from tests.rigs.envelopes import Speaker, topic_expression
from tests.rigs.gateways import running
from tests.rigs.waiting import until

SPEAKER = Speaker()
MOST = 40
RETRY = (1.0,) * 60


def with_quota(file: Path, quota: str) -> None:
    text = file.read_text()
    file.write_text(text.replace('name = "acme"\n\n', f'name = "acme"\n{quota}\n\n', 1))


async def quota_of(tenants: Tenants, name: str) -> Any:
    return json.loads((await tenants.ask("administrator", "GET", f"/api/v1/tenants/{name}"))[1])


async def publish(tenants: Tenants, who: str, topic: str, numbers: range) -> None:
    for n in numbers:
        said = await tenants.post(who, f"<storm><n>{n}</n></storm>", f"/soap/topic/{topic}")
        assert said[0] == 202


async def waits(tenants: Tenants, name: str) -> int:
    used = (await quota_of(tenants, name))["backlog"]["used"]
    assert isinstance(used, int)
    return used


async def test_a_flood_for_a_consumer_that_is_down(tmp_path: Path) -> None:
    file, keys = make_file(tmp_path)
    with_quota(file, f"backlog = {MOST}")
    async with Consumers() as sinks:
        sink = {name: sinks.at(f"/{name}") for name in ("ada", "bob", "eve")}
        for one in sink.values():
            one.behaviour = status(503)
        settings = {"identities": file, "retry_delays": RETRY, "drain": 0.5}
        async with running(tmp_path / "data", **settings) as run:
            tenants = Tenants(run, keys)
            for who, topic in (("ada", "storms"), ("bob", "tides"), ("eve", "storms")):
                body = SPEAKER.wsn_subscribe(sinks.url(who), filter=topic_expression(topic))
                assert (await tenants.post(who, body))[0] == 200
            await publish(tenants, "bob", "tides", range(5))
            await publish(tenants, "eve", "storms", range(2 * MOST))
            await until(lambda: run.gateway.dispatchers.unsettled == 0)
            assert await waits(tenants, "acme") == 5
            for begin in range(0, 4 * MOST, MOST):
                await publish(tenants, "ada", "storms", range(begin, begin + MOST))
                await until(lambda: run.gateway.dispatchers.unsettled == 0)

                async def bounded() -> bool:
                    return await waits(tenants, "acme") <= MOST

                await until(bounded)
            acme, umbrella = await quota_of(tenants, "acme"), await quota_of(tenants, "umbrella")
            gone = 5 + 4 * MOST - MOST
            assert acme["backlog"] == {"used": MOST, "limit": MOST, "refused": gone}
            assert umbrella["backlog"] == {"used": 2 * MOST, "limit": None, "refused": 0}
            letters = (await tenants.ask("administrator", "GET", "/api/v1/deadletters?limit=500"))[
                1
            ]
            died = json.loads(letters)["dead_letters"]
            assert {(one["reason"], one["owner"]) for one in died} == {
                ("expired-backlog", "tenant:acme:user:ada")
            }
            assert len(died) == gone
            metrics = (await tenants.ask("ada", "GET", "/metrics"))[1].decode()
            assert f'dragoman_tenant_backlog{{tenant="acme"}} {MOST}.0' in metrics
            overview = (await tenants.ask("ada", "GET", "/api/v1/tenants/acme/overview"))[1]
            assert json.loads(overview)["refused"]["backlog"] == gone
            for one in sink.values():
                one.received.clear()
                one.behaviour = accept
            await until(lambda: {int(n) for n in sink["bob"].numbers} >= set(range(5)))
            kept = set(range(5 + 3 * MOST, 4 * MOST))
            await until(lambda: {int(n) for n in sink["ada"].numbers} >= kept)
            await until(lambda: {int(n) for n in sink["eve"].numbers} >= set(range(2 * MOST)))
            assert {int(n) for n in sink["ada"].numbers} == kept

            async def nothing() -> bool:
                return await waits(tenants, "acme") == await waits(tenants, "umbrella") == 0

            await until(nothing)
            await run.quiet()


async def test_a_quota_that_is_lower_now(tmp_path: Path) -> None:
    """What waited before gives way, too, and is counted after a restart."""
    file, keys = make_file(tmp_path)
    async with Consumers() as sinks:
        sinks.at("/ada").behaviour = status(503)
        settings = {"identities": file, "retry_delays": RETRY, "drain": 0.5}
        async with running(tmp_path / "data", **settings) as run:
            tenants = Tenants(run, keys)
            assert (await tenants.post("ada", SPEAKER.wsn_subscribe(sinks.url("ada"))))[0] == 200
            await publish(tenants, "ada", "storms", range(MOST))
            await until(lambda: run.gateway.dispatchers.unsettled == 0)
        async with running(tmp_path / "data", **settings) as run:
            tenants = Tenants(run, keys)
            assert await waits(tenants, "acme") == MOST
            with_quota(file, f"backlog = {MOST // 4}")

            async def bounded() -> bool:
                return await waits(tenants, "acme") == MOST // 4

            await until(bounded)
            assert (await quota_of(tenants, "acme"))["backlog"]["refused"] == MOST - MOST // 4


@pytest.mark.parametrize("policy", ["dead-letter-oldest", "end"])
async def test_what_becomes_of_its_subscription(tmp_path: Path, policy: str) -> None:
    """It ends where any that has too much waiting would end."""
    file, keys = make_file(tmp_path)
    with_quota(file, "backlog = 3")
    async with Consumers() as sinks:
        sinks.at("/ada").behaviour = status(503)
        settings = {"identities": file, "retry_delays": RETRY, "backlog_policy": policy}
        async with running(tmp_path / "data", drain=0.5, **settings) as run:
            tenants = Tenants(run, keys)
            assert (await tenants.post("ada", SPEAKER.wsn_subscribe(sinks.url("ada"))))[0] == 200
            await publish(tenants, "ada", "storms", range(10))
            wanted = 0 if policy == "end" else 3

            async def bounded() -> bool:
                return await waits(tenants, "acme") == wanted

            await until(bounded)
            assert len(run.gateway.subscriptions.entries) == (policy != "end")
