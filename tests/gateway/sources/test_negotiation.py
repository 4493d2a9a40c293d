"""Producers that know who asks by Negotiate: pyspnego on the other side, too, with NTLM."""

import asyncio
import json
import threading
from base64 import b64encode
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from gateway.checks.findings import Verdict
from gateway.checks.ws_management import check_service
from gateway.egress import AddressPolicy, ClientLimits, Dialer, HttpTransport, Request, parse_target
from gateway.sources import negotiation
from gateway.sources.negotiation import NegotiationFailed, negotiate
from tests.gateway.sources.test_management import RESOURCE
from tests.gateway.sources.test_sources import shown, state
from tests.rigs.gateways import running
from tests.rigs.negotiating import PASSWORD, USER, Negotiating, negotiating
from tests.rigs.producers import producers
from tests.rigs.waiting import DEADLINE, until


@pytest_asyncio.fixture
async def server(tmp_path: Path) -> AsyncIterator[Negotiating]:
    async with negotiating(tmp_path) as found:
        yield found


async def exchange(server: Negotiating, user: str = USER, password: str = PASSWORD) -> int:
    dialer = Dialer(AddressPolicy(loopback=True))
    transport = HttpTransport(dialer, limits=ClientLimits(connections=1))
    request = Request(parse_target(f"{server.url}/wsman"), b"<a/>", ())
    try:
        return (await negotiate(transport.send, request, user, password)).status
    finally:
        await transport.close()
        dialer.close()


async def test_who_asks_is_known(server: Negotiating) -> None:
    """Of each of several at once, on a connection of its own."""
    statuses = await asyncio.gather(*(exchange(server) for _ in range(5)))
    assert statuses == [200] * 5
    assert server.known == [USER] * 5 and server.connections == 5


@pytest.mark.parametrize(("user", "password"), [(USER, "wrong"), ("PLANT\\nobody", PASSWORD)])
async def test_who_is_not_known(server: Negotiating, user: str, password: str) -> None:
    assert await exchange(server, user, password) == 401
    assert server.known == []


async def test_a_domain_that_does_not_answer_holds_up_nobody_else(
    server: Negotiating, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kerberos asks it in a thread; who waits for that gives up."""
    goes_on = threading.Event()
    monkeypatch.setattr(negotiation, "_step", lambda *_: goes_on.wait(30))
    asking = [asyncio.create_task(exchange(server)) for _ in range(40)]
    try:
        await until(lambda: len(negotiation._threads._threads) >= 8)
        async with asyncio.timeout(DEADLINE):
            assert await asyncio.to_thread(lambda: 7) == 7
    finally:
        for one in asking:
            one.cancel()
        await asyncio.gather(*asking, return_exceptions=True)
        goes_on.set()


async def test_what_cannot_be_negotiated(
    server: Negotiating, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.offers = 'Basic realm="plant", Digest realm="plant", nonce="1"'
    with pytest.raises(NegotiationFailed, match="does not take Negotiate, but basic, digest"):
        await exchange(server)
    challenge = b"NTLMSSP\0\2\0\0\0"
    hostile = [b64encode(challenge[:size]).decode() for size in range(8, len(challenge))]
    for theirs in ("bm90aGluZw==", "AAAAA", *hostile):
        server.offers = f"Negotiate {theirs}"
        with pytest.raises(NegotiationFailed, match="no token can be made"):
            await exchange(server)
    monkeypatch.setattr(negotiation, "is_installed", lambda: False)
    with pytest.raises(NegotiationFailed, match="needs pyspnego: install Dragoman"):
        await exchange(server)


async def test_a_source(tmp_path: Path) -> None:
    """It subscribes, its events are published, and its password is told to nobody."""
    async with (
        producers() as some,
        running(tmp_path / "data", egress_allow=["127.0.0.1"]) as gateway,
    ):
        producer = some.add(wse=True)
        async with negotiating(tmp_path, behind=producer.url) as server:
            path = producer.url.partition("//")[2].partition("/")[2]
            asked = {
                "url": f"{server.url}/{path}", "spec": "wse-2004-08", "profile": "wsman",
                "resource": RESOURCE, "publish_on": "alarms", "user": USER, "negotiate": True,
            }  # fmt: skip
            for password, wanted in (("wrong", "backing-off"), (PASSWORD, "live")):
                body = json.dumps({**asked, "password": password}).encode()
                answer = await gateway.api("POST", "/sources", body)
                assert answer.status == 201, answer.body
                id = json.loads(answer.body)["id"]
                stands = await state(gateway, id, wanted)
                assert (PASSWORD not in str(stands)) and ("refused the user" in str(stands)) is (
                    wanted == "backing-off"
                )
            assert server.known and set(server.known) == {USER}
            assert await producer.send("<gale/>") == 202

            async def counted() -> bool:
                return bool((await shown(gateway, id))["events"])

            await until(counted)


async def test_what_doctor_says(server: Negotiating, monkeypatch: pytest.MonkeyPatch) -> None:
    async def said(url: str, user: str = USER, password: str = PASSWORD) -> dict[str, str]:
        found = await asyncio.to_thread(lambda: list(check_service(url, user, password)))
        return {one.what: f"{one.verdict.value} {one.text}" for one in found}

    url = f"{server.url}/wsman"
    right = await said(url)
    assert right["service"] == f"ok it answers to the user {USER!r}"
    assert right["address"].startswith(Verdict.WARN.value) and "use https" in right["address"]
    assert "refused the user" in (await said(url, password="wrong"))["password"]
    server.offers = "Basic"
    assert "does not take Negotiate, but basic" in (await said(url))["password"]
    assert "does not answer" in (await said("http://127.0.0.1:1/wsman"))["service"]
    monkeypatch.setattr("gateway.checks.ws_management.is_installed", lambda: False)
    assert "extra negotiate" in (await said(url))["negotiate"]
