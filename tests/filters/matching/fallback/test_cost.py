"""The bound on what libxml2 spends, against what it spends."""

import statistics
import time
from pathlib import Path

import pytest
from lxml import etree

from filters import Expression, FilterError
from filters.documents import parse_own
from filters.matching.fallback.cost import DocumentSize, bound
from filters.matching.fallback.verification import VISITS
from filters.xpath import compile_xpath, parse
from tests.filters.matching.costly import SHAPES, Costly, document
from tests.rigs.cases import for_each
from tests.rigs.corpus import families, forwarding_filters, messages

VISIT = 10e-9
"""Seconds; on a fast machine half of that."""
SLACK = 8
"""For slow machines that are busy as well."""
CALL = 50e-6
"""Seconds that any evaluation may take."""


def size(elements: int, shape: str = "table") -> DocumentSize:
    return DocumentSize.of(parse_own(document(shape, elements)))


def visits(text: str, on: DocumentSize) -> int:
    return bound(parse(Expression(text)), on)


def seconds(text: str, root: etree._Element) -> float:
    """Of processor time, the least of some."""
    xpath = compile_xpath(text, ())
    times = []
    for _ in range(5):
        started = time.process_time()
        xpath(root)
        times.append(time.process_time() - started)
        if times[-1] < CALL:
            break
    return min(times)


def test_the_size_covers_the_document() -> None:
    deepest = f"<a>{'<b>' * 200}{'</b>' * 200}</a>"
    rows = "".join(f'<b x="{"v" * 300}" y="1">text<!-- comment --></b>' for _ in range(100))
    for text in (deepest, f"<a>{rows}</a>", "<a/>", f"<a>{'x' * 5000}</a>"):
        root = etree.fromstring(text)
        elements = list(root.iter())
        counted = DocumentSize.of(root)
        nodes = root.xpath("count(//node() | //@* | /)")
        assert isinstance(nodes, float)
        assert nodes <= counted.nodes <= 1.25 * nodes + 1
        assert counted.depth >= max(len(list(each.iterancestors())) + 1 for each in elements)
        assert counted.fan_out >= max(map(len, elements))
        values = "".join(each.text or "" for each in elements)
        values += "".join(str(value) for each in elements for value in each.attrib.values())
        assert counted.characters >= len(values)


@pytest.mark.parametrize(
    ("text", "power"),
    [
        pytest.param("/*[a[b[@c='x']]]", 1, id="forward"),
        pytest.param("//b[@x='1']/c", 1, id="descendants of the root"),
        pytest.param("count(//*) > 3", 1, id="count"),
        pytest.param("//*[//b]", 2, id="absolute in a predicate"),
        pytest.param("count(//*/following::*) = 0", 3, id="following, merged"),
        pytest.param("//*[//*[//*]]", 3, id="twice absolute"),
    ],
)
def test_growth(text: str, power: int) -> None:
    """What is ten times as large costs so many times ten times as much."""
    small, large = (DocumentSize(nodes, 8, nodes, nodes) for nodes in (1_000, 10_000))
    ratio = visits(text, large) / visits(text, small)
    assert 0.5 * 10**power < ratio <= 1.5 * 10**power


def test_the_fan_out_counts_where_siblings_meet() -> None:
    narrow, wide = DocumentSize(1000, 8, 4, 1000), DocumentSize(1000, 8, 400, 1000)
    climbing = "//*[../*[../*[../*]]]"
    assert visits(climbing, wide) > 10_000 * visits(climbing, narrow)
    assert visits("//b[c]", wide) < 2 * visits("//b[c]", narrow)


def test_the_bound_grows_with_the_size() -> None:
    generator = Costly(7)
    sizes = [DocumentSize(n, d, f, n * 10) for n, d, f in ((64, 4, 4), (64, 8, 8), (512, 8, 64))]
    for _ in range(500):
        text = generator.expression()
        try:
            bounds = [visits(text, each) for each in sizes]
        except FilterError:
            continue
        assert bounds == sorted(bounds), text


@for_each(("elements", "number"), [(300, 300), (3_000, 60), (20_000, 12)])
@for_each("shape", SHAPES)
def test_nothing_costs_more_than_its_bound(shape: str, elements: int, number: int) -> None:
    root = parse_own(document(shape, elements))
    on = DocumentSize.of(root)
    generator = Costly(elements)
    tried = 0
    while tried < number:
        text = generator.expression()
        try:
            most = visits(text, on)
        except FilterError:
            continue  # Too many operators, nested too deeply, no node-set where one belongs.
        tried += 1
        if most <= 20 * VISITS:
            assert seconds(text, root) <= most * VISIT * SLACK + CALL, (text, most)


def test_published_filters_are_cheap_on_real_messages(material: Path) -> None:
    trees = [
        parse(Expression(text, namespaces=namespaces))
        for text, namespaces in forwarding_filters(material)
    ]
    assert len(trees) >= 24
    for family in families(material):
        most = []
        for message in messages(material, family, every=100):
            on = DocumentSize.of(parse_own(message))
            most += [bound(tree, on) for tree in trees]
        assert statistics.median(most) < VISITS / 10, family
        assert sum(visits <= VISITS for visits in most) >= 0.9 * len(most), family
