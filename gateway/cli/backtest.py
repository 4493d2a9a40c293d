"""``dragoman backtest``."""

import signal
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from filters import check_engine
from filters.spark.backtest import (
    RESULTS,
    Result,
    require_files,
    require_folder,
    results_in,
    translated,
)
from filters.spark.backtest import backtest as run_backtest
from filters.spark.backtest_report import MAX_SAMPLE, busiest, html, over_time
from filters.spark.charts import shortened
from filters.spark.definitions import (
    Definition,
    DefinitionError,
    Definitions,
    make_definition,
    read_definitions,
)
from filters.spark.following import follow as start_following
from filters.spark.page import write as write_page
from filters.spark.paths import absolute, child, exists, is_remote, local_path, write_text
from filters.spark.session import listed, require_spark, session
from filters.spark.subscription_overlap import Overlap, overlaps
from gateway.cli.errors import CommandFailed
from gateway.cli.options import Form, OutputOption, read_namespaces
from gateway.cli.output import counted, json_line, line, note, payload_text, table
from gateway.cli.spark import ConfOption, EngineOption, MasterOption, failures, read_conf

BAR = 40
SHOWN_FILTERS = 20
THE_FILTER = "the filter"
LOOK_SECONDS = 1.0


def backtest(
    archive: Annotated[
        str, typer.Argument(metavar="ARCHIVE", help="What `serve --archive` wrote, or its URL.")
    ],
    xpath: Annotated[
        str | None,
        typer.Option(metavar="EXPR", help="XPath 1.0 that must hold for the payload."),
    ] = None,
    topic: Annotated[
        str | None,
        typer.Option(metavar="EXPR", help="A topic expression, as `listen` takes it."),
    ] = None,
    ns: Annotated[
        list[str] | None,
        typer.Option(metavar="PREFIX=URI", help="A prefix for --xpath and --topic; repeatable."),
    ] = None,
    filters: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help='Many filters instead: JSON lines of {"id", "xpath", "topic", "namespaces"}, or'
            " what `subscriptions list --output json` prints.",
        ),
    ] = None,
    beside: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Filters that are there, as for --filters: say which of them match the same.",
        ),
    ] = None,
    out: Annotated[
        str | None,
        typer.Option(
            metavar="DIR",
            help="Write matches and counts as Parquet there, and report.html; or a URL. What an"
            " earlier one left there is replaced.",
        ),
    ] = None,
    follow: Annotated[
        bool,
        typer.Option("--follow", help="Match the archive as it grows, into --out; Ctrl-C ends."),
    ] = False,
    engine: EngineOption = None,
    master: MasterOption = None,
    conf: ConfOption = None,
    output: OutputOption = Form.TEXT,
) -> None:
    r"""Say what a subscription would have received from an archive of notifications.

    Prints counts over time, the total, and the first three notifications. A damaged file is named,
    counted, and read as far as it can be. Without a filter, everything matches. Needs the extra
    spark, and Java.

    \b
    Examples:
      dragoman backtest --xpath '/storm[speed > 100]' /var/lib/dragoman/archive
      dragoman backtest --topic storms//. --out report /var/lib/dragoman/archive
      dragoman backtest --xpath /storm --beside subscriptions.json /var/lib/dragoman/archive
      dragoman backtest --filters subscriptions.jsonl --master spark://spark:7077 /mnt/archive
      dragoman backtest --xpath /storm --out s3a://bucket/out s3a://bucket/archive
      dragoman backtest --xpath /storm --follow --out /mnt/storms /mnt/archive
    """
    settings = read_conf(conf)
    with failures():
        definitions = _definitions(filters, xpath, topic, ns)
        if engine is not None:
            definitions = replace(definitions, engine=_engine(engine))
        require = require_folder if follow else require_files
        require(archive)
        if beside is not None and (follow or filters is not None):
            raise typer.BadParameter(
                "it is for one filter, and without --follow", param_hint="--beside"
            )
        existing = None if beside is None else _read(beside)
        if follow and out is None:
            raise typer.BadParameter("--follow needs a folder for the matches", param_hint="--out")
        require_spark()
        if out is not None and not is_remote(out):
            folder = Path(local_path(out))
            _check_place(out, lambda name: (folder / name).exists(), follow=follow)
            if not follow:
                _tell_replaced(out, results_in(out))
            # Before the work, not after it.
            folder.mkdir(parents=True, exist_ok=True)
        note("Starting Spark ...")
        with session(master, app="dragoman backtest", conf=settings) as spark:
            target = absolute(out) if out else None

            def has(name: str) -> bool:
                with translated():
                    return exists(spark, child(str(target), name))

            if target is not None and is_remote(target):
                _check_place(target, has, follow=follow)
            if follow and out is not None:
                _follow(spark, archive, definitions, out)
                return
            if target is not None and is_remote(target):
                _tell_replaced(target, [name for name in RESULTS if has(name)])
            number = len(definitions)
            note(f"Matching {archive} against {number:,} filter{'s' * (number > 1)} ...")
            shared: Sequence[Overlap] = ()
            if existing is not None:
                shared = overlaps(spark, archive, definitions.rows[0], existing)
            result = run_backtest(spark, archive, definitions, out=target)
            if target is not None:
                report = html(result, _asked(archive, filters, xpath, topic, ns))
                _write_report(spark, report, target)
    for file, rows, damage in result.damage:
        note(f"damaged: {file}, after {rows:,} rows: {damage}")
    if output is Form.JSON:
        same = {} if existing is None else {"overlaps": [asdict(one) for one in shared]}
        json_line(_record(result) | same)
    else:
        _print(result)
        if existing is not None:
            _print_overlaps(result, shared, len(existing))
    if out is not None:
        note(f"Wrote {', '.join(child(out, one) for one in RESULTS)}")
    if result.is_unreadable:
        raise CommandFailed(f"{archive}: nothing could be read in {counted(result.files, 'file')}")


