"""The store that commits together with other databases: all of them, or none, whatever dies."""

import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import Engine, create_engine, event, insert, select, text

from gateway.reliability.storage import (
    Conflict,
    InDoubt,
    StorageManager,
    StorageUnavailable,
    run,
)
from gateway.reliability.stores import engines, tables
from gateway.reliability.stores.participants import (
    CannotPrepare,
    ConnectionManager,
    EngineConnections,
    LastResource,
    PsycopgConnections,
)
from gateway.reliability.stores.two_phase import TwoPhaseStore
from tests.conftest import ROOT
from tests.gateway.reliability.stores.contract import StoreContract, outgoing
from tests.rigs.postgresql import fresh_database, needs_postgresql, postgresql_cluster
from tests.rigs.stores import outage

STEPS = [
    ("begun", False),
    ("prepare orders", False),
    ("prepare stock", False),
    ("prepared", False),
    ("decided", True),
    ("committed orders", True),
    ("committed stock", True),
    ("ended", True),
]
"""The steps of a transaction, and whether it is committed when its process dies there."""


class Databases:
    """Those of two participants, and the file or database of the store."""

    def __init__(self, store: str, orders: str, stock: str) -> None:
        self.store, self.orders, self.stock = store, orders, stock
        self.engine = create_engine(stock.replace("postgresql://", "postgresql+psycopg://"))

    def participants(self) -> list[ConnectionManager]:
        return [PsycopgConnections("orders", self.orders), EngineConnections("stock", self.engine)]

    def items(self) -> tuple[list[int], list[int]]:
        """What is in the tables of both."""
        return _items(self.orders), _items(self.stock)

    def prepared(self) -> int:
        """How many transactions are prepared in both."""
        return sum(
            _ask(url, "SELECT count(*) FROM pg_prepared_xacts WHERE database = current_database()")[
                0
            ]
            for url in (self.orders, self.stock)
        )

    def empty(self) -> None:
        for url in (self.orders, self.stock):
            with psycopg.connect(url) as connection:
                connection.execute("DELETE FROM items")


@pytest.fixture(scope="module")
def made() -> Iterator[tuple[str, str, str]]:
    """Three databases of PostgreSQL, two of them with a table of items."""
    needs_postgresql()
    with ExitStack() as stack:
        urls = [stack.enter_context(fresh_database()) for _ in range(3)]
        for url in urls[1:]:
            with psycopg.connect(url) as connection:
                connection.execute("CREATE TABLE items (number INTEGER PRIMARY KEY)")
        yield urls[0], urls[1], urls[2]


@pytest.fixture(params=["sqlite", "postgresql"])
def databases(
    request: pytest.FixtureRequest, made: tuple[str, str, str], tmp_path: Path
) -> Iterator[Databases]:
    """Empty ones; the store's is of each kind."""
    url = made[0] if request.param == "postgresql" else f"sqlite:///{tmp_path / 'store.db'}"
    yield from _databases(url, made)


@pytest.fixture
def on_postgresql(made: tuple[str, str, str]) -> Iterator[Databases]:
    """Empty ones; also the store is on PostgreSQL."""
    yield from _databases(made[0], made)


def _databases(store: str, made: tuple[str, str, str]) -> Iterator[Databases]:
    _drop_tables(made[0])
    found = Databases(store, made[1], made[2])
    found.empty()
    yield found
    found.engine.dispose()


@pytest.fixture
def store(databases: Databases) -> Iterator[TwoPhaseStore]:
    made = TwoPhaseStore(databases.store, databases.participants())
    yield made
    made.close()


class TestContract(StoreContract):
    """A transaction without participants is as any other."""

    databases: Databases

    @pytest.fixture
    def data(self, on_postgresql: Databases, tmp_path: Path) -> Path:
        self.databases = on_postgresql
        return tmp_path

    def make_store(self, data: Path) -> StorageManager:
        return TwoPhaseStore(self.databases.store, self.databases.participants())


class Undone(Exception):
    pass


# ------------------------------------------------------------------------------------ all or none


