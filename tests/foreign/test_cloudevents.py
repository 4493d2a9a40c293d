"""The CloudEvents SDK for Python: what it writes is taken in, what we write it reads."""

import json
import warnings
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.rigs.cloudevents import subscribed
from tests.rigs.consumers import Consumer, Consumers
from tests.rigs.envelopes import Answer, fresh_id
from tests.rigs.gateways import Running

pytest.importorskip("cloudevents.core", reason="needs cloudevents (pip install -e '.[dev]')")

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # Of its own deprecated modules.
    from cloudevents.core.bindings.http import (
        HTTPMessage,
        from_http_event,
        to_binary_event,
        to_structured_event,
    )
    from cloudevents.core.v1.event import CloudEvent

pytestmark = pytest.mark.asyncio(loop_scope="module")
STORM = '<w:storm xmlns:w="urn:w"><w:speed>60</w:speed></w:storm>'
WRITING = pytest.mark.parametrize("write", [to_binary_event, to_structured_event])
MODES = pytest.mark.parametrize("mode", ["binary", "structured"])


def event(topic: str, data: Any, media_type: str = "application/json") -> CloudEvent:
    return CloudEvent(
        attributes={
            "id": fresh_id(),
            "type": "com.example.tide",
            "source": "https://example.org/sensors/4",
            "specversion": "1.0",
            "subject": 'gauge 7 \u20ac "a" 100%',
            "time": datetime(2026, 3, 1, 12, 0, 0, 5, UTC),
            "datacontenttype": media_type,
            "dataschema": "https://example.org/schema",
            "comexample": "value",
            "topic": topic,
        },
        data=data,
    )


async def send(gateway: Running, message: HTTPMessage) -> Answer:
    headers = {name.replace("-", "_"): value for name, value in message.headers.items()}
    return await gateway.request("POST", "/events", message.body, **headers)


async def next_event(sink: Consumer) -> Any:
    receipt = await sink.next()
    return from_http_event(HTTPMessage(dict(receipt.headers), receipt.body))


@WRITING
@MODES
@pytest.mark.parametrize(
    ("data", "media_type"),
    [
        ({"level": 1.5, "names": ["\u20ac"]}, "application/json"),
        ("plain text", "text/plain"),
        (STORM, "application/xml"),
        (b"\x89PNG\x00", "image/png"),
    ],
)
async def test_from_sdk_to_sdk(
    gateway: Running, consumer: Consumers, write: Any, mode: str, data: Any, media_type: str
) -> None:
    sink, topic = consumer.add(), f"sdk{fresh_id().rpartition(':')[2]}"
    await subscribed(gateway, sink, config={"topic": topic}, protocolsettings={"mode": mode})
    sent = event(topic, data, media_type)
    answer = await send(gateway, write(sent))
    assert answer.status == 202, answer.body
    found = await next_event(sink)
    assert found.get_attributes() == sent.get_attributes()
    assert found.get_data() == sent.get_data()


@MODES
async def test_from_soap_to_sdk(gateway: Running, consumer: Consumers, mode: str) -> None:
    sink = consumer.add()
    topic = f"soap{mode}"
    await subscribed(
        gateway, sink, config={"topic": topic}, protocolsettings={"mode": mode, "data": "json"}
    )
    await gateway.publish(STORM, path=f"/soap/topic/{topic}", message_id=f"urn:m:{mode}")
    found = await next_event(sink)
    assert (found.get_id(), found.get_type()) == (f"urn:m:{mode}", "urn:w/storm")
    assert (found.get_subject(), found.get_extension("topic")) == (topic, topic)
    assert found.get_data() == {"w:storm": {"@xmlns:w": "urn:w", "w:speed": "60"}}


async def test_a_batch(gateway: Running, consumer: Consumers) -> None:
    """The SDK writes none; each event of ours is one of its structured ones."""
    sink = consumer.add()
    settings = {"mode": "batched"}
    await subscribed(gateway, sink, config={"topic": "batch"}, protocolsettings=settings)
    sent = event("batch", {"level": 2})
    await send(gateway, to_structured_event(sent))
    [one] = json.loads((await sink.next()).body)
    message = HTTPMessage(
        {"content-type": "application/cloudevents+json"}, json.dumps(one).encode()
    )
    assert from_http_event(message).get_attributes() == sent.get_attributes()
