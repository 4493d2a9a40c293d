"""XQuery in a process that can be killed, and what queries of strangers try."""

import os
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from filters import FilterError, Reason
from filters.dialects import QUERY_XQUERY
from filters.queries import (
    Catalogue,
    Query,
    XQueryWorker,
    compile_query,
    query_dialects,
    seconds,
    xquery,
)
from filters.queries.xquery import MAX_CHARACTERS
from tests.filters.queries.things import HARBOUR, thing

pytest.importorskip("saxonche", reason="no engine for XQuery (the extra xquery)")


@pytest.fixture(scope="module")
def worker() -> Iterator[XQueryWorker]:
    worker = XQueryWorker()
    yield worker
    worker.close()


def compiled(text: str, worker: XQueryWorker) -> Query:
    return compile_query(QUERY_XQUERY, text, xquery=worker)


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        ("//*:id = 16622", True),
        ("declare namespace w = 'http://example.org/weather'; //w:height[@unit = 'm'] > 10", True),
        ("declare default element namespace 'urn:dragoman:tdn:1'; Text", True),
        ("some $h in //*:height satisfies $h > 12", False),
        ("for $i in //*:id where $i > 1 return $i", True),
        ("matches(//*:Text, '^Wind.*harbour$')", True),
        ("@ID = 'adv-1'", True),
        ("//*:speed", False),
        ("'text'", True),
        ("''", False),
        ("0", False),
        ("0.1", True),
        ("xs:double('NaN')", False),
        ("true(), false()", False),
        ("1 div 0", False),
        ("map { 'a': 1 }", False),
    ],
)
def test_verdicts(worker: XQueryWorker, text: str, verdict: bool) -> None:
    query = compiled(text, worker)
    assert query.matches(HARBOUR) is verdict
    catalogue: Catalogue[str] = Catalogue()
    catalogue.add("harbour", HARBOUR)
    catalogue.add("bare", thing(-1))
    found = catalogue.find(query)
    assert (found.keys, found.complete) == (("harbour",) if verdict else (), True)


def test_many_things_of_several_documents(worker: XQueryWorker) -> None:
    catalogue: Catalogue[int] = Catalogue()
    for number in range(100):
        catalogue.add(number, thing(number, documents=(b"<x/>", f"<a>{number}</a>".encode())))
    found = catalogue.find(compiled("self::a mod 2 = 0", worker), limit=10)
    assert (found.keys, found.more) == (tuple(range(98, 79, -2)), True)


@pytest.mark.parametrize(
    "text", ["1 +", "//a[", "$x", "f:g(1)", "local:none()", "x" * (MAX_CHARACTERS + 1)]
)
def test_what_is_no_xquery_is_refused(worker: XQueryWorker, text: str) -> None:
    with pytest.raises(FilterError) as caught:
        compiled(text, worker)
    assert caught.value.reason is Reason.QUERY_INVALID
    assert len(caught.value.text) < 260 and caught.value.text.isprintable()
    assert str(Path.cwd()) not in caught.value.text


def test_xquery_is_not_offered_without_a_process_for_it() -> None:
    assert QUERY_XQUERY not in query_dialects()
    with pytest.raises(FilterError) as caught:
        compile_query(QUERY_XQUERY, "1")
    assert caught.value.reason is Reason.QUERY_DIALECT


_SECRET = "only for whom it concerns"