def test_all_commit(store: TwoPhaseStore, databases: Databases) -> None:
    for number in (1, 2):
        with store.transaction() as tx:
            tx.outgoing.put(outgoing(f"key{number}"))
            tx.enlist("orders").execute("INSERT INTO items VALUES (%s)", (number,))
            assert tx.enlist("orders") is tx.enlist("orders")
            _insert(tx.enlist("stock"), number)
    assert databases.items() == ([1, 2], [1, 2])
    assert keys(store) == ["key1", "key2"]
    assert databases.prepared() == 0 and store.oldest_prepared() == 0.0
    assert store.commits == 2


def test_none_commits(store: TwoPhaseStore, databases: Databases) -> None:
    with pytest.raises(Undone), store.transaction() as tx:
        tx.outgoing.put(outgoing("key"))
        tx.enlist("orders").execute("INSERT INTO items VALUES (1)")
        _insert(tx.enlist("stock"), 1)
        raise Undone
    assert (keys(store), *databases.items()) == ([], [], [])
    with store.transaction() as tx:  # Nothing of it holds up the next.
        tx.enlist("orders").execute("INSERT INTO items VALUES (1)")
        _insert(tx.enlist("stock"), 1)
    assert databases.items() == ([1], [1])


@pytest.mark.parametrize("late", ["orders", "stock"])
def test_a_participant_that_fails_to_prepare(
    store: TwoPhaseStore, databases: Databases, late: str
) -> None:
    """A constraint that is checked at the end."""
    for url in (databases.orders, databases.stock):
        with psycopg.connect(url) as connection:
            connection.execute("DROP TABLE IF EXISTS parts")
            connection.execute(
                "CREATE TABLE parts (of INTEGER REFERENCES items DEFERRABLE INITIALLY DEFERRED)"
            )
    with pytest.raises(StorageUnavailable, match=late), store.transaction() as tx:
        tx.outgoing.put(outgoing("key"))
        tx.enlist("orders").execute("INSERT INTO items VALUES (1)")
        _insert(tx.enlist("stock"), 1)
        wrong = "INSERT INTO parts VALUES (99)"
        tx.enlist(late).execute(wrong if late == "orders" else text(wrong))
    assert (keys(store), *databases.items()) == ([], [], [])
    assert databases.prepared() == 0
    for url in (databases.orders, databases.stock):
        with psycopg.connect(url) as connection:
            connection.execute("DROP TABLE parts")


@pytest.mark.parametrize("name", ["orders", "stock", None])
def test_a_failure_that_nobody_minded(
    store: TwoPhaseStore, databases: Databases, name: str | None
) -> None:
    """PostgreSQL would undo the participant's part alone, and say so to nobody."""
    if name is None and databases.store.startswith("sqlite"):
        pytest.skip("SQLite goes on after a statement that failed")
    refused = pytest.raises(RuntimeError, match="a statement of the transaction failed")
    with refused, store.transaction() as tx:
        tx.outgoing.put(outgoing("key"))
        _insert(tx.enlist("stock"), 1)
        connection = tx.connection if name is None else tx.enlist(name)
        with pytest.raises(Exception, match="nonsense"):
            connection.execute("nonsense" if name == "orders" else text("nonsense"))
    assert (keys(store), *databases.items()) == ([], [], [])


def test_nobody_else_commits(store: TwoPhaseStore, databases: Databases) -> None:
    with pytest.raises(psycopg.ProgrammingError), store.transaction() as tx:
        tx.enlist("orders").commit()
    with pytest.raises(RuntimeError, match="end of its block"), store.transaction() as tx:
        _insert(tx.enlist("stock"), 1)
        tx.enlist("stock").commit()
    assert databases.items() == ([], [])


def test_sessions(store: TwoPhaseStore, databases: Databases) -> None:
    with store.transaction() as tx:
        session = tx.session("stock")
        _insert(session, 1)
        session.commit()
        _insert(session, 2)
        session.rollback()
        _insert(tx.session("stock"), 3)
    assert databases.items() == ([], [1, 3])


