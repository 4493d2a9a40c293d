"""What the compiled engine parses itself, with lxml's libxml2: read, refused and found as ever."""

import random
import resource
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from filters import Event, Expression, Filter, FilterSet
from filters.documents import parse_own
from filters.matching.engines.choice import engine_note
from filters.workloads import FAMILIES
from filters.workloads import messages as made_messages
from tests.filters.matching.parsings import Parsings, compare, compare_mutations, filled
from tests.rigs.corpus import families, messages

if note := engine_note():
    pytest.skip(note, allow_module_level=True)

from filters.matching import _kernel
from filters.matching.engines import native
from filters.matching.engines.native import NativeIndex

SHORT = b"<r><a>1</a></r>"


def test_the_engine_parses_here() -> None:
    assert native.parses()


@pytest.mark.parametrize("family", FAMILIES)
def test_what_it_reads_is_what_lxml_reads(family: str) -> None:
    documents = made_messages(family, 60, 3)
    index = filled(NativeIndex(), documents)
    for octets in documents:
        assert compare(index, octets) == Parsings(documents=1, read=1)
    seen = compare_mutations(index, documents * 3, family)
    assert 0.4 * seen.documents < seen.read < 0.9 * seen.documents


def test_real_documents_are_read_alike(shared: Path) -> None:
    for family in families(shared):
        documents = list(messages(shared, family, every=97))
        index = filled(NativeIndex(), documents)
        for octets in documents:
            assert compare(index, octets) == Parsings(documents=1, read=1)
        compare_mutations(index, documents, family)


@pytest.mark.nightly
def test_all_real_documents_are_read_alike(shared: Path) -> None:
    """Takes two minutes."""
    for family in families(shared):
        documents = list(messages(shared, family))
        index = filled(NativeIndex(), documents)
        for octets in documents:
            assert compare(index, octets) == Parsings(documents=1, read=1)
        for turn in range(3):
            compare_mutations(index, documents, f"{family} {turn}")


@pytest.mark.parametrize(
    "octets",
    [
        b"<!DOCTYPE r><r/>",
        b'<!DOCTYPE r [<!ENTITY e "v">]><r>&e;</r>',
        b"<r/><!-- <!D -->",
        b"\xef\xbb\xbf<r/>",
        "<r/>".encode("utf-16"),
        "<r/>".encode("utf-16-le"),
        b" <r/>",
        b"<r>",
        b"<p:r/>",
        b"<r xml:id='1 2'/>",
        b"<",
        b"",
    ],
)
def test_what_it_leaves_to_lxml(octets: bytes) -> None:
    index = NativeIndex()
    index.add(Expression("//*"))
    assert compare(index, octets).read == 0


@pytest.mark.parametrize(
    "octets",
    [
        b"<r><?p i?></r>",
        b"<r " + b" ".join(b"a%d=''" % at for at in range(129)) + b"/>",
        b"<" + b"n" * 1025 + b"/>",
        b"<r a='" + b"x" * 65_537 + b"'/>",
        b"<r>" + b"".join(b"<n xmlns:p%d=''/>" % at for at in range(129)) + b"</r>",
        b"<r>" + b"<n/>" * 50_000 + b"</r>",
        b"<r>" + b"x" * 2**21 + b"</r>",
        b"<?xml version='1.1'?><r/>",
        b"<?xml version='1.0' encoding='ISO-8859-1'?><r/>",
    ],
)
def test_what_limits_might_refuse_is_left_to_who_knows_them(octets: bytes) -> None:
    index = NativeIndex()
    index.add(Expression("//*"))
    assert index.find_in(octets, checked=False) is None
    compare(index, octets)


def test_lxml_parses_where_its_library_is_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a build of lxml that shows no functions of libxml2."""
    with pytest.raises(LookupError):
        _kernel.Parser(b"/nowhere/etree.so")
    with pytest.raises(LookupError):  # Loaded, but without them.
        _kernel.Parser(_kernel.__file__.encode())
    monkeypatch.setattr(native, "_LXML", b"/nowhere/etree.so")
    monkeypatch.setattr(native, "_parsers", native._Parsers())
    assert not native.parses()
    assert native.unfit() is None
    filters: FilterSet[str] = FilterSet()
    filters.add("k", Filter(contents=(Expression("a = 1"),)))
    assert filters.match(Event(SHORT)) == ["k"]
    assert filters.match(Event(b"<r><a>2</a></r>")) == []
    assert filters.match(Event(b"<r>")) == []


def test_a_program_is_decided_over_the_same_document() -> None:
    """What the engine has no program for is decided afterwards, in the tree that it parsed."""
    index = NativeIndex()
    texts = ("//b[c = 2][d = 3]", "a[not(b/c = 1)]/d", "/r/a[b = 1 and c = 2]", "//*[not(a)]/b")
    numbers = {text: index.add(Expression(text)) for text in texts}
    for octets in (SHORT, b"<r><a><b><c>2</c><d>3</d></b><b><c>1</c></b></a></r>"):
        for _ in range(3):
            compare(index, octets)
    assert len(numbers) == len(texts)


def test_what_it_cannot_decide_is_verified_in_lxmls_tree() -> None:
    for checked in (True, False):
        filters: FilterSet[str] = FilterSet(checked=checked)
        filters.add("sum", Filter(contents=(Expression("sum(//n) = 6 and count(//n) = 3"),)))
        filters.add("last", Filter(contents=(Expression("string(//n[last()]) = '3'"),)))
        matched = filters.match(Event(b"<r><n>1</n><n>2</n><n>3</n></r>"))
        assert sorted(matched) == ["last", "sum"]
        assert filters.match(Event(b"<r><n>1</n></r>")) == []


def test_several_threads_ask_one_index() -> None:
    """Documents are parsed and looked at without the interpreter's lock; who adds or removes an
    expression meanwhile waits."""
    documents = made_messages(FAMILIES[0], 40, 5)
    index = filled(NativeIndex(), documents)
    wanted = [set(index.find(parse_own(octets)).true) for octets in documents]
    stop = threading.Event()

    def change() -> int:
        turns = 0
        while not stop.is_set():
            index.remove(index.add(Expression(f"//nobody[. = '{turns}']")))
            turns += 1
        return turns

    def ask(seed: int) -> None:
        chance = random.Random(seed)
        for _ in range(300):
            at = chance.randrange(len(documents))
            found = index.find_in(documents[at], checked=bool(chance.randrange(2)))
            assert found is not None
            assert set(found.true) == wanted[at]

    with ThreadPoolExecutor(4) as threads:
        changing = threads.submit(change)
        try:
            for asking in [threads.submit(ask, seed) for seed in range(3)]:
                asking.result()
        finally:
            stop.set()
        assert changing.result() > 0


def test_names_of_strangers_are_forgotten() -> None:
    """Libxml2 keeps each name of a context: half a million of them would take 50 MB."""
    index = NativeIndex()
    index.add(Expression("//n"))

    def parse(first: int, count: int) -> None:
        for number in range(first, first + count, 100):
            names = range(number, number + 100)
            octets = b"".join(b"<a-long-name-of-a-stranger-%d/>" % name for name in names)
            found = index.find_in(b"<r>" + octets + b"</r>", checked=True)
            assert found is not None

    parse(0, 50_000)
    before = in_use()
    parse(50_000, 500_000)
    assert in_use() - before < 16 * 2**20


def in_use() -> int:
    """The octets of memory that this process has now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
