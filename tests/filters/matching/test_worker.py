"""Evaluation in a process that can be killed."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from filters import PAYLOAD, Expression, FilterError, View
from filters.documents import parse_own
from filters.matching.fallback.worker import Budget, Jail, JailUnavailable, judge
from filters.xpath import compile_xpath, parse
from tests.filters.matching.costly import SHAPES, Costly, document
from tests.filters.matching.hostile import CUT_OFF, HARMLESS, REFUSED
from tests.rigs.pace import unit

LARGE = document("flat", 8_000)
HOSTILE = "//*[../*[../*[../*]]]"


@pytest.fixture
def jail() -> Iterator[Jail]:
    one = Jail()
    yield one
    one.close()


@pytest.fixture
def strict() -> Iterator[Jail]:
    """One that is quick to judge."""
    one = Jail(one=0.01)
    yield one
    one.close()


def expressions(*texts: str) -> list[Expression]:
    return [Expression(text) for text in texts]


def inmates(jail: Jail) -> list[int]:
    """The processes that evaluate."""
    assert jail.pid is not None
    return list(map(int, Path(f"/proc/{jail.pid}/task/{jail.pid}/children").read_text().split()))


def wait_for(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def is_gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def test_verdicts_are_those_of_libxml2(jail: Jail) -> None:
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
        verdicts = jail.evaluate(octets, expressions(*texts), Budget(10**7))
        for text, verdict in zip(texts, verdicts, strict=True):
            if verdict is not None:
                assert verdict == compile_xpath(text, ())(root), text
        assert verdicts.count(None) < 5


def test_namespaces_are_those_of_the_expression(jail: Jail) -> None:
    one = Expression("/p:a", namespaces=(("p", "urn:p"),))
    other = Expression("/p:a", namespaces=(("p", "urn:q"),))
    assert jail.evaluate(b"<a xmlns='urn:p'/>", [one, other]) == [True, False]


def test_hostile_expressions_are_cut_off(strict: Jail) -> None:
    assert len(CUT_OFF) >= 50
    admitted = expressions(*CUT_OFF)
    for expression in admitted:
        parse(expression)
        assert strict.evaluate(LARGE, [expression]) == [None], expression.text


def test_hostile_expressions_are_refused() -> None:
    for text in REFUSED:
        with pytest.raises(FilterError):
            parse(Expression(text))


def test_harmless_expressions_get_their_verdicts(jail: Jail) -> None:
    assert len(HARMLESS) >= 30
    root = parse_own(LARGE)
    verdicts = jail.evaluate(LARGE, expressions(*HARMLESS))
    assert verdicts == [compile_xpath(text, ())(root) for text in HARMLESS]


def test_the_cheap_ones_do_not_pay_for_the_expensive(jail: Jail) -> None:
    texts = [HOSTILE, "//b", *(f"{HOSTILE} and {i}" for i in range(20)), "//c"]
    started = time.monotonic()
    assert jail.evaluate(LARGE, expressions("1 and " + HOSTILE)) == [None]
    alone = time.monotonic() - started
    verdicts = jail.evaluate(LARGE, expressions(*texts))
    assert verdicts == [None, True, *[None] * 20, False]
    together = time.monotonic() - started - alone
    assert together < 15 * alone, "each of the 21 had its own budget"


def test_all_on_one_message_have_a_budget(strict: Jail) -> None:
    budget = Budget(0)
    strict.evaluate(LARGE, expressions(*(f"{HOSTILE} and {i}" for i in range(100))), budget)
    assert budget.left <= 0


def test_a_death_costs_one_verdict_alone(jail: Jail) -> None:
    """Whoever kills it: here the kernel, for want of memory, or an operator."""
    assert jail.evaluate(b"<a/>", expressions("a")) == [False]
    [inmate] = inmates(jail)
    os.kill(inmate, signal.SIGKILL)
    assert jail.evaluate(b"<a/>", expressions("/a", "b")) == [True, False]
    assert jail.pid is not None
    os.kill(jail.pid, signal.SIGKILL)
    assert jail.evaluate(b"<a/>", expressions("/a", "b")) == [True, False]


def test_a_process_that_does_not_answer_is_given_up() -> None:
    jail = Jail(stuck=1.0)
    assert jail.evaluate(b"<a/>", expressions("/a")) == [True]
    [inmate] = inmates(jail)
    os.kill(inmate, signal.SIGSTOP)
    assert jail.evaluate(b"<a/>", expressions("/a")) == [True]
    assert jail.pid is not None
    wait_for(lambda: is_gone(inmate))
    jail.close()


def test_closing_ends_the_process(jail: Jail) -> None:
    jail.evaluate(b"<a/>", expressions("a"))
    assert jail.pid is not None
    both = [jail.pid, *inmates(jail)]
    jail.close()
    for pid in both:
        wait_for(lambda pid=pid: is_gone(pid))  # type: ignore[misc]
    assert jail.evaluate(b"<a/>", expressions("/a")) == [True]


PARENT = """
import sys
from filters import Expression
from filters.matching.jail import Jail
jail = Jail()
jail.evaluate(b"<a/>", [Expression("a")])
print(jail.pid, flush=True)
sys.stdin.read()
"""


def test_it_does_not_outlive_its_parent() -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout is not None
    warden = int(parent.stdout.readline())
    [inmate] = map(int, Path(f"/proc/{warden}/task/{warden}/children").read_text().split())
    parent.kill()
    parent.communicate()
    for pid in (warden, inmate):
        wait_for(lambda pid=pid: is_gone(pid))  # type: ignore[misc]


def test_a_process_that_cannot_start_blames_nobody(
    jail: Jail, monkeypatch: pytest.MonkeyPatch
) -> None:
    for executable in ("/nowhere/python", "/bin/false"):
        with monkeypatch.context() as patch:
            patch.setattr(sys, "executable", executable)
            with pytest.raises(JailUnavailable):
                jail.evaluate(b"<a/>", expressions("/a"))
        assert jail.pid is None
    assert jail.evaluate(b"<a/>", expressions("/a")) == [True]


def test_large_documents(jail: Jail) -> None:
    text = document("text", 9_000)
    assert len(text) > 1_800_000
    assert jail.evaluate(text, expressions("//b[. = 'no']", "count(b) = 9000")) == [False, True]
    octets = b"<a>" + b"x" * 2**21 + b"</a>"
    assert jail.evaluate(octets, expressions("contains(., 'y')", "/a")) == [False, True]


def test_many_expressions_at_once(jail: Jail) -> None:
    texts = [f"count(b) = {number}" for number in range(10_000)]
    verdicts = jail.evaluate(document("flat", 50), expressions(*texts))
    assert [number for number, verdict in enumerate(verdicts) if verdict] == [50]


def test_a_hundred_filters_cost_little_more_than_here(jail: Jail) -> None:
    texts = [f"//b[. = 'no{number}']" for number in range(100)]
    octets = document("flat", 3_000)
    root = parse_own(octets)
    compiled = [compile_xpath(text, ()) for text in texts]
    asked = expressions(*texts)
    jail.evaluate(octets, asked)
    here, there = [], []
    for _ in range(5):
        started = time.perf_counter()
        parse_own(octets)
        assert not any(xpath(root) for xpath in compiled)
        here.append(time.perf_counter() - started)
        started = time.perf_counter()
        assert not any(jail.evaluate(octets, asked))
        there.append(time.perf_counter() - started)
    assert min(there) < 2 * min(here) + 5 * unit()


def test_an_expression_that_is_none_is_false(jail: Jail) -> None:
    """An earlier version may have admitted it."""
    assert jail.evaluate(b"<a/>", expressions("count(", "/a")) == [False, True]


def test_conjunctions_over_several_documents(jail: Jail) -> None:
    envelope = View("envelope")
    documents = {PAYLOAD: LARGE, envelope: b"<e/>"}
    large, other = Expression("/a"), Expression("/e", view=envelope)
    hostile, no = Expression(HOSTILE), Expression("/no", view=envelope)
    both = [((large, other), documents), ((large, no), documents)]
    assert judge(jail, both) == [True, False]
    unknown = [((hostile, other), documents), ((hostile, no), documents), ((large,), documents)]
    assert judge(jail, unknown) == [None, False, True]
    assert judge(jail, []) == []