def test_conflicts_of_a_participant_are_run_again(
    store: TwoPhaseStore, databases: Databases
) -> None:
    attempts: list[int] = []

    def work(tx: Any) -> None:
        attempts.append(1)
        tx.enlist("orders").execute("INSERT INTO items VALUES (1)")
        if len(attempts) == 1:
            raise psycopg.errors.SerializationFailure("try again")

    run(store, work)
    assert len(attempts) == 2 and databases.items() == ([1], [])


# ------------------------------------------------------------------------------ what dies, recovers


@pytest.mark.slow
@pytest.mark.parametrize(
    "databases", ["postgresql", pytest.param("sqlite", marks=pytest.mark.nightly)], indirect=True
)
@pytest.mark.parametrize(("step", "committed"), STEPS)
def test_a_process_that_is_killed_at_a_step(
    databases: Databases, step: str, committed: bool
) -> None:
    program = "tests.gateway.reliability.stores.two_phase_process"
    done = subprocess.run(
        [sys.executable, "-m", program, databases.store, databases.orders, databases.stock, step],
        cwd=ROOT, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == -signal.SIGKILL
    _until_connections_are_gone(databases)
    expected = {"prepare stock": 1, "prepared": 2, "decided": 2, "committed orders": 1}
    assert databases.prepared() == expected.get(step, 0)
    store = TwoPhaseStore(databases.store, databases.participants())  # It recovers.
    items = [1] if committed else []
    assert (keys(store), *databases.items()) == (["killed"] if committed else [], items, items)
    assert databases.prepared() == 0
    assert store.recover() == 0
    assert _log(store) == ([] if committed or not expected.get(step) else ["rollback"])
    store.close()


class Died(BaseException):
    """Stands for the end of the process."""


def died_at(step: str) -> Callable[[str], None]:
    def die(what: str) -> None:
        if what == step:
            raise Died

    return die


def test_a_decision_is_carried_out_by_recovery(on_postgresql: Databases) -> None:
    """A participant loses its connection between the decision and its commit."""

    def lose(what: str) -> None:
        if what == "decided":
            _end_connections(on_postgresql.orders)

    store = TwoPhaseStore(on_postgresql.store, on_postgresql.participants(), step=lose)
    with store.transaction() as tx:
        tx.outgoing.put(outgoing("key"))
        tx.enlist("orders").execute("INSERT INTO items VALUES (1)")
        _insert(tx.enlist("stock"), 1)
    assert (keys(store), on_postgresql.items()) == (["key"], ([], [1]))
    assert store.oldest_prepared() > 0.0
    assert store.recover() == 0, "it may be alive in another process"
    assert store.recover(0.0) == 1
    assert on_postgresql.items() == ([1], [1])
    assert store.oldest_prepared() == 0.0
    assert store.recover() == 0 and _log(store) == []
    store.close()


def test_recovery_leaves_alone_what_is_alive(databases: Databases) -> None:
    """Also where it comes between two steps."""
    ended: list[int] = []

    def recover(what: str) -> None:
        if what == "decided":
            ended.append(alive.recover(0.0))

    alive = TwoPhaseStore(databases.store, databases.participants(), step=recover)
    with alive.transaction() as tx:
        tx.enlist("orders").execute("INSERT INTO items VALUES (1)")
        _insert(tx.enlist("stock"), 1)
    assert ended == [0]
    assert databases.items() == ([1], [1])
    alive.close()


def test_recovery_of_another_process_undoes_a_transaction_as_a_whole(
    on_postgresql: Databases,
) -> None:
    other = TwoPhaseStore(on_postgresql.store, on_postgresql.participants())

    def recover(what: str) -> None:
        if what == "prepared":
            assert other.recover(0.0) == 1

    store = TwoPhaseStore(on_postgresql.store, on_postgresql.participants(), step=recover)
    with pytest.raises(Conflict), store.transaction() as tx:
        tx.outgoing.put(outgoing("key"))
        tx.enlist("orders").execute("INSERT INTO items VALUES (1)")
        _insert(tx.enlist("stock"), 1)
    assert (keys(store), *on_postgresql.items()) == ([], [], [])
    assert on_postgresql.prepared() == 0
    store.close()
    other.close()


def test_recovery_of_another_process_commits_what_is_decided(on_postgresql: Databases) -> None:
    other = TwoPhaseStore(on_postgresql.store, on_postgresql.participants())

    def recover(what: str) -> None:
        if what == "decided":
            assert other.recover(0.0) == 1

    store = TwoPhaseStore(on_postgresql.store, on_postgresql.participants(), step=recover)
    with store.transaction() as tx:
        tx.enlist("orders").execute("INSERT INTO items VALUES (1)")
        _insert(tx.enlist("stock"), 1)
    assert on_postgresql.items() == ([1], [1])
    store.close()
    other.close()


def test_nodes_leave_one_another_alone(databases: Databases, tmp_path: Path) -> None:
    dying = TwoPhaseStore(
        databases.store, databases.participants(), node="a", step=died_at("decided")
    )
    transaction = dying.transaction()
    tx = transaction.__enter__()
    tx.enlist("orders").execute("INSERT INTO items VALUES (1)")
    tx._own.commit = _dies  # type: ignore[method-assign]
    with pytest.raises(InDoubt):
        transaction.__exit__(None, None, None)
    assert databases.prepared() == 1
    for node in ("b", "a.b", None):
        other = TwoPhaseStore(
            f"sqlite:///{tmp_path / f'{node}.db'}", databases.participants(), node=node
        )
        assert other.recover(0.0) == 0 and other.oldest_prepared() == 0.0
        other.close()
    assert databases.prepared() == 1
    same = TwoPhaseStore(databases.store, databases.participants(), node="a")
    assert databases.prepared() == 0 and databases.items() == ([], [])
    same.close()
    dying.close()


def _dies() -> None:
    raise InDoubt("the connection broke")


@pytest.mark.parametrize("committed", [True, False])
def test_a_decision_in_doubt(on_postgresql: Databases, committed: bool) -> None:
    """The store's own connection breaks in its COMMIT: recovery finds out."""
    store = TwoPhaseStore(on_postgresql.store, on_postgresql.participants())

    def break_it(connection: Any) -> None:
        raw = connection.connection.dbapi_connection
        if committed:
            raw.execute("COMMIT")
        raw.close()

    event.listen(store._store._writing, "commit", break_it)
    with pytest.raises(InDoubt), store.transaction() as tx:
        tx.outgoing.put(outgoing("key"))
        tx.enlist("orders").execute("INSERT INTO items VALUES (1)")
        _insert(tx.enlist("stock"), 1)
    event.remove(store._store._writing, "commit", break_it)
    assert on_postgresql.prepared() == 2
    assert store.recover(0.0) == 1
    items = [1] if committed else []
    assert on_postgresql.items() == (items, items)
    assert keys(store) == (["key"] if committed else [])
    store.close()


def test_a_participant_that_is_away(on_postgresql: Databases) -> None:
    store = TwoPhaseStore(on_postgresql.store, on_postgresql.participants())
    with outage(on_postgresql.orders):
        with pytest.raises(StorageUnavailable, match="orders"), store.transaction() as tx:
            tx.outgoing.put(outgoing("key"))
            tx.enlist("orders").execute("INSERT INTO items VALUES (1)")
        assert store.recover() == 0
        assert list(store.unreachable) == ["orders"]
        again = TwoPhaseStore(on_postgresql.store, on_postgresql.participants())
        again.close()
        with store.transaction() as tx:  # Who does not need it goes on.
            _insert(tx.enlist("stock"), 1)
    assert store.recover() == 0
    assert list(store.unreachable) == []
    assert (keys(store), *on_postgresql.items()) == ([], [], [1])
    store.close()


def test_idle_connections_that_broke(on_postgresql: Databases) -> None:
    store = TwoPhaseStore(on_postgresql.store, on_postgresql.participants())
    with store.transaction() as tx, store.transaction() as other:  # Two are idle afterwards.
        tx.enlist("orders")
        other.enlist("orders")
    _end_connections(on_postgresql.orders)
    with store.transaction() as tx:
        tx.enlist("orders").execute("INSERT INTO items VALUES (1)")
    assert on_postgresql.items() == ([1], [])
    store.close()


@pytest.mark.parametrize("name", ["orders", "stock"])
def test_a_participant_whose_connection_breaks(on_postgresql: Databases, name: str) -> None:
    """It is the database's fault, not that of the application."""
    store = TwoPhaseStore(on_postgresql.store, on_postgresql.participants())
    statement: Any = "INSERT INTO items VALUES (1)"
    if name == "stock":
        statement = text(statement)
    with pytest.raises(StorageUnavailable), store.transaction() as tx:
        tx.outgoing.put(outgoing("key"))
        connection = tx.enlist(name)
        connection.execute(statement)
        _end_connections(getattr(on_postgresql, name))
        connection.execute(statement)
    assert (keys(store), *on_postgresql.items()) == ([], [], [])
    with store.transaction() as tx:
        tx.outgoing.put(outgoing("key"))
        tx.enlist(name).execute(statement)
    assert sorted(on_postgresql.items()) == [[], [1]]
    store.close()


def test_the_log_keeps_what_a_participant_that_is_away_may_ask_for(
    on_postgresql: Databases,
) -> None:
    def lose(what: str) -> None:
        if what == "decided":
            _end_connections(on_postgresql.orders)

    store = TwoPhaseStore(on_postgresql.store, on_postgresql.participants(), step=lose)
    with store.transaction() as tx:
        tx.enlist("orders").execute("INSERT INTO items VALUES (1)")
        _insert(tx.enlist("stock"), 1)
    with outage(on_postgresql.orders):
        assert store.recover(0.0) == 0
        assert _log(store) == ["commit"]
    fewer = TwoPhaseStore(on_postgresql.store, [EngineConnections("stock", on_postgresql.engine)])
    assert _log(store) == ["commit"], "and what one that is no participant now may ask for"
    fewer.close()
    assert store.recover(0.0) == 1
    assert store.recover(0.0) == 0 and _log(store) == []
    assert on_postgresql.items() == ([1], [1])
    store.close()


def test_many_at_once(on_postgresql: Databases) -> None:
    """While another process recovers all the time, without patience."""
    store = TwoPhaseStore(on_postgresql.store, on_postgresql.participants())
    other = TwoPhaseStore(on_postgresql.store, on_postgresql.participants())
    over = threading.Event()

    def recover() -> None:
        while not over.is_set():
            other.recover(0.0)

    def send(number: int) -> None:
        def work(tx: Any) -> None:
            tx.outgoing.put(outgoing(f"key{number:02}"))
            tx.enlist("orders").execute("INSERT INTO items VALUES (%s)", (number,))
            _insert(tx.enlist("stock"), number)

        run(store, work, attempts=1000, pause=lambda seconds: None)

    with ThreadPoolExecutor(4) as pool:
        recovering = pool.submit(recover)
        list(pool.map(send, range(40)))
        over.set()
        recovering.result(60)
    numbers = list(range(40))
    assert on_postgresql.items() == (numbers, numbers)
    assert keys(store) == [f"key{number:02}" for number in numbers]
    assert on_postgresql.prepared() == 0
    store.close()
    other.close()


def test_the_log_is_emptied(on_postgresql: Databases) -> None:
    store = TwoPhaseStore(on_postgresql.store, on_postgresql.participants())
    for number in range(70):
        with store.transaction() as tx:
            tx.enlist("orders").execute("INSERT INTO items VALUES (%s)", (number,))
    assert len(_log(store)) < 40
    store.close()
    again = TwoPhaseStore(on_postgresql.store, on_postgresql.participants())
    assert _log(again) == []
    again.close()


def test_the_log_is_emptied_whatever_others_have_in_it(tmp_path: Path) -> None:
    """Rows of other nodes, and those that are kept, are in nobody's way."""
    url = f"sqlite:///{tmp_path / 'store.db'}"
    store = TwoPhaseStore(url, [], node="b_c")
    now = time.time()
    kept = [("b_c:1", "rollback", now), ("b_c:2", "commit", now), ("b_c:3", "rollback", 0.0)]
    others = [("bxc:1", "commit", 0.0), ("b_cd:1", "commit", 0.0), ("B_C:1", "commit", 0.0)]
    many = [(f"a:{number}", "commit", 0.0) for number in range(10_001)]
    with store.engine.begin() as connection:
        rows = [
            {"gtrid": gtrid, "decision": decision, "participants": "[]", "decided_at": at}
            for gtrid, decision, at in (*many, *kept, *others)
        ]
        connection.execute(insert(tables.decisions), rows)
    store.recover(0.0)
    with store.engine.connect() as connection:
        gtrids = set(connection.execute(select(tables.decisions.c.gtrid)).scalars())
    assert gtrids == {each[0] for each in (*many, *others)} | {"b_c:1"}
    store.close()


# ---------------------------------------------------------------------------------- last resources


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    path = tmp_path / "ledger.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE items (number INTEGER PRIMARY KEY)")
    connection.close()
    return path


