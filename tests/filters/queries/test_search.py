"""Searches that go on in turns, in another thread, while things come and go."""

import threading
from itertools import count

import pytest

from filters.dialects import QUERY_REGEX, QUERY_SQL, QUERY_STRING, XPATH_1_0
from filters.queries import Catalogue, Described, Spent, compile_query
from tests.filters.queries.things import thing

QUERIES = [
    (QUERY_STRING, '"a b"'),
    (QUERY_SQL, "NOT n = 1"),
    (QUERY_REGEX, "^a b$"),
    (XPATH_1_0, "count(a) = 1"),
    (XPATH_1_0, "a or lang('en')"),
]


def _one(number: int) -> Described:
    return thing(number, texts=("a b",), properties={"n": 2}, documents=(b"<r><a/></r>",))


def _many(number: int) -> Catalogue[int]:
    catalogue: Catalogue[int] = Catalogue()
    for each in range(number):
        catalogue.add(each, _one(each))
    return catalogue


@pytest.mark.parametrize(("dialect", "text"), QUERIES)
def test_turns_find_what_one_turn_finds(dialect: str, text: str) -> None:
    catalogue, query = _many(1200), compile_query(dialect, text)
    search = catalogue.search(query, limit=2000)
    turns = 1
    while not search.go_on(lambda: 0.0):
        assert not search.found.complete, "it is not over"
        turns += 1
    assert turns > 2
    assert search.found == catalogue.find(query, limit=2000)
    assert search.found.keys == tuple(range(1199, -1, -1))
    assert search.go_on() and search.found.complete


@pytest.mark.parametrize(("dialect", "text"), QUERIES)
def test_what_stays_is_found_once_whatever_comes_and_goes(dialect: str, text: str) -> None:
    """Chunks are split, emptied and added to between turns."""
    catalogue, query = _many(1200), compile_query(dialect, text)
    search = catalogue.search(query, limit=5000)
    search.go_on(lambda: 0.0)
    staying = [number for number in range(1200) if number % 3]
    for number in range(0, 1200, 3):
        catalogue.remove(number)
    for number in range(1200):
        catalogue.add(5000 + number, _one(number))
    search.go_on(lambda: 0.0)
    for number in range(1200):
        catalogue.add(7000 + number, _one(2000 + number))
    assert search.go_on()
    found = search.found.keys
    assert len(set(found)) == len(found)
    assert set(staying) <= set(found)


@pytest.mark.parametrize("text", ["count(a) = 1", "a or lang('en')"])
def test_another_thread_searches_while_things_come_and_go(text: str) -> None:
    catalogue, query = _many(800), compile_query(XPATH_1_0, text)
    found: list[set[int]] = []
    over = threading.Event()

    def search() -> None:
        while not over.is_set() or not found:
            one = catalogue.search(query, limit=5000)
            while not one.go_on(lambda: 0.0):
                pass
            found.append(set(one.found.keys))

    thread = threading.Thread(target=search)
    thread.start()
    try:
        for number in range(400):
            catalogue.remove(number)
            catalogue.add(1000 + number, _one(number))
    finally:
        over.set()
        thread.join(30)
    assert not thread.is_alive()
    assert found
    assert all(set(range(400, 800)) <= each for each in found)


def test_a_search_that_is_out_of_time_is_over() -> None:
    catalogue = _many(500)
    looks = count()
    query = compile_query(XPATH_1_0, "a")
    search = catalogue.search(query, limit=500, seconds_left=lambda: 3.5 - next(looks))
    while not search.go_on(lambda: 0.0):
        pass
    assert 0 < len(search.found.keys) < 500
    assert not search.found.complete
    assert search.go_on(), "nothing is left"


def test_time_is_spent_within_turns_alone() -> None:
    spent = Spent(100.0)
    assert spent() == spent() == 100.0
    with spent:
        assert spent() < 100.0
    left = spent()
    assert spent() == left < 100.0
    with Spent(0.0) as over:
        assert over() < 0
