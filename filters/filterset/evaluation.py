"""The evaluation of one event by a filter set."""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import replace
from itertools import islice
from typing import Generic, TypeVar

from filters.compiling.compiled import holds
from filters.events import Event, View
from filters.filterset.entries import (
    Contents,
    Deferred,
    Few,
    Group,
    Held,
    Matching,
    Nobody,
    Number,
    Several,
    extend,
    keys_of,
)
from filters.filterset.reading import Answer
from filters.matching.fallback.verification import Verification, Verifier

Key = TypeVar("Key")
SHARES = 8
"""The most shares with one filter that are asked for time to evaluate it."""


class Seen(Generic[Key]):
    """The result of the document of one view for the expressions over it."""

    def __init__(
        self,
        contents: Contents[Key],
        answer: Answer,
        verification: Verification,
        share_of: Callable[[Key], Hashable] | None,
    ) -> None:
        self.contents = contents
        self.root = answer.root
        self.found = answer.found
        self._verification = verification
        self._share_of = share_of
        self._verdicts: dict[int, bool | None] | None = None

    def begin_again(self, verification: Verification) -> None:
        """Use the result for another event, whose time is that of *verification*. What was found
        out stays."""
        self._verification = verification

    def verdict(self, number: int, held: Held[Key]) -> bool | None:
        """Return True if an expression is true, None if it costs too much to find out. The time is
        taken from the shares of the keys in *held*."""
        if self._verdicts is None:
            self._verdicts = dict.fromkeys(self.found.true, True)
            self._unsettled = set(self.found.doubtful)
        if number in self._unsettled:
            share = self._share(held)
            if not self._verification.has_time(share):
                return None  # Others who ask for the same may have some.
            self._unsettled.remove(number)
            expression = self.contents.index.expression(number)
            self._verdicts[number] = self._verification.verdict(expression, share)
        return self._verdicts.get(number, False)

    def _share(self, held: Held[Key]) -> Hashable:
        """The share of the first of *held* that has time left."""
        if self._share_of is None or isinstance(held, Nobody):
            return None
        keys = islice(held, SHARES) if isinstance(held, Few | Several) else (held,)
        share: Hashable = None
        for key in keys:
            share = self._share_of(key)
            if self._verification.has_time(share):
                break
        return share


class Evaluation(Generic[Key]):
    """Each view is parsed once, each index asked once, each doubtful expression verified once."""

    def __init__(
        self,
        event: Event,
        contents: Mapping[View, Contents[Key]],
        verifier: Verifier,
        share_of: Callable[[Key], Hashable] | None = None,
    ) -> None:
        self._event = event
        self._share_of = share_of
        self._contents = contents
        self._verifier = verifier
        self._seen: dict[View, Seen[Key]] = {}
        self._deferred: dict[tuple[Number, ...], Deferred[Key]] = {}

    def look(self, view: View, answer: Answer) -> Seen[Key]:
        """Take *answer* for what is true of the document of *view*."""
        verification = self._verifier.begin(answer.root)
        seen = Seen(self._contents[view], answer, verification, self._share_of)
        self._seen[view] = seen
        return seen

    def look_again(self, view: View, seen: Seen[Key]) -> None:
        """Take *seen* for *view*, what `look` found in the same document."""
        seen.begin_again(self._verifier.begin(seen.root))
        self._seen[view] = seen

    def settle(self, groups: tuple[Group[Key], ...], matching: Matching[Key]) -> None:
        """Say which filters match, of those in *groups* that ask for more than a topic."""
        candidates = [entry for group in groups for entry in group.filed]
        relevant = frozenset(groups)
        for view, seen in self._seen.items():
            alone, filed = seen.contents.alone, seen.contents.filed
            if alone:
                # Not copied without need: there may be thousands.
                keys = keys_of(alone, seen.found.true)
                matching.keys = matching.keys + keys if matching.keys else keys
                self._settle_alone(view, matching)
            if filed:
                for number in (*seen.found.true, *seen.found.doubtful):
                    candidates += (
                        entry for entry in filed.get(number, ()) if entry.group in relevant
                    )
        for entry in candidates:
            if all(holds(condition, self._event) for condition in entry.conditions):
                self._settle(entry.held, entry.contents, matching)
        matching.deferred.extend(self._deferred.values())

    def settle_doubtful(self, view: View, matching: Matching[Key]) -> None:
        """As `settle`, of those filters alone that are one expression over *view* which libxml2 has
        to decide."""
        self._settle_alone(view, matching)
        matching.deferred.extend(self._deferred.values())

    def _settle_alone(self, view: View, matching: Matching[Key]) -> None:
        seen = self._seen[view]
        for number in seen.found.doubtful:
            held = seen.contents.alone[number]
            if not isinstance(held, Nobody):
                self._settle(held, ((view, number),), matching)

    def _settle(
        self, held: Held[Key], contents: tuple[Number, ...], matching: Matching[Key]
    ) -> None:
        costly = []
        for view, number in contents:
            seen = self._seen.get(view)
            # An expression is never true of a view that is none.
            verdict = seen is not None and seen.verdict(number, held)
            if verdict is None:
                costly.append((view, number))
            elif not verdict:
                return
        if costly:
            extend(self._defer(tuple(costly)).keys, held)
        else:
            extend(matching.keys, held)

    def _defer(self, costly: tuple[Number, ...]) -> Deferred[Key]:
        deferred = self._deferred.get(costly)
        if deferred is None:
            expressions = tuple(
                replace(self._contents[view].index.expression(number), view=view)
                for view, number in costly
            )
            documents = {view: self._event.view(view) for view, _ in costly}
            deferred = self._deferred[costly] = Deferred(expressions, documents)
        return deferred