def _ledger(path: Path) -> list[int]:
    connection = sqlite3.connect(path)
    found = [number for (number,) in connection.execute("SELECT number FROM items")]
    connection.close()
    return found


@pytest.mark.parametrize(
    ("dies", "in_ledger", "elsewhere"),
    [
        (None, [1], [1]),
        ("prepared", [], []),
        ("committed ledger", [1], []),  # The one step at which it is half done.
        ("decided", [1], [1]),
    ],
)
def test_a_last_resource(
    on_postgresql: Databases,
    ledger: Path,
    dies: str | None,
    in_ledger: list[int],
    elsewhere: list[int],
) -> None:
    last = LastResource("ledger", lambda: sqlite3.connect(ledger))
    participants = [last, *on_postgresql.participants()]
    store = TwoPhaseStore(on_postgresql.store, participants, step=died_at(dies or ""))
    try:
        with store.transaction() as tx:
            tx.outgoing.put(outgoing("key"))
            tx.enlist(last).execute("INSERT INTO items VALUES (1)")
            tx.enlist("orders").execute("INSERT INTO items VALUES (1)")
            _insert(tx.enlist("stock"), 1)
    except Died:
        pass
    else:
        assert dies is None
    store.close()
    again = TwoPhaseStore(on_postgresql.store, participants)
    assert (_ledger(ledger), *on_postgresql.items()) == (in_ledger, elsewhere, elsewhere)
    assert keys(again) == (["key"] if elsewhere else [])
    again.close()


