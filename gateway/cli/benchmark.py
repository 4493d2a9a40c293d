"""``dragoman benchmark``."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import typer

from filters.spark.backtest import translated
from filters.spark.benchmark import Disagreement, Outcome, run, write_figures
from filters.spark.benchmark_checkpoints import FILE as UNFINISHED
from filters.spark.benchmark_checkpoints import OtherPlan, Unfinished
from filters.spark.benchmark_comparison import NoFigures, compared, conclusion, read_figures
from filters.spark.benchmark_plan import PRESETS, Plan, draw_one_of_each
from filters.spark.benchmark_report import html, scaling, summary, times_as_fast
from filters.spark.corpus import Corpus, CorpusError, read_corpus
from filters.spark.definitions import read_definitions
from filters.spark.engines import ENGINES, unavailable
from filters.spark.engines import engines as all_engines
from filters.spark.footprint import MeasuringFailed
from filters.spark.message_files import sample_rows
from filters.spark.page import write as write_page
from filters.spark.session import require_spark, session
from filters.spark.xml_rows import check_row_tag
from filters.workloads import STYLES, Unfit, Vocabulary, expressions
from gateway.cli.commands import add, group, help_alone
from gateway.cli.errors import CommandFailed
from gateway.cli.options import read_namespaces
from gateway.cli.output import line, note, table
from gateway.cli.spark import ConfOption, MasterOption, failures, read_conf

benchmark = group("benchmark", "Measure parts of Dragoman on this machine, or on a cluster.")
benchmark.callback()(help_alone)

FIGURES_FILE = "figures.parquet"
MAX_CORPUS = 50_000
"""Messages that are read of a corpus."""


class Preset(Enum):
    SMOKE = "smoke"
    PAPER = "paper"
    FULL = "full"


def filters(
    preset: Annotated[
        Preset,
        typer.Option(
            help="How much: on two free cores a minute, or (paper, full) a quarter of an hour."
        ),
    ] = Preset.SMOKE,
    corpus: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PATH",
            help="Messages: JSON lines (xml or payload), XML files, Parquet, or folders of them;"
            " repeatable. Without one they are generated.",
        ),
    ] = None,
    row_tag: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Each element of this name in the XML files of --corpus is a message: w:event."
            " Spark reads them, so they may be of any size, and URLs.",
        ),
    ] = None,
    ns: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PREFIX=URI", help="A prefix that is declared above --row-tag; repeatable."
        ),
    ] = None,
    workload: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME|FILE",
            help=f"Filters: {', '.join(STYLES)}, or JSON lines as `backtest` takes; repeatable.",
        ),
    ] = None,
    engine: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME", help=f"{', '.join(ENGINES)}, or an installed one; repeatable. [all]"
        ),
    ] = None,
    count: Annotated[
        list[int] | None,
        typer.Option("--filters", metavar="N", min=1, help="How many filters; repeatable."),
    ] = None,
    partitions: Annotated[
        list[int] | None, typer.Option(metavar="N", min=1, max=4096, help="Repeatable.")
    ] = None,
    messages: Annotated[
        int | None, typer.Option(metavar="N", min=1, max=MAX_CORPUS, help="How many to match.")
    ] = None,
    repetitions: Annotated[int | None, typer.Option(metavar="N", min=1, max=1000)] = None,
    seed: Annotated[list[int] | None, typer.Option(metavar="N", help="Repeatable.")] = None,
    out: Annotated[
        Path,
        typer.Option(
            metavar="DIR",
            help="Where figures.parquet and report.html go; an earlier run there is replaced.",
        ),
    ] = Path("dragoman-benchmark"),
    resume: Annotated[
        bool,
        typer.Option("--resume", help="Go on with a run that ended early, with the same options."),
    ] = False,
    baseline: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Compare with an earlier run: its --out."),
    ] = None,
    master: MasterOption = None,
    conf: ConfOption = None,
) -> None:
    r"""Measure what matching costs: messages x filters x engines x N x partitions, on Spark.

    First every verdict of a sample is compared between the engines; one that differs ends the run
    with nothing measured. Writes raw figures as Parquet and one HTML report. A run that ends early
    keeps what it has measured, and --resume goes on. Needs the extra spark, and Java.

    \b
    Examples:
      dragoman benchmark filters
      dragoman benchmark filters --preset paper --out results
      dragoman benchmark filters --corpus events.jsonl.gz --workload ev --filters 100000
      dragoman benchmark filters --corpus export.xml --row-tag event --out new --baseline old
      dragoman benchmark filters --workload subscriptions.jsonl --corpus samples/ --master local[2]
    """
    settings = read_conf(conf)
    _look_into(out, resume=resume)
    if row_tag is not None:
        try:
            check_row_tag(row_tag)
        except ValueError as error:
            raise typer.BadParameter(str(error), param_hint="--row-tag") from error
    with failures(), _refusals():
        earlier = None if baseline is None else (str(baseline), read_figures(baseline))
        octets = _messages(corpus, row_tag, ns, master, settings) if corpus else ()
        plan = _plan(PRESETS[preset.value], octets, workload, engine)
        counts = tuple(sorted(set(count))) if count else plan.counts
        plan = replace(
            plan,
            counts=counts,
            partitions=tuple(sorted(set(partitions))) if partitions else plan.partitions,
            messages=messages or plan.messages,
            repetitions=repetitions or plan.repetitions,
            seeds=tuple(dict.fromkeys(seed)) if seed else plan.seeds,
            scaling=plan.scaling and min(plan.scaling, counts[-1]),
        )
        require_spark()
        draw_one_of_each(plan)
        out.mkdir(parents=True, exist_ok=True)
        unfinished = Unfinished(out, plan, resume=resume)
        note("Starting Spark ...")
        with _kept(unfinished):
            outcome = run(plan, master=master, conf=settings, tell=note, unfinished=unfinished)
    # What was measured is shown even where the disk does not take it.
    _print(outcome, earlier)
    write_figures(outcome.rows, out / FIGURES_FILE)
    said = ", ".join(map(str, corpus)) if corpus else "generated"
    report = html(plan, outcome, f"{said}; {plan.messages:,} of them are matched", earlier)
    write_page(report, out / "report.html")
    unfinished.remove()
    note(f"Wrote {out / FIGURES_FILE} and {out / 'report.html'}")


def _look_into(out: Path, *, resume: bool) -> None:
    """Say that *out* has an earlier run, which is replaced; see that it has one to resume.

    Raises:
        typer.BadParameter: It has none.
    """
    begun = (out / UNFINISHED).exists()
    if resume and not begun:
        raise typer.BadParameter(f"{out} has no unfinished run", param_hint="--resume")
    if begun and not resume:
        note(f"The unfinished run in {out} is replaced; --resume would go on with it.")
    elif (out / FIGURES_FILE).exists():
        note(f"The earlier run in {out} is replaced.")


@contextmanager
def _kept(unfinished: Unfinished) -> Iterator[None]:
    """Say where what was measured is when a run ends early; when engines differ, it goes."""
    try:
        yield
    except Disagreement:
        unfinished.remove()
        raise
    except BaseException:
        if len(unfinished):
            note(f"What was measured is in {unfinished.path}; --resume goes on with it")
        else:
            unfinished.remove()
        raise


def _messages(
    places: list[str],
    row_tag: str | None,
    ns: list[str] | None,
    master: str | None,
    settings: dict[str, str],
) -> tuple[bytes, ...]:
    if row_tag is None:
        read = read_corpus([Path(place) for place in places], MAX_CORPUS)
    else:
        read = _elements(places, row_tag, ns, master, settings)
    for path in read.passed_over:
        note(f"left out: {path}, which has no messages")
    if read.left_out:
        total = read.left_out + len(read.messages)
        note(
            f"left out: {read.left_out:,} of {total:,} messages, which are not XML or are too large"
        )
    return read.messages


def _elements(
    places: list[str],
    row_tag: str,
    ns: list[str] | None,
    master: str | None,
    settings: dict[str, str],
) -> Corpus:
    namespaces = read_namespaces(ns)
    require_spark()
    note("Starting Spark to read the messages ...")
    with session(master, app="dragoman benchmark", conf=settings) as spark:
        return sample_rows(spark, places, row_tag, MAX_CORPUS, namespaces)


def _plan(
    plan: Plan, corpus: tuple[bytes, ...], workloads: list[str] | None, engines: list[str] | None
) -> Plan:
    """*plan* with what was asked for in its place."""
    for name in engines or ():
        why = unavailable(name)
        if why is not None:
            raise typer.BadParameter(why, param_hint="--engine")
    given: dict[str, Any] = {}
    for name in workloads or ():
        if name not in STYLES:
            if not Path(name).is_file():
                raise typer.BadParameter(
                    f"{name!r} is neither a file nor one of {', '.join(STYLES)}",
                    param_hint="--workload",
                )
            rows = read_definitions(Path(name)).rows
            given[name] = tuple(one for row in rows for one in row.filter.contents)
            if not given[name]:
                raise CommandFailed(f"{name}: no filter has an XPath expression")
    chosen = tuple(dict.fromkeys(workloads)) if workloads else _fitting(plan.workloads, corpus)
    return replace(
        plan,
        corpus=corpus,
        given=given,
        workloads=chosen,
        engines=tuple(name for name in all_engines() if name in engines) if engines else (),
    )


def _fitting(styles: tuple[str, ...], corpus: tuple[bytes, ...]) -> tuple[str, ...]:
    """The *styles* that occur in the corpus."""
    if not corpus:
        return styles
    vocabulary = Vocabulary(corpus)
    kept = []
    for style in styles:
        try:
            expressions(style, 1, 1, vocabulary)
            kept.append(style)
        except Unfit as error:
            note(f"left out: {error}")
    return tuple(kept)


@contextmanager
def _refusals() -> Iterator[None]:
    """Let what ends a benchmark be one line."""
    try:
        with translated():
            yield
    except (Disagreement, CorpusError, NoFigures, OtherPlan, Unfit, MeasuringFailed) as error:
        raise CommandFailed(str(error)) from error


def _print(outcome: Outcome, earlier: tuple[str, Sequence[Mapping[str, Any]]] | None) -> None:
    line(conclusion(outcome.rows))
    line()
    names = ("workload", "filters", "engine", "us/message", "messages/s", "true")
    for text in table(names, summary(outcome.rows)):
        line(text)
    if earlier is not None:
        line()
        line(f"Compared with {earlier[0]}, in us/message:")
        names = ("workload", "filters", "engine", "before", "now", "times")
        for text in table(names, compared(outcome.rows, earlier[1])):
            line(text)
    found = scaling(outcome.rows)
    if len(found) > 1:
        line()
        fewest, *others = found
        for cores in others:
            few, many = found[fewest], found[cores]
            engine, least, most = times_as_fast(few.engine, many.engine)
            line(
                f"local[{cores}]: {engine:.2f} times local[{fewest}] in engine work ({least:.2f} to"
                f" {most:.2f}), {times_as_fast(few.job, many.job)[0]:.2f} times in whole jobs"
            )
    for name, seconds in outcome.startup:
        note(f"{name}: {seconds:.1f} s, not counted")


add(benchmark, filters)
