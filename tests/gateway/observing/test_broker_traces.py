"""One trace between web services and native programs, through a real RabbitMQ and ActiveMQ."""

import contextlib
import queue
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pika
import pytest
import stomp
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider

from mediation.soap.properties import properties_block
from tests.gateway.observing.test_spans import PARENT, STATE, TRACE, block_of
from tests.rigs.activemq import activemq, needs_activemq
from tests.rigs.brokers import PASSWORD, USER, needs_rabbitmq, rabbitmq
from tests.rigs.consumers import Consumers
from tests.rigs.envelopes import Speaker, notification_message, notify, topic_expression
from tests.rigs.gateways import Running, running

needs_rabbitmq()
needs_activemq()

SECONDS = 60.0
SPEAKER = Speaker()
NATIVE = {"traceparent": PARENT, "tracestate": STATE}
Context = dict[str, str]


@dataclass(frozen=True, slots=True)
class Program:
    """A native program. ``publish`` sends a storm with the context that it is given, ``hear``
    returns that of the next storm which comes from now on."""

    publish: Callable[[Context], None]
    hear: Callable[[], Context]


@contextlib.contextmanager
def of_rabbitmq(name: str) -> Iterator[Program]:
    """One that uses pika."""
    key = "dragoman.adhoc.storms"
    connection = pika.BlockingConnection(pika.URLParameters(rabbitmq().url))
    channel = connection.channel()
    heard = channel.queue_declare("", exclusive=True).method.queue
    channel.queue_bind(heard, name, key)

    def publish(context: Context) -> None:
        properties = pika.BasicProperties(headers=context, delivery_mode=2)
        channel.basic_publish(name, key, b"<storm/>", properties)

    def hear() -> Context:
        coming = channel.consume(heard, inactivity_timeout=SECONDS, auto_ack=True)
        _method, properties, _body = next(coming)
        assert properties is not None, "nothing came"
        return dict(properties.headers)

    with contextlib.closing(connection):
        yield Program(publish, hear)


class Heard(stomp.ConnectionListener):  # type: ignore[misc]  # stomp.py has no types.
    """The frames that came, and the receipts."""

    def __init__(self) -> None:
        self.frames: queue.Queue[Any] = queue.Queue()

    def on_message(self, frame: Any) -> None:
        self.frames.put(frame)

    def on_receipt(self, frame: Any) -> None:
        self.frames.put(frame)


@contextlib.contextmanager
def of_activemq(name: str) -> Iterator[Program]:
    """One that uses stomp.py."""
    topic, heard = f"/topic/VirtualTopic.{name}.adhoc.storms", Heard()
    connection = stomp.Connection12([("127.0.0.1", activemq().port)], auto_content_length=False)
    connection.set_listener("", heard)
    connection.connect(USER, PASSWORD, wait=True, with_connect_command=True)
    connection.subscribe(topic, id="1", ack="auto", receipt="subscribed")
    assert heard.frames.get(timeout=SECONDS).headers["receipt-id"] == "subscribed"

    def publish(context: Context) -> None:
        connection.send(topic, "<storm/>", headers={**context, "persistent": "true"})

    def hear() -> Context:
        return dict(heard.frames.get(timeout=SECONDS).headers)

    yield Program(publish, hear)
    connection.disconnect(receipt="done")


@pytest.fixture
def name() -> str:
    return f"traces-{uuid.uuid4().hex[:8]}"


@pytest.fixture(autouse=True)
def _provider() -> None:
    """Spans of the gateway inside this program go to a provider, and no further."""
    if not isinstance(trace.get_tracer_provider(), TracerProvider):
        trace.set_tracer_provider(TracerProvider())


BROKERS = pytest.mark.parametrize(
    ("broker", "scope", "program"),
    [
        pytest.param(rabbitmq, "exchange", of_rabbitmq, id="RabbitMQ"),
        pytest.param(activemq, "root", of_activemq, id="ActiveMQ"),
    ],
)


@BROKERS
@pytest.mark.parametrize("where", ["HTTP", "SOAP"])
async def test_from_a_web_service_to_a_native_program(
    tmp_path: Path, name: str, broker: Any, scope: str, program: Any, where: str
) -> None:
    url = f"{broker().url}?name={name}&{scope}={name}"
    async with running(tmp_path, adapter=url, telemetry=True) as run:
        with program(name) as native:
            await publish_storm(run, where)
            context = native.hear()
    assert context["traceparent"].split("-")[1] == TRACE
    assert context["traceparent"] != PARENT, "it names the gateway's span, which is their parent"
    assert context["tracestate"] == STATE


async def publish_storm(run: Running, where: str) -> None:
    """Publish a storm in SOAP, with the context in the place that *where* names."""
    body = notify(notification_message("<storm/>", "storms"))
    block = properties_block(NATIVE).decode() if where == "SOAP" else ""
    octets = SPEAKER.envelope(body, headers=block)
    answer = await run.post(octets, type=SPEAKER.type, **(NATIVE if where == "HTTP" else {}))
    assert answer.status == 202, answer.body


@BROKERS
async def test_from_a_native_program_to_a_web_service(
    tmp_path: Path, name: str, broker: Any, scope: str, program: Any
) -> None:
    url = f"{broker().url}?name={name}&{scope}={name}"
    async with (
        running(tmp_path, adapter=url, telemetry=True) as run,
        Consumers() as consumers,
    ):
        wse, wsn = consumers.fresh(), consumers.fresh()
        await run.subscribe(SPEAKER, SPEAKER.wse_subscribe(wse))
        await run.subscribe(SPEAKER, SPEAKER.wsn_subscribe(wsn, filter=topic_expression("storms")))
        with program(name) as native:
            native.publish(NATIVE)
            for url_ in (wse, wsn):
                receipt = await consumers.next(url_)
                assert receipt.headers["traceparent"].split("-")[1] == TRACE
                assert receipt.headers["tracestate"] == STATE
                assert block_of(receipt)["traceparent"] == receipt.headers["traceparent"]
