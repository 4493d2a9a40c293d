"""The workflow: its steps, what each waits for, and what is said of them on the topic of a run."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from dragoman.events import event_type


@dataclass(frozen=True)
class Step:
    """A program of the folder ``programs``, with the files of the run that it reads and writes."""

    program: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


STEPS = {
    "fetch": Step("fetch", (), ("readings.csv",)),
    "split": Step("split", ("readings.csv",), ("wind.csv", "rain.csv")),
    "wind": Step("analyse", ("wind.csv",), ("wind.json",)),
    "rain": Step("analyse", ("rain.csv",), ("rain.json",)),
    "merge": Step("merge", ("wind.json", "rain.json"), ("summary.json",)),
    "plot": Step("plot", ("summary.json",), ("summary.svg",)),
}


@event_type("http://example.org/workflow")
@dataclass(frozen=True)
class Status:
    """An event on the topic of a run.

    Attributes:
        id: The same whenever it is published again: what comes twice is taken once.
        step: Or ``run``, or the name of a consumer.
        state: Of a step started, progress, done or failed; of the run succeeded or failed; of a
            consumer recorded: it has everything up to the end of the run.
        at: The time, in UTC.
        percent: How much of a step is done.
    """

    id: str
    step: str
    state: str
    at: str
    percent: int = 0
    inputs: list[str] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)

    @property
    def ends_run(self) -> bool:
        """Whether nothing follows it but what consumers say."""
        return self.step == "run"


def before(name: str) -> list[str]:
    """The steps that make the inputs of a step."""
    wanted = set(STEPS[name].inputs)
    return [other for other, step in STEPS.items() if wanted & set(step.outputs)]


def ready(done: Iterable[str], begun: Iterable[str]) -> list[str]:
    """The steps that have all their inputs and were not begun."""
    return [name for name in STEPS if name not in begun and set(before(name)) <= set(done)]
