"""What comes, or is due, for many sequences at the same time shares a transaction; what fails in it
spoils nothing for others."""

import threading
from collections import Counter, deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from filters import Refused
from gateway.reliability import values
from gateway.reliability.batch_delivery import deliver_some
from gateway.reliability.batches import (
    AcknowledgementAnswer,
    ReceivedMessage,
    acknowledge_all,
    send_all_due,
)
from gateway.reliability.endpoint import Endpoint
from gateway.reliability.party import Channel, Party, anonymous
from gateway.reliability.shared_transactions import MISSES, Part, run_together
from gateway.reliability.source import Message
from gateway.reliability.source_worker import Work
from gateway.reliability.steps import begin
from gateway.reliability.storage import StorageManager, StorageUnavailable, Transaction
from gateway.reliability.stores.database import DatabaseStore
from gateway.reliability.stores.memory import MemoryStore
from gateway.reliability.values import (
    REMEMBERED_BYTES,
    Answer,
    Application,
    Delivered,
    Outgoing,
    Reply,
    read_again,
)
from mediation.model.messages import EndpointReference
from mediation.model.versions import Soap, Wsa
from mediation.reliable_messaging import Ranges, read_message
from mediation.reliable_messaging.application import write_application_message
from mediation.reliable_messaging.policy import Policy
from tests.rigs.postgresql import fresh_database, needs_postgresql
from tests.rigs.reliable_ends import SERVICE, WIRE_1_1, content_of

SEQUENCES = 5
NOW = 1_000_000.0


class Sides:
    """A client with several sequences, and a service."""

    def __init__(self, make: Callable[[str], Any]) -> None:
        self.got: list[str] = []
        self.here: Any = make("here")
        self.there: Any = make("there")
        self.client = self._endpoint(self.here, "client", self._take)
        self.service = self._endpoint(self.there, "service", self._take)

    def _take(self, tx: Transaction, delivered: Delivered) -> Answer | None:
        self.got.append(content_of(delivered.envelope))
        return None

    def _endpoint(self, store: StorageManager, name: str, take: Application) -> Endpoint:
        numbers = count(1)
        return Endpoint(
            Party(
                store,
                lambda: f"urn:{name}:{next(numbers)}",
                lambda: 0.5,
                applications={"": take},
                allows=lambda address: False,
            )
        )

    def send(self, *contents: str) -> None:
        """Store a message in each sequence, for each of *contents*."""
        target = EndpointReference(SERVICE, WIRE_1_1.wsa)
        channel = Channel(target, WIRE_1_1, anonymous(WIRE_1_1.wsa))
        with self.here.transaction() as tx:
            for key in range(SEQUENCES):
                for content in contents:
                    body = f'<o xmlns="urn:example">{content}{key}</o>'.encode()
                    message = Message("urn:example:Order", body)
                    self.client.send(tx, NOW, f"{key}", channel, message)

    def keys(self, now: float) -> list[str]:
        """The sequences of the client that are due."""
        with self.here.look() as look:
            found: list[str] = look.outgoing_due(now, 100)
        return found

    def due(self) -> list[Outgoing]:
        """What the client sends, decided together."""
        works = send_all_due(self.client.party, dict.fromkeys(self.keys(NOW), 64), NOW)
        assert all(isinstance(work, Work) for work in works.values())
        return [each for work in works.values() if isinstance(work, Work) for each in work.outgoing]

    def answered(self, sent: list[Outgoing]) -> list[Reply]:
        """What the service answers, which takes it together."""
        found = self.service.received_all([ReceivedMessage(each.envelope) for each in sent], NOW)
        replies = [each for each in found if isinstance(each, Reply)]
        assert len(replies) == len(sent)
        return replies

    def open(self) -> None:
        """Make the sequences."""
        self.send("first")
        for outgoing, reply in [*zip(sent := self.due(), self.answered(sent), strict=True)]:
            assert outgoing.label == "CreateSequence"
            assert reply.answer is not None
            answer = reply.answer.envelope
            self.client.sent(outgoing, NOW, delivered=True, answer=answer)


@contextmanager
def sides_on(kind: str, folder: Path) -> Iterator[Sides]:
    """Both sides, each with a store of its own."""
    with ExitStack() as stack:

        def make(name: str) -> Any:
            if kind == "memory":
                return MemoryStore()
            url = f"sqlite:///{folder / name}.db"
            if kind == "postgresql":
                url = stack.enter_context(fresh_database())
            store = DatabaseStore(url)
            stack.callback(store.close)
            return store

        yield Sides(make)