@pytest.mark.parametrize(
    "function",
    [
        "string(doc('{uri}')) != ''",
        "doc-available('{uri}')",
        "exists(fn:collection('{folder}'))",
        "exists(uri-collection('{folder}'))",
        "unparsed-text('{uri}') != ''",
        "exists(unparsed-text-lines('{uri}'))",
        "unparsed-text-available('{uri}')",
        "exists(json-doc('{uri}'))",
        "exists(function-lookup(xs:QName('fn:unparsed-text'), 1)('{uri}'))",
        "exists(available-environment-variables())",
        "environment-variable('PYTHONPATH') != ''",
        "environment-variable('PATH') != ''",
        "contains(parse-xml('<!DOCTYPE a [<!ENTITY x SYSTEM \"{uri}\">]><a>&amp;x;</a>'), 'whom')",
        "import module namespace f = 'urn:f' at '{uri}'; true()",
        "declare namespace f = 'java:java.lang.System'; f:exit(0)",
        "exists(transform(map {{'stylesheet-location': '{uri}'}})?*)",
        "exists(load-xquery-module('urn:f', map {{'location-hints': '{uri}'}})?*)",
        "string(doc('http://127.0.0.1:9/')) != ''",
        "exists(Q{{http://expath.org/ns/file}}read-text('{uri}'))",
    ],
)
def test_nothing_outside_is_reached(worker: XQueryWorker, tmp_path: Path, function: str) -> None:
    secret = tmp_path / "secret.xml"
    secret.write_text(f"<secret>{_SECRET}</secret>")
    text = function.format(uri=secret.as_uri(), folder=tmp_path.as_uri())
    try:
        query = compiled(text, worker)
    except FilterError as error:
        assert error.reason is Reason.QUERY_INVALID
        assert _SECRET not in error.text
        return
    assert query.decide(HARBOUR) is False


def test_nothing_is_written(worker: XQueryWorker, tmp_path: Path) -> None:
    stylesheet = (
        "<xsl:stylesheet version='3.0' xmlns:xsl='http://www.w3.org/1999/XSL/Transform'>"
        "<xsl:template name='xsl:initial-template'><xsl:result-document href='OUT'><x/>"
        "</xsl:result-document><y/></xsl:template></xsl:stylesheet>"
    ).replace("OUT", (tmp_path / "out.xml").as_uri())
    options = f'map {{"stylesheet-text": "{stylesheet}", "delivery-format": "serialized"}}'
    compiled(f"exists(transform({options}))", worker).decide(HARBOUR)
    assert list(tmp_path.iterdir()) == []


_LOOP = "declare function local:f($n) { if ($n = 0) then local:f(1) else local:f(0) };"


def test_a_loop_ends_with_its_time_and_the_next_query_is_answered(worker: XQueryWorker) -> None:
    catalogue: Catalogue[int] = Catalogue()
    for number in range(3):
        catalogue.add(number, HARBOUR)
    # Without the element it ends at once, so that it is soon found to be valid.
    query = compiled(f"{_LOOP} if (//*:id) then local:f(0) else false()", worker)
    found = catalogue.find(query, seconds_left=seconds(0.3))
    assert (found.keys, found.complete) == ((), False)
    assert compiled("//*:id = 16622", worker).matches(HARBOUR)


def test_a_process_that_is_not_stuck_outlives_the_time_of_a_query(
    worker: XQueryWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(xquery, "LEAST", 20.0)  # However busy the machine is.
    catalogue: Catalogue[int] = Catalogue()
    for number in range(100):
        catalogue.add(number, HARBOUR)
    query = compiled("//*:speed", worker)
    pid = worker.pid
    looks = count()
    found = catalogue.find(query, seconds_left=lambda: 1e-6 if next(looks) < 6 else 0.0)
    assert (found.keys, found.complete) == ((), False)
    assert worker.pid == pid


@pytest.mark.slow
def test_a_query_that_takes_all_memory_takes_only_its_process(worker: XQueryWorker) -> None:
    twice = "function($text, $turn) { concat($text, $text) }"
    hungry = f"string-length(fold-left(1 to 60, 'xxxxxxxx', {twice})) = 3"
    query = compiled(f"if (//*:id) then {hungry} else false()", worker)
    assert query.decide(HARBOUR) is None
    assert compiled("true()", worker).matches(HARBOUR)


@pytest.mark.slow
def test_deep_recursion_takes_only_its_process(worker: XQueryWorker) -> None:
    deep = "declare function local:f($n) { 1 + local:f($n + 1) }; "
    query = compiled(f"{deep} if (//*:id) then local:f(1) else 0", worker)
    assert query.matches(HARBOUR) is False
    assert compiled("true()", worker).matches(HARBOUR)


def test_the_process_ends_with_what_has_it() -> None:
    worker = XQueryWorker()
    assert compiled("true()", worker).matches(HARBOUR)
    pid = worker.pid
    assert pid is not None
    del worker
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
