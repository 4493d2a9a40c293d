"""One trace from a publisher to its consumers, over two dialects and a messaging system."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from lxml import etree
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from adapters.rabbitmq.messages import read, write
from gateway.observing.spans import Spans
from mediation.model.messages import Notification
from mediation.packaging.records import decode, encode
from mediation.soap.properties import properties_block, properties_in
from tests.rigs.cloudevents import event, publish, received, subscribed
from tests.rigs.consumers import Consumers, Receipt, status
from tests.rigs.envelopes import Speaker
from tests.rigs.gateways import Running, running

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
PARENT, STATE = f"00-{TRACE}-{SPAN}-01", "congo=t61rcWkgMzE"
UNSAMPLED = f"00-{TRACE}-{SPAN}-00"
SPEAKER = Speaker()


@pytest.fixture(scope="module")
def exporter() -> InMemorySpanExporter:
    found = InMemorySpanExporter()
    provider = trace.get_tracer_provider()  # A process sets it once: another test may have.
    if not isinstance(provider, TracerProvider):
        provider = TracerProvider()
        trace.set_tracer_provider(provider)
    provider.add_span_processor(SimpleSpanProcessor(found))
    return found


@pytest.fixture(autouse=True)
def nothing_told(exporter: InMemorySpanExporter) -> Iterator[None]:
    exporter.clear()
    yield


def spans(exporter: InMemorySpanExporter) -> dict[str, list[ReadableSpan]]:
    """The spans that ended, by name."""
    found: dict[str, list[ReadableSpan]] = {}
    for span in exporter.get_finished_spans():
        found.setdefault(span.name, []).append(span)
    return found


def block_of(receipt: Receipt) -> dict[str, str]:
    """The properties in the header blocks of a message of SOAP."""
    envelope = etree.fromstring(receipt.body)
    blocks = envelope.iter("{urn:dragoman:policy:1}Properties")
    return dict(properties_in([etree.tostring(one, with_tail=False) for one in blocks]))


def place(context: str) -> dict[str, Any]:
    """The places in which a publisher of SOAP may say *context*."""
    return {
        "http": {"http": {"traceparent": context, "tracestate": STATE}},
        "soap": {
            "soap": properties_block({"traceparent": context, "tracestate": STATE}).decode(),
        },
    }


async def publish_in_soap(
    run: Running, *, http: dict[str, str] | None = None, soap: str = ""
) -> None:
    octets = SPEAKER.envelope("<a/>", headers=soap)
    answer = await run.post(octets, type=SPEAKER.type, **(http or {}))
    assert answer.status == 202, answer.body


@pytest.mark.parametrize("where", ["http", "soap"])
async def test_from_soap_to_cloudevents_and_soap(
    tmp_path: Path, exporter: InMemorySpanExporter, where: str
) -> None:
    async with (
        running(tmp_path, adapter="embedded:", telemetry=True) as run,
        Consumers() as consumers,
    ):
        events, soap = consumers.add(), consumers.fresh()
        await subscribed(run, events)
        await run.subscribe(SPEAKER, SPEAKER.wsn_subscribe(soap))
        await publish_in_soap(run, **place(PARENT)[where])
        of_events, of_soap = await events.next(), await consumers.next(soap)
        await run.quiet()
    told = spans(exporter)
    assert {name: len(found) for name, found in told.items()} == {
        "receive": 1,
        "commit": 1,
        "match": 1,
        "deliver": 2,
    }
    assert {f"{span.context.trace_id:032x}" for found in told.values() for span in found} == {TRACE}
    [receive] = told["receive"]
    assert f"{receive.parent.span_id:016x}" == SPAN
    assert {span.parent.span_id for name in ("commit", "match", "deliver") for span in told[name]} == {
        receive.context.span_id
    }  # fmt: skip
    delivered = {f"00-{TRACE}-{span.context.span_id:016x}-01" for span in told["deliver"]}
    said = {of_events.headers["traceparent"], of_soap.headers["traceparent"]}
    assert said == delivered
    assert of_soap.headers["tracestate"] == STATE
    assert block_of(of_soap)["traceparent"] == of_soap.headers["traceparent"]
    assert received(of_events)["traceparent"].startswith(f"00-{TRACE}-")
    assert told["match"][0].attributes["dragoman.matched"] == 2
    assert {span.attributes["dragoman.verdict"] for span in told["deliver"]} == {"delivered"}


async def test_from_cloudevents_to_soap(tmp_path: Path, exporter: InMemorySpanExporter) -> None:
    async with running(tmp_path, telemetry=True) as run, Consumers() as consumers:
        soap = consumers.fresh()
        await run.subscribe(SPEAKER, SPEAKER.wse_subscribe(soap))
        batch = [event(traceparent=PARENT), event()]
        assert (await publish(run, *batch)).status == 202
        parents = [block_of(await consumers.next(soap))["traceparent"] for _ in batch]
        await run.quiet()
    assert [one.split("-")[1] == TRACE for one in parents] == [True, False]
    assert len(spans(exporter)["receive"]) == 2


async def test_a_parent_that_is_not_recorded_records_nothing(
    tmp_path: Path, exporter: InMemorySpanExporter
) -> None:
    async with running(tmp_path, telemetry=True) as run, Consumers() as consumers:
        events = consumers.add()
        await subscribed(run, events)
        await publish_in_soap(run, http={"traceparent": UNSAMPLED})
        got = await events.next()
    assert spans(exporter) == {}
    _, trace_id, span_id, flags = got.headers["traceparent"].split("-")
    assert (trace_id, flags) == (TRACE, "00") and span_id != SPAN


@pytest.mark.parametrize("wrong", ["", "00-0-0-01", "x" * 5000, f"ff-{TRACE}-{SPAN}-01"])
async def test_a_context_that_is_none_begins_a_trace(
    tmp_path: Path, exporter: InMemorySpanExporter, wrong: str
) -> None:
    async with running(tmp_path, telemetry=True) as run:
        await publish_in_soap(run, http={"traceparent": wrong})
        await run.quiet()
    [receive] = spans(exporter)["receive"]
    assert receive.parent is None and f"{receive.context.trace_id:032x}" != TRACE


def test_a_long_state_is_not_handed_on() -> None:
    tracer, now = TracerProvider(shutdown_on_exit=False).get_tracer("test"), datetime.now(UTC)
    for state, handed_on in (
        (STATE, True),
        (",".join(f"k{n}={'v' * 250}" for n in range(9)), False),
    ):
        said = {"traceparent": PARENT, "tracestate": state}
        one = Notification("urn:1", "urn:s", b"<a/>", now, None, properties=said)
        attempt = Spans(tracer).attempt([one], "subscription", "host")
        headers = dict(attempt.headers)
        assert TRACE in headers["traceparent"]
        assert ("tracestate" in headers, b"tracestate" in attempt.block) == (handed_on, handed_on)


async def test_attempts_that_fail_say_why(tmp_path: Path, exporter: InMemorySpanExporter) -> None:
    async with running(tmp_path, telemetry=True) as run, Consumers() as consumers:
        url = consumers.fresh()
        consumers.at(url).behaviour = status(400)
        await run.subscribe(SPEAKER, SPEAKER.wsn_subscribe(url))
        await publish_in_soap(run)
        await run.quiet()
    [deliver] = spans(exporter)["deliver"]
    assert deliver.attributes["http.response.status_code"] == 400
    assert deliver.status.description == "answered 400 Bad Request"
    assert not any("<a" in str(value) for value in deliver.attributes.values())


async def test_nothing_is_told_or_added_without_telemetry(
    tmp_path: Path, exporter: InMemorySpanExporter
) -> None:
    async with running(tmp_path) as run, Consumers() as consumers:
        events, soap = consumers.add(), consumers.fresh()
        await subscribed(run, events)
        await run.subscribe(SPEAKER, SPEAKER.wsn_subscribe(soap))
        await publish_in_soap(run, http={"traceparent": PARENT})
        got, message = await events.next(), await consumers.next(soap)
    assert spans(exporter) == {}
    assert "traceparent" not in got.headers and "traceparent" not in json.loads(got.body)
    assert block_of(message) == {}


def test_messaging_systems_carry_the_context_as_headers_and_properties() -> None:
    said = {"traceparent": PARENT, "tracestate": STATE}
    notification = Notification(
        "urn:1", "urn:publisher", b"<a/>", datetime.now(UTC), properties=said
    )
    record = encode(notification)
    assert record.properties.items() >= said.items()
    assert decode(record.body, record.properties).properties == said
    properties, body = write(notification)
    assert properties.headers.items() >= said.items()
    native, _ = read(body, properties, source="urn:native", topic=None)
    assert native.properties == said