def _check_place(out: str, has: Callable[[str], bool], *, follow: bool) -> None:
    """See that one who follows an archive, and one who does not, do not write to the same place.

    Raises:
        CommandFailed: What *out* has is the other's.
    """
    if follow and has("matches") and not has("checkpoint"):
        raise CommandFailed(f"{out}: has the matches of a backtest: follow into another folder")
    if not follow and has("checkpoint"):
        raise CommandFailed(f"{out}: backtest --follow writes there: name another folder")


def _tell_replaced(out: str, found: Sequence[str]) -> None:
    """Say which results *found* in *out* are replaced."""
    if found:
        note(f"What {out} has is replaced: {listed(found)}")


def _definitions(
    filters: Path | None, xpath: str | None, topic: str | None, ns: list[str] | None
) -> Definitions:
    if filters is None:
        return Definitions((_definition(xpath, topic, read_namespaces(ns)),))
    if xpath or topic:
        raise typer.BadParameter(
            "it takes the place of --xpath and --topic", param_hint="--filters"
        )
    return _read(filters)


def _definition(xpath: str | None, topic: str | None, namespaces: Mapping[str, str]) -> Definition:
    """The one filter that the options make.

    Raises:
        typer.BadParameter: It is not valid; names the option, and what it was given.
    """
    # Each alone first: an error names the definition, and so the option.
    for option, given in (("xpath", xpath), ("topic", topic)):
        try:
            alone = {"xpath": None, "topic": None} | {option: given}
            make_definition(repr(given), namespaces=namespaces, **alone)
        except DefinitionError as error:
            raise typer.BadParameter(str(error), param_hint=f"--{option}") from error
    return make_definition(THE_FILTER, xpath=xpath, topic=topic, namespaces=namespaces)


def _read(file: Path) -> Definitions:
    read = read_definitions(file)
    if read.left_out:
        left_out = f"{counted(len(read.left_out), 'subscription')}, such as {read.left_out[0]}"
        note(f"left out: {left_out}: they ask about what an archive has not")
    return read


def _write_report(spark: Any, report: str, folder: str) -> None:
    if is_remote(folder):
        with translated():
            write_text(spark, report, child(folder, "report.html"))
    else:
        write_page(report, Path(local_path(folder)) / "report.html")


def _engine(name: str) -> str:
    try:
        check_engine(name)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--engine") from error
    return name


