"""What an archive has, delivered to a subscription again."""

import json
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from filters import parse_clark
from filters.archive import PARQUET, FileWriter, Row, directory
from gateway.model.channels import CHANNEL_PROPERTY
from gateway.subscriptions import replaying
from mediation.names import DRAGOMAN_POLICY
from tests.gateway.security.test_tenants import Tenants, make_file
from tests.rigs.consumers import Consumers, accept, consumers, status
from tests.rigs.envelopes import Speaker, message_content
from tests.rigs.gateways import Running, running
from tests.rigs.programs import command
from tests.rigs.stores import on_each_store
from tests.rigs.waiting import until

SPEAKER = Speaker()
BEGIN = datetime(2026, 3, 1, 12, 30, tzinfo=UTC)
RANGE = {"from": "2026-03-01T00:00:00Z", "to": "2026-03-02T00:00:00Z"}


def archived(folder: Path, rows: list[Row], suffix: str = PARQUET) -> None:
    """Write *rows* as a gateway would: a file for each hour and topic root."""
    scratch = folder / "_unfinished"
    scratch.mkdir(parents=True, exist_ok=True)
    files: dict[Path, FileWriter] = {}
    for row in rows:
        topic = parse_clark(row.topic) if row.topic and "//" not in row.topic else None
        place = directory(topic, row.time)
        name = f"{len(list(folder.rglob('*'))) + len(files)}{suffix}"
        writer = files.setdefault(Path(place), FileWriter(folder, place / name, scratch))
        writer.append(row)
    for writer in files.values():
        writer.close()
    scratch.rmdir()


def row(number: int, topic: str | None = "storms", **values: Any) -> Row:
    time = BEGIN + timedelta(seconds=number)
    return Row(f"urn:{number}", time, f"<n>{number}</n>", topic, source="urn:me", **values)


async def replay_into(
    run: Running, id_: str, asked: Mapping[str, Any] = RANGE, expected: int = 202
) -> Any:
    body = json.dumps(asked).encode()
    answer = await run.api("POST", f"/subscriptions/{id_}/replay", body)
    assert answer.status == expected, answer.body
    return json.loads(answer.body)


async def ended(run: Running, id_: str, state: str = "done") -> Any:
    """The replay, when it has this *state*."""
    said: dict[str, Any] = {}

    async def there() -> bool:
        said.update(json.loads((await run.api("GET", f"/subscriptions/{id_}/replay")).body))
        return bool(said["state"] == state)

    await until(there)
    return said


async def numbers(consumer: Consumers, url: str, many: int) -> list[str]:
    return [(await consumer.next(url)).message.body[0].text or "" for _ in range(many)]


@on_each_store
async def test_a_range_in_the_order_of_time(tmp_path: Path, store_url: str) -> None:
    """Of two topics and hours, with what the subscription's filter takes and what is asked for."""
    archive = tmp_path / "archive"
    rows = [row(number, "storms/a" if number % 2 else "calms") for number in range(0, 4000, 400)]
    rows += [row(number, "storms/a") for number in range(1, 4000, 400)]
    archived(archive, rows)
    settings = {"adapter": "embedded:", "archive": archive, "store": store_url}
    async with running(tmp_path / "data", **settings) as run, Consumers() as consumer:
        url = consumer.fresh()
        await run.subscribe(SPEAKER, SPEAKER.wsn_subscribe(url, raw=True))
        [entry] = run.gateway.subscriptions.entries
        said = await replay_into(run, entry.id)
        assert (said["state"], said["replayed"]) == ("running", 0)
        expected = [str(one) for base in range(0, 4000, 400) for one in (base, base + 1)]
        assert await numbers(consumer, url, 20) == expected
        done = await ended(run, entry.id)
        assert (done["read"], done["replayed"], done["known"]) == (20, 20, 0)
        await run.quiet()
        wanted = {**RANGE, "topic": "storms//.", "xpath": "/n > 1000"}
        await replay_into(run, entry.id, wanted)
        found = [str(base + 1) for base in range(0, 4000, 400) if base > 999]
        assert await numbers(consumer, url, len(found)) == found
        assert (await ended(run, entry.id))["replayed"] == len(found)


