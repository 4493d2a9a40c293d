"""The filter set: which of all filters does one event match?

What filters have in common is done once. Filters with the same topic expressions are one group,
and a topic finds its groups (`filters.topics.index`). Content expressions go into one index a view,
which finds those that are true in one walk over the document (`filters.matching`). A filter of
several parts is filed under one of them, the one that fewer others have, and looked at when that
one holds.
"""

from array import array
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeAlias, TypeVar

from filters.compiling.compiled import Compiler, Condition, conditions_of, contents_of
from filters.compiling.topic_expressions import parse_expression
from filters.events import PAYLOAD, Event, View
from filters.filter import Expression, Filter
from filters.filterset.entries import (
    NOBODY,
    Contents,
    Entry,
    Group,
    Held,
    Matching,
    Nobody,
    Number,
    extend,
    join,
    leave,
    object_of,
)
from filters.filterset.evaluation import Evaluation, Seen
from filters.filterset.reading import Answer, Reader
from filters.matching.engines.choice import make_index
from filters.matching.fallback.verification import Verifier
from filters.reasons import FilterError
from filters.topics.index import TopicIndex
from filters.xpath import relocate

Key = TypeVar("Key")

PayloadPaths: TypeAlias = Mapping[View, tuple[str, ...]]
"""The place of the payload in other views: the names (Clark notation) of the elements around it."""


@dataclass(frozen=True, slots=True)
class _Kept(Generic[Key]):
    """Matches found in a lasting document, when the index of its view had changed so often."""

    document: bytes
    changes: int
    seen: Seen[Key]


