"""The tests on an element at the end of one path, which find the numbers of the atoms that it
passes.

Atoms are filed by a value that they ask for: one or two strings, else a number, else a bound. The
few others are tried one after the other.
"""

from bisect import bisect_left, bisect_right, insort
from math import inf, isnan
from typing import Any, Protocol

from filters.matching.planning.numbers import read_number
from filters.matching.planning.plan import (
    AT_LEAST,
    AT_MOST,
    EQUAL,
    GREATER,
    LESS,
    NUMBER_EQUAL,
    RANGE,
)
from filters.matching.planning.values import TEXT_KEY, Check, Checks, Key, Values, passes


class Table(Protocol):
    """Atoms that ask for the same kind of value."""

    def add(self, atom: int, checks: Checks) -> None: ...

    def discard(self, atom: int, checks: Checks) -> None: ...

    def find(self, values: Values, passed: set[int], doubtful: set[int]) -> None:
        """Add the atoms that the element passes, and those that only libxml2 knows of."""

    def __len__(self) -> int: ...


class Tables:
    """All tests at the end of one path.

    ``plain`` is the atom without tests; ``equal`` holds those that ask for one string alone, by
    subject; ``others`` all else. ``ranges`` are those that count as passed, too, when two elements
    of the message meet the path.
    """

    __slots__ = ("asked", "equal", "others", "plain", "ranges")

    def __init__(self) -> None:
        self.plain: int | None = None
        self.asked = False
        """True if some expression waits for the plain atom."""
        self.equal: dict[Key, dict[str, int]] = {}
        self.others: dict[Any, Table] = {}
        self.ranges: set[int] = set()

    def add(self, atom: int, checks: Checks) -> tuple[Key, str] | None:
        """Add an atom. Returns its place in ``equal``, None if it is elsewhere."""
        if not checks:
            self.plain = atom
            return None
        if any(check[1] == RANGE for check in checks):
            self.ranges.add(atom)
        place = _only_string(checks)
        if place is not None:
            self.equal.setdefault(place[0], {})[place[1]] = atom
            return place
        kind, keys = _place(checks)
        table = self.others.get((kind, keys))
        if table is None:
            table = self.others[kind, keys] = kind(*keys)
        table.add(atom, checks)
        return None

    def discard(self, atom: int, checks: Checks) -> tuple[Key, str] | None:
        """Take an atom out. Returns its place in ``equal``, None if it was elsewhere."""
        if not checks:
            self.plain = None
            return None
        self.ranges.discard(atom)
        place = _only_string(checks)
        if place is not None:
            key, value = place
            del self.equal[key][value]
            if not self.equal[key]:
                del self.equal[key]
            return place
        where = _place(checks)
        table = self.others[where]
        table.discard(atom, checks)
        if not len(table):
            del self.others[where]
        return None


class ByStrings:
    """Atoms that ask for one or two strings, with more tests perhaps."""

    __slots__ = ("_atoms", "_keys")

    def __init__(self, *keys: Key) -> None:
        self._keys = keys
        self._atoms: dict[tuple[str, ...], dict[int, Checks]] = {}

    def add(self, atom: int, checks: Checks) -> None:
        wanted, rest = self._split(checks)
        self._atoms.setdefault(wanted, {})[atom] = rest

    def discard(self, atom: int, checks: Checks) -> None:
        wanted, _ = self._split(checks)
        del self._atoms[wanted][atom]
        if not self._atoms[wanted]:
            del self._atoms[wanted]

    def find(self, values: Values, passed: set[int], doubtful: set[int]) -> None:
        keys = self._keys
        if len(keys) == 1:
            for value in values.all(keys[0]):
                if (atoms := self._atoms.get((value,))) is not None:
                    _try_all(atoms, values, passed, doubtful)
            return
        first = values.one(keys[0])
        second = None if first is None else values.one(keys[1])
        if first is not None and second is not None:
            atoms = self._atoms.get((first, second))
            if atoms is not None:
                _try_all(atoms, values, passed, doubtful)

    def __len__(self) -> int:
        return len(self._atoms)

    def _split(self, checks: Checks) -> tuple[tuple[str, ...], Checks]:
        """The strings that are asked for, and the tests that are left."""
        left = list(checks)
        wanted = []
        for key in self._keys:
            check = next(check for check in left if check[:2] == (key, EQUAL))
            left.remove(check)
            wanted.append(check[2])
        return tuple(wanted), tuple(left)