@pytest.fixture(params=["memory", "sqlite", "postgresql"])
def sides(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Sides]:
    if request.param == "postgresql":
        needs_postgresql()
    with sides_on(request.param, tmp_path) as sides:
        yield sides


def test_many_sequences_share_a_commit(sides: Sides) -> None:
    sides.open()
    sides.send("second")
    before = sides.here.commits
    sent = sides.due()
    assert len(sent) == 2 * SEQUENCES
    assert sides.here.commits - before == 1

    before = sides.there.commits
    replies = sides.answered(sent)
    assert sides.there.commits - before == 1

    answers = []
    for outgoing, reply in zip(sent, replies, strict=True):
        assert outgoing.key is not None
        # The answer to the last message of each sequence acknowledges both.
        assert (reply.answer is None) == (outgoing.label == "message 1")
        if reply.answer is not None:
            envelope = reply.answer.envelope
            answers.append(AcknowledgementAnswer(outgoing.key, read_message(envelope), envelope))
    assert len(answers) == SEQUENCES
    before = sides.here.commits
    assert all(
        isinstance(each, Reply) for each in acknowledge_all(sides.client.party, answers, NOW)
    )
    assert sides.here.commits - before == 1
    with sides.here.look() as look:
        found = look.outgoing_page("", 100)
    assert [each.count for each in found] == [0] * SEQUENCES
    assert {each.acknowledged for each in found} == {Ranges.of([(1, 2)])}
    # Nobody looks at them before they have been quiet for long.
    assert sides.due() == []
    assert {each.due_at for each in found} == {NOW + Policy().keep_alive}

    sides.service.due(NOW)
    assert Counter(sides.got) == Counter(
        f"{content}{key}" for content in ("first", "second") for key in range(SEQUENCES)
    )


def test_what_is_no_message_spoils_nothing(sides: Sides) -> None:
    sides.open()
    sent = sides.due()
    arrived = [ReceivedMessage(each.envelope) for each in sent]
    arrived[2:2] = [
        ReceivedMessage(b"<no/>"),
        ReceivedMessage(sent[0].envelope),
        ReceivedMessage(b"no"),
    ]
    found = sides.service.received_all(arrived, NOW)
    assert [isinstance(each, Reply) for each in found] == [
        *(True, True, False, True, False),
        *[True] * (len(sent) - 2),
    ]
    assert isinstance(again := found[3], Reply)
    assert again.answer is not None
    sides.service.due(NOW)
    assert len(sides.got) == SEQUENCES


def test_a_part_that_fails_does_so_alone(sides: Sides) -> None:
    party = sides.service.party
    sides.open()
    with sides.there.look() as look:
        keys = [each.identifier for each in look.incoming_page("", 100)]
    ran: list[str] = []

    def work(key: str) -> str:
        ran.append(key)
        with begin(party, NOW) as step:
            buffer = step.tx.invoker.find(key)
            assert buffer is not None
            step.tx.invoker.put(replace(buffer, attempts=buffer.attempts + 1))
            if key == keys[1]:
                raise ValueError(key)
        return key

    parts = [Part(partial(work, key), invoker=(key,)) for key in keys]
    found = run_together(party, NOW, parts)
    assert isinstance(found[1], ValueError)
    assert [*found[:1], *found[2:]] == [*keys[:1], *keys[2:]]
    with sides.there.transaction() as tx:
        attempts = [(buffer := tx.invoker.find(key)) and buffer.attempts for key in keys]
    assert attempts == [1, 0, 1, 1, 1]


def test_where_the_store_is_away_few_wait_for_it() -> None:
    tried: list[int] = []

    class Away(MemoryStore):
        def transaction(self) -> Any:
            tried.append(len(tried))
            raise StorageUnavailable("away")

    party = Sides(lambda name: Away()).service.party

    def work() -> None:
        with begin(party, NOW):
            pass

    found = run_together(party, NOW, [Part(work)] * 50)
    assert [type(each) for each in found] == [StorageUnavailable] * 50
    assert len(tried) == MISSES


def test_one_that_waits_in_vain_keeps_no_other_from_its_own() -> None:
    sides = Sides(lambda name: MemoryStore())

    def work(number: int) -> int:
        with begin(sides.service.party, NOW):
            if number == 3:
                raise StorageUnavailable("another transaction has it")
        return number

    parts = [Part(partial(work, number)) for number in range(9)]
    found = run_together(sides.service.party, NOW, parts)
    assert [each for each in found if isinstance(each, int)] == [0, 1, 2, 4, 5, 6, 7, 8]
    assert isinstance(found[3], StorageUnavailable)


