"""Measures the column functions on Spark: rows a second, on one core and on two, and over Connect.

Question: how many rows a second does ``matches`` take in a DataFrame, at 1 to 100,000 filters,
beside what a data engineer writes without Dragoman: a plain Python UDF with lxml that evaluates
one expression after the other, and, for one filter, Spark's own ``xpath_boolean``? What do a second
core and Spark Connect change?

    .venv/bin/python -m benchmarks.spark [--filters 1 100 10000 100000] [--rounds 3] [--seconds 2]

Rows are events of Windows, filters what subscribers of such write (style ``ev`` of
`filters.workloads`). Each figure is of a job that reads Parquet and writes nowhere, warm, by the
clock, and of the processor time of the workers and of Java, which other work on the machine does
not take; sessions of one and two cores take turns. On one core are all of a session with one task
at a time, Java and its worker; "idle beside it" is the same session with a second core, on which
Java works while its worker does. The number of rows is such that a job takes about as many seconds
of processor time as are asked for. ``aim`` is what is wanted: 1.7 times with two cores, and Connect
within 10 %.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

from benchmarks.machine import describe, spread
from filters.filter import Expression
from filters.spark import functions as X
from filters.spark.session import session
from filters.workloads import Vocabulary, expressions, family_of, messages
from tests.rigs.ports import free_ports

STYLE = "ev"
DISTINCT = 2000
"""Messages that differ; rows repeat them."""
PARTS = 8
FEWEST, MOST, WARM = 8, 1_600_000, 10_000
"""Rows of a job: 100,000 take a second with one filter, of which planning the job is a tenth."""
AIM_CORES, AIM_CONNECT = 1.7, 0.9
ONE, IDLE, TWO = "one core", "another idle beside it", "two cores"
SESSIONS = {ONE: (1, 1), IDLE: (1, 2), TWO: (2, 2)}
"""Of each session, its tasks at a time, and the cores that Java and workers may use."""
MATCHES, UDF, SPARK = "matches", "UDF with lxml", "xpath_boolean"
Figures = dict[tuple[str, int, str], list[float]]
"""Rows a second, a value a round, by function, number of filters, and session, or Connect."""
Processor = tuple[float, float]
"""Seconds of processor time, of all that is no Java, and of Java."""
Took = tuple[float, float, float]
"""Seconds by the clock, and as `Processor`."""
Spent = dict[tuple[str, int, str], list[Took]]
"""Microseconds a row, by the same."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--filters", type=int, nargs="+", default=[1, 100, 10_000, 100_000])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--connect", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.connect:
        over_connect(options.connect, options.folder, options.filters)
        return
    print(f"{describe()}\n")
    with tempfile.TemporaryDirectory(dir="/dev/shm") as name:
        figures, spent = measure(Path(name), options)
    report(figures, options.filters)
    report_processor(spent, options.filters)


def measure(folder: Path, options: argparse.Namespace) -> tuple[Figures, Spent]:
    """Rows a second, and what a row took."""
    figures: Figures = defaultdict(list)
    spent: Spent = defaultdict(list)
    rows: dict[tuple[str, int], int] = {}
    for number in range(options.rounds):
        for where in list(SESSIONS)[:: -1 if number % 2 else 1]:
            with running(where) as (spark, url):
                if not rows:
                    write(spark, folder)
                for column in functions(1).values():  # Java compiles for the first of all.
                    seconds_of(spark, folder, column, WARM)
                for count in options.filters:
                    for name, column in functions(count).items():
                        known = rows.get((name, count))
                        if known is None:
                            known = rows[name, count] = enough(
                                spark, folder, column, options.seconds
                            )
                        took, others, java = seconds_of(spark, folder, column, known)
                        figures[name, count, where].append(known / took)
                        row = (took / known * 1e6, others / known * 1e6, java / known * 1e6)
                        spent[name, count, where].append(row)
                        what = f"{name}, {count:,} filters, {where}, {known:,} rows"
                        said = f"{known / took:,.0f} rows/s, {row[1]:,.1f} and {row[2]:,.1f} us"
                        print(f"{what}: {said}", file=sys.stderr)
                if where == TWO:
                    asked = {str(count): rows[MATCHES, count] for count in options.filters}
                    for count, per_second in connected(url, folder, asked).items():
                        figures[MATCHES, int(count), "Connect"].append(per_second)
    return figures, spent