def test_a_last_resource_that_fails(on_postgresql: Databases, ledger: Path) -> None:
    last = LastResource("ledger", lambda: _Failing(ledger))
    store = TwoPhaseStore(on_postgresql.store, [last, *on_postgresql.participants()])
    with pytest.raises(StorageUnavailable, match="ledger: disk full"), store.transaction() as tx:
        tx.enlist("ledger").execute("INSERT INTO items VALUES (1)")
        _insert(tx.enlist("stock"), 1)
    assert (_ledger(ledger), *on_postgresql.items()) == ([], [], [])
    store.close()


def test_nobody_knows_what_became_of_a_last_resource_that_breaks(
    on_postgresql: Databases, ledger: Path
) -> None:
    last = LastResource("ledger", lambda: _Failing(ledger))
    store = TwoPhaseStore(on_postgresql.store, [last])
    with pytest.raises(InDoubt, match="ledger"), store.transaction() as tx:
        tx.enlist("ledger").execute("INSERT INTO items VALUES (1)")
        tx.outgoing.put(outgoing("key"))
    assert (keys(store), _log(store)) == ([], [])
    store.close()


def test_a_last_resource_that_is_locked_is_not_in_doubt(
    on_postgresql: Databases, ledger: Path
) -> None:
    last = LastResource("ledger", lambda: sqlite3.connect(ledger, timeout=0))
    store = TwoPhaseStore(on_postgresql.store, [last])
    reading = sqlite3.connect(ledger)
    reading.execute("BEGIN")
    reading.execute("SELECT count(*) FROM items").fetchall()
    with pytest.raises(StorageUnavailable, match="locked") as raised, store.transaction() as tx:
        tx.enlist("ledger").execute("INSERT INTO items VALUES (1)")
    assert not isinstance(raised.value, InDoubt)
    reading.close()
    assert _ledger(ledger) == []
    store.close()