def _asked(
    archive: str,
    filters: Path | None,
    xpath: str | None,
    topic: str | None,
    namespaces: list[str] | None,
) -> list[tuple[str, str]]:
    named = (
        *(("filters", filters), ("XPath", xpath), ("topic", topic)),
        *(("prefix", pair) for pair in namespaces or ()),
        ("archive", absolute(archive)),
        ("when", f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC"),
    )
    return [(name, str(value)) for name, value in named if value]


def _follow(spark: Any, archive: str, definitions: Definitions, out: str) -> None:
    stopped = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        # Nothing is raised: it would be in the middle of what is being said to Java.
        signal.signal(number, lambda *_: stopped.set())
    with translated():
        query = start_following(spark, archive, definitions, absolute(out))
        note(f"Following {archive}; matches appear in {child(out, 'matches')}. Ctrl-C ends.")
        last = -1
        while query.isActive and not stopped.wait(LOOK_SECONDS):
            done = query.lastProgress
            if done and done["batchId"] != last and done["numInputRows"]:
                last = done["batchId"]
                note(f"{done['timestamp']}: new files: {done['numInputRows']:,}")
        query.stop()
        if (failure := query.exception()) is not None:
            try:
                raise failure
            finally:
                del failure
    note("Stopped; the same command goes on from here.")


def _print(result: Result) -> None:
    read = f"{counted(result.rows, 'notification')} in {counted(result.files, 'file')}"
    line(f"{read}, {result.damaged:,} damaged")
    unit, rows = over_time(result.hours)
    if rows:
        line()
        for text in table((unit, "messages", "bytes", ""), _with_bars(rows)):
            line(text)
    line()
    line(f"total: {counted(result.messages, 'message')}, {counted(result.octets, 'byte')}")
    if len(result.totals) > 1:
        _print_filters(result)
    for sample in result.samples:
        line()
        line(f"{sample.time:%Y-%m-%d %H:%M:%SZ}  {sample.topic or 'default topic'}  {sample.id}")
        line(shortened(payload_text(sample.payload.encode()), MAX_SAMPLE))


def _print_overlaps(result: Result, shared: Sequence[Overlap], existing: int) -> None:
    line()
    line(f"{len(shared):,} of {counted(existing, 'filter')} that are there match some of the same")
    if not shared:
        return
    names = ("filter", "in common", "of the proposed", "of its own")
    rows = [
        (
            *(one.id, f"{one.common:,}"),
            *(f"{one.common / result.messages:.0%}", f"{one.common / one.messages:.0%}"),
        )
        for one in shared[:SHOWN_FILTERS]
    ]
    line()
    for text in table(names, rows):
        line(text)
    if len(shared) > len(rows):
        line(f"and {len(shared) - len(rows):,} more, with --output json")


def _print_filters(result: Result) -> None:
    found = busiest(result.totals)
    line(f"{len(found):,} of {len(result.totals):,} filters match something")
    if not found:
        return
    line()
    shown = found[:SHOWN_FILTERS]
    rows = [(one.id, f"{one.messages:,}", f"{one.octets:,}") for one in shown]
    for text in table(("filter", "messages", "bytes"), rows):
        line(text)
    if len(found) > len(shown):
        line(f"and {len(found) - len(shown):,} more, in --out DIR")


def _with_bars(rows: Sequence[tuple[str, int, int]]) -> list[tuple[str, str, str, str]]:
    peak = max(messages for _, messages, _ in rows)
    block = "█" if (sys.stdout.encoding or "").lower().startswith("utf") else "#"
    return [
        (label, f"{messages:,}", f"{octets:,}", block * max(1, round(BAR * messages / peak)))
        for label, messages, octets in rows
    ]


def _record(result: Result) -> dict[str, Any]:
    record = asdict(result) | {"messages": result.messages, "bytes": result.octets}
    for counts in (*record["hours"], *record["totals"]):
        counts["bytes"] = counts["octets"]  # The old name goes with the next release.
    record["damage"] = [
        {"file": file, "rows": rows, "damage": damage} for file, rows, damage in result.damage
    ]
    plain: dict[str, Any] = _plain(record)
    return plain


def _plain(value: Any) -> Any:
    """Times as text; JSON knows the rest."""
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, dict):
        return {name: _plain(held) for name, held in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(held) for held in value]
    return value
