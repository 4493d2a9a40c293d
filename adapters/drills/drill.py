"""A drill: all trials of one messaging system, one after the other, each under a deadline, and the
removal of all that they have made there."""

import asyncio
import secrets
import tempfile
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from adapters.drills import outages, trials
from adapters.drills.forwarder import forwarding
from adapters.drills.workbench import Absent, Broken, Promise, Result, Workbench, started
from adapters.loading import adapter_class, load, without_password
from adapters.protocol import AdapterError, AdapterUnavailable, Isolating
from filters import Reason, Refused

DEADLINE = 120.0
OPENING = 30.0
"""Seconds in which an adapter connects."""
REMOVING = 30.0
"""Seconds in which what was made under one name is removed."""
KNOCKING = 3.0
"""The same, where no adapter could connect: something may have been made all the same."""
BACKLOG = 2_000
LARGEST = 16 * 2**20


@dataclass(frozen=True, slots=True)
class Wishes:
    """What an operator wants of a drill.

    ``deadline`` is in seconds, for each trial; ``backlog`` is how many events wait at a time;
    ``largest`` is the size of the largest event in bytes; ``restart_command`` is run by a shell;
    ``only`` are names of trials, all where it is empty; ``folder`` is where the adapters' folders
    are made.
    """

    deadline: float = DEADLINE
    backlog: int = BACKLOG
    largest: int = LARGEST
    restart_command: str | None = None
    only: frozenset[str] = frozenset()
    folder: Path | None = None


Trial = Callable[[Workbench], Awaitable[str]]


def trials_of(wishes: Wishes) -> dict[str, Trial]:
    """Return the trials, by name, in their order."""
    return {
        "confirmation": trials.confirm,
        "content": trials.keep_content,
        "topics": trials.keep_topics_apart,
        "order": trials.keep_order,
        "repetition": trials.drop_repeats,
        "redelivery": trials.keep_unsettled,
        "killed gateway": outages.kill_gateway,
        "slow consumer": trials.bear_slow_consumer,
        "backlog": partial(trials.keep_backlog, many=wishes.backlog),
        "size": partial(trials.bound_size, largest=wishes.largest),
        "clock": trials.keep_lives,
        "cut": outages.cut,
        "silence": outages.silence,
        "slow network": outages.slow_down,
        "replicas": trials.share,
        "silent replica": outages.take_over,
        "restart": partial(outages.restart, command=wishes.restart_command),
    }


class Drill:
    """A drill of the system of *url*.

    Args:
        settings: Those of the adapter beside its URL.

    Raises:
        AdapterError: There is no such adapter, it cannot be isolated, or the URL and the settings
            do not fit it.
    """

    def __init__(self, url: str, settings: Mapping[str, str], wishes: Wishes) -> None:
        self._url = url
        self._wishes = wishes
        kind = adapter_class(url.partition(":")[0])
        if not issubclass(kind, Isolating):
            raise AdapterError(
                Reason.INTERNAL,
                "the adapter cannot be drilled beside others: it has no isolate and remove"
                " (see adapters.Isolating)",
            )
        self._kind: type[Isolating] = kind
        self._settings = settings
        self.name = f"dragoman-drill-{secrets.token_hex(4)}"
        try:
            made = kind.isolate(url, settings, name=self.name)
        except ValueError as exc:
            text = f"the URL cannot be read: {self._shown(str(exc))}"
            raise AdapterError(Reason.INTERNAL, text) from exc
        self._address = made.address
        load(made.url, data=Path(), settings=made.settings)
        self._opened = False
        self.left: list[Result] = []
        """What could not be removed, once the drill has ended."""

    async def run(self) -> AsyncGenerator[Result, None]:
        """Yield the result of each trial as it comes. What was made is removed at the end, however
        that comes; `left` says what was not."""
        async with AsyncExitStack() as stack:
            folder = stack.enter_context(
                tempfile.TemporaryDirectory(prefix="dragoman-drill-", dir=self._wishes.folder)
            )
            bench = Workbench(self._kind, self._url, self._settings, self.name, Path(folder))
            stack.push_async_callback(self._remove, bench)
            opened = await self._open(bench)
            self._opened = opened.promise is Promise.KEPT
            yield opened
            if not self._opened:
                return
            if self._address is not None:
                bench.forwarder = await stack.enter_async_context(forwarding(*self._address))
            for name, trial in trials_of(self._wishes).items():
                if not self._wishes.only or name in self._wishes.only:
                    yield await self._try(bench, name, trial)

    async def _open(self, bench: Workbench) -> Result:
        """Connect without a forwarder, which would hide why that fails."""
        bench.begin()
        adapter = bench.make(folder="opened")
        try:
            async with asyncio.timeout(OPENING), started(adapter):
                pass
        except (Refused, TimeoutError) as exc:
            why = exc.text if isinstance(exc, Refused) else f"no answer within {OPENING:.0f} s"
            text = f"{self._shown(why)}; see that the system runs, and what its URL says"
            return Result(Promise.BROKEN, "connection", text)
        return Result(Promise.KEPT, "connection", "the system is there, and lets a gateway in")

    async def _try(self, bench: Workbench, name: str, trial: Trial) -> Result:
        bench.begin()
        if bench.forwarder is not None:
            await bench.forwarder.join()
        promise = Promise.BROKEN
        try:
            async with asyncio.timeout(self._wishes.deadline):
                text = await trial(bench)
            promise = Promise.KEPT
        except Absent as exc:
            promise, text = Promise.ABSENT, str(exc)
        except Broken as exc:
            text = str(exc)
        except Refused as exc:
            text = f"ended by the system: {exc.text}"
        except TimeoutError:
            text = f"not done within {self._wishes.deadline:.0f} s (--deadline)"
        except Exception as exc:  # Whatever an adapter raises is what the operator came to hear.
            text = f"{type(exc).__name__}: {exc}"
        return Result(promise, name, self._shown(text))

    async def _remove(self, bench: Workbench) -> None:
        """Remove all that was made under the names that were used."""
        for name in sorted(bench.used):
            why, left = "", [name]
            try:
                adapter = bench.make(name=name, through=False)
                assert isinstance(adapter, Isolating)
                async with asyncio.timeout(REMOVING if self._opened else KNOCKING):
                    left = [*await adapter.remove()]
            except AdapterUnavailable as exc:
                why = exc.text
            except TimeoutError:
                why = "the system does not answer"
            except Exception as exc:  # What was made under other names is removed all the same.
                why = f"{type(exc).__name__}: {exc}"
            if why and not self._opened:
                continue  # It let nobody in.
            if why:
                text = f"all that has {name!r} in its name is left in the system: {why}; delete it"
                self.left.append(Result(Promise.BROKEN, "removal", self._shown(text)))
            elif left:
                text = f"{', '.join(left)}: emptied, but this protocol cannot delete it; delete it"
                self.left.append(Result(Promise.ABSENT, "removal", text))

    def _shown(self, text: str) -> str:
        """Return *text* without the password."""
        return without_password(text, self._url)
