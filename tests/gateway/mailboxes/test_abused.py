"""Mailboxes of a running gateway, used as nobody should."""

import json
import secrets
from pathlib import Path

import pytest

from gateway.security import intake
from mediation.names import MAKE_CONNECTION_ANONYMOUS
from tests.rigs.envelopes import Speaker, notification_message, notify
from tests.rigs.gateways import exchange, http_request, running
from tests.rigs.json_mailboxes import Box, call
from tests.rigs.stores import execute
from tests.rigs.waiting import until

SPEAKER = Speaker()
STRANGER = "127.0.0.2"


async def test_no_key_is_in_a_log_or_a_list(tmp_path: Path) -> None:
    async with running(tmp_path) as run:
        subscribed = await Box.make(run, topic="storms")
        box = await Box.make(run)
        name = MAKE_CONNECTION_ANONYMOUS + "7c3b0e5e-5a0e-4b71-9d4e-3a2b9f4d9a10"
        for consumer in (box.address, name):
            body = SPEAKER.envelope(SPEAKER.wse_subscribe(consumer, end_to=consumer))
            answer = await run.post(body)
            assert answer.status == 200, answer.body
        await box.put(1)
        seen = json.dumps(await call(run, "GET", "/api/v1/subscriptions"))
        seen += json.dumps(await call(run, "GET", "/api/v1/mailboxes"))
        seen += (await run.request("GET", "/metrics")).body.decode()
        seen += repr(run.logs)
        assert box.id in seen and subscribed.id in seen
        for secret in (box.key, subscribed.key, name):
            assert secret not in seen


async def test_events_in_one_envelope_are_as_many_as_may_be_published(tmp_path: Path) -> None:
    async with running(tmp_path) as run:
        box = await Box.make(run)
        headers = {"Content-Type": SPEAKER.type}
        for number, status in ((256, 202), (257, 400)):
            body = SPEAKER.envelope(notify(*[notification_message("<e/>")] * number))
            answer = await exchange(
                run.port, http_request(run.port, "POST", box.path, body, headers)
            )
            assert answer.status == status, answer.body
        assert (await box.size())["messages"] == 256


async def test_each_event_in_an_envelope_counts_for_its_sender(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(intake, "EVENTS", 1e-6)  # None comes back while this runs.
    trusted = {"trusted": ["127.0.0.1/32"]}
    async with running(tmp_path, **trusted) as run:
        box = await Box.make(run)
        body = SPEAKER.envelope(notify(*[notification_message("<e/>")] * 250))
        request = http_request(run.port, "POST", box.path, body, {"Content-Type": SPEAKER.type})
        answers = [await exchange(run.port, request, STRANGER) for _ in range(8)]
        assert [one.status for one in answers] == [202] * 4 + [429] * 4
        assert (await box.size())["messages"] == intake.EVENTS_AT_ONCE == 4 * 250


async def test_a_lease_that_no_database_takes(tmp_path: Path, postgresql_url: str) -> None:
    async with running(tmp_path, store=postgresql_url) as run:
        box = await Box.make(run)
        for operation in ("acknowledge", "release", "extend"):
            await box.do(operation, lease="a\0b", status=422)
        await call(run, "GET", "/mailboxes/a%00b", status=404)


async def test_a_long_message_id_stops_no_store(tmp_path: Path, postgresql_url: str) -> None:
    """What cannot be delivered now waits in the store, whose indexes take no thousands of octets."""
    async with running(tmp_path, store=postgresql_url) as run:
        await run.subscribe(SPEAKER, SPEAKER.wse_subscribe("http://127.0.0.1:1024/nobody"))
        await run.publish("<e/>", message_id="urn:m:" + secrets.token_urlsafe(3000)[:4000])
        await until(lambda: execute(postgresql_url, "SELECT count(*) FROM held") == [(1,)])
        assert not [log for log in run.logs if log["event"] == "store.failed"]


async def test_a_short_envelope_makes_no_endless_answer(tmp_path: Path) -> None:
    """Each of many events in an envelope with a long namespace repeats it where it is told."""
    declared = f'xmlns:p="urn:{"x" * 1000}"'
    soap = SPEAKER.soap.value
    events = "<p:e/>" * 2000
    many = f'<s:Envelope xmlns:s="{soap}" {declared}><s:Body>{events}</s:Body></s:Envelope>'
    headers = {"content_type": "application/json"}
    async with running(tmp_path) as run:
        box = await Box.make(run)
        assert (await run.post(many.encode(), f"/MsgBox/{box.key}")).status == 202
        taken = await run.request("POST", f"{box.path}/receive", b"{}", **headers)
        assert len(taken.body) < 32 * len(many)
        [message] = json.loads(taken.body)["messages"]
        assert message["payload"].count("<p:e/>") == 2000
        assert message["envelope"].count("<p:e/>") == 2000