@contextmanager
def running(where: str) -> Iterator[tuple[Any, str]]:
    """One of `SESSIONS`, and the URL of Spark Connect's server in it."""
    tasks, cores = SESSIONS[where]
    (port,) = free_ports(1)
    conf = {
        "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.driver.memory": "4g",
    }
    with session(f"local[{tasks}]", conf=conf) as spark:
        keep_on(sorted(MACHINE)[:cores])
        try:
            yield spark, f"sc://127.0.0.1:{port}"
        finally:
            keep_on(sorted(MACHINE))


MACHINE = os.sched_getaffinity(0)
"""The cores that this process may use."""


def keep_on(cores: Sequence[int]) -> None:
    """Keep this process and all below it on *cores*, and whatever they start."""
    for process in (os.getpid(), *below()):
        for thread in Path(f"/proc/{process}/task").glob("*"):
            with suppress(OSError):  # It has ended.
                os.sched_setaffinity(int(thread.name), cores)


def write(spark: Any, folder: Path) -> None:
    """Write the rows, in files that each have as many of any beginning of them."""
    from pyspark.sql import functions as F

    octets = list(messages(family_of(STYLE), DISTINCT, 1))
    texts = [(number, one.decode()) for number, one in enumerate(octets)]
    given = F.broadcast(spark.createDataFrame(texts, "message int, payload string"))
    part = MOST // PARTS
    spread = spark.range(0, MOST, 1, PARTS).selectExpr(
        f"id % {part} * {PARTS} + id DIV {part} AS id"
    )
    rows = spread.join(given, F.expr(f"id % {DISTINCT} = message")).select("id", "payload")
    rows.write.parquet(str(folder / "rows"))


def functions(count: int) -> dict[str, Any]:
    """The columns that are compared, with *count* filters, by name."""
    wanted = drawn(count)
    made = {MATCHES: X.matches("payload", definitions(wanted)), UDF: one_by_one(wanted)}
    if count == 1:
        made[SPARK] = own(wanted[0])
    return made


@lru_cache
def drawn(count: int) -> list[Expression]:
    octets = list(messages(family_of(STYLE), DISTINCT, 1))
    return list(expressions(STYLE, count, 1, Vocabulary(octets)))


def definitions(wanted: Sequence[Expression]) -> list[dict[str, Any]]:
    return [
        {"id": str(number), "xpath": one.text, "namespaces": dict(one.namespaces)}
        for number, one in enumerate(wanted)
    ]


def one_by_one(wanted: Sequence[Expression]) -> Any:
    from pyspark.sql.functions import udf

    pairs = [(one.text, dict(one.namespaces)) for one in wanted]

    def found(payload: str) -> list[str]:
        from lxml import etree

        from benchmarks import spark

        compiled = spark.compiled_once(pairs)
        root = etree.fromstring(payload.encode())
        return [str(number) for number, xpath in enumerate(compiled) if xpath(root)]

    return udf(found, "array<string>", useArrow=False)("payload")


_compiled: dict[int, list[Any]] = {}
"""In a worker: the expressions of a UDF, by their number. A task's function is a new one."""


def compiled_once(pairs: Sequence[tuple[str, dict[str, str]]]) -> list[Any]:
    from lxml import etree

    if len(pairs) not in _compiled:
        _compiled[len(pairs)] = [
            etree.XPath(text, namespaces=scope or None) for text, scope in pairs
        ]
    return _compiled[len(pairs)]


def own(one: Expression) -> Any:
    """Spark's function, which has no namespaces: names are those that are written."""
    from pyspark.sql import functions as F

    text = one.text
    for prefix, _ in one.namespaces:
        text = text.replace(f"{prefix}:", "")
    plain = F.regexp_replace("payload", r'\sxmlns="[^"]*"|\sxmlns=\'[^\']*\'', "")
    return F.xpath_boolean(plain, F.lit(text))


def enough(spark: Any, folder: Path, column: Any, seconds: float) -> int:
    """How many rows take about *seconds* of processor time more than the fewest, which take what a
    job does."""
    rows = FEWEST
    least = sum(seconds_of(spark, folder, column, rows)[1:])
    if least > max(1.0, 2 * seconds):  # 100,000 filters by a UDF: no job takes that itself.
        return rows
    least = min(least, sum(seconds_of(spark, folder, column, rows)[1:]))
    while rows < MOST:
        rows = min(MOST, 4 * rows)
        more = sum(seconds_of(spark, folder, column, rows)[1:]) - least
        if more > seconds / 2:
            return min(MOST, max(rows, int(rows * seconds / more)))
    return rows