class _Failing(sqlite3.Connection):
    def commit(self) -> None:
        raise sqlite3.OperationalError("disk full")


# ------------------------------------------------------------------------------------- how it is set up


@pytest.mark.parametrize(
    ("participants", "node", "said"),
    [
        ([LastResource("a b", dict)], None, "no name of a participant"),
        ([LastResource("a" * 31, dict)], None, "no name of a participant"),
        ([LastResource("", dict)], None, "no name of a participant"),
        ([LastResource("a", dict), LastResource("a", dict)], None, "the same name"),
        ([LastResource("a", dict), LastResource("b", dict)], None, "at most"),
        ([], "a:b", "no name of a participant or node"),
    ],
)
def test_participants_that_do_not_fit(
    tmp_path: Path, participants: list[LastResource], node: str | None, said: str
) -> None:
    with pytest.raises(ValueError, match=said):
        TwoPhaseStore(f"sqlite:///{tmp_path / 'store.db'}", participants, node=node)


def test_who_is_no_participant(store: TwoPhaseStore) -> None:
    for stranger in ("nobody", LastResource("orders", dict)):
        with pytest.raises(ValueError, match="not made with"), store.transaction() as tx:
            tx.enlist(stranger)


def test_sqlite_cannot_prepare(tmp_path: Path) -> None:
    engine = create_engine(f"sqlite:///{tmp_path / 'a.db'}")
    with pytest.raises(CannotPrepare, match="LastResource"):
        TwoPhaseStore(f"sqlite:///{tmp_path / 's.db'}", [EngineConnections("a", engine)])


