"""Filters in four styles, over the paths and values of a corpus."""

import random
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from lxml import etree

from filters.documents import parse_document
from filters.filter import Expression
from filters.workloads.zipf import Zipf

PREDICATES = {"xm0": 0, "xm1": 1, "xm3": 3}
EVENT_STYLE = "ev"
STYLES = (*PREDICATES, EVENT_STYLE)

MAX_DEPTH = 6
DESCENDANT = WILDCARD = 0.2
MAX_VALUE = 64
"""Characters of a value that a filter compares with."""
MAX_VALUES = 2000
"""Distinct values that a vocabulary keeps of one place."""


class Unfit(ValueError):
    """There is no such style of filters, or a corpus has nothing for it."""


EVENT_NAMESPACE = "http://schemas.microsoft.com/win/2004/08/events/event"


@dataclass(frozen=True, slots=True)
class _Place:
    """A place where a corpus has values: an attribute or a child of an element, or its own text."""

    subject: str
    """The place as a predicate names it: ``@id``, ``n1:name``, ``text()``."""
    values: Zipf[str]


class Vocabulary:
    """The paths of a corpus, and the values at them.

    Args:
        documents: Well-formed XML documents in UTF-8.

    Raises:
        FilterError: One is not a document that `filters.parse_document` takes.
        ValueError: There are none.
    """

    def __init__(self, documents: Iterable[bytes]) -> None:
        counts: Counter[tuple[str, ...]] = Counter()
        values: dict[tuple[str, ...], dict[str, Counter[str]]] = {}
        self._uris: dict[str, str] = {}
        self.events = _EventVocabulary()
        for octets in documents:
            root = parse_document(octets)
            self.events.learn(root)
            self._walk(root, (), counts, values)
        if not counts:
            raise ValueError("a vocabulary needs at least one document")
        self._paths = Zipf([path for path, _ in counts.most_common()])
        self._places = {
            path: [
                _Place(subject, Zipf([value for value, _ in found.most_common()]))
                for subject, found in sorted(subjects.items())
            ]
            for path, subjects in values.items()
        }
        self.namespaces = tuple(sorted((prefix, uri) for uri, prefix in self._uris.items()))

    def path_filter(self, chance: random.Random, predicates: int) -> str:
        """Make a filter of the ``xm`` styles; it has fewer predicates if a path has no values."""
        path = self._paths.draw(chance)
        steps = []
        for name in path:
            axis = "//" if chance.random() < DESCENDANT else "/"
            steps.append(axis + ("*" if chance.random() < WILDCARD else name))
        tests = [""] * len(path)
        levels = [n for n in range(len(path)) if path[: n + 1] in self._places]
        for _ in range(predicates if levels else 0):
            level = chance.choice(levels)
            place = chance.choice(self._places[path[: level + 1]])
            tests[level] += f"[{place.subject}={_literal(place.values.draw(chance))}]"
        return "".join(step + test for step, test in zip(steps, tests, strict=True))

    def _walk(
        self,
        element: etree._Element,
        above: tuple[str, ...],
        counts: Counter[tuple[str, ...]],
        values: dict[tuple[str, ...], dict[str, Counter[str]]],
    ) -> None:
        path = (*above, self._name(element.tag))
        counts[path] += 1
        found = values.get(path, {})
        for name, value in element.attrib.items():
            _note(found, f"@{self._name(str(name))}", str(value))
        if not len(element):
            _note(found, "text()", element.text)
        if found:
            values[path] = found
        if len(path) == MAX_DEPTH:
            return
        for child in element.iterchildren(etree.Element):
            if not len(child):
                _note(values.setdefault(path, {}), self._name(child.tag), child.text)
            self._walk(child, path, counts, values)
        if not values.get(path, True):
            del values[path]

    def _name(self, clark: str) -> str:
        name = etree.QName(clark)
        if not name.namespace:
            return name.localname
        prefix = self._uris.setdefault(name.namespace, f"n{len(self._uris) + 1}")
        return f"{prefix}:{name.localname}"


def _note(subjects: dict[str, Counter[str]], subject: str, value: str | None) -> None:
    """Keep *value* if a filter could compare with it."""
    if not value or len(value) > MAX_VALUE or not value.strip() or not value.isprintable():
        return
    if '"' in value and "'" in value:
        return
    found = subjects.setdefault(subject, Counter())
    if value in found or len(found) < MAX_VALUES:
        found[value] += 1


