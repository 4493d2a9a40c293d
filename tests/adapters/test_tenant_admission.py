"""Admission: a light tenant's request goes at once, and heavy ones wait for it, and in turn."""

import asyncio
from contextlib import AsyncExitStack

import pytest

from adapters.tenant_admission import TenantAdmission
from adapters.tenant_priority import HOLD


async def test_a_light_tenant_s_request_is_next_and_others_wait_until_it_ends() -> None:
    admission, taken = TenantAdmission(), list[str]()
    assert admission.needed("flood")

    async def request(tenant: str) -> None:
        async with admission.request(tenant, 2**14):
            taken.append(tenant)

    flood = [asyncio.create_task(request("flood")) for _ in range(100)]
    await asyncio.sleep(0)
    assert taken == ["flood"]
    for given_up in flood[1:5]:
        given_up.cancel()
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(admission.request("quiet", 100))
        assert admission.holds_back
        assert not admission.is_light("flood")
        assert admission.is_light("quiet")
        before = len(taken)
        for _ in range(10):
            await asyncio.sleep(0)
        assert len(taken) == before
    await asyncio.gather(*flood, return_exceptions=True)
    assert len(taken) == 96
    assert not admission.holds_back


async def test_what_waits_for_a_light_request_goes_on_though_that_does_not_end() -> None:
    """Requests, messages and attempts are resumed when the hold is used up."""
    admission, resumed = TenantAdmission(), asyncio.Event()
    admission.when_resumed(resumed.set)
    assert admission.needed("flood")
    for _ in range(10):
        admission.use("flood", 1000)
    async with asyncio.timeout(100 * HOLD + 5), admission.request("quiet", 100):
        assert admission.holds_back
        async with admission.request("flood", 100):
            pass
        await admission.pull()
        await resumed.wait()


async def test_a_timer_that_rings_early_leaves_nobody_held_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """While the light request goes on, as one that waits for messages does for half a minute."""
    admission, now = TenantAdmission(), [100.0]
    monkeypatch.setattr("adapters.tenant_admission.monotonic", lambda: now[0])
    assert admission.needed("flood")
    admission.use("flood", 10_000)
    async with asyncio.timeout(100 * HOLD + 5), admission.request("quiet", 100):
        pulling = asyncio.create_task(admission.pull())
        await asyncio.sleep(2 * HOLD)
        assert not pulling.done()
        now[0] += 2 * HOLD
        await pulling


async def test_a_message_is_pulled_for_a_light_request_before_others_are_resumed() -> None:
    admission, order = TenantAdmission(), list[str]()
    admission.when_resumed(lambda: order.append("attempts"))
    admission.use("flood", 100_000)

    async def pull() -> None:
        await admission.pull()
        order.append("message")

    async with admission.request("quiet", 100):
        pulling = asyncio.create_task(pull())
        await asyncio.sleep(0)
    await pulling
    await asyncio.sleep(0)
    assert order == ["message", "attempts"]


async def test_one_request_of_heavy_tenants_in_a_turn_of_the_loop() -> None:
    admission = TenantAdmission()
    other, taken = list[int](), list[int]()

    async def request() -> None:
        async with admission.request("a", 1):
            taken.append(len(other))

    async def others() -> None:
        while len(taken) < 20:
            other.append(1)
            await asyncio.sleep(0)

    async with asyncio.TaskGroup() as group:
        group.create_task(others())
        for _ in range(20):
            group.create_task(request())
    assert len(set(taken)) == 20, taken


async def test_nobody_waits_where_there_are_no_tenants() -> None:
    admission = TenantAdmission()
    assert not admission.needed("")
    assert not admission.several
    assert admission.needed("a")
    assert admission.needed("")
