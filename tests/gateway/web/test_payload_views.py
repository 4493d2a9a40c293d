"""One payload, at every door: the octets that its publisher wrote."""

import json
from pathlib import Path

from filters.archive import read
from mediation.model.versions import Wsa
from tests.rigs.consumers import consumers
from tests.rigs.envelopes import S11, Speaker, notification_message, notify
from tests.rigs.gateways import running
from tests.rigs.json_mailboxes import Box, streaming

PAYLOADS = ["<speed>7</speed>", '<speed xmlns:q="urn:q" unit="wsnt:x q:y">8</speed>']
DEADLINE = 10.0


async def test_every_door_shows_the_same_octets(tmp_path: Path) -> None:
    """Publishers declare WS-Addressing and more in their envelopes, and our own do, too."""
    wsn, wse = Speaker(), Speaker(S11, Wsa.V2004_08)
    folder = tmp_path / "archive"
    async with consumers() as sinks, running(tmp_path / "data", archive=folder) as run:
        wrapped, raw = sinks.add(), sinks.add()
        await run.subscribe(wsn, wsn.wsn_subscribe(wrapped.url))
        await run.subscribe(wse, wse.wse_subscribe(raw.url))
        box = await Box.make(run, xpath="true()")
        watched = await Box.make(run, xpath="true()")
        await run.publish(PAYLOADS[0], speaker=wse)
        await run.ask(wsn, notify(notification_message(PAYLOADS[1]), scope='xmlns:t="urn:t"'))
        for consumer in (wrapped, raw):
            await consumer.have(2, DEADLINE)
            for receipt, payload in zip(consumer.received, PAYLOADS, strict=True):
                assert f">{payload}</".encode() in receipt.body
        batch = await box.receive(wait=DEADLINE)
        messages = batch["messages"]
        if len(messages) < 2:
            messages += (await box.receive(wait=DEADLINE))["messages"]
        assert [message["payload"] for message in messages] == PAYLOADS
        async with streaming(watched) as stream:
            for payload in PAYLOADS:
                event = await stream.next()
                assert event is not None
                assert json.loads(event.data)["payload"] == payload
    found = [row for path in sorted(folder.rglob("*.*")) for row in read(path)]
    assert [row.payload for row in sorted(found, key=lambda row: row.time)] == PAYLOADS
