"""Views whose documents last for many events: looked at once for each document."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from filters import Event, Expression, Filter, FilterSet, View, compile
from filters.dialects import TOPIC_CONCRETE
from filters.filterset.reading import Answer, Reader
from filters.matching.engines.index import Index
from filters.topics.topics import parse_clark

LASTING = View("lasting")
DOCUMENTS = [b"<p><t/><n>1</n></p>", b"<p><n>2</n><n>3</n></p>", b"<p/>", b"<p", None]
FILTERS = [
    Filter(topics=topics, contents=contents)
    for topics in ((), (Expression("a", TOPIC_CONCRETE),))
    for contents in (
        (Expression("/p/t", view=LASTING),),
        (Expression("not(/p/t)", view=LASTING),),
        (Expression("/p[n > 1]", view=LASTING), Expression("/r/s")),
        (Expression("count(n) = 2", view=LASTING), Expression("sum(n) > 4", view=LASTING)),
        (Expression("/r/s"),),
        (),
    )
]


def event(payload: bytes, topic: str, document: bytes | None) -> Event:
    def view(name: View) -> bytes:
        if document is None:
            raise LookupError(name)
        return document

    return Event(payload, topic=parse_clark(topic), views=view)


class CountingReader(Reader):
    def __init__(self) -> None:
        super().__init__()
        self.read_so_far: list[bytes] = []

    def ask(self, index: Index, octets: bytes) -> Answer | None:
        self.read_so_far.append(octets)
        return super().ask(index, octets)


@pytest.mark.parametrize("engine", ["native", "reference"])
@given(seed=st.integers(0, 10**6))
@settings(max_examples=60)
def test_verdicts_are_those_of_the_document_of_now(engine: str, seed: int) -> None:
    draw = random.Random(seed)
    filters: FilterSet[int] = FilterSet(lasting=[LASTING], engine=engine)
    present: dict[int, Filter] = {}
    document = DOCUMENTS[0]
    for _ in range(60):
        step = draw.random()
        key = draw.randrange(20)
        if step < 0.3:
            present[key] = draw.choice(FILTERS)
            filters.add(key, present[key])
        elif step < 0.4 and key in present:
            filters.remove(key)
            del present[key]
        elif step < 0.6:
            document = draw.choice(DOCUMENTS)
        else:
            payload = draw.choice([b"<r><s/></r>", b"<r/>"])
            one = event(payload, draw.choice("ab"), document)
            wanted = {key for key, each in present.items() if compile(each).matches(one)}
            assert set(filters.match(one)) == wanted
        needed = any(one.view == LASTING for each in present.values() for one in each.contents)
        assert list(filters.lasting_views()) == [LASTING] * needed


def counted(filters: FilterSet[str]) -> list[bytes]:
    filters._reader = reader = CountingReader()
    return reader.read_so_far


def test_a_document_is_read_once() -> None:
    filters: FilterSet[str] = FilterSet(lasting=[LASTING])
    for number in range(50):
        more = (Expression("/r"),) if number % 2 else ()
        filters.add(f"k{number}", Filter(contents=(Expression("/p/t", view=LASTING), *more)))
    read = counted(filters)
    for document in (DOCUMENTS[0], DOCUMENTS[0], DOCUMENTS[2], DOCUMENTS[0]):
        assert document is not None
        for _ in range(10):
            keys = filters.match(event(b"<r/>", "a", bytes(bytearray(document))))
            assert len(keys) == (50 if b"<t/>" in document else 0)
    lasting = [octets for octets in read if octets != b"<r/>"]
    assert lasting == [DOCUMENTS[0], DOCUMENTS[2], DOCUMENTS[0]]


def test_what_is_doubtful_is_verified_once() -> None:
    filters: FilterSet[str] = FilterSet(lasting=[LASTING])
    filters.add("k", Filter(contents=(Expression("sum(n) > 4 and count(n) = 2", view=LASTING),)))
    document = DOCUMENTS[1]
    verified: list[str] = []
    get = filters._verifier.cache.get

    class Counting:
        def get(self, text: str, *rest: object) -> object:
            verified.append(text)
            return get(text, *rest)  # type: ignore[arg-type]  # what `get` takes

    filters._verifier.cache = Counting()  # type: ignore[assignment]  # it has all that is asked
    for _ in range(5):
        assert filters.match(event(b"<r/>", "a", document)) == ["k"]
    assert len(verified) == 1


def test_without_such_filters_nothing_is_asked() -> None:
    filters: FilterSet[str] = FilterSet(lasting=[LASTING])
    filters.add("k", Filter(contents=(Expression("/r"),)))
    assert filters.match(event(b"<r/>", "a", None)) == ["k"]
    assert not filters.lasting_views()


def test_what_is_dear_is_evaluated_elsewhere() -> None:
    filters: FilterSet[str] = FilterSet(lasting=[LASTING])
    hostile = Expression("count(//*[../*[../*]]) > 5000", view=LASTING)
    filters.add("k", Filter(contents=(hostile,)))
    large = event(b"<r/>", "a", b"<p>" + b"<n/>" * 3000 + b"</p>")
    for _ in range(2):
        [deferred] = filters.begin(large).deferred
        assert (deferred.keys, deferred.expressions) == (["k"], (hostile,))
    assert filters.match(event(b"<r/>", "a", b"<p>" + b"<n/>" * 3 + b"</p>")) == []
