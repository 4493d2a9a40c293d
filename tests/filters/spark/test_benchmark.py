"""The benchmark measures what it says, and refuses to measure engines that differ."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from lxml import etree

from filters import Expression
from filters.spark import benchmark, engines, measuring
from filters.spark.benchmark import FIGURES, Outcome, write_figures
from filters.spark.benchmark_checkpoints import OtherPlan, Unfinished
from filters.spark.benchmark_comparison import NoFigures, compared, conclusion, read_figures
from filters.spark.benchmark_plan import Cases, Plan, draw_one_of_each
from filters.spark.benchmark_report import Scaled, html, scaling, summary, times_as_fast
from filters.spark.engines import ENGINES, NAIVE, Engine, Naive, make_engine, unavailable
from filters.spark.footprint import MeasuringFailed, measure
from filters.spark.measuring import Case
from filters.spark.profiling import profile
from filters.workloads import Unfit, Vocabulary, expressions, family_of, messages
from tests.filters.spark.conftest import check_report

HERE = [name for name in ENGINES if unavailable(name) is None]
PLAN = Plan(("ev",), tuple(HERE), (40,), (1, 2), messages=20, repetitions=2)


def case(style: str = "ev", count: int = 300) -> Case:
    octets = messages(family_of(style), 60, 1)
    return Case(style, tuple(expressions(style, count, 1, Vocabulary(octets))), tuple(octets))


@pytest.fixture
def running(spark: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A benchmark that uses the session that there is."""
    from contextlib import contextmanager

    @contextmanager
    def session(*_: object, **__: object) -> Any:
        yield spark

    monkeypatch.setattr(benchmark, "session", session)
    return spark


@pytest.mark.parametrize("name", HERE)
def test_engines_take_and_forget_expressions(name: str) -> None:
    engine = make_engine(name)
    document = etree.fromstring(b"<a><b>1</b></a>")
    one = engine.add(Expression("/a/b = 1"))
    two = engine.add(Expression("count(//b) = string-length(/a)"))
    assert engine.add(Expression("/a/b = 1")) == one
    assert (len(engine), sorted(engine.find(document))) == (2, sorted([one, two]))
    engine.remove(one)
    assert sorted(engine.find(document)) == sorted([one, two])
    engine.remove(one)
    assert (len(engine), engine.find(document)) == (1, [two])
    assert engine.find(document) == [engine.add(Expression("count(//b) = string-length(/a)"))]


def test_an_engine_that_is_none() -> None:
    with pytest.raises(
        ValueError, match="'yfilter' is not an engine; the engines are naive, reference"
    ):
        make_engine("yfilter")


@pytest.mark.parametrize("style", ["ev", "xm1", "xm3"])
def test_engines_agree(style: str) -> None:
    [counts] = measuring._compare(style, lambda: case(style), HERE[1:], 60)
    assert counts["verdicts"] == len(HERE) * 60 * 300 and counts["matches"] > 0


@pytest.mark.parametrize("there", [3, 7, 100])
def test_a_case_has_messages_of_the_whole_corpus(there: int) -> None:
    corpus = tuple(f"<a n='{n}'/>".encode() for n in range(there))
    given = {"mine": (Expression("/a"),)}
    plan = replace(PLAN, corpus=corpus, given=given, workloads=("mine",), messages=7)
    [(one, context)] = Cases(plan)
    assert len(one.messages) == min(there, 7) == len(set(one.messages))
    at = [corpus.index(octets) for octets in one.messages]
    assert at == sorted(at) and at[0] == 0 and at[-1] >= there - there // 7 - 1
    assert (context["workload"], context["filters"]) == ("mine", 1)


class _Forgetful(Naive):
    def find(self, root: etree._Element) -> list[int]:
        return [number for number in super().find(root) if number != 3]


def test_a_run_with_an_engine_that_is_wrong_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def make(name: str) -> Engine:
        return _Forgetful() if name == "wrong" else Naive()

    one = replace(case(), expressions=tuple(Expression(f"/*[{n}]") for n in (1, 2, 3)))
    one = replace(one, name="wrong", expressions=(*one.expressions, Expression("/*")))
    monkeypatch.setattr(measuring, "make_engine", make)
    rows = list(measuring._compare(one.name, lambda: one, ["wrong"], 5))
    assert [(row["message"], row["expression"], row["engine"]) for row in rows[:-1]] == [
        (n, 3, "wrong") for n in range(5)
    ]
    with pytest.raises(benchmark.Disagreement, match=r"wrong and libxml2 differ about '/\*' on"):
        benchmark.refuse(rows[:-1], one, {"workload": "ev", "seed": 1})