@pytest.mark.slow
def test_a_server_that_prepares_nothing(tmp_path: Path) -> None:
    needs_postgresql()
    with postgresql_cluster(prepared=0) as cluster:
        url = cluster.url(cluster.make_database())
        engine = create_engine(url.replace("postgresql://", "postgresql+psycopg://"))
        for participant in (PsycopgConnections("a", url), EngineConnections("a", engine)):
            with pytest.raises(CannotPrepare) as caught:
                TwoPhaseStore(f"sqlite:///{tmp_path / 's.db'}", [participant])
            said = str(caught.value)
            assert said.startswith("a: PostgreSQL prepares nothing while max_prepared_transactions")
            assert "\n" not in said
            branch = participant.begin("node:1")  # And where it was set to 0 later.
            connection: Any = branch.connection
            create = "CREATE TABLE items (number INTEGER)"
            connection.execute(
                create if isinstance(participant, PsycopgConnections) else text(create)
            )
            with pytest.raises(CannotPrepare, match="max_prepared_transactions"):
                branch.prepare()
            branch.close()
            participant.close()
        engine.dispose()


# -------------------------------------------------------------------------------------- what is seen


def keys(store: TwoPhaseStore) -> list[str]:
    with store.look() as look:
        return [one.key for one in look.outgoing_page("", 99)]


def _log(store: TwoPhaseStore) -> list[str]:
    with store.engine.connect() as connection:
        return list(connection.execute(select(tables.decisions.c.decision)).scalars())


def _insert(connection: Any, number: int) -> None:
    connection.execute(text("INSERT INTO items VALUES (:number)"), {"number": number})


def _items(url: str) -> list[int]:
    return _ask(url, "SELECT number FROM items ORDER BY 1")


def _ask(url: str, statement: str) -> list[Any]:
    with psycopg.connect(url) as connection:
        return [row[0] for row in connection.execute(statement.encode())]


def _end_connections(url: str) -> None:
    """End all others of a database."""
    _ask(
        url,
        "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity"
        " WHERE datname = current_database() AND pid <> pg_backend_pid()",
    )


def _until_connections_are_gone(databases: Databases) -> None:
    """A server notices only after a while that a client died."""
    for url in (databases.orders, databases.stock, databases.store):
        if url.startswith("postgresql"):
            _end_connections(url)


def _drop_tables(url: str) -> None:
    engine: Engine = engines.own_engine(url)
    tables.metadata.drop_all(engine)
    engine.dispose()
