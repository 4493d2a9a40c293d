"""sdc11073 as a producer: the gateway subscribes at a device, which validates what it is sent, by the
action filter of DPWS, and hands its reports to a subscriber of WS-Notification."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from lxml import etree

from tests.rigs.consumers import Consumer, Consumers
from tests.rigs.envelopes import WSNT, Speaker, topic_expression
from tests.rigs.gateways import Running, running
from tests.rigs.waiting import until

pytest.importorskip("sdc11073", reason="needs sdc11073 (pip install -e '.[dev]')")

from tests.rigs.sdc_device import ALERTS, MESSAGES, METRICS, Device

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # Of its parsers.
]
SPEAKER = Speaker()


@pytest_asyncio.fixture
async def run(tmp_path: Path) -> AsyncIterator[Running]:
    async with running(tmp_path) as one:
        yield one


@pytest_asyncio.fixture
async def device() -> AsyncIterator[Callable[..., Device]]:
    started: list[Device] = []

    def start(**how: Any) -> Device:
        started.append(Device(**how))
        return started[-1]

    yield start
    for one in started:  # In a thread: it waits for the gateway's answers.
        await asyncio.to_thread(one.stop)


async def add(run: Running, device: Device, *actions: str) -> str:
    """Add the device as a source; its id."""
    wanted = {
        "url": device.url, "spec": "wse-2004-08", "profile": "dpws", "actions": actions,
        "publish_on": "ward/7", "lease": "PT10M",
    }  # fmt: skip
    answer = await run.api("POST", "/sources", json.dumps(wanted).encode())
    assert answer.status == 201, answer.body
    return str(json.loads(answer.body)["id"])


async def shown(run: Running, id_: str, state: str) -> dict[str, Any]:
    """The source, once it is in *state*."""
    seen: dict[str, Any] = {}

    async def stands() -> bool:
        seen.update(json.loads((await run.api("GET", f"/sources/{id_}")).body))
        return bool(seen["state"] == state)

    await until(stands)
    return seen


async def subscribed(run: Running, consumers: Consumers) -> Consumer:
    """A consumer of WS-Notification, of what the source is published on."""
    sink = consumers.add()
    body = SPEAKER.wsn_subscribe(sink.url, filter=topic_expression("ward/7"))
    await run.subscribe(SPEAKER, body)
    return sink


async def value_in(sink: Consumer) -> str:
    """The value in the next report; it came in a Notify."""
    receipt = await sink.next()
    assert receipt.message.body[0].tag == f"{{{WSNT}}}Notify"
    assert receipt.topic is not None and receipt.topic.text == "ward/7"
    report = receipt.payload
    assert report.tag == f"{{{MESSAGES}}}EpisodicMetricReport"
    [value] = [
        one for one in report.iter(etree.Element) if etree.QName(one).localname == "MetricValue"
    ]
    return str(value.get("Value"))


@pytest.mark.parametrize(
    "by_parameters",
    [
        pytest.param(False, id="by path", marks=pytest.mark.nightly),
        pytest.param(True, id="by parameters"),
    ],
)
async def test_reports_of_a_device_are_notifications(
    run: Running, device: Callable[..., Device], *, by_parameters: bool
) -> None:
    """It names its subscriptions in one of two ways, and grants a quarter of a minute whatever it is
    asked for; in the end it is told that nobody wants them any more."""
    thermometer = device(by_parameters=by_parameters)
    async with Consumers() as consumers:
        sink = await subscribed(run, consumers)
        id_ = await add(run, thermometer, METRICS)
        seen = await shown(run, id_, "live")
        assert seen["actions"] == [METRICS]
        for value in ("36.6", "38.1"):
            await asyncio.to_thread(thermometer.measure, value)
            assert await value_in(sink) == value
        assert (await run.api("DELETE", f"/sources/{id_}")).status == 204
        await until(lambda: thermometer.subscriptions == 0)


async def test_the_device_filters_by_action(run: Running, device: Callable[..., Device]) -> None:
    thermometer = device()
    async with Consumers() as consumers:
        sink = await subscribed(run, consumers)
        quiet = await add(run, thermometer, ALERTS)
        await shown(run, quiet, "live")
        await asyncio.to_thread(thermometer.measure, "36.6")
        await shown(run, await add(run, thermometer, ALERTS, METRICS), "live")
        await asyncio.to_thread(thermometer.measure, "38.1")
        assert await value_in(sink) == "38.1"
        assert (await shown(run, quiet, "live"))["events"] == 0


async def test_a_device_that_goes_ends_its_subscriptions(
    run: Running, device: Callable[..., Device]
) -> None:
    thermometer = device()
    id_ = await add(run, thermometer, METRICS)
    await shown(run, id_, "live")
    await asyncio.to_thread(thermometer.stop)

    async def told() -> bool:
        view = json.loads((await run.api("GET", f"/sources/{id_}")).body)
        return "SourceShuttingDown" in (view["last_error"] or "")

    await until(told)