@pytest.mark.nightly
def test_a_run(running: Any, tmp_path: Path) -> None:
    told: list[str] = []
    outcome = benchmark.run(PLAN, tell=told.append, master="spark://nobody")
    timed = [row for row in outcome.rows if row["kind"] == "match"]
    for engine in HERE:
        for partitions in PLAN.partitions:
            rows = [
                row for row in timed if (row["engine"], row["partitions"]) == (engine, partitions)
            ]
            assert len(rows) == partitions * PLAN.repetitions
            for repetition in range(PLAN.repetitions):
                passed = [row for row in rows if row["repetition"] == repetition]
                assert sum(row["messages"] for row in passed) == PLAN.messages
                assert len({sum(row["matches"] for row in passed)}) == 1
    assert len({row["matches"] for row in timed if row["partitions"] == 1}) == 1
    assert all(row["cpu_ns"] > 0 and row["end_ns"] > row["start_ns"] for row in timed)
    built = [row for row in outcome.rows if row["kind"] == "build"]
    assert [row["engine"] for row in built] == HERE
    assert all(row["build_ns"] > 0 and row["churn_ns"] > 0 for row in built)
    assert outcome.verdicts == len(HERE) * 20 * 40
    steps = len(told)
    assert told[-1].startswith(f"[{steps}/{steps}] ")

    write_figures(outcome.rows, tmp_path / "figures.parquet")
    read = running.read.parquet(str(tmp_path / "figures.parquet"))
    assert read.count() == len(outcome.rows)
    assert read.columns == [column.split()[0] for column in FIGURES.split(", ")]

    assert [row[:3] for row in summary(outcome.rows)] == [("ev", "40", name) for name in HERE]
    report = check_report(html(PLAN, outcome, "generated"))
    titles = [title.text for title in report.iter("h2")]
    shown = {"Workload ev", "Selectivity", "Build, churn, memory", "Where the time goes"}
    assert shown <= set(titles)
    texts = " ".join(str(text) for text in report.itertext())
    assert all(name in texts for name in (*HERE, "libxml2", "Java", outcome.java))
    assert "Scaling by cores" not in titles


