"""What is in outbox and inbox can be seen, counted and mended."""

from collections.abc import Iterator
from pathlib import Path

import prometheus_client
import pytest
from sqlalchemy import Engine
from sqlalchemy.orm import Session

from gateway.client.outbox import Dead, Inbox, Message, Outbox
from gateway.client.outbox.administration import StoredMessages
from gateway.client.outbox.metrics import OutboxCollector
from tests.rigs.outbox import SYNC, engine_of, items, taken
from tests.rigs.ports import free_ports
from tests.rigs.programs import run
from tests.rigs.waiting import wait_until


@pytest.fixture(params=SYNC)
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    with engine_of(request.param, tmp_path) as found:
        yield found


def fill(engine: Engine, *, mended: bool) -> Inbox:
    """An inbox that refuses 1 and 2, unless it is *mended*."""
    inbox = Inbox(engine)

    @inbox.on("orders")
    def take(message: Message) -> None:
        if not mended and message.json() < 3:
            raise Dead(f"no {message.json()}")
        message.session.execute(taken.insert().values(item=str(message.json())))

    return inbox


def test_dead_letters_are_listed_retried_and_dropped(engine: Engine) -> None:
    (port,) = free_ports(1)
    inbox = fill(engine, mended=False)
    inbox.listen(port)
    stored = StoredMessages(engine)
    with inbox, Outbox(engine, f"http://127.0.0.1:{port}/") as outbox:
        with Session(engine) as session, session.begin():
            for number in (1, 2, 3):
                outbox.publish("orders", number, session, id=str(number))
        wait_until(lambda: items(engine) == ["3"])
        assert outbox.drain(30)
    dead = stored.list_all()
    assert [(each.id, each.state, each.error) for each in dead] == [
        ("1", "dead", "no 1"), ("2", "dead", "no 2")
    ]  # fmt: skip
    assert stored.show(dead[0].number).body == b"1"
    registry = prometheus_client.CollectorRegistry()
    registry.register(OutboxCollector(engine))
    text = prometheus_client.generate_latest(registry).decode()
    assert 'dragoman_inbox_messages{state="dead",topic="orders"} 2.0' in text

    assert stored.retry([dead[0].number]) == 1
    with fill(engine, mended=True):
        wait_until(lambda: items(engine) == ["3", "1"])
    assert stored.drop() == 1
    assert stored.list_all() == []
    assert stored.retry() == 0
    for wrong in ("inbox/99", "inbox/x", "orders/1", "1"):
        with pytest.raises(LookupError):
            stored.show(wrong)


def test_the_command_lists_shows_retries_and_drops(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/both.db"
    with engine_of("sqlite", tmp_path) as engine:
        outbox = Outbox(engine, "http://127.0.0.1:9/")
        outbox.create_tables()
        with Session(engine) as session, session.begin():
            outbox.publish("orders", {"item": "tea"}, session, id="7", key="green")
    listed = run("outbox", "list", url, "--output", "json", cwd=tmp_path)
    assert '"number": "outbox/1"' in listed.stdout.replace('":"', '": "')
    assert "tea" in run("outbox", "show", url, "outbox/1", cwd=tmp_path).stdout
    assert run("outbox", "retry", url, cwd=tmp_path).returncode == 2
    assert run("outbox", "show", url, "outbox/9", cwd=tmp_path).returncode == 1
    assert run("outbox", "list", "nothing:", cwd=tmp_path).returncode == 1
    assert run("outbox", "drop", url, "outbox/1", cwd=tmp_path).returncode == 0
    assert run("outbox", "list", url, "--output", "json", cwd=tmp_path).stdout == ""
