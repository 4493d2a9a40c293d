"""Messages from one program's transactions to another's, over HTTP and every kind of store."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Column, Integer, MetaData, Table, Text, create_engine, insert, select
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from gateway.client.reliable import (
    Answer,
    Completed,
    DatabaseStore,
    Delivery,
    Fault,
    GivenUp,
    MemoryStore,
    Policy,
    Receiver,
    ReliableClient,
    Replies,
    Rm,
    SourceFull,
)
from gateway.reliability.storage import StorageManager
from mediation.model.versions import Soap
from tests.rigs.cases import each_value_once
from tests.rigs.ports import free_ports
from tests.rigs.postgresql import fresh_database, needs_postgresql
from tests.rigs.receivers import served
from tests.rigs.waiting import until, wait_until

ORDER = "urn:example:orders/Order"
SOON = Policy(interval=0.2, ceiling=0.5, ack_after=0.05, poll=0.05)
metadata = MetaData()
orders = Table(
    "orders", metadata, Column("number", Integer, primary_key=True), Column("item", Text)
)


class Base(DeclarativeBase):
    metadata = metadata


class Item(Base):
    __tablename__ = "items"
    number: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str]


Make = Callable[[str], Any]


def stores_of(kind: str, folder: Path) -> Iterator[Make]:
    """Makes the stores of two sides, with the tables of their applications."""
    if kind == "postgresql":
        needs_postgresql()
    made: list[DatabaseStore] = []
    with ExitStack() as stack:

        def make(side: str) -> StorageManager:
            if kind == "memory":
                return MemoryStore()
            url = f"sqlite:///{folder / side}.db"
            if kind == "postgresql":
                url = stack.enter_context(fresh_database())
            made.append(DatabaseStore(url))
            metadata.create_all(made[-1].engine)
            return made[-1]

        yield make
        for each in made:
            each.close()


@pytest.fixture(params=["memory", "sqlite", "postgresql"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Make]:
    yield from stores_of(request.param, tmp_path)


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Make]:
    yield from stores_of(request.param, tmp_path)


def rows(store: DatabaseStore, name: str = "orders") -> list[Any]:
    table = metadata.tables[name]
    with store.engine.connect() as connection:
        return [tuple(row) for row in connection.execute(select(table).order_by(table.c[0]))]


def test_messages_arrive_in_order_each_once(store: Make) -> None:
    taken: list[tuple[int, bytes]] = []
    receiver = Receiver(store("server"), policy=SOON)
    receiver.service("/orders", lambda each: taken.append((each.number, each.body)))
    with served(receiver) as url, ReliableClient(store("client"), policy=SOON) as client:
        with client.transaction() as tx:
            for number in range(1, 21):
                tx.send(f"{url}/orders", b"<order>%d</order>" % number, action=ORDER)
        assert client.drain(60)
        wait_until(lambda: len(taken) >= 20)
    assert taken == [(number, b"<order>%d</order>" % number) for number in range(1, 21)]


def test_sequences_of_several_keys(store: Make) -> None:
    taken: list[tuple[str, int, bytes]] = []
    receiver = Receiver(store("server"), policy=SOON)
    receiver.service("/orders", lambda each: taken.append((each.sequence, each.number, each.body)))
    with served(receiver) as url, ReliableClient(store("client"), policy=SOON) as client:
        with client.transaction() as tx:
            for key in ("tea", "coffee", "tea"):
                tx.send(f"{url}/orders", f"<{key}/>".encode(), action=ORDER, key=key)
        wait_until(lambda: len(taken) >= 3)
    assert sorted(each[1:] for each in taken) == [(1, b"<coffee/>"), (1, b"<tea/>"), (2, b"<tea/>")]
    assert len({each[0] for each in taken}) == 2


def test_a_transaction_that_is_rolled_back_sends_nothing(database: Make) -> None:
    taken: list[bytes] = []
    receiver = Receiver(database("server"), policy=SOON)
    receiver.service("/orders", lambda each: taken.append(each.body))
    own = database("client")
    with served(receiver) as url, ReliableClient(own, policy=SOON) as client:
        with pytest.raises(ZeroDivisionError), client.transaction() as tx:
            tx.connection.execute(insert(orders).values(number=1, item="tea"))
            tx.send(f"{url}/orders", b"<tea/>", action=ORDER)
            raise ZeroDivisionError
        with client.transaction() as tx:
            tx.connection.execute(insert(orders).values(number=2, item="coffee"))
            tx.send(f"{url}/orders", b"<coffee/>", action=ORDER)
        wait_until(lambda: taken)
        assert client.drain(60)
    assert taken == [b"<coffee/>"]
    assert rows(own) == [(2, "coffee")]


def test_the_application_of_the_receiver_is_in_the_transaction(database: Make) -> None:
    """What it changed before it failed is not there twice."""
    failures = [RuntimeError("first"), RuntimeError("second")]

    def take(each: Delivery) -> None:
        each.connection.execute(insert(orders).values(number=each.number, item="tea"))
        each.session.add(Item(number=each.number, name="tea"))
        if failures:
            raise failures.pop()

    store = database("server")
    receiver = Receiver(store, policy=SOON)
    receiver.service("/orders", take)
    with served(receiver) as url, ReliableClient(database("client"), policy=SOON) as client:
        client.send(f"{url}/orders", b"<tea/>", action=ORDER)
        client.send(f"{url}/orders", b"<tea/>", action=ORDER)
        wait_until(lambda: len(rows(store)) == 2)
    assert rows(store) == [(1, "tea"), (2, "tea")] == rows(store, "items")


@pytest.mark.parametrize("replies", [*Replies, "listener"])
def test_requests_are_answered(store: Make, replies: Replies | str) -> None:
    answered: dict[str | None, bytes] = {}
    refused: dict[str | None, str] = {}

    def answer(each: Delivery) -> bytes | Answer:
        match each.body:
            case b"<poison/>":
                raise Fault("that is not for sale")
            case b"<cake/>":
                return Answer("urn:example:orders/Later", b"<later/>")
        return b"<ok>%d</ok>" % each.number

    def note(each: Delivery) -> None:
        answered[each.relates_to] = each.action.encode() + b" " + each.body

    def note_fault(each: Delivery) -> None:
        assert each.fault is not None
        refused[each.relates_to] = each.fault.reason

    if isinstance(replies, str):
        replies = f"http://127.0.0.1:{free_ports(1)[0]}/back"
    receiver = Receiver(store("server"), policy=SOON, may_call=["127.0.0.1"])
    receiver.service("/orders", answer)
    client = ReliableClient(store("client"), policy=SOON, replies=replies)
    client.callbacks("answered", on_message=note, on_fault=note_fault)
    with served(receiver) as url, client:
        tea, poison, cake = (
            client.request(f"{url}/orders", body, action=ORDER, callbacks="answered")
            for body in (b"<tea/>", b"<poison/>", b"<cake/>")
        )
        wait_until(lambda: len(answered) + len(refused) == 3)
        assert client.drain(60)
    assert answered == {
        tea: f"{ORDER}Response <ok>1</ok>".encode(),
        cake: b"urn:example:orders/Later <later/>",
    }
    assert refused == {poison: "that is not for sale"}


@each_value_once(rm={rm.number: rm for rm in Rm}, soap={soap.name: soap for soap in Soap})
def test_every_version(rm: Rm, soap: Soap) -> None:
    answered: list[bytes] = []
    receiver = Receiver("memory:", policy=SOON)
    receiver.service("/orders", lambda each: each.body)
    client = ReliableClient("memory:", policy=SOON, rm=rm, soap=soap)
    client.callbacks("answered", on_message=lambda each: answered.append(each.body))
    with served(receiver) as url, client:
        client.send(f"{url}/orders", b"<tea/>", action=ORDER)
        client.request(f"{url}/orders", b"<cake/>", action=ORDER, callbacks="answered")
        wait_until(lambda: answered)
        assert client.drain(60)
        assert client.terminate() == 2
        wait_until(lambda: all(each.ended_at for each in client._sequences()))
    assert answered == [b"<cake/>"]
    assert [each.failure for each in client._sequences()] == [None, None]


def test_an_envelope_is_sent_as_it_is() -> None:
    envelopes: list[bytes] = []
    receiver = Receiver("memory:", policy=SOON)
    receiver.service("/orders", lambda each: envelopes.append(each.envelope))
    with served(receiver) as url, ReliableClient("memory:", policy=SOON) as client:
        whole = (
            '<e:Envelope xmlns:e="http://www.w3.org/2003/05/soap-envelope"'
            ' xmlns:a="http://www.w3.org/2005/08/addressing"><e:Header>'
            f"<a:To>{url}/orders</a:To><a:Action>{ORDER}</a:Action>"
            "<a:MessageID>urn:example:1</a:MessageID></e:Header>"
            "<e:Body><!-- mine --><tea  /></e:Body></e:Envelope>"
        ).encode()
        assert client.send(f"{url}/orders", envelope=whole) == "urn:example:1"
        wait_until(lambda: envelopes)
    assert b"<e:Body><!-- mine --><tea  /></e:Body>" in envelopes[0]


async def test_coroutines(store: Make) -> None:
    """With an event loop: transactions on threads, functions in the loop."""
    loop = asyncio.get_running_loop()
    answered: asyncio.Queue[bytes] = asyncio.Queue()

    async def answer(each: Delivery) -> bytes:
        await asyncio.sleep(0)
        return each.body

    async def note(each: Delivery) -> None:
        assert asyncio.get_running_loop() is loop
        answered.put_nowait(each.body)

    receiver = Receiver(store("server"), policy=SOON)
    receiver.service("/orders", answer)
    client = ReliableClient(store("client"), policy=SOON)
    client.callbacks("answered", on_message=note)
    with served(receiver) as url:
        async with client:
            async with client.transaction() as tx:
                tx.request(f"{url}/orders", b"<tea/>", action=ORDER, callbacks="answered")
            with pytest.raises(ZeroDivisionError):
                async with client.transaction() as tx:
                    tx.request(f"{url}/orders", b"<cake/>", action=ORDER, callbacks="answered")
                    raise ZeroDivisionError
            async with asyncio.timeout(60):
                assert await answered.get() == b"<tea/>"
            await until(lambda: client.waiting() == 0)
    assert answered.empty()


async def test_transactions_that_wait_for_each_other_end() -> None:
    """Begins wait on threads that ends do not need."""
    client = ReliableClient("memory:", policy=SOON)

    async def one() -> None:
        async with client.transaction() as tx:
            await asyncio.sleep(0)
            tx.send("http://127.0.0.1:9/", b"<tea/>", action=ORDER)

    async with client, asyncio.timeout(60):
        await asyncio.gather(*(one() for _ in range(100)))
        assert client.waiting() == 100


def test_the_receiver_is_away_at_first(store: Make) -> None:
    taken: list[int] = []
    receiver = Receiver(store("server"), policy=SOON)
    receiver.service("/orders", lambda each: taken.append(each.number))
    (port,) = free_ports(1)
    with ReliableClient(store("client"), policy=SOON) as client:
        client.send(f"http://127.0.0.1:{port}/orders", b"<tea/>", action=ORDER)
        wait_until(lambda: any(each.tries > 1 for each in client._sequences()))
        with served(receiver, port=port):
            wait_until(lambda: taken == [1])


def test_a_sequence_that_is_given_up_is_told_with_its_messages(store: Make) -> None:
    told: list[tuple[str, str, list[bytes]]] = []

    def note(each: GivenUp) -> None:
        told.append((each.address, each.reason, [message.envelope for message in each.messages]))

    policy = Policy(interval=0.01, ceiling=0.02, tries=2)
    client = ReliableClient(store("client"), policy=policy)
    client.callbacks(on_error=note)
    (port,) = free_ports(1)
    address = f"http://127.0.0.1:{port}/orders"
    with client:
        client.send(address, b"<tea/>", action=ORDER)
        wait_until(lambda: told)
    [(where, why, [envelope])] = told
    assert where == address
    assert why
    assert b"<tea/>" in envelope


def test_a_request_that_nobody_answers_in_time(store: Make) -> None:
    told: list[tuple[str, list[bytes], list[bytes]]] = []

    def note(each: GivenUp) -> None:
        left, unanswered = (
            [one.envelope for one in some] for some in (each.messages, each.unanswered)
        )
        told.append((each.reason, left, unanswered))

    receiver = Receiver(store("server"), policy=SOON)
    receiver.service("/orders", lambda each: None)
    client = ReliableClient(store("client"), policy=SOON, reply_within=0.1)
    client.callbacks("answered", on_error=note)
    with served(receiver) as found, client:
        client.request(f"{found}/orders", b"<tea/>", action=ORDER, callbacks="answered")
        wait_until(lambda: told)
    [(why, left, [request])] = told
    assert (why, left) == ("message 1 was not answered", [])
    assert b"<tea/>" in request


def test_a_restart_goes_on_with_what_was_left(database: Make) -> None:
    """What a client left is sent by the next one, whose callbacks get the replies."""
    answered: list[bytes] = []
    receiver = Receiver(database("server"), policy=SOON)
    receiver.service("/orders", lambda each: each.body)
    kept = database("client")
    (port,) = free_ports(1)
    address = f"http://127.0.0.1:{port}/orders"
    first = ReliableClient(kept, policy=SOON)
    with first:
        first.request(address, b"<tea/>", action=ORDER, callbacks="answered")
    with served(receiver, port=port):
        second = ReliableClient(kept, policy=SOON)
        second.callbacks("answered", on_message=lambda each: answered.append(each.body))
        with second:
            second.request(address, b"<cake/>", action=ORDER, callbacks="answered")
            wait_until(lambda: len(answered) == 2)
            assert second.drain(60)
    assert sorted(answered) == [b"<cake/>", b"<tea/>"]
    # The receiver had not made the sequence yet, so that it goes on.
    assert len(second._sequences()) == 1


def test_replies_wait_for_callbacks_that_are_not_registered_yet(database: Make) -> None:
    answered: list[bytes] = []
    receiver = Receiver(database("server"), policy=SOON)
    receiver.service("/orders", lambda each: each.body)
    kept = database("client")
    with served(receiver) as url:
        with ReliableClient(kept, policy=SOON) as first:
            first.request(f"{url}/orders", b"<tea/>", action=ORDER, callbacks="answered")
            assert first.drain(60)
        second = ReliableClient(kept, policy=SOON)
        second.callbacks("answered", on_message=lambda each: answered.append(each.body))
        with second:
            wait_until(lambda: answered)
    assert answered == [b"<tea/>"]


def test_what_cannot_be_sent_is_said_at_once() -> None:
    client = ReliableClient("memory:")
    with pytest.raises(ValueError, match="action"), client.transaction() as tx:
        tx.send("http://127.0.0.1:9/", b"<tea/>")
    with pytest.raises(ValueError, match=r"1\.1 only"):
        ReliableClient("memory:", rm=Rm.V1_0, replies=Replies.FETCHED)
    with pytest.raises(ValueError, match="path"):
        client.callbacks("/orders")
    with pytest.raises(TypeError, match="memory"), client.transaction() as tx:
        tx.session.flush()


def test_an_engine_of_the_application(tmp_path: Path) -> None:
    engine = create_engine(f"sqlite:///{tmp_path / 'own.db'}")
    metadata.create_all(engine)
    client = ReliableClient(DatabaseStore(engine))
    with client.transaction() as tx:
        tx.session.add(Item(number=1, name="tea"))
        tx.session.commit()
        tx.send("http://127.0.0.1:9/", b"<tea/>", action=ORDER)
    with engine.connect() as connection:
        assert connection.execute(select(Item.name)).scalars().all() == ["tea"]
    assert client.waiting() == 1
    client.close()
    engine.dispose()


def test_starts_while_the_receiver_is_away_use_up_nothing(store: Make) -> None:
    """A program that starts each minute has one sequence all the same."""
    taken: list[bytes] = []
    receiver = Receiver(store("server"), policy=SOON)
    receiver.service("/orders", lambda each: taken.append(each.body))
    kept = store("client")
    (port,) = free_ports(1)
    bodies = [b"<order>%d</order>" % number for number in range(20)]
    for body in bodies:
        with ReliableClient(kept, policy=SOON) as client:
            client.send(f"http://127.0.0.1:{port}/orders", body, action=ORDER)
    with served(receiver, port=port), ReliableClient(kept, policy=SOON):
        wait_until(lambda: len(taken) == 20)
    assert taken == bodies


def test_sequences_that_do_not_end_are_bounded(store: Make) -> None:
    client = ReliableClient(store("client"))
    with pytest.raises(SourceFull, match="have not ended"):
        for _ in range(100):
            client.send("http://127.0.0.1:9/", b"<tea/>", action=ORDER)
            assert client.terminate() == 1


def test_keys_are_told_apart_whatever_they_are(store: Make) -> None:
    """Sequences are locked in the order of their names, and each key ends its own."""
    keys = ["", " ", "a", "a !", "a (02)", "a>b", "a b", "ä", "a for r", "%"]
    client = ReliableClient(store("client"))
    for _ in range(3):
        with client.transaction() as tx:
            for key in reversed(keys):
                tx.send("http://127.0.0.1:9/", b"<tea/>", action=ORDER, key=key)
                tx.request("http://127.0.0.1:9/", b"<tea/>", action=ORDER, key=key, callbacks="r")
        for key in keys:
            assert client.terminate(key) == 2
    assert client.waiting() == 3 * 2 * len(keys)


def test_the_end_of_a_sequence_is_told(database: Make) -> None:
    kept = database("client")
    receiver = Receiver(database("server"), policy=SOON)
    receiver.service("/orders", lambda each: each.body)

    def note(each: Completed) -> None:
        each.connection.execute(insert(orders).values(number=each.count, item=each.address))

    client = ReliableClient(kept, policy=SOON)
    client.callbacks(on_complete=note)
    client.callbacks("answered")
    with served(receiver) as url, client:
        for _ in range(3):
            client.send(f"{url}/orders", b"<tea/>", action=ORDER)
        client.request(f"{url}/orders", b"<tea/>", action=ORDER, callbacks="answered")
        assert client.terminate(address=f"{url}/orders") == 2
        wait_until(lambda: rows(kept))
    assert rows(kept) == [(3, f"{url}/orders")]
