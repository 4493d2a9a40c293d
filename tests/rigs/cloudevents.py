"""CloudEvents as peers send and read them."""

import json
from typing import Any

from tests.rigs.consumers import Receipt
from tests.rigs.envelopes import Answer, fresh_id
from tests.rigs.gateways import Running

STRUCTURED = "application/cloudevents+json"
BATCH = "application/cloudevents-batch+json"


def event(**more: Any) -> dict[str, Any]:
    """An event with an id of its own."""
    return {
        "specversion": "1.0",
        "id": fresh_id(),
        "source": "/sensors/4",
        "type": "com.example.tide",
        **more,
    }


async def publish(
    run: Running, *events: dict[str, Any], path: str = "/events", source: str = "127.0.0.1"
) -> Answer:
    """Send *events*, as a batch if there is not one."""
    if len(events) == 1:
        return await post(run, json.dumps(events[0]).encode(), STRUCTURED, path, source)
    return await post(run, json.dumps(events).encode(), BATCH, path, source)


async def post(
    run: Running,
    body: bytes,
    type: str,
    path: str = "/events",
    source: str = "127.0.0.1",
    **headers: str,
) -> Answer:
    return await run.request("POST", path, body, source=source, content_type=type, **headers)


def received(receipt: Receipt) -> dict[str, Any]:
    """The event that a consumer got in structured mode."""
    assert receipt.headers["content-type"] == STRUCTURED
    found: dict[str, Any] = json.loads(receipt.body)
    return found