class ByNumber:
    """Atoms that ask for one number, with more tests perhaps."""

    __slots__ = ("_atoms", "_key")

    def __init__(self, key: Key) -> None:
        self._key = key
        self._atoms: dict[float, dict[int, Checks]] = {}

    def add(self, atom: int, checks: Checks) -> None:
        wanted = self._wanted(checks)
        rest = tuple(check for check in checks if check is not wanted)
        self._atoms.setdefault(wanted[2], {})[atom] = rest

    def discard(self, atom: int, checks: Checks) -> None:
        operand = self._wanted(checks)[2]
        del self._atoms[operand][atom]
        if not self._atoms[operand]:
            del self._atoms[operand]

    def find(self, values: Values, passed: set[int], doubtful: set[int]) -> None:
        for value in values.all(self._key):
            number = read_number(value)
            if number is None:
                for atoms in self._atoms.values():
                    _try_all(atoms, values, doubtful, doubtful)
            elif (found := self._atoms.get(number)) is not None:
                _try_all(found, values, passed, doubtful)

    def __len__(self) -> int:
        return len(self._atoms)

    def _wanted(self, checks: Checks) -> Check:
        return next(check for check in checks if check[:2] == (self._key, NUMBER_EQUAL))


class ByBound:
    """Atoms that ask for a number over or under another, or between two."""

    __slots__ = ("_highs", "_key", "_lows")

    def __init__(self, key: Key) -> None:
        self._key = key
        # A bound that is exclusive comes just behind, or before, the same one that is not.
        self._lows: list[tuple[float, bool, int, float, bool]] = []
        self._highs: list[tuple[float, bool, int]] = []

    def add(self, atom: int, checks: Checks) -> None:
        bound = self._bound(atom, checks[0])
        insort(self._lows if len(bound) == 5 else self._highs, bound)

    def discard(self, atom: int, checks: Checks) -> None:
        bound = self._bound(atom, checks[0])
        bounds: list[Any] = self._lows if len(bound) == 5 else self._highs
        del bounds[bisect_left(bounds, bound)]

    def find(self, values: Values, passed: set[int], doubtful: set[int]) -> None:
        for value in values.all(self._key):
            number = read_number(value)
            if number is None:
                doubtful.update(bound[2] for bound in self._lows)
                doubtful.update(bound[2] for bound in self._highs)
            elif not isnan(number):
                self._compare(number, passed)

    def _compare(self, number: float, passed: set[int]) -> None:
        end = bisect_left(self._lows, (number, True))
        for _, _, atom, high, exclusive in self._lows[:end]:
            if number < high or (number == high and not exclusive):
                passed.add(atom)
        start = bisect_right(self._highs, (number, False, inf))
        passed.update(bound[2] for bound in self._highs[start:])

    def __len__(self) -> int:
        return len(self._lows) + len(self._highs)

    def _bound(self, atom: int, check: Check) -> tuple[Any, ...]:
        _, comparison, operand = check
        if comparison == RANGE:
            low, with_low, high, with_high = operand
            return (low, not with_low, atom, high, not with_high)
        if comparison in (GREATER, AT_LEAST):
            return (operand, comparison == GREATER, atom, inf, True)
        return (operand, comparison == AT_MOST, atom)


class OneByOne:
    """Atoms that ask for no particular value, tried one by one."""

    __slots__ = ("_atoms",)

    def __init__(self) -> None:
        self._atoms: dict[int, Checks] = {}

    def add(self, atom: int, checks: Checks) -> None:
        self._atoms[atom] = checks

    def discard(self, atom: int, checks: Checks) -> None:
        del self._atoms[atom]

    def find(self, values: Values, passed: set[int], doubtful: set[int]) -> None:
        _try_all(self._atoms, values, passed, doubtful)

    def __len__(self) -> int:
        return len(self._atoms)


def _only_string(checks: Checks) -> tuple[Key, str] | None:
    """Return the subject and the value if *checks* ask for one string and nothing else."""
    if len(checks) == 1:
        key, comparison, operand = checks[0]
        if comparison == EQUAL and (key == TEXT_KEY or key.is_single):
            return key, operand
    return None


def _place(checks: Checks) -> tuple[Any, tuple[Key, ...]]:
    """Choose the kind of table and its keys."""
    strings = [key for key, comparison, _ in checks if comparison == EQUAL]
    single = sorted({key for key in strings if key.is_single}, key=lambda key: key[::3])[:2]
    if single or strings:
        return ByStrings, tuple(single or strings[:1])
    for key, comparison, _ in checks:
        if comparison == NUMBER_EQUAL:
            return ByNumber, (key,)
    if len(checks) == 1 and checks[0][1] in (LESS, AT_MOST, GREATER, AT_LEAST, RANGE):
        return ByBound, (checks[0][0],)
    return OneByOne, ()


def _try_all(
    atoms: dict[int, Checks], values: Values, passed: set[int], doubtful: set[int]
) -> None:
    for atom, checks in atoms.items():
        verdict: bool | None = True
        for check in checks:
            one = passes(check, values)
            if one is False:
                break
            if one is None:
                verdict = None
        else:
            (doubtful if verdict is None else passed).add(atom)
