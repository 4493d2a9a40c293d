"""Measures the column functions on Spark: rows a second, on one core and on two, and over Connect.

Question: how many rows a second does ``matches`` take in a DataFrame, at 1 to 100,000 filters,
beside what a data engineer writes without Dragoman: a plain Python UDF with lxml that evaluates
one expression after the other, and, for one filter, Spark's own ``xpath_boolean``? What do a second
core and Spark Connect change?

    .venv/bin/python -m benchmarks.spark [--filters 1 100 10000 100000] [--rounds 3] [--seconds 2]

Rows are events of Windows, filters what subscribers of such write (style ``ev`` of
`filters.workloads`). Each figure is of a job that reads Parquet and writes nowhere, warm, by the
clock, and of the processor time of Java and all workers, which other work on the machine does not
take; sessions of one and two cores take turns. The number of rows is such that a job takes about
as many seconds of processor time as are asked for. ``aim`` is what is wanted: 1.7 times with two
cores, and Connect within 10 %.
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
from tests.rigs.brokers import free_ports

STYLE = "ev"
DISTINCT = 2000
"""Messages that differ; rows repeat them."""
PARTS = 8
FEWEST, MOST, WARM = 8, 100_000, 10_000
"""Rows of a job."""
AIM_CORES, AIM_CONNECT = 1.7, 0.9
MATCHES, UDF, SPARK = "matches", "UDF with lxml", "xpath_boolean"
Figures = dict[tuple[str, int, str], list[float]]
"""Rows a second, a value a round, by function, number of filters, and cores, or Connect."""
Took = tuple[float, float]
"""Seconds by the clock, and of processor time."""


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


def measure(folder: Path, options: argparse.Namespace) -> tuple[Figures, Figures]:
    """Rows a second, and microseconds of processor time a row."""
    figures: Figures = defaultdict(list)
    spent: Figures = defaultdict(list)
    rows: dict[tuple[str, int], int] = {}
    for number in range(options.rounds):
        for cores in (2, 1) if number % 2 else (1, 2):
            with running(cores) as (spark, url):
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
                        took, processor = seconds_of(spark, folder, column, known)
                        figures[name, count, str(cores)].append(known / took)
                        spent[name, count, str(cores)].append(processor / known * 1e6)
                        what = f"{name}, {count:,} filters, local[{cores}], {known:,} rows"
                        said = f"{known / took:,.0f} rows/s, {processor / known * 1e6:,.1f} us"
                        print(f"{what}: {said}", file=sys.stderr)
                if cores == 2:
                    asked = {str(count): rows[MATCHES, count] for count in options.filters}
                    for count, per_second in connected(url, folder, asked).items():
                        figures[MATCHES, int(count), "Connect"].append(per_second)
    return figures, spent


@contextmanager
def running(cores: int) -> Iterator[tuple[Any, str]]:
    """A session with so many cores, and the URL of Spark Connect's server in it."""
    (port,) = free_ports(1)
    conf = {
        "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.driver.memory": "4g",
    }
    with session(f"local[{cores}]", conf=conf) as spark:
        yield spark, f"sc://127.0.0.1:{port}"


def write(spark: Any, folder: Path) -> None:
    """Write the rows: each partition a file of its own, so that any beginning of it is spread."""
    octets = list(messages(family_of(STYLE), DISTINCT, 1))
    texts = [(number, one.decode()) for number, one in enumerate(octets)]
    given = spark.createDataFrame(texts, "message int, payload string")
    copies = spark.range(MOST // DISTINCT).withColumnRenamed("id", "copy")
    rows = given.crossJoin(copies).selectExpr(f"copy * {DISTINCT} + message AS id", "payload")
    rows.repartition(PARTS, "id").write.parquet(str(folder / "rows"))


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
    compiled: list[Any] = []

    def found(payload: str) -> list[str]:
        from lxml import etree

        if not compiled:
            compiled.extend(etree.XPath(text, namespaces=scope or None) for text, scope in pairs)
        root = etree.fromstring(payload.encode())
        return [str(number) for number, xpath in enumerate(compiled) if xpath(root)]

    return udf(found, "array<string>", useArrow=False)("payload")


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
    _, least = min(seconds_of(spark, folder, column, rows) for _ in range(2))
    while rows < MOST:
        rows = min(MOST, 4 * rows)
        more = seconds_of(spark, folder, column, rows)[1] - least
        if more > seconds / 2:
            return min(MOST, max(rows, int(rows * seconds / more)))
    return rows


def seconds_of(spark: Any, folder: Path, column: Any, rows: int) -> Took:
    """What *column* of so many rows takes, its worker processes warm."""
    frame = spark.read.parquet(str(folder / "rows")).where(f"id < {rows}")
    job = frame.select(column.alias("found"))

    def run() -> Took:
        started, before = time.perf_counter(), processor_time()
        job.write.format("noop").mode("overwrite").save()
        return time.perf_counter() - started, processor_time() - before

    run()
    return run()


def processor_time() -> float:
    """Seconds of processor time that this process and all below it have taken."""
    times: dict[int, tuple[int, float]] = {}
    for file in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # It has ended.
            fields = file.read_text().rpartition(")")[2].split()
            # Its parent; its user and system time, and those of its children that ended.
            times[int(file.parent.name)] = (int(fields[1]), sum(map(int, fields[11:15])))
    ours = {os.getpid()}
    while more := {one for one, (parent, _) in times.items() if parent in ours} - ours:
        ours |= more
    return sum(times[one][1] for one in ours) / os.sysconf("SC_CLK_TCK")


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
    print("| filters | function | rows/s, one core | two cores | times |")
    print("|---|---|---|---|---|")
    for count in counts:
        for name in (MATCHES, UDF, SPARK):
            one, two = figures.get((name, count, "1")), figures.get((name, count, "2"))
            if one and two:
                ratio = statistics.median(b / a for a, b in zip(one, two, strict=True))
                print(f"| {count:,} | {name} | {spread(one)} | {spread(two)} | {ratio:.2f} |")
    print(f"\nAim: {AIM_CORES} times with two cores.\n")
    names = ("filters", "rows/s over Connect, two cores", "times classic", "times the UDF")
    print(f"| {' | '.join((*names, f'times {SPARK}'))} |")
    print("|---|---|---|---|---|")
    for count in counts:
        connect, classic = figures[MATCHES, count, "Connect"], figures[MATCHES, count, "2"]
        ratio = statistics.median(b / a for a, b in zip(classic, connect, strict=True))
        others = [times(figures, MATCHES, name, count) for name in (UDF, SPARK)]
        print(f"| {count:,} | {spread(connect)} | {ratio:.2f} | {' | '.join(others)} |")
    print(f"\nAim: {AIM_CONNECT} times classic. Times the others: classic, on one core.")


def report_processor(spent: Figures, counts: Sequence[int]) -> None:
    print("\nMicroseconds of processor time a row, of Java and workers together, the least:\n")
    print("| filters | function | one core | two cores |")
    print("|---|---|---|---|")
    for count in counts:
        for name in (MATCHES, UDF, SPARK):
            if (name, count, "1") in spent and (name, count, "2") in spent:
                one, two = (min(spent[name, count, cores]) for cores in ("1", "2"))
                print(f"| {count:,} | {name} | {one:,.1f} | {two:,.1f} |")


def times(figures: Figures, name: str, other: str, count: int) -> str:
    slow = figures.get((other, count, "1"))
    if not slow:
        return ""
    return f"{statistics.median(figures[name, count, '1']) / statistics.median(slow):,.1f}"


if __name__ == "__main__":
    main()