class FilterSet(Generic[Key]):
    """Filters by key. Not for several threads at a time.

    Args:
        compilers: As for `filters.compile`.
        payload_paths: Expressions over these views are evaluated over the payload where that is
            exact, so that the view is rarely made.
        lasting: Views whose documents are the same for many events: what was found in the last one
            is kept, and holds until another comes.
        engine: ``native`` or ``reference``; by default what `filters.engine` says.
        checked: Documents have passed `parse_document`; else it checks them here, and what it
            refuses matches no expression.
        share_of: Whose time the filter of a key takes: those of one share have a part of what is
            evaluated on the spot together; None is bound by the time of all alone.
    """

    def __init__(
        self,
        *,
        compilers: Mapping[str, Compiler] | None = None,
        payload_paths: PayloadPaths | None = None,
        lasting: Collection[View] = (),
        engine: str | None = None,
        checked: bool = True,
        share_of: Callable[[Key], Hashable] | None = None,
    ) -> None:
        self._compilers = compilers
        self._payload_paths = payload_paths or {}
        self._lasting = frozenset(lasting)
        self._kept: dict[View, _Kept[Key]] = {}
        self._engine = engine
        self._share_of = share_of
        self._places: dict[Key, Entry[Key] | Group[Key] | int] = {}
        """The entry that holds a key; a number if its whole filter is that expression over the
        payload."""
        self._groups: dict[tuple[Expression, ...], Group[Key]] = {}
        self._topics: TopicIndex[Group[Key]] = TopicIndex()
        self._contents: dict[View, Contents[Key]] = {}
        self._reader = Reader(checked=checked)
        self._verifier = Verifier()

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, key: object) -> bool:
        return key in self._places

    def add(self, key: Key, filter: Filter) -> None:
        """Add *filter* as that of *key*, in place of the one it may have had.

        Raises:
            FilterError: As `filters.compile`; nothing has changed then.
        """
        patterns = tuple(map(parse_expression, filter.topics)) if filter.topics else ()
        contents, others = contents_of(filter)
        conditions = conditions_of(others, self._compilers)
        numbers = self._number(contents)
        former = self._places.get(key)
        if former is not None:
            # Not out of the dictionary and in again, which would make it grow. It keeps the key
            # that it has, and so do we.
            key = object_of(self._held(former), key)
            self._leave(key, former)
        group = self._groups.get(filter.topics)
        if group is None:
            group = self._groups[filter.topics] = Group(filter.topics, patterns)
            self._topics.add(group, patterns)
        if not numbers and not others:
            group.held = join(group.held, key)
            self._places[key] = group
        elif not filter.topics and not others and len(numbers) == 1 and numbers[0][0] == PAYLOAD:
            self._add_alone(key, group, numbers[0][1])
        else:
            self._add_entry(key, group, numbers, others, conditions)

    def remove(self, key: Key) -> None:
        """Forget the filter of *key*.

        Raises:
            KeyError: It has none.
        """
        self._leave(key, self._places.pop(key))

    def match(self, event: Event) -> list[Key]:
        """The keys of all filters that *event* matches, each once, in no particular order.

        What costs too much to be evaluated on the spot is evaluated in another process, and does
        not match if it exceeds its budget there.
        """
        return self.finish(self.begin(event))

    def finish(self, matching: Matching[Key]) -> list[Key]:
        """Evaluate what *matching* deferred; the keys of all filters that match."""
        keys = matching.keys
        if matching.deferred:
            questions = [(one.expressions, one.documents) for one in matching.deferred]
            verdicts = self._verifier.evaluate(questions)
            for deferred, verdict in zip(matching.deferred, verdicts, strict=True):
                if verdict:
                    keys.extend(deferred.keys)
        return keys

    def begin(self, event: Event) -> Matching[Key]:
        """Match as `match` does, but defer what costs too much to be evaluated on the spot."""
        matching: Matching[Key] = Matching()
        groups = self._topics.find(event.topic)
        views: dict[View, int] = {}
        more = False
        for group in groups:
            extend(matching.keys, group.held)
            if group.views or group.filed:
                views |= group.views
                more = True
        if not more:  # Topics decide everything, as in front of most consumers.
            return matching
        evaluation = Evaluation(event, self._contents, self._verifier, self._share_of)
        for view in views:
            if view in self._lasting:
                self._look_in_lasting(evaluation, event, view)
                continue
            answer = self._ask(event, view)
            matching.read = answer is not None and matching.read is not False
            if answer is not None:
                evaluation.look(view, answer)
        evaluation.settle(groups, matching)
        return matching

    def keys_by_number(self) -> Sequence[Held[Key]] | None:
        """The keys by the number of the expression that is their whole filter, for `find_numbers`;
        None where a filter asks for anything but one expression over the payload."""
        if self._groups.keys() != {()} or self._contents.keys() != {PAYLOAD}:
            return None
        group = self._groups[()]
        if group.entries or not isinstance(group.held, Nobody):
            return None
        return self._contents[PAYLOAD].alone

    def find_numbers(self, document: bytes) -> tuple["list[int] | array[int]", list[Key]] | None:
        """The numbers of expressions that are true of *document*, a payload, and the keys of those
        that libxml2 had to decide; None if it cannot be read. Where `keys_by_number` has all
        filters, these are all matches: as `match`, for who looks keys up for many documents at
        once, which takes a third of the time where hundreds match."""
        contents = self._contents[PAYLOAD]
        answer = self._reader.ask(contents.index, document)
        if answer is None:
            return None
        if not answer.found.doubtful:
            return answer.found.true, []
        evaluation = Evaluation(Event(document), self._contents, self._verifier, self._share_of)
        evaluation.look(PAYLOAD, answer)
        matching: Matching[Key] = Matching()
        evaluation.settle_doubtful(PAYLOAD, matching)
        return answer.found.true, self.finish(matching)

    def reads(self, document: bytes) -> bool:
        """Return whether *document* can be read."""
        return self._reader.try_to_read(document) is not None

    def lasting_views(self) -> Collection[View]:
        """The lasting views that some filter needs."""
        if not self._lasting:
            return ()
        return [view for view in self._lasting & self._contents.keys() if self._contents[view].used]

    def overlaps(self, expression: Expression) -> bool:
        """Return True if some filter may match some event on a topic that *expression* covers.

        Raises:
            FilterError: *expression* is not a topic expression.
        """
        wanted = parse_expression(expression)
        return any(
            all(pattern.overlaps(wanted) for pattern in group.patterns)
            for group in self._groups.values()
        )

    def _held(self, place: Entry[Key] | Group[Key] | int) -> Held[Key]:
        return self._contents[PAYLOAD].alone[place] if isinstance(place, int) else place.held

    def _leave(self, key: Key, place: Entry[Key] | Group[Key] | int) -> None:
        """Take *key* from the entry that holds it."""
        if isinstance(place, Group):
            group = place
            group.held = leave(group.held, key)
        elif isinstance(place, Entry):
            group = place.group
            place.held = leave(place.held, key)
            if isinstance(place.held, Nobody):
                self._displace(place)
        else:
            group = self._groups[()]
            self._remove_alone(key, group, place)
        if isinstance(group.held, Nobody) and not group.views and not group.entries:
            del self._groups[group.topics]
            self._topics.remove(group)

    def _look_in_lasting(self, evaluation: Evaluation[Key], event: Event, view: View) -> None:
        """Look at a lasting view: at its document once, for all events that have the same."""
        try:
            document = event.view(view)
        except LookupError:
            return
        kept, changes = self._kept.get(view), self._contents[view].changes
        if kept is not None and kept.changes == changes and kept.document == document:
            evaluation.look_again(view, kept.seen)
            return
        answer = self._ask(event, view)
        if answer is not None:
            self._kept[view] = _Kept(document, changes, evaluation.look(view, answer))

    def _ask(self, event: Event, view: View) -> Answer | None:
        """Ask the index of *view* about its document; None if the event lacks the view, or it
        cannot be read."""
        try:
            document = event.view(view)
        except LookupError:
            return None
        return self._reader.ask(self._contents[view].index, document)

    def _number(self, contents: tuple[Expression, ...]) -> tuple[Number, ...]:
        """The numbers of *contents*, each of which has one more user now."""
        numbers: list[Number] = []
        try:
            for expression in contents:
                path = self._payload_paths.get(expression.view)
                moved = path and relocate(expression, path)
                expression = moved or expression
                view = expression.view
                held = self._contents.get(view)
                if held is None:
                    held = self._contents[view] = Contents(make_index(self._engine))
                number = held.index.add(expression)
                held.used += 1
                held.changes += 1
                held.alone.extend([NOBODY] * (number + 1 - len(held.alone)))
                numbers.append((view, number))
        except FilterError:
            self._let_go(numbers)
            raise
        return tuple(numbers)

    def _let_go(self, numbers: tuple[Number, ...] | list[Number]) -> None:
        for view, number in numbers:
            held = self._contents[view]
            held.index.remove(number)
            held.used -= 1
            held.changes += 1
            if not held.used:
                self._kept.pop(view, None)

    def _add_alone(self, key: Key, group: Group[Key], number: int) -> None:
        alone = self._contents[PAYLOAD].alone
        if not isinstance(alone[number], Nobody):
            self._let_go(((PAYLOAD, number),))
        alone[number] = join(alone[number], key)
        group.views[PAYLOAD] = group.views.get(PAYLOAD, 0) + 1
        self._places[key] = number

    def _remove_alone(self, key: Key, group: Group[Key], number: int) -> None:
        alone = self._contents[PAYLOAD].alone
        alone[number] = leave(alone[number], key)
        if isinstance(alone[number], Nobody):
            self._let_go(((PAYLOAD, number),))
        _discount(group.views, PAYLOAD)

    def _add_entry(
        self,
        key: Key,
        group: Group[Key],
        numbers: tuple[Number, ...],
        others: tuple[Expression, ...],
        conditions: tuple[Condition, ...],
    ) -> None:
        entry = group.entries.get((numbers, others))
        if entry is not None:
            self._let_go(numbers)
        else:
            entry = group.entries[numbers, others] = Entry(group, numbers, others, conditions)
            for view, _ in numbers:
                group.views[view] = group.views.get(view, 0) + 1
            self._file(entry)
        entry.held = join(entry.held, key)
        self._places[key] = entry

    def _file(self, entry: Entry[Key]) -> None:
        """File *entry* where it is looked at the least: under one of its expressions, or its
        topics."""
        if not entry.contents:
            entry.group.filed[entry] = None
            return
        choices = [
            (len(self._contents[view].filed.get(number, ())), view, number)
            for view, number in entry.contents
        ]
        fewest, view, number = min(choices)
        # Without topics, every event finds the group.
        if entry.group.topics and len(entry.group.filed) < fewest:
            entry.group.filed[entry] = None
        else:
            self._contents[view].filed.setdefault(number, {})[entry] = None

    def _displace(self, entry: Entry[Key]) -> None:
        group = entry.group
        del group.entries[entry.contents, entry.others]
        if entry in group.filed:
            del group.filed[entry]
        for view, number in entry.contents:
            filed = self._contents[view].filed
            if entry in filed.get(number, ()):
                del filed[number][entry]
                if not filed[number]:
                    del filed[number]
            _discount(group.views, view)
        self._let_go(entry.contents)


def _discount(counts: dict[View, int], view: View) -> None:
    counts[view] -= 1
    if not counts[view]:
        del counts[view]
