"""How the server ends: at once, but for the requests that are under way."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from gateway.server import process
from gateway.server.composition import build
from gateway.server.process import OpenToEverybody, check_doors, listen, serve
from gateway.settings.settings import Settings
from tests.rigs.certificates import Authority
from tests.rigs.envelopes import Speaker, fresh_id
from tests.rigs.gateways import http_request, read_http, running
from tests.rigs.waiting import DEADLINE, until


async def test_an_idle_server_ends_without_a_pause(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paused: list[float] = []
    sleep = asyncio.sleep

    async def noted(seconds: float) -> None:
        paused.append(seconds)
        await sleep(seconds)

    async with running(tmp_path) as run:
        assert (await run.request("GET", "/readyz")).status == 200
        monkeypatch.setattr(asyncio, "sleep", noted)
        run.stop.set()
    assert 0.1 not in paused, "uvicorn's own pause"


async def test_a_request_under_way_is_answered(tmp_path: Path) -> None:
    speaker = Speaker()
    body = speaker.envelope("<e/>", message_id=fresh_id())
    async with running(tmp_path) as run:
        request = http_request(run.port, "POST", "/soap", body, {"content-type": speaker.type})
        reader, writer = await asyncio.open_connection("127.0.0.1", run.port)
        writer.write(request[:-10])
        await run.until(lambda: run.gateway.serving.gate.connections == 1)
        run.stop.set()

        async def nobody_listens() -> bool:
            try:
                _, other = await asyncio.open_connection("127.0.0.1", run.port)
            except ConnectionRefusedError:
                return True
            other.close()
            return False

        await until(nobody_listens)
        writer.write(request[-10:])
        first, _, answer = await asyncio.wait_for(read_http(reader), DEADLINE)
        assert first.split()[1] == "503" and b"Fault" in answer, "what publishes later has it"
        writer.close()


@pytest.mark.parametrize(
    ("settings", "starts"),
    [
        ({}, True),
        ({"admin_host": "::1"}, True),
        ({"host": "0.0.0.0"}, False),
        ({"host": "0.0.0.0", "identities": "identities.toml"}, True),
        ({"host": "0.0.0.0", "without_identities": True}, True),
        ({"host": "0.0.0.0", "tls_certificate": "a.pem", "tls_client_ca": "ca.pem"}, True),
        (
            {
                "host": "0.0.0.0",
                "tls_certificate": "a.pem",
                "tls_client_ca": "ca.pem",
                "soap_tcp_port": 8081,
            },
            False,
        ),
        ({"host": "0.0.0.0", "admin_without_identities": True}, False),
        ({"host": "0.0.0.0", "admin_host": "0.0.0.0", "without_identities": True}, False),
        ({"admin_host": "10.0.0.1"}, False),
        ({"admin_host": "10.0.0.1", "without_identities": True}, False),
        ({"admin_host": "10.0.0.1", "identities": "identities.toml"}, True),
        ({"admin_host": "10.0.0.1", "admin_without_identities": True}, True),
    ],
)
def test_nothing_leaves_this_machine_without_identities_unless_that_is_said(
    settings: dict[str, Any], starts: bool
) -> None:
    if starts:
        check_doors(Settings(**settings))
        return
    with pytest.raises(OpenToEverybody, match=r"set identities, or (admin_)?host"):
        check_doors(Settings(**settings))


async def test_a_certificate_that_is_renewed_during_the_start_is_served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And shown to consumers."""
    authority = Authority(tmp_path)
    certificate, key = authority.issue("127.0.0.1")

    async def slowly(*given: Any) -> Any:
        gateway = await build(*given)
        authority.issue("127.0.0.1")
        return gateway

    monkeypatch.setattr(process, "build", slowly)
    stop, listener = asyncio.Event(), listen("127.0.0.1", 0)
    settings = Settings(
        adapter="memory:", data=tmp_path / "data", port=0,
        tls_certificate=certificate, tls_key=key,
        egress_certificate=certificate, egress_key=key,
    )  # fmt: skip
    with capture_logs() as logs:
        serving = asyncio.create_task(serve(settings, listener, stop=stop))
        await until(lambda: [one["event"] for one in logs].count("tls.renewed") == 2)
        stop.set()
        assert await asyncio.wait_for(serving, DEADLINE) == 0
    listener.close()
    assert {one.get("consumers", False) for one in logs if one["event"] == "tls.renewed"} == {
        False,
        True,
    }