class _EventVocabulary:
    """The vocabulary of filters over Windows events: providers with ids, and the data of events."""

    def __init__(self) -> None:
        self._ids: dict[str, Counter[str]] = {}
        self._data: dict[str, Counter[str]] = {}
        self._drawn: tuple[Zipf[str], dict[str, Zipf[str]], Zipf[str], dict[str, Zipf[str]]] | None
        self._drawn = None

    def learn(self, root: etree._Element) -> None:
        event = f"{{{EVENT_NAMESPACE}}}"
        if root.tag != f"{event}Event":
            return
        provider = root.find(f"{event}System/{event}Provider")
        number = root.findtext(f"{event}System/{event}EventID")
        if provider is not None and number and number.isdecimal():
            name = str(provider.get("Name"))
            if not {"'", '"'} <= set(name):
                self._ids.setdefault(name, Counter())[number] += 1
        for datum in root.iterfind(f"{event}EventData/{event}Data"):
            if (name := str(datum.get("Name", ""))).isidentifier():
                _note(self._data, name, datum.text)

    def filter(self, chance: random.Random) -> str:
        """Make a filter of the ``ev`` style.

        Raises:
            Unfit: The corpus has no Windows events.
        """
        if not self._ids or not self._data:
            raise Unfit("the ev style needs a corpus of Windows events")
        if self._drawn is None:
            self._drawn = (*_ranked(self._ids), *_ranked(self._data))
        shape = _EVENT_SHAPES.draw(chance)
        return shape(self, chance)

    def ids(self, chance: random.Random) -> str:
        _, numbers = self._provider(chance)
        return f"/*[e:System[{_any_of('e:EventID', numbers, chance)}]]"

    def provider_and_ids(self, chance: random.Random) -> str:
        provider, numbers = self._provider(chance)
        return (
            f"/*[e:System[e:Provider[@Name={_literal(provider)}] and "
            f"{_any_of('e:EventID', numbers, chance)}]]"
        )

    def provider_and_level(self, chance: random.Random) -> str:
        provider, numbers = self._provider(chance)
        levels = " or ".join(f"e:Level={n}" for n in sorted(chance.sample(range(5), 2)))
        return (
            f"/*[e:System[e:Provider[@Name={_literal(provider)}] and ({levels}) and "
            f"{_any_of('e:EventID', numbers, chance)}]]"
        )

    def range(self, chance: random.Random) -> str:
        _, numbers = self._provider(chance)
        low = int(numbers.draw(chance))
        return (
            f"/*[e:System[(e:EventID >= {low} and e:EventID <= {low + chance.randrange(1, 20)})]]"
        )

    def datum(self, chance: random.Random) -> str:
        _, numbers = self._provider(chance)
        return (
            f"/*[e:System[{_any_of('e:EventID', numbers, chance)}]] and "
            f"/*[e:EventData[{self._datum(chance, '=')}]]"
        )

    def datum_alone(self, chance: random.Random) -> str:
        return f"/*[e:EventData[{self._datum(chance, '=')}]]"

    def but_not(self, chance: random.Random) -> str:
        _, numbers = self._provider(chance)
        ids = _any_of("e:EventID", numbers, chance)
        if chance.random() < 0.5:
            return f"/*[e:System[{ids}]] and /*[e:EventData[{self._datum(chance, '!=')}]]"
        return f"/*[e:System[{ids}] and not(e:EventData[{self._datum(chance, '=')}])]"

    def part_of_datum(self, chance: random.Random) -> str:
        name, values = self._named(chance)
        value = values.draw(chance).strip()
        start = chance.randrange(max(1, len(value) - 5))
        part = _literal(value[start : start + chance.randrange(4, 12)])
        if chance.random() < 0.25:
            part = _literal(value[: chance.randrange(3, 9)])
            return f"/*[e:EventData[e:Data[@Name='{name}'][starts-with(., {part})]]]"
        return f"/*[e:EventData[e:Data[@Name='{name}'][contains(., {part})]]]"

    def _datum(self, chance: random.Random, operator: str) -> str:
        name, values = self._named(chance)
        return f"e:Data[@Name='{name}']{operator}{_literal(values.draw(chance))}"

    def _provider(self, chance: random.Random) -> tuple[str, Zipf[str]]:
        assert self._drawn is not None
        name = self._drawn[0].draw(chance)
        return name, self._drawn[1][name]

    def _named(self, chance: random.Random) -> tuple[str, Zipf[str]]:
        assert self._drawn is not None
        name = self._drawn[2].draw(chance)
        return name, self._drawn[3][name]


_SHAPES: tuple[tuple[int, Callable[[_EventVocabulary, random.Random], str]], ...] = (
    (22, _EventVocabulary.ids),
    (20, _EventVocabulary.provider_and_ids),
    (12, _EventVocabulary.provider_and_level),
    (8, _EventVocabulary.range),
    (20, _EventVocabulary.datum),
    (8, _EventVocabulary.datum_alone),
    (5, _EventVocabulary.but_not),
    (5, _EventVocabulary.part_of_datum),
)
_EVENT_SHAPES = Zipf([shape for weight, shape in _SHAPES for _ in range(weight)], skew=0.0)


def _ranked(counters: dict[str, Counter[str]]) -> tuple[Zipf[str], dict[str, Zipf[str]]]:
    """Names by how often there is one, and the values of each likewise."""
    names = sorted(counters, key=lambda name: (-counters[name].total(), name))
    values = {name: Zipf([value for value, _ in counters[name].most_common()]) for name in names}
    return Zipf(names), values


def _any_of(name: str, values: Zipf[str], chance: random.Random) -> str:
    wanted = {values.draw(chance) for _ in range(min(1 + int(chance.expovariate(0.5)), 12))}
    return f"({' or '.join(f'{name}={value}' for value in sorted(wanted, key=int))})"


def _literal(value: str) -> str:
    return f'"{value}"' if "'" in value else f"'{value}'"


def expressions(style: str, count: int, seed: int, vocabulary: Vocabulary) -> list[Expression]:
    """*count* content expressions of *style*, some of them alike as with real subscribers.

    Raises:
        Unfit: There is no such style, or *vocabulary* has nothing for it.
    """
    chance = random.Random(f"{style} {seed}")
    if style == EVENT_STYLE:
        namespaces = (("e", EVENT_NAMESPACE),)
        return [
            Expression(vocabulary.events.filter(chance), namespaces=namespaces)
            for _ in range(count)
        ]
    if style not in PREDICATES:
        raise Unfit(f"{style!r} is not a style of filters; the styles are {', '.join(STYLES)}")
    predicates = PREDICATES[style]
    return [
        Expression(vocabulary.path_filter(chance, predicates), namespaces=vocabulary.namespaces)
        for _ in range(count)
    ]
