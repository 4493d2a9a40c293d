"""CloudEvents as peers send and read them."""

import json
from typing import Any

from tests.rigs.consumers import Behaviour, Connection, Consumer, Receipt, accept
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


def agreeing(behaviour: Behaviour = accept, **headers: str) -> Behaviour:
    """A consumer that agrees in the handshake of web hooks, with further *headers*."""
    said = {"WebHook_Allowed_Origin": "*", **headers}

    def behave(connection: Connection, receipt: Receipt) -> None:
        if receipt.method == "OPTIONS":
            connection.answer(200, b"", **said)
        else:
            behaviour(connection, receipt)

    return behave


async def subscribe(
    run: Running, sink: Consumer | str, *, address: str = "127.0.0.1", **more: Any
) -> Answer:
    """Ask for a subscription from *address*; its handshake, if there is one, is taken from what came."""
    url = sink if isinstance(sink, str) else sink.url
    body = json.dumps({"sink": url, "protocol": "HTTP", **more}).encode()
    answer = await run.request(
        "POST", "/events/subscriptions", body, source=address, content_type="application/json"
    )
    if isinstance(sink, Consumer):
        while sink.waiting and sink.received[sink.taken].method == "OPTIONS":
            await sink.next()
    return answer


async def subscribed(run: Running, sink: Consumer, **more: Any) -> dict[str, Any]:
    """Subscribe; the subscription."""
    answer = await subscribe(run, sink, **more)
    assert answer.status == 201, answer.body
    found: dict[str, Any] = json.loads(answer.body)
    return found