async def test_what_a_gateway_archived_itself(tmp_path: Path) -> None:
    """With the message ids that consumers were told; also what came a moment ago."""
    settings = {"adapter": "embedded:", "archive": tmp_path / "archive"}
    async with running(tmp_path / "data", **settings) as run, Consumers() as consumer:
        url = consumer.fresh()
        await run.subscribe(SPEAKER, SPEAKER.wse_subscribe(url))
        [entry] = run.gateway.subscriptions.entries
        for number in range(5):
            await run.publish(f"<n>{number}</n>", path="/soap/topic/storms")
        first = [await consumer.next(url) for _ in range(5)]
        await run.quiet()
        since = (datetime.now(UTC) - timedelta(hours=1)).isoformat()
        await replay_into(run, entry.id, {"from": since})
        again = [await consumer.next(url) for _ in range(5)]
        assert [one.body for one in again] == [one.body for one in first]
        await ended(run, entry.id)


async def test_a_consumer_that_is_away_holds_a_replay_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It goes on where it was after a restart, once for each message, and can be cancelled. Should
    the clock be set back meanwhile, the order stays."""
    monkeypatch.setattr("gateway.subscriptions.archive_reading.WAITING", 8)
    monkeypatch.setattr("gateway.subscriptions.archive_reading.PART", 4)
    archived(tmp_path / "archive", [row(number) for number in range(40)])
    settings = {"adapter": "embedded:", "archive": tmp_path / "archive", "drain": 0.2}
    settings["retry_delays"] = [0.05] * 200
    async with Consumers() as consumer:
        url = consumer.fresh()
        consumer.at(url).behaviour = status(503)
        async with running(tmp_path / "data", **settings) as run:
            await run.subscribe(SPEAKER, SPEAKER.wsn_subscribe(url, raw=True))
            [entry] = run.gateway.subscriptions.entries
            await replay_into(run, entry.id)

            async def waits() -> bool:
                answer = await run.api("GET", f"/subscriptions/{entry.id}/replay")
                return "wait for the consumer" in json.loads(answer.body)["detail"]

            await until(waits)
            said = await replay_into(run, entry.id, expected=400)
            assert "runs" in said["detail"]
            run.stop.set()
        with closing(sqlite3.connect(tmp_path / "data" / "store.db")) as database, database:
            database.execute("UPDATE held SET position = position + 3600000000000")
        consumer.at(url).behaviour = accept
        async with running(tmp_path / "data", **settings) as run:
            done = await ended(run, entry.id)
            assert (done["read"], done["replayed"]) == (40, 40)
            got: list[str] = []
            while len(set(got)) < 40:
                got += await numbers(consumer, url, 1)
            await run.quiet()
            assert list(dict.fromkeys(got)) == [str(number) for number in range(40)]

            consumer.at(url).behaviour = status(503)
            await replay_into(run, entry.id, {**RANGE, "rate": 5})
            cancelled = await run.api("DELETE", f"/subscriptions/{entry.id}/replay")
            assert json.loads(cancelled.body)["state"] == "cancelling"
            await ended(run, entry.id, "cancelled")
            consumer.at(url).behaviour = accept


async def test_each_tenant_gets_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of events and replays: those of others are not there for it, nor do they use up its own."""
    file, keys = make_file(tmp_path)
    mine = "{urn:dragoman:tenant}acme"
    archived(
        tmp_path / "archive",
        [
            row(1, "storms"),
            row(2, f"{mine}/storms"),
            row(3, mine),
            row(4, "{urn:dragoman:tenant}umbrella/storms"),
            row(5, f"{mine}/calms"),
        ],
    )
    settings = {"adapter": "embedded:", "archive": tmp_path / "archive", "identities": file}
    async with running(tmp_path / "data", **settings) as run, consumers() as sinks:
        tenants, sink = Tenants(run, keys), sinks.at("/ada")
        asked = SPEAKER.wsn_subscribe(sinks.url("ada"), raw=True)
        assert (await tenants.post("ada", asked))[0] == 200
        [entry] = run.gateway.subscriptions.entries
        path = f"/api/v1/subscriptions/{entry.id}/replay"
        for method, said in (("POST", RANGE), ("GET", None), ("DELETE", None)):
            assert (await tenants.ask("eve", method, path, said))[0] == 404
        assert (await tenants.ask("dora", "POST", path, RANGE))[0] == 403
        assert (await tenants.ask("bob", "POST", path, RANGE))[0] == 202
        got = [(await sink.next()).message.body[0].text for _ in range(3)]
        assert got == ["2", "3", "5"]
        assert (await tenants.ask("eve", "GET", path))[0] == 404

        async def done() -> bool:
            return b'"done"' in (await tenants.ask("bob", "GET", path))[1]

        await until(done)
        monkeypatch.setattr(replaying, "OF_TENANT", 1)
        assert (await tenants.ask("bob", "POST", path, {**RANGE, "rate": 0.01}))[0] == 202
        assert (await tenants.post("ada", asked))[0] == 200
        [other] = [one for one in run.gateway.subscriptions.entries if one is not entry]
        path = f"/api/v1/subscriptions/{other.id}/replay"
        status_, answer = await tenants.ask("bob", "POST", path, RANGE)
        assert (status_, b"of your tenant" in answer) == (403, True)


