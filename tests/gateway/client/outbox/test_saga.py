"""Sagas run to their end, or are undone, though their process is killed at every step."""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine, create_engine, delete
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from gateway.client.outbox import Backoff, Fault
from gateway.client.outbox.saga import Saga, SagaRun, Wait
from tests.rigs.outbox import ASYNC, SYNC, database, engine_of, items, taken
from tests.rigs.queued import Killed
from tests.rigs.waiting import until, wait_until

SOON = Backoff(0.01, 0.05)
STEPS = ("flight", "hotel", "pay")


@pytest.fixture(params=SYNC)
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    with engine_of(request.param, tmp_path) as found:
        yield found


def trip_of(engine: Engine, *, refuses: bool, dies: str = "", mark: Path = Path("nowhere")) -> Saga:
    """A trip whose payment is refused, or not. Its process is killed once, at the end of the step or
    the compensation *dies*: what that changed is not committed."""
    trip = Saga(engine, "trip", backoff=SOON, retries=2)

    def die(place: str) -> None:
        if place == dies and not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)

    for name in STEPS:

        def book(run: SagaRun, name: str = name) -> None:
            run.session.execute(taken.insert().values(item=name))
            run.data["done"] = [*run.data.get("done", []), name]
            die(name)
            if name == "pay" and refuses:
                raise Fault("no money")

        def cancel(run: SagaRun, name: str = name) -> None:
            assert run.reason == "no money"
            run.session.execute(delete(taken).where(taken.c.item == name))
            run.session.execute(taken.insert().values(item=f"no {name}"))
            die(f"no {name}")

        book.__name__ = name
        trip.step(book).compensation(cancel)
    return trip


def state(trip: Saga, engine: Engine, id: str = "1") -> str:
    with Session(engine) as session:
        return trip.state(id, session)


@pytest.mark.parametrize("refuses", [False, True])
def test_a_saga_runs_to_its_end_or_is_undone(refuses: bool, engine: Engine) -> None:
    trip = trip_of(engine, refuses=refuses)
    with trip:
        for _ in range(2):
            with Session(engine) as session, session.begin():
                trip.begin({"to": "Genoa"}, session, id="1")
        wait_until(lambda: state(trip, engine) in ("done", "compensated"))
    assert state(trip, engine) == ("compensated" if refuses else "done")
    assert items(engine) == (["no hotel", "no flight"] if refuses else list(STEPS))


def run_trip(url: str, refuses: bool, dies: str, mark: Path) -> None:
    """The process of a saga."""
    with trip_of(create_engine(url), refuses=refuses, dies=dies, mark=mark):
        time.sleep(600)


@pytest.mark.slow
@pytest.mark.parametrize("refuses", [False, True])
def test_a_saga_is_killed_at_every_step(refuses: bool, tmp_path: Path) -> None:
    for dies in (*STEPS, *(("no hotel", "no flight") if refuses else ())):
        folder = tmp_path / dies
        folder.mkdir()
        with engine_of("sqlite", folder) as engine:
            trip = trip_of(engine, refuses=refuses)
            trip.create_tables()
            with Session(engine) as session, session.begin():
                trip.begin({}, session, id="1")
            url = engine.url.render_as_string()
            first = Killed(run_trip, (url, refuses, dies, folder / "mark"))
            first.start()
            first.process.join(60)
            assert first.process.exitcode == -signal.SIGKILL
            with trip_of(engine, refuses=refuses):
                wait_until(lambda: state(trip, engine) in ("done", "compensated"))  # noqa: B023
            assert items(engine) == (["no hotel", "no flight"] if refuses else list(STEPS)), dies


def test_a_step_is_tried_again_and_then_all_is_undone(engine: Engine) -> None:
    trip = Saga(engine, "trip", retries=2, backoff=SOON)
    attempts: list[int] = []

    @trip.step
    def flight(run: SagaRun) -> None:
        run.session.execute(taken.insert().values(item="flight"))

    @flight.compensation
    def cancel(run: SagaRun) -> None:
        attempts.append(-run.attempt)
        run.session.execute(delete(taken))
        if run.attempt < 2:
            raise RuntimeError("not yet")

    @trip.step
    def hotel(run: SagaRun) -> None:
        attempts.append(run.attempt)
        raise RuntimeError("closed")

    with trip:
        with Session(engine) as session, session.begin():
            trip.begin({}, session, id="1")
        wait_until(lambda: state(trip, engine) == "compensated")
    assert attempts == [1, 2, 3, -1, -2]
    assert items(engine) == []


@pytest.mark.parametrize("answer", ["resume", "fail"])
def test_a_step_waits_for_a_reply(answer: str, engine: Engine) -> None:
    trip = Saga(engine, "trip", backoff=SOON)
    undone: list[str] = []

    @trip.step
    def ask(run: SagaRun) -> Wait:
        return Wait.FOR_REPLY

    @ask.compensation
    def withdraw(run: SagaRun) -> None:
        undone.append(run.reason)

    @trip.step
    def tell(run: SagaRun) -> None:
        run.session.execute(taken.insert().values(item=run.data["seat"]))

    with trip:
        with Session(engine) as session, session.begin():
            trip.begin({}, session, id="1")
        wait_until(lambda: state(trip, engine) == "waiting")
        with Session(engine) as session, session.begin():
            if answer == "resume":
                trip.resume("1", session, seat="7A")
            else:
                trip.fail("1", "full", session)
        wait_until(lambda: state(trip, engine) in ("done", "compensated"))
    assert (items(engine), undone) == ((["7A"], []) if answer == "resume" else ([], ["full"]))


@pytest.mark.parametrize("kind", ASYNC)
async def test_steps_may_be_coroutine_functions(kind: str, tmp_path: Path) -> None:
    with database(kind, tmp_path) as url:
        engine = create_async_engine(url)
        trip = Saga(engine, "trip", backoff=SOON)

        @trip.step
        async def flight(run: SagaRun) -> None:
            await run.session.execute(taken.insert().values(item="flight"))

        looking = create_engine(url.replace("+aiosqlite", "").replace("+asyncpg", "+psycopg"))
        try:
            async with trip:
                async with AsyncSession(engine) as session, session.begin():
                    trip.begin({}, session, id="1")
                await until(lambda: items(looking) == ["flight"])
        finally:
            looking.dispose()
            await engine.dispose()