@pytest.mark.parametrize("at_once", [1, 3, 64])
def test_deliveries_share_a_commit(sides: Sides, at_once: int) -> None:
    sides.open()
    sides.send("second", "third")
    sides.answered(sides.due())
    with sides.there.look() as look:
        waiting = deque(look.invoker_due(NOW, 100))
    before = sides.there.commits
    found = deliver_some(sides.service.party, waiting, NOW, at_once=at_once)
    assert [*found.values()] == [None] * SEQUENCES
    assert sides.there.commits - before == 1
    assert len(sides.got) == 3 * SEQUENCES
    for key in range(SEQUENCES):
        own = [each for each in sides.got if each.endswith(str(key))]
        assert own == [f"{content}{key}" for content in ("first", "second", "third")]
    with sides.there.look() as look:
        assert look.invoker_due(NOW, 100) == []


@pytest.mark.parametrize("at_once", [1, 64])
def test_what_was_looked_at_is_known_whatever_ends_it(sides: Sides, at_once: int) -> None:
    """An exception that is no `Exception`: who gave the sequences gives those again."""
    sides.open()
    sides.answered(sides.due())
    with sides.there.look() as look:
        waiting = deque(look.invoker_due(NOW, 100))
    given = set(waiting)
    took = sides.service.party.applications[""]

    def take(tx: Transaction, delivered: Delivered) -> Any:
        if len(sides.got) == 2:
            raise SystemExit
        return took(tx, delivered)

    party = replace(sides.service.party, applications={"": take})
    looked_at: dict[str, Exception | None] = {}
    with pytest.raises(SystemExit):
        deliver_some(party, waiting, NOW, at_once=at_once, looked_at=looked_at)
    assert looked_at
    assert looked_at.keys().isdisjoint(waiting)
    assert looked_at.keys() | set(waiting) == given
    with sides.there.look() as look:
        assert given.issuperset(look.invoker_due(NOW, 100))
        assert looked_at.keys() & set(look.invoker_due(NOW, 100))


def test_of_several_those_are_delivered_that_nobody_has(sides: Sides) -> None:
    if getattr(sides.there, "engine", None) is not None and sides.there.engine.name == "sqlite":
        pytest.skip("one transaction has the whole file")
    sides.open()
    sides.answered(sides.due())
    with sides.there.look() as look:
        waiting = deque(look.invoker_due(NOW, 100))
    with sides.there.transaction() as tx:
        tx.invoker.find(sorted(waiting)[2])
        found = deliver_some(sides.service.party, waiting, NOW, at_once=64)
        assert [*found.values()] == [None] * SEQUENCES
        assert len(sides.got) == SEQUENCES - 1
    with sides.there.look() as look:
        assert len(look.invoker_due(NOW, 100)) == 1


def test_what_there_is_no_time_for_goes_first_the_next_time(sides: Sides) -> None:
    sides.open()
    sides.answered(sides.due())
    with sides.there.look() as look:
        waiting = deque(look.invoker_due(NOW, 100))
    times = iter([True] * 3)
    found = deliver_some(
        sides.service.party, waiting, NOW, at_once=64, goes_on=lambda: next(times, False)
    )
    assert len(found) == len(sides.got) == 2
    assert len(waiting) == SEQUENCES - 2
    assert found.keys().isdisjoint(waiting)


def test_those_that_wait_for_others_share_a_transaction_too(sides: Sides) -> None:
    """Another transaction has them, until the first ones are done."""
    if getattr(sides.there, "engine", None) is not None and sides.there.engine.name == "sqlite":
        pytest.skip("one transaction has the whole file")
    sides.open()
    sides.send("second")
    held, done = threading.Event(), threading.Event()
    with sides.here.look() as look:
        keys = sorted(look.outgoing_due(NOW, 100))

    def hold() -> None:
        with sides.here.transaction() as tx:
            for key in keys[1:4]:
                tx.outgoing.find(key)
            held.set()
            assert done.wait(30)

    def work(key: str) -> str:
        with begin(sides.client.party, NOW) as step:
            assert step.tx.outgoing.find(key) is not None
        done.set()
        return key

    with ThreadPoolExecutor(1) as pool:
        holding = pool.submit(hold)
        assert held.wait(30)
        before = sides.here.commits
        parts = [Part(partial(work, key), outgoing=(key,)) for key in keys]
        assert run_together(sides.client.party, NOW, parts) == keys
        holding.result(30)
    assert sides.here.commits - before == 3


