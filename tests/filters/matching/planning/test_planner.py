"""What plans look like; whether they are right is for test_engines.py."""

from typing import Any

import pytest

from filters import Expression
from filters.matching.planning.element_tests import MAX_ALTERNATIVES
from filters.matching.planning.plan import (
    AND,
    ATTRIBUTE,
    CHILD,
    CONTAINS,
    DESCENDANT,
    DIFFERENT,
    EQUAL,
    EXISTS,
    FALSE,
    LESS,
    NUMBER_EQUAL,
    OR,
    RANGE,
    SELF,
    TEXT,
    TRUE,
    Plan,
)
from filters.matching.planning.planner import plan
from filters.workloads import Vocabulary, expressions, family_of, messages
from filters.xpath import parse
from tests.rigs.cases import for_each
from tests.rigs.pace import pace

NAMESPACES = (("e", "urn:e"),)
ROOT = (CHILD, None, None)
SYSTEM = (CHILD, "urn:e", "System")


def planned(text: str) -> Plan:
    return plan(parse(Expression(text, namespaces=NAMESPACES)))


def child(*names: str) -> tuple[Any, ...]:
    return (ROOT, *((CHILD, "", name) for name in names))


def attribute(name: str, comparison: int = EXISTS, operand: Any = None) -> tuple[Any, ...]:
    return (ATTRIBUTE, "", name, comparison, operand)


def string(comparison: int, operand: Any) -> tuple[Any, ...]:
    return (SELF, None, None, comparison, operand)


ID = (ROOT, SYSTEM, (CHILD, "urn:e", "EventID"))

# The expression; atoms, formula, branches.
EXACT: list[tuple[str, Any, Any, Any]] = [
    (
        "/*[e:System[e:Provider[@Name='X'] and (e:EventID=1 or e:EventID=2)]]",
        [
            ((ROOT, SYSTEM, (CHILD, "urn:e", "Provider")), (attribute("Name", EQUAL, "X"),)),
            (ID, (string(NUMBER_EQUAL, 1.0),)),
            (ID, (string(NUMBER_EQUAL, 2.0),)),
        ],
        (AND, 0, (OR, 1, 2)),
        [(ROOT, SYSTEM)],
    ),
    (
        "/*[d/e[@Name='LogonType']='3']",
        [(child("d", "e"), (attribute("Name", EQUAL, "LogonType"), string(EQUAL, "3")))],
        0,
        [],
    ),
    (
        "/*[b >= 1 and b < 9]",
        [(child("b"), (string(RANGE, (1.0, True, 9.0, False)),))],
        0,
        [child("b")],
    ),
    (
        "b[@x = 'y' and (. = '1' or . = '2')]",
        [
            (child("b"), (attribute("x", EQUAL, "y"), string(EQUAL, "1"))),
            (child("b"), (attribute("x", EQUAL, "y"), string(EQUAL, "2"))),
        ],
        (OR, 0, 1),
        [],
    ),
    ("/*", [], TRUE, []),
    ("/", [], TRUE, []),
    ("true()", [], TRUE, []),
    ("a and false()", [], FALSE, []),
    ("/a[self::b]", [], FALSE, []),
    ("a/b/c", [(child("a", "b", "c"), ())], 0, []),
    ("a[b]/c", [(child("a", "b"), ()), (child("a", "c"), ())], (AND, 0, 1), [child("a")]),
    ("/*[b]/c", [(child("b"), ()), (child("c"), ())], (AND, 0, 1), []),
    ("/r[b]/c", [(((CHILD, "", "r"), (CHILD, "", "b")), ()), (((CHILD, "", "r"), (CHILD, "", "c")), ())], (AND, 0, 1), []),
    ("//a", [(((DESCENDANT, "", "a"),), ())], 0, []),
    ("//@x", [(((DESCENDANT, None, None),), (attribute("x"),))], 0, []),
    (
        "//a//@x",
        [
            (((DESCENDANT, "", "a"),), (attribute("x"),)),
            (((DESCENDANT, "", "a"), (DESCENDANT, None, None)), (attribute("x"),)),
        ],
        (OR, 0, 1),
        [],
    ),
    ("a | b", [(child("a"), ()), (child("b"), ())], (OR, 0, 1), []),
    ("not(a)", [(child("a"), ())], ~0, []),
    ("count(a) = 0", [(child("a"), ())], ~0, []),
    ("a[not(b)]", [(child("a"), ()), (child("a", "b"), ())], (AND, 0, ~1), [child("a")]),
    ("a[not(. = 'x')]", [(child("a"), (string(DIFFERENT, "x"),))], 0, []),
    ("@x != 'y'", [((ROOT,), (attribute("x", DIFFERENT, "y"),))], 0, []),
    ("not(@x = 'y')", [((ROOT,), (attribute("x", EQUAL, "y"),))], ~0, []),
    ("string(@x) = ''", [((ROOT,), (attribute("x", DIFFERENT, ""),))], ~0, []),
    ("contains(@x, 'y')", [((ROOT,), (attribute("x", CONTAINS, "y"),))], 0, []),
    ("contains(a, 'y')", [(child("a"), (string(CONTAINS, "y"),))], 0, [child("a")]),
    ("contains(a, '')", [], TRUE, []),
    ("3 > a", [(child("a"), (string(LESS, 3.0),))], 0, []),
    ("a < 'x'", [], FALSE, []),
    ("a/text() = 'x'", [(child("a"), ((TEXT, None, None, EQUAL, "x"),))], 0, []),
    (
        "*[local-name() = 'a' and @x]",
        [((ROOT, (CHILD, None, "a")), (attribute("x"),))],
        0,
        [],
    ),
]  # fmt: skip