async def test_what_is_not_replayed(tmp_path: Path) -> None:
    """What waits already, what is at a channel, and what is no message."""
    rows = [row(number) for number in range(4)]
    rows += [row(4, properties={CHANNEL_PROPERTY: "alerts"}), row(5, "a//b")]
    archived(tmp_path / "archive", rows)
    settings = {"adapter": "embedded:", "archive": tmp_path / "archive"}
    async with running(tmp_path / "data", **settings) as run, Consumers() as consumer:
        url = consumer.fresh()
        await run.subscribe(
            SPEAKER, SPEAKER.wsn_subscribe(url, raw=True, filter=message_content("/n"))
        )
        [entry] = run.gateway.subscriptions.entries
        await run.api("POST", f"/subscriptions/{entry.id}/pause", b'{"hold": true}')
        await replay_into(run, entry.id)
        done = await ended(run, entry.id)
        counts = (done["read"], done["replayed"], done["known"], done["unevaluated"])
        assert counts == (6, 4, 0, 1)
        await replay_into(run, entry.id, {"from": RANGE["from"]})
        done = await ended(run, entry.id)
        assert (done["replayed"], done["known"]) == (0, 4)
        await run.api("POST", f"/subscriptions/{entry.id}/resume", b"{}")
        assert await numbers(consumer, url, 4) == ["0", "1", "2", "3"]


WRONG: list[tuple[dict[str, Any], str]] = [
    ({}, "from"),
    ({"from": "yesterday"}, "time"),
    ({"from": "2026-03-01T00:00:00"}, "zone"),
    ({**RANGE, "to": RANGE["from"]}, "before"),
    ({"from": "2999-03-01T00:00:00Z"}, "past"),
    ({**RANGE, "topic": "/"}, "topic"),
    ({**RANGE, "xpath": "//["}, "XPath"),
    ({**RANGE, "xpath": "/w:a"}, "prefix"),
    ({**RANGE, "rate": 0}, "rate"),
    ({**RANGE, "since": "2026-03-01T00:00:00Z"}, "since"),
]


async def test_what_is_refused(tmp_path: Path) -> None:
    async with running(tmp_path / "data", archive=tmp_path / "archive") as run:
        await run.subscribe(SPEAKER, SPEAKER.wse_subscribe("http://127.0.0.1:1/"))
        [entry] = run.gateway.subscriptions.entries
        for asked, named in WRONG:
            said = await replay_into(run, entry.id, asked, expected=422)
            assert named.lower() in json.dumps(said).lower(), said
        path = f"/subscriptions/{entry.id}/replay"
        for method in ("GET", "DELETE"):
            assert (await run.api(method, path)).status == 404
        once = f'<p:Assurance xmlns:p="{DRAGOMAN_POLICY}">at-most-once</p:Assurance>'
        body = SPEAKER.wse_subscribe("http://127.0.0.1:1/")
        body = body.replace("</e:Delivery>", f"{once}</e:Delivery>")
        assert once in body
        await run.subscribe(SPEAKER, body)
        [other] = [one for one in run.gateway.subscriptions.entries if one.id != entry.id]
        assert "at most once" in (await replay_into(run, other.id, expected=400))["detail"]
    async with running(tmp_path / "other") as run:
        await run.subscribe(SPEAKER, SPEAKER.wse_subscribe("http://127.0.0.1:1/"))
        [entry] = run.gateway.subscriptions.entries
        assert "--archive" in (await replay_into(run, entry.id, expected=400))["detail"]


async def test_the_command(tmp_path: Path) -> None:
    archived(tmp_path / "archive", [row(number) for number in range(3)])
    settings = {"archive": tmp_path / "archive"}
    async with running(tmp_path / "data", **settings) as run, Consumers() as consumer:
        url = consumer.fresh()
        await run.subscribe(SPEAKER, SPEAKER.wsn_subscribe(url, raw=True))
        [entry] = run.gateway.subscriptions.entries
        words = ("subscriptions", "replay", entry.id)
        asked = ("--from", "2026-03-01", "--to", "2026-03-02", "--xpath", "/n > 0", "--rate", "50")
        said = await command(run.url, *words, *asked, cwd=tmp_path)
        assert said.startswith("running: replayed 0 of 0 messages read; at 2026-0")
        assert await numbers(consumer, url, 2) == ["1", "2"]
        await ended(run, entry.id)
