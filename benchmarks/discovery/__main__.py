"""Asks the questions of `benchmarks.discovery`.

    .venv/bin/python -m benchmarks.discovery exchange [--runs 100] [--types path] [--away 0 20]
    .venv/bin/python -m benchmarks.discovery shares [--charts FOLDER]
    .venv/bin/python -m benchmarks.discovery intake [--advertisements 5000] [--stores sqlite]
    .venv/bin/python -m benchmarks.discovery catalogue [--known 100000] [--most 10]
    .venv/bin/python -m benchmarks.discovery all

The node is a process on the first core, programs are one on the second.
"""

import argparse
import os
from collections.abc import Sequence
from pathlib import Path

from benchmarks.discovery import catalogue, exchange, intake, shares
from benchmarks.discovery.charts import chart
from benchmarks.machine import describe, pin
from benchmarks.queries import DIALECTS
from gateway.client.signals import end_as_by_interrupt
from mediation.discovery import SynopsisType

QUESTIONS = ("exchange", "shares", "intake", "catalogue")
STORES = ("sqlite", "postgresql")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("question", choices=[*QUESTIONS, "all"])
    parser.add_argument("--runs", type=int, default=exchange.RUNS)
    parser.add_argument("--sizes", type=int, nargs="+", default=exchange.SIZES)
    parser.add_argument("--types", nargs="+", default=[kind.value for kind in SynopsisType])
    parser.add_argument("--away", type=float, nargs="+", default=exchange.AWAY, help="ms one way")
    parser.add_argument("--charts", type=Path, help="the folder to draw charts into")
    parser.add_argument("--advertisements", type=int, default=5000)
    parser.add_argument("--stores", nargs="+", choices=STORES, default=STORES)
    parser.add_argument("--known", type=int, default=catalogue.KNOWN, help="of the catalogue")
    parser.add_argument("--most", type=int, default=10, help="topics in an answer")
    parser.add_argument("--query-time", type=float, default=0.9, help="seconds of one query")
    parser.add_argument("--dialects", nargs="+", choices=list(DIALECTS), default=list(DIALECTS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", default=".", help="the disk of the node's data")
    options = parser.parse_args(arguments)
    asked = QUESTIONS if options.question == "all" else (options.question,)
    print(describe())
    print("load average before:", *(f"{load:.1f}" for load in os.getloadavg()))
    pin(1)
    if "exchange" in asked:
        kinds = [SynopsisType(kind) for kind in options.types]
        exchange.report(kinds, options.away, options.runs, options.sizes, options.folder)
    if "shares" in asked:
        found = shares.measure(options.runs, options.sizes)
        print("\nMilliseconds of processor time\n")
        print("\n".join(shares.shown(found)))
        if options.charts is not None:
            for name, some in shares.figures(found).items():
                drawn = chart(f"What the time of {name} goes into", shares.bars(some), shares=True)
                (options.charts / f"shares-of-{name}.svg").write_text(drawn)
    if "intake" in asked:
        intake.report(options.advertisements, options.stores, options.rounds, options.folder)
    if "catalogue" in asked:
        catalogue.report(
            options.stores, options.known, options.dialects, options.runs, options.most,
            options.query_time, options.folder,
        )  # fmt: skip
    print("load average after:", *(f"{load:.1f}" for load in os.getloadavg()))


if __name__ == "__main__":
    end_as_by_interrupt()
    main()