def seconds_of(spark: Any, folder: Path, column: Any, rows: int) -> Took:
    """What *column* of so many rows takes, its worker processes warm."""
    frame = spark.read.parquet(str(folder / "rows")).where(f"id < {rows}")
    job = frame.select(column.alias("found"))

    def run() -> Took:
        started, (others, java) = time.perf_counter(), processor_time()
        job.write.format("noop").mode("overwrite").save()
        now = processor_time()
        # A worker that had nothing to do may have ended, and its time with it.
        return time.perf_counter() - started, max(0.0, now[0] - others), now[1] - java

    run()
    return run()


def processor_time() -> Processor:
    """What this process and all below it have taken."""
    java, others = 0.0, sum(os.times()[:4])
    for process in below():
        with suppress(OSError):  # It has ended.
            name, fields = stat(process)
            # Its user and system time, and those of its children that ended.
            took = sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
            java, others = (java + took, others) if name == "java" else (java, others + took)
    return others, java


def below() -> set[int]:
    """The processes that this one started, and those that they did."""
    parents = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # It has ended.
            parents[int(folder.name)] = int(stat(int(folder.name))[1][1])
    ours = {os.getpid()}
    while more := {one for one, parent in parents.items() if parent in ours} - ours:
        ours |= more
    return ours - {os.getpid()}


def stat(process: int) -> tuple[str, list[str]]:
    """The name of a process, and what the kernel says of it from its state on."""
    before, _, rest = Path(f"/proc/{process}/stat").read_text().rpartition(")")
    return before.partition("(")[2], rest.split()


def connected(url: str, folder: Path, rows: dict[str, int]) -> dict[str, float]:
    """Rows a second of `matches` over Connect, in a process of its own, by number of filters."""
    program = [sys.executable, "-m", "benchmarks.spark", "--connect", url]
    done = subprocess.run(
        [*program, "--folder", str(folder), "--filters", *rows],
        input=json.dumps(rows), stdout=subprocess.PIPE, text=True, check=True,
    )  # fmt: skip
    found: dict[str, float] = json.loads(done.stdout)
    return found


def over_connect(url: str, folder: Path, counts: Sequence[int]) -> None:
    from pyspark.sql import SparkSession

    rows: dict[str, int] = json.load(sys.stdin)
    remote = SparkSession.builder.remote(url).getOrCreate()
    found = {}
    for count in counts:
        column = X.matches("payload", definitions(drawn(count)))
        number = rows[str(count)]
        found[str(count)] = number / seconds_of(remote, folder, column, number)[0]
    print(json.dumps(found))


def report(figures: Figures, counts: Sequence[int]) -> None:
    print(f"| filters | function | rows/s, {ONE} | {IDLE} | {TWO} | times one core |")
    print("|---|---|---|---|---|---|")
    for count in counts:
        for name in (MATCHES, UDF, SPARK):
            found = [figures.get((name, count, where), []) for where in SESSIONS]
            if all(found):
                ratio = statistics.median(b / a for a, b in zip(found[0], found[-1], strict=True))
                cells = " | ".join(map(spread, found))
                print(f"| {count:,} | {name} | {cells} | {ratio:.2f} |")
    print(f"\nAim: {AIM_CORES} times with two cores.\n")
    names = ("filters", "rows/s over Connect, two cores", "times classic", "times the UDF")
    print(f"| {' | '.join((*names, f'times {SPARK}'))} |")
    print("|---|---|---|---|---|")
    for count in counts:
        connect, classic = figures[MATCHES, count, "Connect"], figures[MATCHES, count, TWO]
        ratio = statistics.median(b / a for a, b in zip(classic, connect, strict=True))
        others = [times(figures, MATCHES, name, count) for name in (UDF, SPARK)]
        print(f"| {count:,} | {spread(connect)} | {ratio:.2f} | {' | '.join(others)} |")
    print(f"\nAim: {AIM_CONNECT} times classic. Times the others: classic, on one core.")


def report_processor(spent: Spent, counts: Sequence[int]) -> None:
    print("\nMicroseconds of processor time a row, of the round with the least:\n")
    print("| filters | function | session | workers | Java | together | cores used |")
    print("|---|---|---|---|---|---|---|")
    for count in counts:
        for name in (MATCHES, UDF, SPARK):
            for where in SESSIONS:
                if found := spent.get((name, count, where)):
                    took, others, java = min(found, key=lambda one: one[1] + one[2])
                    used = (others + java) / took
                    row = f"{others:,.1f} | {java:,.1f} | {others + java:,.1f} | {used:.2f}"
                    print(f"| {count:,} | {name} | {where} | {row} |")


def times(figures: Figures, name: str, other: str, count: int) -> str:
    slow = figures.get((other, count, ONE))
    if not slow:
        return ""
    return f"{statistics.median(figures[name, count, ONE]) / statistics.median(slow):,.1f}"


if __name__ == "__main__":
    main()
