"""What a container's health check asks."""

import asyncio
from pathlib import Path

import pytest

from gateway.alive import is_alive
from tests.rigs.certificates import Authority
from tests.rigs.gateways import running
from tests.rigs.ports import free_ports


@pytest.mark.parametrize("kind", ["http", "https", "client certificates"])
async def test_a_gateway_is_alive_whatever_it_speaks(tmp_path: Path, kind: str) -> None:
    authority = Authority(tmp_path)
    settings: dict[str, object] = {}
    if kind != "http":
        certificate, key = authority.issue("gateway.example")
        settings = {"tls_certificate": certificate, "tls_key": key}
    if kind == "client certificates":
        settings["tls_client_ca"] = authority.certificate
    async with running(tmp_path / "data", **settings) as run:
        assert await asyncio.to_thread(is_alive, run.port)


def test_nobody_is_not_alive() -> None:
    (port,) = free_ports(1)
    assert not is_alive(port)