def test_a_run_that_ends_early_goes_on(
    running: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With what it has: nothing is measured twice, and the figures are those of a whole run."""
    plan = replace(PLAN, engines=tuple(HERE[-2:]), counts=(10, 20), partitions=(1,), repetitions=1)
    measured: list[str] = []

    def interrupted(engine: str, *arguments: Any) -> Any:
        if len(measured) == 3:
            raise KeyboardInterrupt
        measured.append(engine)
        return measure(engine, *arguments)

    monkeypatch.setattr(benchmark, "measure", interrupted)
    monkeypatch.setattr(benchmark, "profile", lambda *_: None)
    with pytest.raises(KeyboardInterrupt):
        benchmark.run(plan, tell=print, unfinished=Unfinished(tmp_path, plan))
    kept = (tmp_path / "unfinished.jsonl").read_text()
    (tmp_path / "unfinished.jsonl").write_text(kept + '["cut", {"ro')

    def counted(engine: str, *arguments: Any) -> Any:
        measured.append(engine)
        return measure(engine, *arguments)

    monkeypatch.setattr(benchmark, "measure", counted)
    told: list[str] = []
    again = Unfinished(tmp_path, plan, resume=True)
    assert len(again) == 5
    outcome = benchmark.run(plan, tell=told.append, unfinished=again)
    assert measured == list(plan.engines) * 2
    found = [(row["kind"], row["filters"], row["engine"]) for row in outcome.rows]
    kinds = ("build", "match")
    assert found == [
        (kind, n, engine) for n in (10, 20) for engine in plan.engines for kind in kinds
    ]
    compared_ones = {NAIVE, *plan.engines}
    assert outcome.verdicts == len(compared_ones) * 20 * (10 + 20)
    assert sum("measured before" in line for line in told) == 5
    assert any(" to go  " in line for line in told) and told[-1].startswith("[12/12] ")
    with pytest.raises(OtherPlan, match="other options"):
        Unfinished(tmp_path, replace(plan, messages=19), resume=True)
    assert len(Unfinished(tmp_path, plan)) == 0
    again.remove()
    assert not list(tmp_path.iterdir())


def test_a_workload_that_does_not_fit_is_known_at_once() -> None:
    plan = replace(PLAN, workloads=("ev",), corpus=(b"<a/>",), seeds=(1,))
    with pytest.raises(Unfit):
        draw_one_of_each(plan)
    mine = {"mine": (Expression("/a"),)}
    draw_one_of_each(replace(plan, workloads=("mine",), given=mine))


def figure(workload: str, filters: int, engine: str, micros: int) -> dict[str, Any]:
    row = {"kind": "match", "workload": workload, "filters": filters, "engine": engine}
    return row | {"partitions": 1, "messages": 10, "cpu_ns": 10_000 * micros}


def test_a_conclusion_and_a_comparison(tmp_path: Path) -> None:
    rows = [
        figure("ev", 100, NAIVE, 900),
        figure("ev", 1000, NAIVE, 9000),
        figure("ev", 1000, "native", 9),
        figure("xm1", 1000, "native", 4),
    ]
    assert conclusion(rows) == (
        "Against 1,000 filters the native engine matches a message in 9 us at most, which ev takes:"
        " 1,000 times as fast as one expression after the other."
    )
    assert (
        conclusion(rows[:1]) == "Against 100 filters the naive engine matches a message in 900 us."
    )
    assert conclusion([]) == ""
    write_figures(
        [figure("ev", 1000, "native", 6), figure("ev", 7, NAIVE, 6)], tmp_path / "figures.parquet"
    )
    earlier = read_figures(tmp_path)
    assert compared(rows, earlier) == [("ev", "1,000", "native", "6", "9", "1.50")]
    report = html(PLAN, Outcome(rows=[]), "", ("old", earlier))
    assert "Compared with before" in report
    for name in ("nowhere", "text"):
        (tmp_path / "text").write_text("no figures")
        with pytest.raises(NoFigures, match=name):
            read_figures(tmp_path / name)


def test_what_scaling_compares() -> None:
    def task(cores: int, run: int, start: int, end: int, job: int) -> dict[str, Any]:
        row = {"kind": "scale", "cores": cores, "run": run, "job_ns": job * 10**9}
        return row | {
            "start_ns": start * 10**9,
            "end_ns": end * 10**9,
            "cpu_ns": 10**9,
            "parse_ns": 10**9,
            "partitions": 2,
            "filters": 7,
            "workload": "ev",
            "engine": NAIVE,
        }

    rows = [
        task(1, 0, 10, 14, 9),
        task(1, 0, 14, 18, 9),
        task(1, 1, 30, 36, 7),
        task(2, 0, 50, 54, 5),
        task(2, 0, 51, 53, 5),
        task(2, 1, 61, 64, 4),
    ]
    found = scaling(rows)
    assert found == {
        1: Scaled((8.0, 6.0), (9.0, 7.0), (4.0, 2.0)),
        2: Scaled((4.0, 3.0), (5.0, 4.0), (4.0, 2.0)),
    }
    assert times_as_fast(found[1].engine, found[2].engine) == (2.0, 2.0, 2.0)
    assert times_as_fast(found[1].job, found[2].job) == (1.775, 1.75, 1.8)
    report = html(PLAN, Outcome(rows=rows), "")
    table = " ".join(str(text) for text in check_report(report).itertext())
    assert "2.00 (2.00 to 2.00)" in table and "1.77 (1.75 to 1.80)" in table


def test_a_footprint_is_of_one_engine() -> None:
    one = case("xm1", 2000)
    took = measure(NAIVE, one.expressions, one.messages[:5], 1)
    assert took.distinct == len(set(one.expressions))
    assert took.memory > took.distinct * 500
    assert 0 < took.churn_seconds < took.build_seconds
    with pytest.raises(MeasuringFailed, match="'yfilter' is not an engine"):
        measure("yfilter", one.expressions, (), 1)


@pytest.mark.parametrize("name", HERE)
def test_a_profile_adds_up(name: str) -> None:
    # Few filters: parsing is a fair part of it with every engine.
    root = profile(name, case(count=20), seconds=0.4)
    assert root.value > 100
    assert sum(block.value for block in root.inner.values()) == pytest.approx(root.value)
    assert {"parse_own", f"{type(engines.make_engine(name)).__name__}.find"} <= root.inner.keys()
