"""The plan of a benchmark, and the cases that it is made of."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from filters.documents import parse_own
from filters.filter import Expression
from filters.matching.engines.choice import REFERENCE
from filters.spark.engines import NAIVE, make_engine
from filters.spark.measuring import Case
from filters.workloads import Vocabulary, expressions, family_of, messages

EVALUATIONS = {NAIVE: 500_000, REFERENCE: 20_000_000}
"""Messages times expressions of one pass, at most: an engine that takes microseconds for each
expression, or in Python for a hundred, sees fewer messages where there are many. A pass is then a
second or two."""
FEWEST = 10
"""Messages, however many expressions there are."""
LEARNT = 2000
"""Generated messages from which the values in filters are drawn."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The plan of a benchmark. *workloads* are styles of `filters.workloads`, or names in
    *given*."""

    workloads: tuple[str, ...]
    engines: tuple[str, ...]
    counts: tuple[int, ...]
    partitions: tuple[int, ...]
    messages: int
    repetitions: int
    seeds: tuple[int, ...] = (1,)
    scaling: int | None = None
    """The number of expressions of the scaling by cores; None leaves it out."""
    scaled_seconds: float = 2.0
    """Work of one core that the scaling by cores shares out, in each of its rounds."""
    corpus: tuple[bytes, ...] = ()
    """Messages of others; without any, they are generated."""
    given: Mapping[str, tuple[Expression, ...]] = field(default_factory=dict)
    """Expressions of others, by the name of their workload."""


PRESETS: Mapping[str, Plan] = {
    "smoke": Plan(("ev", "xm1"), (), (100, 1000), (1, 2), 100, 2, scaling=1000),
    "paper": Plan(
        ("xm0", "xm1", "xm3", "ev"), (), (1000, 10_000, 100_000), (1, 2, 4, 8), 500, 5,
        scaling=10_000, scaled_seconds=6,
    ),
    "full": Plan(
        ("xm0", "xm1", "xm3", "ev"), (), (100, 1000, 10_000, 100_000), (1, 4, 16), 2000, 3,
        seeds=(1, 2), scaling=100_000, scaled_seconds=12,
    ),
}  # fmt: skip
"""Without engines: all that there are."""


class Cases:
    """The cases of a plan; what a corpus teaches is learnt once."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._vocabularies: dict[tuple[str, int], Vocabulary] = {}

    def __iter__(self) -> Iterator[tuple[Case, dict[str, Any]]]:
        for workload in self._plan.workloads:
            for seed in self._plan.seeds:
                for count in counts_of(self._plan, workload):
                    yield self.case(workload, seed, count)

    def case(self, workload: str, seed: int, count: int) -> tuple[Case, dict[str, Any]]:
        """Expressions of one workload, and the columns that name them."""
        plan = self._plan
        octets = plan.corpus or tuple(messages(family_of(workload), plan.messages, seed))
        if workload in plan.given:
            wanted = plan.given[workload][:count]
        else:
            wanted = tuple(expressions(workload, count, seed, self._vocabulary(workload, seed)))
        context = {"workload": workload, "seed": seed, "filters": len(wanted)}
        name = f"{workload} N={len(wanted):,} seed {seed}"
        return Case(name, wanted, evenly(octets, plan.messages)), context

    def _vocabulary(self, workload: str, seed: int) -> Vocabulary:
        corpus, family = self._plan.corpus, family_of(workload)
        key = ("corpus", 0) if corpus else (family, seed)
        if key not in self._vocabularies:
            self._vocabularies[key] = Vocabulary(corpus or messages(family, LEARNT, seed))
        return self._vocabularies[key]


def evenly(octets: tuple[bytes, ...], count: int) -> tuple[bytes, ...]:
    """Choose at most *count* of *octets*, evenly and in their order, because a corpus is sorted."""
    if len(octets) <= count:
        return octets
    return tuple(octets[number * len(octets) // count] for number in range(count))


def counts_of(plan: Plan, workload: str) -> Sequence[int]:
    given = plan.given.get(workload)
    if given is None:
        return plan.counts
    return sorted({min(count, len(given)) for count in plan.counts})


def few_messages(engine: str, case: Case) -> tuple[bytes, ...]:
    """The messages that *engine* sees of *case* (`EVALUATIONS`)."""
    if engine not in EVALUATIONS:
        return case.messages
    most = max(FEWEST, EVALUATIONS[engine] // max(1, len(case.expressions)))
    return case.messages[:most]


def draw_one_of_each(plan: Plan) -> None:
    """Draw one filter of each workload, and match a message with each engine, so that what cannot
    be is known at once.

    Raises:
        Unfit: A workload does not fit the corpus.
        FilterError: An engine does not take a filter.
    """
    cases = Cases(plan)
    for workload in plan.workloads:
        for seed in plan.seeds:
            case, _ = cases.case(workload, seed, 1)
            for engine in plan.engines:
                made = make_engine(engine)
                made.add(case.expressions[0])
                made.find(parse_own(case.messages[0]))
