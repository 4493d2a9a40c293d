"""Engines, and the plans that they are told, beside libxml2: the same questions to all.

An engine is what makes an `Index`. `check` asks it every expression over every document.
"""

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from lxml import etree

from filters import Expression, FilterError
from filters.documents import parse_own
from filters.matching.engines.index import Index
from filters.matching.planning.plan import Plan
from filters.matching.planning.templates import plan_of
from filters.xpath import compile_xpath
from tests.filters.matching.claims import Slow


@dataclass
class Tally:
    """What was asked. *pairs*: an expression over a document; *decided*: libxml2 was not needed."""

    pairs: int = 0
    true: int = 0
    decided: int = 0

    def __add__(self, other: "Tally") -> "Tally":
        return Tally(self.pairs + other.pairs, self.true + other.true, self.decided + other.decided)


class Disagreement(AssertionError):
    """Somebody's verdict is not libxml2's."""


class _Judge:
    """One expression, and libxml2's verdict of it."""

    def __init__(self, expression: Expression) -> None:
        self.expression = expression
        self.plan: Plan = plan_of(expression)
        self._compiled = compile_xpath(expression.text, expression.namespaces)

    def verdict(self, root: etree._Element) -> bool:
        return bool(self._compiled(root))


def check(
    make: Callable[[], Index],
    expressions: Iterable[Expression],
    documents: Sequence[bytes],
    *,
    claims: bool = True,
    churn: random.Random | None = None,
) -> Tally:
    """Ask for each of *expressions* over each of *documents*; those that are refused are left out.

    Args:
        claims: Hold the plans to what they claim, too: an engine may hide what is wrong there.
        churn: Between two documents, some expressions leave, or come, or come twice.

    Raises:
        Disagreement: A verdict is not libxml2's.
    """
    judges = list(_judges(expressions))
    index = make()
    numbers = [[index.add(judge.expression)] for judge in judges]
    tally = Tally()
    for octets in documents:
        root = parse_own(octets)
        slow = Slow(root) if claims else None
        if churn is not None:
            _churn(index, judges, numbers, churn)
        true, doubtful = index.find(root)
        decided = set(true)
        open_ = set(doubtful)
        parsed = index.find_in(octets, checked=True)
        if parsed is not None and (set(parsed.true), set(parsed.doubtful)) != (decided, open_):
            raise Disagreement(f"the engine parses something else in {octets!r}")
        if len(true) + len(doubtful) != len(decided | open_):
            raise Disagreement(f"a number comes twice over {octets!r}")
        known = {number for kept in numbers for number in kept}
        if not (decided | open_) <= known or len(index) != len(known):
            raise Disagreement(f"numbers that nobody has over {octets!r}")
        for judge, kept in zip(judges, numbers, strict=True):
            verdict = judge.verdict(root)
            text = f"{judge.expression.text!r} over {octets.decode()!r} is {verdict}"
            if slow is not None:
                try:
                    slow.meets(judge.plan, verdict)
                except AssertionError as error:
                    raise Disagreement(f"{text}, but for {error} of {judge.plan}") from error
            if not kept:
                continue
            if kept[0] not in open_ and (kept[0] in decided) is not verdict:
                raise Disagreement(f"{text}, but not for the engine: {judge.plan}")
            tally.pairs += 1
            tally.true += verdict
            tally.decided += kept[0] not in open_
    for kept in numbers:
        for number in kept:
            index.remove(number)
    if len(index):
        raise Disagreement("what was removed is still there")
    return tally


def _judges(expressions: Iterable[Expression]) -> Iterable[_Judge]:
    for expression in expressions:
        try:
            yield _Judge(expression)
        except FilterError:
            continue


def _churn(
    index: Index, judges: list[_Judge], numbers: list[list[int]], chance: random.Random
) -> None:
    for judge, kept in zip(judges, numbers, strict=True):
        turn = chance.random()
        if turn < 0.15 and kept:
            index.remove(kept.pop())
        elif turn < 0.30 and len(kept) < 2:
            number = index.add(judge.expression)
            if kept and kept[0] != number:
                raise Disagreement(f"{judge.expression.text!r} has two numbers")
            kept.append(number)
