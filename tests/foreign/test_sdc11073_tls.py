"""sdc11073 over mutual TLS, as devices in hospitals are to speak: its provider, its consumer, and the
gateway between them each show a certificate, and take nobody without one."""

import asyncio
import http.client
import logging
import ssl
import warnings
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from tests.rigs.certificates import Authority
from tests.rigs.gateways import Running, running
from tests.rigs.waiting import until

pytest.importorskip("sdc11073", reason="needs sdc11073 (pip install -e '.[dev]')")

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # Of its own deprecated modules.
    from sdc11073.certloader import SSLContextContainer, mk_ssl_contexts
    from sdc11073.definitions_sdc import SdcV1Definitions
    from sdc11073.pysoap.msgreader import MessageReader

from tests.rigs.sdc_device import METRICS, Device
from tests.rigs.sdc_subscriptions import subscription

pytestmark = [
    pytest.mark.slow,
    # Parsers and TLS of theirs, not ours.
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]
LOGGER: Any = logging.getLogger("sdc")
LOCAL = "127.0.0.1"


class Ward:
    """An authority, and who has a certificate of it."""

    def __init__(self, folder: Path) -> None:
        self.authority = Authority(folder)

    def files(self, name: str) -> tuple[Path, Path]:
        return self.authority.issue(LOCAL, file=name)

    def contexts(self, name: str) -> SSLContextContainer:
        """As sdc11073 makes them: both sides must show a certificate."""
        certificate, key = self.files(name)
        return mk_ssl_contexts(key, certificate, self.authority.certificate)

    def settings(self, *, shows: bool = True) -> dict[str, object]:
        """Those of the gateway, which *shows* its own certificate to others, too."""
        certificate, key = self.files("gateway")
        ca = self.authority.certificate
        row: dict[str, object] = {"address": LOCAL, "ca": ca}
        if shows:
            row |= {"client_certificate": certificate, "client_key": key}
        return {
            "tls_certificate": certificate, "tls_key": key, "tls_client_ca": ca,
            "consumers": [row],
        }  # fmt: skip


@asynccontextmanager
async def sink(tls: ssl.SSLContext) -> AsyncIterator[tuple[str, asyncio.Queue[bytes]]]:
    """A consumer that demands a certificate: its address, and what it gets."""
    got: asyncio.Queue[bytes] = asyncio.Queue()

    async def take(request: web.Request) -> web.Response:
        assert request.transport is not None and request.transport.get_extra_info("peercert")
        await got.put(await request.read())
        return web.Response(status=202)

    app = web.Application()
    app.router.add_post("/{path:.*}", take)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        await web.TCPSite(runner, LOCAL, 0, ssl_context=tls).start()
        yield f"https://{LOCAL}:{runner.addresses[0][1]}/sink", got
    finally:
        await runner.cleanup()


@asynccontextmanager
async def thermometer(tls: SSLContextContainer) -> AsyncIterator[Device]:
    device = await asyncio.to_thread(lambda: Device(tls=tls))
    try:
        yield device
    finally:
        await asyncio.to_thread(device.stop)


class Operator:
    """Who adds sources, with a certificate, too."""

    def __init__(self, run: Running, tls: ssl.SSLContext) -> None:
        self._base, self._tls = f"https://{LOCAL}:{run.port}/api/v1", tls

    async def ask(self, method: str, path: str, body: object = None, *, status: int = 200) -> Any:
        async with (
            aiohttp.ClientSession() as session,
            session.request(method, self._base + path, json=body, ssl=self._tls) as answer,
        ):
            assert answer.status == status, await answer.text()
            return await answer.json() if status != 204 else None

    async def add(self, device: Device) -> str:
        """Add the device as a source; its path."""
        wanted = {
            "url": device.url, "spec": "wse-2004-08", "profile": "dpws", "actions": [METRICS],
            "publish_on": "ward/7", "lease": "PT10M",
        }  # fmt: skip
        added = await self.ask("POST", "/sources", wanted, status=201)
        return f"/sources/{added['id']}"


async def test_a_report_from_its_provider_to_its_consumer(tmp_path: Path) -> None:
    ward, opened = Ward(tmp_path), list[Any]()
    own = ward.contexts("consumer")
    async with (
        running(tmp_path / "data", **ward.settings()) as run,
        thermometer(ward.contexts("device")) as device,
        sink(own.server_context) as (address, got),
    ):
        url = f"https://{LOCAL}:{run.port}"
        try:
            one = subscription(url, METRICS, address, address, opened, tls=own.client_context)
            await asyncio.to_thread(one.subscribe, 600)
            assert one.is_subscribed
            operator = Operator(run, own.client_context)
            path = await operator.add(device)

            async def is_live() -> bool:
                return bool((await operator.ask("GET", path))["state"] == "live")

            await until(is_live)
            for value in ("36.6", "38.1"):
                await asyncio.to_thread(device.measure, value)
                octets = await asyncio.wait_for(got.get(), 30)
                # It validates it, with the schemas of SDC.
                read = MessageReader(SdcV1Definitions, None, LOGGER).read_received_message(octets)
                assert read.p_msg.header_info_block.Action == METRICS
                [found] = read.p_msg.msg_node.iter("{*}MetricValue")
                assert found.get("Value") == value
            assert await asyncio.to_thread(one.renew, 1200) == 1200
            await asyncio.to_thread(one.unsubscribe)
            await operator.ask("DELETE", path, status=204)
            await until(lambda: device.subscriptions == 0)
        finally:
            for each in opened:
                each.close()


async def test_nobody_without_a_certificate(tmp_path: Path) -> None:
    """Neither takes the other: the gateway a consumer, the provider the gateway."""
    ward, opened = Ward(tmp_path), list[Any]()
    nobody = ssl.create_default_context(cafile=str(ward.authority.certificate))
    async with (
        running(tmp_path / "data", **ward.settings(shows=False)) as run,
        thermometer(ward.contexts("device")) as device,
    ):
        url = f"https://{LOCAL}:{run.port}"
        sink = f"https://{LOCAL}:9/"
        one = subscription(url, METRICS, sink, sink, opened, tls=nobody)
        try:
            await asyncio.to_thread(one.subscribe, 600)
        except (OSError, http.client.HTTPException):
            pass
        finally:
            for each in opened:
                each.close()
        assert not one.is_subscribed and not run.gateway.subscriptions.entries
        operator = Operator(run, ward.contexts("operator").client_context)
        path = await operator.add(device)

        async def failed() -> bool:
            return bool((await operator.ask("GET", path))["last_error"])

        await until(failed)
        assert device.subscriptions == 0
        await operator.ask("DELETE", path, status=204)
