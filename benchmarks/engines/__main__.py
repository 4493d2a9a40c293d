"""Measures engines of others beside Dragoman: the same messages, equal verdicts, a process each.

Question: what does a message cost against 125 to 1,000,000 patterns of three shapes, parsed and
matched, apart and together?

    .venv/bin/python -m benchmarks.engines [--sizes 125 1000 ...] [--engines dragoman ...]
        [--chart docs/figures/engines.svg]

Wanted: a JDK with Maven for Event Ruler and YFilter, cargo for a-tree and Quamina's port to Rust;
what is missing or does not build is left out, and said. What is built is kept in
``~/.cache/dragoman-engines``, or where DRAGOMAN_ENGINES says. An engine that needs more than
``--seconds`` of processor time or ``--memory`` MiB for a size is ended, and left out of larger
ones: its row says why, and the picture has a cross there. Times are processor time, the mean of
several rounds; "peak" is the most MiB that its process had.
"""

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from benchmarks.engines.patterns import SHAPES, Shape, write
from benchmarks.engines.picture import Panel, draw
from benchmarks.machine import describe
from gateway.client.signals import end_as_by_interrupt

DRIVERS = Path(__file__).parent / "drivers"
BUILT = Path(os.environ.get("DRAGOMAN_ENGINES") or Path.home() / ".cache" / "dragoman-engines")
"""Not in ``dragoman``, from which builds of Dragoman remove the oldest folders."""
SIZES = (125, 1_000, 10_000, 100_000, 1_000_000)
COLUMNS = ("shape", "patterns", "engine", "add", "parse", "match", "together", "true", "peak")
JVM_MIB = 256
"""Memory of a Java process that is not its heap."""
WALL = 20
"""How much longer than its processor time a driver may last, on a machine that is busy."""
Command = Callable[[Path], list[str]]


class EndedEarlyError(Exception):
    """A driver took too long or too much memory, or failed."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--engines", nargs="+", help="by default all that can be had")
    parser.add_argument("--shapes", nargs="+", choices=SHAPES, default=list(SHAPES))
    parser.add_argument(
        "--seconds", type=int, default=300, help="of processor time, for one engine and size"
    )
    parser.add_argument("--memory", type=int, default=2048, help="MiB, for one engine and size")
    parser.add_argument("--chart", type=Path, help="an SVG file of what parse and match take")
    options = parser.parse_args()
    print(f"{describe()}; microseconds\n")
    print("| " + " | ".join(COLUMNS) + " |")
    print("|---" * len(COLUMNS) + "|")
    BUILT.mkdir(parents=True, exist_ok=True)
    engines = dict(installed(BUILT, options.memory))
    if options.engines:
        engines = {name: engines[name] for name in options.engines}
    panels = {name: measured(SHAPES[name], engines, options) for name in options.shapes}
    if options.chart:
        cross = f"more than {options.seconds} s or {options.memory} MiB, or not possible"
        title = "us to parse and match a message"
        options.chart.write_text(draw(panels, "patterns", title, cross))


def installed(folder: Path, memory: int) -> Iterator[tuple[str, Command]]:
    """The engines, with what runs each over a folder; builds what has to be built in *folder*."""
    python = [sys.executable, "-m", "benchmarks.engines.python_drivers"]
    yield "dragoman", lambda work: [*python, "dragoman", str(work)]
    yield "libxml2", lambda work: [*python, "libxml2", str(work)]
    paths = folder / "class-path"
    build = ["mvn", "-q", "dependency:build-classpath", f"-Dmdep.outputFile={paths}"]
    if is_built("event-ruler, yfilter", build, needs=("mvn", "java")):
        java = ["java", f"-Xmx{memory - JVM_MIB}m", "-cp", paths.read_text()]
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


def measured(shape: Shape, engines: dict[str, Command], options: argparse.Namespace) -> Panel:
    """Measure one shape; prints a row for each engine and size.

    Raises:
        SystemExit: Verdicts differ.
    """
    panel = Panel({name: [] for name in engines}, {})
    for size in options.sizes:
        with tempfile.TemporaryDirectory() as name:
            write(Path(name), shape, size)
            true = set()
            for engine, command in engines.items():
                if engine in panel.ended:
                    continue
                try:
                    if engine == "yfilter" and shape.values > 1:
                        raise EndedEarlyError("it has no `or`")
                    figures = driven(command(Path(name)), options.seconds, options.memory)
                except EndedEarlyError as error:
                    panel.ended[engine] = size
                    print_row(shape.name, size, engine, {}, str(error))
                    continue
                true.add(figures["true"])
                panel.lines[engine].append((size, figures["together_us"]))
                print_row(shape.name, size, engine, figures)
            if len(true) > 1:
                raise SystemExit(f"verdicts differ: {sorted(true)} true of {size:,} {shape.name}")
    return panel


def driven(command: list[str], seconds: int, memory: int) -> dict[str, float]:
    """Run a driver; returns its figures, and the "peak" of its memory in MiB.

    Raises:
        EndedEarlyError: It took more than *seconds* of processor time or *memory* MiB, or failed.
    """
    limited = ["prlimit", f"--cpu={seconds}", "--", *command]
    with tempfile.TemporaryFile("w+") as said, tempfile.TemporaryFile("w+") as complaint:
        process = subprocess.Popen(limited, stdout=said, stderr=complaint)
        deadline, peak = time.monotonic() + WALL * seconds, 0
        try:
            while process.poll() is None:
                peak = max(peak, _peak(process.pid))
                if peak > memory:
                    raise EndedEarlyError(f"more than {memory:,} MiB")
                if time.monotonic() > deadline:
                    raise EndedEarlyError(f"more than {WALL * seconds:,} s by the clock")
                time.sleep(0.02)
        finally:
            process.kill()
            process.wait()
        said.seek(0)
        complaint.seek(0)
        if process.returncode:
            raise EndedEarlyError(_reason(process.returncode, complaint.read(), seconds))
        figures: dict[str, float] = json.loads(said.read().splitlines()[-1])
    return figures | {"peak": peak}


def _peak(process: int) -> int:
    """The most MiB that *process* has had; 0 once it has ended."""
    with suppress(OSError, StopIteration):
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
        line = next(line for line in lines if line.startswith("VmHWM:"))
        return int(line.split()[1]) // 1024
    return 0


def _reason(status: int, complaint: str, seconds: int) -> str:
    if status in (-signal.SIGXCPU, -signal.SIGKILL):
        return f"more than {seconds} s"
    if "OutOfMemoryError" in complaint or "MemoryError" in complaint:
        return "out of memory"
    print(complaint[-2_000:], file=sys.stderr)
    lines = complaint.strip().splitlines() or [f"status {status}"]
    return f"fails: {lines[-1][:80]}"


def print_row(
    shape: str, size: int, engine: str, figures: dict[str, float], reason: str = ""
) -> None:
    """Print what was measured or, without figures, the *reason* that there are none."""
    names = ("build_us", "parse_us", "match_us", "together_us")
    times = ["" if figures.get(name) is None else f"{figures[name]:,.1f}" for name in names]
    counts = [f"{figures[name]:,}" if figures else "" for name in ("true", "peak")]
    cells = [shape, f"{size:,}", engine, *times[:3], times[3] or reason, *counts]
    print("| " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    end_as_by_interrupt()
    main()
