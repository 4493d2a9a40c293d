"""Measures engines of others beside Dragoman: the same messages, equal verdicts, a process each.

Question: what does a message cost against 125 to 1,000,000 patterns of three shapes, parsed and
matched, apart and together?

    .venv/bin/python -m benchmarks.engines [--sizes 125 1000 ...] [--engines dragoman ...]
        [--chart docs/figures/engines.svg]

Wanted: a JDK with Maven for Event Ruler and YFilter, cargo for a-tree and Quamina's port to Rust;
what is missing or does not build is left out, and said. What is built is kept in
``~/.cache/dragoman/engines``, or where DRAGOMAN_ENGINES says. An engine that needs more than
``--seconds`` of processor time for a size is left out of that and of larger ones. Times are
processor time, the mean of several rounds.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from benchmarks.engines.patterns import SHAPES, Shape, write
from benchmarks.engines.picture import Lines, draw
from benchmarks.machine import describe

DRIVERS = Path(__file__).parent / "drivers"
BUILT = Path(os.environ.get("DRAGOMAN_ENGINES") or Path.home() / ".cache" / "dragoman" / "engines")
SIZES = (125, 1_000, 10_000, 100_000, 1_000_000)
COLUMNS = ("shape", "patterns", "engine", "add", "parse", "match", "together", "true")
Command = Callable[[Path], list[str]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--engines", nargs="+", help="by default all that can be had")
    parser.add_argument("--shapes", nargs="+", choices=SHAPES, default=list(SHAPES))
    parser.add_argument(
        "--seconds", type=int, default=300, help="of processor time, for one engine and size"
    )
    parser.add_argument("--chart", type=Path, help="an SVG file of what parse and match take")
    options = parser.parse_args()
    print(f"{describe()}; microseconds\n")
    print("| " + " | ".join(COLUMNS) + " |")
    print("|---" * len(COLUMNS) + "|")
    BUILT.mkdir(parents=True, exist_ok=True)
    engines = dict(installed(BUILT))
    if options.engines:
        engines = {name: engines[name] for name in options.engines}
    lines = {name: measured(SHAPES[name], engines, options) for name in options.shapes}
    if options.chart:
        options.chart.write_text(draw(lines, "patterns", "us to parse and match a message"))


def installed(folder: Path) -> Iterator[tuple[str, Command]]:
    """The engines, with what runs each over a folder; builds what has to be built in *folder*."""
    python = [sys.executable, "-m", "benchmarks.engines.python_drivers"]
    yield "dragoman", lambda work: [*python, "dragoman", str(work)]
    yield "libxml2", lambda work: [*python, "libxml2", str(work)]
    paths = folder / "class-path"
    build = ["mvn", "-q", "dependency:build-classpath", f"-Dmdep.outputFile={paths}"]
    if is_built("event-ruler, yfilter", build, needs=("mvn", "java")):
        java = ["java", "-Xmx8g", "-cp", paths.read_text()]
        yield "event-ruler", lambda work: [*java, str(DRIVERS / "EventRuler.java"), str(work)]
        yield "yfilter", lambda work: [*java, str(DRIVERS / "YFilter.java"), str(work)]
    target = folder / "target"
    build = ["cargo", "build", "--release", "--quiet", "--target-dir", str(target)]
    if is_built("a-tree, quamina-rs", build, needs=("cargo",)):
        yield "a-tree", lambda work: [str(target / "release" / "a_tree"), str(work)]
        yield "quamina-rs", lambda work: [str(target / "release" / "quamina"), str(work)]


def is_built(engines: str, command: list[str], *, needs: Sequence[str]) -> bool:
    """Run *command*, which builds *engines*; False if it cannot, which is said."""
    missing = [one for one in needs if shutil.which(one) is None]
    if missing:
        print(f"{engines}: there is no {' and no '.join(missing)}", file=sys.stderr)
        return False
    print(f"{engines}: building ...", file=sys.stderr)
    done = subprocess.run(command, cwd=DRIVERS, capture_output=True, text=True, check=False)
    if done.returncode:
        print(f"{engines}: {(done.stderr or done.stdout)[-300:].strip()}", file=sys.stderr)
    return done.returncode == 0


def measured(shape: Shape, engines: dict[str, Command], options: argparse.Namespace) -> Lines:
    """Measure one shape; prints a row for each engine and size.

    Raises:
        SystemExit: Verdicts differ.
    """
    lines: Lines = {name: [] for name in engines}
    slow = {"yfilter"} if shape.values > 1 else set()  # It has no `or`.
    for size in options.sizes:
        with tempfile.TemporaryDirectory() as name:
            write(Path(name), shape, size)
            true = set()
            for engine, command in engines.items():
                if engine in slow:
                    continue
                figures = driven(command(Path(name)), options.seconds)
                if figures is None:
                    slow.add(engine)
                    continue
                true.add(figures["true"])
                lines[engine].append((size, figures["together_us"]))
                print_row(shape.name, size, engine, figures)
            if len(true) > 1:
                raise SystemExit(f"verdicts differ: {sorted(true)} true of {size:,} {shape.name}")
    return lines


def driven(command: list[str], seconds: int) -> dict[str, float] | None:
    """Run a driver; None if it takes too long or fails, which is said."""
    limit = ["prlimit", f"--cpu={seconds}", "--"]
    try:
        done = subprocess.run([*limit, *command], capture_output=True, text=True, check=True)
    except subprocess.CalledProcessError as error:
        why = error.stderr[-300:] or f"ended by signal {-error.returncode}"
        print(f"{command[-2]}, at most {seconds} s: {why}", file=sys.stderr)
    else:
        figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
        return figures
    return None


def print_row(shape: str, size: int, engine: str, figures: dict[str, float]) -> None:
    names = ("build_us", "parse_us", "match_us", "together_us")
    times = ["" if figures[name] is None else f"{figures[name]:,.1f}" for name in names]
    cells = [shape, f"{size:,}", engine, *times, f"{figures['true']:,}"]
    print("| " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