@for_each(("text", "atoms", "formula", "branches"), EXACT, ids=[text for text, *_ in EXACT])
def test_exact(text: str, atoms: Any, formula: Any, branches: Any) -> None:
    found = planned(text)
    assert found[:4] == (tuple(atoms), formula, True, tuple(branches))
    numeric = any(test[3] >= NUMBER_EQUAL for _, tests in atoms for test in tests)
    assert (found.program is None) == (not branches and not numeric)


# What is implied of expressions that only libxml2 can decide: the number of atoms.
IMPLIED = [
    ("a[1]", 1),
    ("a[last()]/b[c]", 1),
    ("a/..", 1),
    ("a/following-sibling::b", 1),
    ("a = b", 2),
    ("a = b + 1", 1),
    ("count(a) > 1", 1),
    ("a = 12345678901234567", 1),
    ("a and string-length(b) > 1", 1),
    ("contains(text(), 'x')", 1),
    ("id('x')", 0),
    ("not(a[1])", 0),
    ("a or lang('en')", 0),
]


@pytest.mark.parametrize(("text", "atoms"), IMPLIED, ids=[text for text, _ in IMPLIED])
def test_implied(text: str, atoms: int) -> None:
    found = planned(text)
    assert not found.exact
    assert found.program is None
    assert len(found.atoms) == atoms
    assert found.formula != FALSE
    assert (found.formula == TRUE) is (not atoms)


def test_alternatives_are_bounded() -> None:
    few = " or ".join(f". = '{n}'" for n in range(MAX_ALTERNATIVES))
    found = planned(f"a[@x = 'y'][{few}]")
    assert len(found.atoms) == MAX_ALTERNATIVES
    assert not found.branches
    found = planned(f"a[@x = 'y'][{few} or . = 'z']")
    assert len(found.atoms) == MAX_ALTERNATIVES + 2
    assert found.branches == (child("a"),)


def test_doubling_is_bounded() -> None:
    """Each of these steps is two: what goes on at the element itself, and below."""
    found = planned("/".join(["descendant-or-self::a"] * 60))
    assert (found.formula, found.exact) == (TRUE, False)
    assert found.program is not None


def test_time() -> None:
    """An expression takes less than a tenth of a small piece of work."""
    texts = expressions("ev", 300, 1, Vocabulary(messages(family_of("ev"), 100, 1)))
    trees = [parse(text) for text in texts]
    most = len(trees) / 10
    assert pace(lambda: [plan(tree) for tree in trees], tries=5, enough=most) < most
