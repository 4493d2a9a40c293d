"""``dragoman reliable``."""

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gateway.cli.commands import add, command, group, help_alone
from gateway.cli.errors import CommandFailed
from gateway.cli.output import line, note

if TYPE_CHECKING:
    from gateway.reliability.simulation.disks import Disk

reliable = group("reliable", "Try reliable messaging without a network.")
reliable.callback()(help_alone)

PAUSE = 5.0
"""Seconds from one line about progress to the next."""


class ExchangeOption(Enum):
    """The exchanges, as words of a command line."""

    ANY = "any"
    ONE_WAY = "one-way"
    REQUEST_REPLY = "request-reply"
    WITHOUT_OFFER = "without-offer"
    ANONYMOUS_ONE_WAY = "anonymous-one-way"
    ANONYMOUS = "anonymous"
    ANONYMOUS_WITHOUT_OFFER = "anonymous-without-offer"
    FETCHED_ONE_WAY = "fetched-one-way"
    FETCHED = "fetched"


def simulate(
    seed: Annotated[int, typer.Option(min=0, help="The first seed.")] = 0,
    seeds: Annotated[int, typer.Option(min=1, help="How many seeds, from the first one on.")] = 1,
    exchange: Annotated[
        ExchangeOption, typer.Option(help="How client and service speak; else the seed says it.")
    ] = ExchangeOption.ANY,
    store: Annotated[
        str,
        typer.Option(
            metavar="URL",
            help="Where sequences are kept: memory:, sqlite: (files that are removed), or"
            " postgresql://... (in schemas of its own, which are removed).",
        ),
    ] = "memory:",
    two_phase: Annotated[
        bool,
        typer.Option(
            help="The application's table is in another schema of PostgreSQL, which takes part by"
            " two-phase commit; processes end at its steps, too."
        ),
    ] = False,
) -> None:
    r"""Simulate a client and a service that speak WS-ReliableMessaging, from a seed.

    Messages are lost, come twice, late and out of order; processes end between any two commits;
    stores refuse. Each message has to come once, in order, and nothing may stay behind. The same
    seed is the same run. A single seed prints its run as a sequence diagram; of many, the first
    that breaks a promise does, and the exit code is 1.

    \b
    Examples:
      dragoman reliable simulate --seed 42
      dragoman reliable simulate --seeds 1000
      dragoman reliable simulate --seeds 20 --store sqlite: --exchange anonymous
    """
    from gateway.reliability.simulation.run import simulate as run
    from gateway.reliability.simulation.scenarios import Exchange, Scenario
    from gateway.reliability.storage import StorageUnavailable

    chosen = None if exchange is ExchangeOption.ANY else Exchange[exchange.name]
    started = told = time.monotonic()
    messages = 0
    try:
        with _disks(store, two_phase) as make_disk:
            for number in range(seed, seed + seeds):
                outcome = run(Scenario.drawn(number, chosen), make_disk)
                messages += outcome.messages
                if outcome.broken is not None or seeds == 1:
                    line(outcome.diagram)
                if outcome.broken is not None:
                    only = "" if chosen is None else f" --exchange {exchange.value}"
                    raise CommandFailed(
                        f"seed {number} breaks a promise; to see it again: {command()} reliable"
                        f" simulate --seed {number}{only}"
                    )
                now = time.monotonic()
                if now - told >= PAUSE:
                    told = now
                    note(f"{number - seed + 1} of {seeds} seeds")
    except StorageUnavailable as error:
        raise CommandFailed(f"the store cannot be used: {error}") from error
    if seeds > 1:
        line(
            f"{seeds} seeds, {messages} messages on the wire, nothing broken"
            f" ({time.monotonic() - started:.1f} s)"
        )


@contextmanager
def _disks(store: str, two_phase: bool) -> "Iterator[Callable[[str], Disk]]":
    if store in ("memory", "memory:"):
        if two_phase:
            raise CommandFailed("--two-phase wants --store postgresql://...")
        from gateway.reliability.simulation.disks import MemoryDisk

        yield lambda name: MemoryDisk()
        return
    from gateway.reliability.simulation.databases import disks_in

    with tempfile.TemporaryDirectory(prefix="dragoman-") as folder:
        url = "sqlite://" if store in ("sqlite", "sqlite:") else store
        with disks_in(url, Path(folder), two_phase=two_phase) as make_disk:
            yield make_disk


add(reliable, simulate)