def test_a_message_that_asks_is_acknowledged_itself(sides: Sides) -> None:
    sides.open()
    sides.send("second")
    assert [each.label for each in sides.due()] == ["message 1", "message 2"] * SEQUENCES
    again = [
        outgoing
        for work in send_all_due(
            sides.client.party, dict.fromkeys(sides.keys(NOW + 60), 64), NOW + 60
        ).values()
        if isinstance(work, Work)
        for outgoing in work.outgoing
    ]
    assert [each.label for each in again] == ["message 1 again", "message 2 again"] * SEQUENCES
    assert all(reply.answer is not None for reply in sides.answered(again))


def test_what_asks_for_what_is_missing_acknowledges_nothing(sides: Sides) -> None:
    """So it stands in for no other answer, and no other one for it."""
    sides.service = Endpoint(replace(sides.service.party, nacks=True))
    sides.open()
    sides.send("second", "third")
    sent = [each for each in sides.due() if each.label != "message 2"]
    said = []
    for reply in sides.answered(sent):
        assert reply.answer is not None
        [found] = read_message(reply.answer.envelope).acknowledgements
        said.append((str(found.ranges), found.nacks))
    assert said == [("1", ()), ("", (2,))] * SEQUENCES


def test_a_delivery_that_fails_undoes_no_other(tmp_path: Path) -> None:
    sides = Sides(lambda name: DatabaseStore(f"sqlite:///{tmp_path / name}.db"))
    sides.open()
    sides.send("second", "third")
    with sides.there.engine.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE took (content TEXT)")
    fails = {"second2", "first4"}

    def take(tx: Transaction, delivered: Delivered) -> Answer | None:
        content = content_of(delivered.envelope)
        sides.got.append(content)
        tx.connection.exec_driver_sql("INSERT INTO took VALUES (?)", (content,))
        if content in fails:
            fails.remove(content)
            raise ValueError(content)
        return None

    sides.service = sides._endpoint(sides.there, "service", take)
    sides.answered(sides.due())
    now = NOW
    for _ in range(20):
        with sides.there.look() as look:
            waiting = deque(look.invoker_due(now, 100))
        while waiting:
            assert set(deliver_some(sides.service.party, waiting, now).values()) == {None}
        now += 60
    with sides.there.engine.connect() as connection:
        took = list(connection.exec_driver_sql("SELECT content FROM took").scalars())
    contents = [f"{each}{key}" for each in ("first", "second", "third") for key in range(SEQUENCES)]
    assert Counter(took) == Counter(contents)
    assert Counter(sides.got) == Counter([*contents, "second2", "first4"])
    for key in range(SEQUENCES):
        own = [each for each in took if each.endswith(str(key))]
        assert own == [f"{content}{key}" for content in ("first", "second", "third")]
    for store in (sides.here, sides.there):
        store.close()


def test_deliveries_stop_in_time(tmp_path: Path) -> None:
    sides = Sides(lambda name: DatabaseStore(f"sqlite:///{tmp_path / name}.db"))
    sides.open()
    sides.answered(sides.due())
    with sides.there.look() as look:
        waiting = deque(look.invoker_due(NOW, 100))
    times = iter([True, True, False])
    found = deliver_some(sides.service.party, waiting, NOW, goes_on=lambda: next(times, False))
    assert len(sides.got) == len(found) == 1
    assert len(waiting) == SEQUENCES - 1
    for store in (sides.here, sides.there):
        store.close()


def test_a_message_is_read_once_where_it_is_short() -> None:
    short, long = envelope_of(b"<a/>"), envelope_of(b"<a>" + b"x" * REMEMBERED_BYTES + b"</a>")
    values._read.cache_clear()
    for _ in range(3):
        assert read_again(short) == read_message(short)
        assert read_again(long) == read_message(long)
        with pytest.raises(Refused):
            read_again(b"<no/>")
    assert values._read.cache_info().currsize == 1


def envelope_of(body: bytes) -> bytes:
    return write_application_message(
        Soap.V1_2,
        Wsa.V2005_08,
        action="urn:example:a",
        body=body,
        to=EndpointReference(SERVICE, Wsa.V2005_08),
        message_id="urn:example:1",
    )
