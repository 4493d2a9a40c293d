"""Evaluation in a process that can be killed."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from filters import PAYLOAD, Expression, FilterError, View
from filters.documents import parse_own
from filters.matching.fallback.worker import Budget, Worker, WorkerUnavailable, evaluate_questions
from filters.xpath import compile_xpath, parse
from tests.filters.matching.costly import SHAPES, Costly, document
from tests.filters.matching.hostile import CUT_OFF, HARMLESS, REFUSED
from tests.rigs.pace import unit
from tests.rigs.waiting import wait_until

LARGE = document("flat", 8_000)
HOSTILE = "//*[../*[../*[../*]]]"


@pytest.fixture
def worker() -> Iterator[Worker]:
    one = Worker()
    yield one
    one.close()


@pytest.fixture
def strict() -> Iterator[Worker]:
    """One that is quick to judge."""
    one = Worker(one=0.01)
    yield one
    one.close()


def expressions(*texts: str) -> list[Expression]:
    return [Expression(text) for text in texts]


def evaluators(worker: Worker) -> list[int]:
    """The processes that evaluate."""
    assert worker.pid is not None
    return list(
        map(int, Path(f"/proc/{worker.pid}/task/{worker.pid}/children").read_text().split())
    )


def is_gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def test_verdicts_are_those_of_libxml2(worker: Worker) -> None:
    for shape in SHAPES:
        octets = document(shape, 30)
        root = parse_own(octets)
        generator = Costly(3)
        texts: list[str] = []
        while len(texts) < 50:
            text = generator.expression(2)
            try:
                parse(Expression(text))
            except FilterError:
                continue
            texts.append(text)
        verdicts = worker.evaluate(octets, expressions(*texts), Budget(10**7))
        for text, verdict in zip(texts, verdicts, strict=True):
            if verdict is not None:
                assert verdict == compile_xpath(text, ())(root), text
        assert verdicts.count(None) < 5


def test_namespaces_are_those_of_the_expression(worker: Worker) -> None:
    one = Expression("/p:a", namespaces=(("p", "urn:p"),))
    other = Expression("/p:a", namespaces=(("p", "urn:q"),))
    assert worker.evaluate(b"<a xmlns='urn:p'/>", [one, other]) == [True, False]


def test_hostile_expressions_are_cut_off(strict: Worker) -> None:
    assert len(CUT_OFF) >= 50
    admitted = expressions(*CUT_OFF)
    for expression in admitted:
        parse(expression)
        assert strict.evaluate(LARGE, [expression]) == [None], expression.text


def test_hostile_expressions_are_refused() -> None:
    for text in REFUSED:
        with pytest.raises(FilterError):
            parse(Expression(text))


def test_harmless_expressions_get_their_verdicts(worker: Worker) -> None:
    assert len(HARMLESS) >= 30
    root = parse_own(LARGE)
    verdicts = worker.evaluate(LARGE, expressions(*HARMLESS))
    assert verdicts == [compile_xpath(text, ())(root) for text in HARMLESS]


def test_the_cheap_ones_do_not_pay_for_the_expensive(worker: Worker) -> None:
    texts = [HOSTILE, "//b", *(f"{HOSTILE} and {i}" for i in range(20)), "//c"]
    started = time.monotonic()
    assert worker.evaluate(LARGE, expressions("1 and " + HOSTILE)) == [None]
    alone = time.monotonic() - started
    verdicts = worker.evaluate(LARGE, expressions(*texts))
    assert verdicts == [None, True, *[None] * 20, False]
    together = time.monotonic() - started - alone
    assert together < 15 * alone, "each of the 21 had its own budget"


def test_all_on_one_message_have_a_budget(strict: Worker) -> None:
    budget = Budget(0)
    strict.evaluate(LARGE, expressions(*(f"{HOSTILE} and {i}" for i in range(100))), budget)
    assert budget.left <= 0


def test_a_death_costs_one_verdict_alone(worker: Worker) -> None:
    """Whoever kills it: here the kernel, for want of memory, or an operator."""
    assert worker.evaluate(b"<a/>", expressions("a")) == [False]
    [evaluator] = evaluators(worker)
    os.kill(evaluator, signal.SIGKILL)
    assert worker.evaluate(b"<a/>", expressions("/a", "b")) == [True, False]
    assert worker.pid is not None
    os.kill(worker.pid, signal.SIGKILL)
    assert worker.evaluate(b"<a/>", expressions("/a", "b")) == [True, False]


def test_a_process_that_does_not_answer_is_given_up() -> None:
    worker = Worker(stuck=1.0)
    assert worker.evaluate(b"<a/>", expressions("/a")) == [True]
    [evaluator] = evaluators(worker)
    os.kill(evaluator, signal.SIGSTOP)
    assert worker.evaluate(b"<a/>", expressions("/a")) == [True]
    assert worker.pid is not None
    wait_until(lambda: is_gone(evaluator))
    worker.close()


def test_closing_ends_the_process(worker: Worker) -> None:
    worker.evaluate(b"<a/>", expressions("a"))
    assert worker.pid is not None
    both = [worker.pid, *evaluators(worker)]
    worker.close()
    for pid in both:
        wait_until(lambda pid=pid: is_gone(pid))  # type: ignore[misc]
    assert worker.evaluate(b"<a/>", expressions("/a")) == [True]


PARENT = """
import sys
from filters import Expression
from filters.matching.fallback.worker import Worker
worker = Worker()
worker.evaluate(b"<a/>", [Expression("a")])
print(worker.pid, flush=True)
sys.stdin.read()
"""


def test_it_does_not_outlive_its_parent() -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout is not None
    supervisor = int(parent.stdout.readline())
    [evaluator] = map(
        int, Path(f"/proc/{supervisor}/task/{supervisor}/children").read_text().split()
    )
    parent.kill()
    parent.communicate()
    for pid in (supervisor, evaluator):
        wait_until(lambda pid=pid: is_gone(pid))  # type: ignore[misc]


def test_a_process_that_cannot_start_blames_nobody(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    for executable in ("/nowhere/python", "/bin/false"):
        with monkeypatch.context() as patch:
            patch.setattr(sys, "executable", executable)
            with pytest.raises(WorkerUnavailable):
                worker.evaluate(b"<a/>", expressions("/a"))
        assert worker.pid is None
    assert worker.evaluate(b"<a/>", expressions("/a")) == [True]


def test_large_documents(worker: Worker) -> None:
    text = document("text", 9_000)
    assert len(text) > 1_800_000
    assert worker.evaluate(text, expressions("//b[. = 'no']", "count(b) = 9000")) == [False, True]
    octets = b"<a>" + b"x" * 2**21 + b"</a>"
    assert worker.evaluate(octets, expressions("contains(., 'y')", "/a")) == [False, True]


def test_many_expressions_at_once(worker: Worker) -> None:
    texts = [f"count(b) = {number}" for number in range(10_000)]
    verdicts = worker.evaluate(document("flat", 50), expressions(*texts))
    assert [number for number, verdict in enumerate(verdicts) if verdict] == [50]


def test_a_hundred_filters_cost_little_more_than_here(worker: Worker) -> None:
    texts = [f"//b[. = 'no{number}']" for number in range(100)]
    octets = document("flat", 3_000)
    root = parse_own(octets)
    compiled = [compile_xpath(text, ()) for text in texts]
    asked = expressions(*texts)
    worker.evaluate(octets, asked)
    here, there = [], []
    for _ in range(5):
        started = time.perf_counter()
        parse_own(octets)
        assert not any(xpath(root) for xpath in compiled)
        here.append(time.perf_counter() - started)
        started = time.perf_counter()
        assert not any(worker.evaluate(octets, asked))
        there.append(time.perf_counter() - started)
    assert min(there) < 2 * min(here) + 5 * unit()


def test_an_expression_that_is_none_is_false(worker: Worker) -> None:
    """An earlier version may have admitted it."""
    assert worker.evaluate(b"<a/>", expressions("count(", "/a")) == [False, True]


def test_conjunctions_over_several_documents(worker: Worker) -> None:
    envelope = View("envelope")
    documents = {PAYLOAD: LARGE, envelope: b"<e/>"}
    large, other = Expression("/a"), Expression("/e", view=envelope)
    hostile, no = Expression(HOSTILE), Expression("/no", view=envelope)
    both = [((large, other), documents), ((large, no), documents)]
    assert evaluate_questions(worker, both) == [True, False]
    unknown = [((hostile, other), documents), ((hostile, no), documents), ((large,), documents)]
    assert evaluate_questions(worker, unknown) == [None, False, True]
    assert evaluate_questions(worker, []) == []
