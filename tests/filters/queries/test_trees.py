"""XPath queries: their meaning, their signatures, and bombs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from filters import FilterError, Reason
from filters.dialects import XPATH_1_0
from filters.queries import Catalogue, compile_query, document_text
from filters.queries.trees import TreeQuery, read_summary
from tests.filters.queries.things import HARBOUR, thing
from tests.rigs.cases import for_each

_ID = "*[local-name()='id' and namespace-uri()='http://example.org/weather']"
QUERIES = [
    (f"//{_ID} = 16622", True),
    (f"//{_ID} = '16622'", True),
    (f"//{_ID} = 16623", False),
    (f"*/{_ID}", True),
    (f"/*/*/{_ID}", True),
    ("//*[local-name()='height'][@unit='m'] > 10", True),
    ("//*[local-name()='height'] > 12", False),
    ("@ID = 'adv-1'", True),
    ("contains(//*[local-name()='Text'], 'harbour')", True),
    ("not(//*[local-name()='speed'])", True),
    ("count(//*) = 5", True),
    ("//id", False),
]


@pytest.mark.parametrize(("text", "verdict"), QUERIES)
def test_the_context_node_is_the_root_element(text: str, verdict: bool) -> None:
    query = compile_query(XPATH_1_0, text)
    assert query.matches(HARBOUR) is verdict
    catalogue: Catalogue[str] = Catalogue()
    catalogue.add("harbour", HARBOUR)
    assert catalogue.find(query).keys == (("harbour",) if verdict else ())


VERDICTS = [
    ("a = 'xy'", "<r><a>x<!-- --><b>y</b><?p z?></a></r>", True),
    ("a/text() = 'xy'", "<r><a>x<!-- -->y</a></r>", False),
    ("contains(., 'x & <y>')", "<r><a>x &amp;</a><b> <![CDATA[<y>]]></b></r>", True),
    ("contains(., 'é')", "<r>caf&#233;</r>", True),
    ("contains(b, 'xy')", "<r><a>xy</a><b>xxy</b></r>", True),
    ("contains(b, 'xy')", "<r><a>xy</a><b>x</b>y</r>", False),
    ("contains(b, 'xy')", "<r><a>x</a><b>x</b><c>y</c></r>", False),
    ("contains(a, 'xy') or contains(c, 'xy')", "<r><a>x</a><b>xy</b><c>y</c></r>", False),
    ("contains(., 'z') or contains(@x, 'z')", "<r x='az'>x<!--z--></r>", True),
    ("contains(b, '') and contains('', '')", "<r><a>x</a></r>", True),
    ("@x = '\n'", "<r x='&#10;'/>", True),
    ("string-length() = 4", "<r>caf&#xe9;</r>", True),
    ("//p:a[@q:x]", "<r xmlns:s='urn:p'><s:a xmlns:t='urn:q' t:x=''/></r>", True),
    ("//a", "<r xmlns='urn:p'><a/></r>", False),
    ("name(*) = 's:a' and local-name(*) = 'a'", "<r xmlns:s='urn:p'><s:a/></r>", True),
    ("preceding-sibling::comment() = 'y'", "<!--y--><a>x</a><!--z-->", True),
    ("/ = 'x'", "<!--y--><a>x</a><!--z-->", True),
    ("//b[2] = '2'", "<r><a><b>1</b></a><b>0</b><b>2</b></r>", True),
    ("(//b)[2] = '2'", "<r><a><b>1</b></a><b>0</b><b>2</b></r>", False),
    ("b/preceding::*[1] = 'y'", "<r><a>x</a><a>y</a><b/></r>", True),
    ("substring('12345', 1.5, 2.6) = '234'", "<r/>", True),
    ("translate(., 'aé', 'b') = 'b.'", "<r>aé.</r>", True),
    ("normalize-space() = 'a b'", "<r> a\n\tb </r>", True),
    ("sum(a) = 3 and number('x') != number('x')", "<r><a>1</a><a>2</a></r>", True),
    ("concat(count(*), ' ', true()) = '2 true'", "<r><a/><a/></r>", True),
    ("a = 1", "<r><a>1e0</a></r>", True),
    ("string(0.5) = '0.5'", "<r/>", True),
    ("lang('en')", "<r xml:lang='en'/>", True),
    ("processing-instruction('p')", "<r><?p?></r>", True),
]


@for_each(("text", "document", "verdict"), VERDICTS)
def test_the_verdict_is_that_of_xpath_1_0(text: str, document: str, verdict: bool) -> None:
    catalogue: Catalogue[int] = Catalogue()
    catalogue.add(1, thing(documents=(document.encode(),)))
    query = TreeQuery(qualified(text))
    assert query.holds((document.encode(),)) is verdict
    found = catalogue.find(compile_query(XPATH_1_0, qualified(text)))
    assert (found.keys, found.complete) == ((1,) if verdict else (), True)


def qualified(text: str) -> str:
    """A query has no prefixes."""
    return text.replace(
        "p:a[@q:x]",
        "*[local-name()='a' and namespace-uri()='urn:p']"
        "[@*[local-name()='x' and namespace-uri()='urn:q']]",
    )


def test_any_of_several_documents_will_do() -> None:
    one = thing(documents=(b"<a>1</a>", b"<b>2</b>"))
    catalogue: Catalogue[str] = Catalogue()
    catalogue.add("one", one)
    for text, verdict in (("self::b = 2", True), ("self::a and self::b", False)):
        query = compile_query(XPATH_1_0, text)
        assert query.matches(one) is verdict
        assert bool(catalogue.find(query).keys) is verdict


def test_documents_of_several_kinds() -> None:
    catalogue: Catalogue[int] = Catalogue()
    for number in range(300):
        one, other = f"<r><a{number % 7}>x</a{number % 7}></r>", f"<s><b>{number}</b></s>"
        catalogue.add(number, thing(number, documents=((one if number % 2 else other).encode(),)))
    found = catalogue.find(compile_query(XPATH_1_0, "contains(a3, 'x')"), limit=300)
    assert set(found.keys) == {number for number in range(1, 300, 2) if number % 7 == 3}
    found = catalogue.find(compile_query(XPATH_1_0, "starts-with(b, '29')"), limit=300)
    assert found.keys == (298, 296, 294, 292, 290)


def test_nothing_is_true_of_what_is_no_document() -> None:
    one = thing(documents=(b"<a>",))
    catalogue: Catalogue[str] = Catalogue()
    catalogue.add("one", one)
    found = catalogue.find(compile_query(XPATH_1_0, "true()"))
    assert (found.keys, found.complete) == ((), True)
    assert not compile_query(XPATH_1_0, "true()").matches(one)


def test_the_text_of_documents() -> None:
    documents = (
        b"<a x='attribute'>one<b> two </b>\n  <c/>three &amp; four<!--comment--></a>",
        b"<broken>",
        "<d><![CDATA[<f\u00fcnf>]]></d>".encode(),
    )
    assert document_text(documents) == "one\ntwo\nthree & four\n<f\u00fcnf>"
    assert document_text(()) == ""


@pytest.mark.parametrize(
    "text",
    [
        "",
        "//a[",
        "p:a",
        "$x",
        "document('file:///etc/passwd')",
        "a" * 5000,
        "(" * 40 + "1" + ")" * 40,
    ],
)
def test_what_is_refused(text: str) -> None:
    with pytest.raises(FilterError) as caught:
        compile_query(XPATH_1_0, text)
    assert caught.value.reason is Reason.QUERY_INVALID


@pytest.mark.parametrize(
    "bomb",
    [
        "count(//*/following::*/preceding::*/following::*) > 1",
        "//*[..//*[..//*[..//*[..//*]]]]",
        "//*[//* = //*[//* != //*]]",
    ],
)
def test_a_bomb_is_not_evaluated_and_the_answer_says_so(bomb: str) -> None:
    crowd = thing(documents=(b"<a>" + b"<b>1</b>" * 1500 + b"</a>",))
    catalogue: Catalogue[str] = Catalogue()
    catalogue.add("crowd", crowd)
    query = compile_query(XPATH_1_0, bomb)
    assert query.decide(crowd) is None
    assert query.matches(crowd) is False
    found = catalogue.find(query)
    assert (found.keys, found.complete) == ((), False)


def test_most_documents_are_told_apart_by_their_signatures() -> None:
    """A query of a value reads hardly any document but those that have it."""
    documents = [f"<s><id>{n}</id><unit>m/s</unit></s>".encode() for n in range(500)]
    signatures = [read_summary((document,)).signature for document in documents]
    for text in ("id = 17", "id = '17'", "id[. = 17.0]", "id = 17 and unit = 'm/s'"):
        query = TreeQuery(text)
        assert sum(map(query.may_hold, signatures)) < 25
        assert query.may_hold(signatures[17])
    assert not any(map(TreeQuery("speed > 1").may_hold, signatures))


# ---- signatures leave nothing out that is true ---------------------------------------------------

_NAMES = st.sampled_from("abc")
_VALUES = st.sampled_from(
    ["", "x", "1", "1.0", " 1 ", "01", "-0", "0", "1e0", "1.00000000000000001", "xx", "1" * 70, "é"]
)


def _element(name: str, attributes: dict[str, str], content: list[object]) -> etree._Element:
    element = etree.Element(name, attributes)
    last: etree._Element | None = None
    for part in content:
        if isinstance(part, etree._Element):
            element.append(part)
            last = part
        elif last is None:
            element.text = (element.text or "") + str(part)
        else:
            last.tail = (last.tail or "") + str(part)
    return element


_ATTRIBUTES = st.dictionaries(_NAMES, _VALUES, max_size=1)
_TREES = st.recursive(
    st.tuples(_NAMES, _ATTRIBUTES, _VALUES.map(lambda value: [value])),
    lambda some: st.tuples(_NAMES, _ATTRIBUTES, st.lists(some | _VALUES, max_size=3)),
    max_leaves=6,
)
_PATHS = st.sampled_from(
    [
        "a",
        "//a",
        "//b/c",
        "@a",
        "//@b",
        "//a/@c",
        "*",
        "//*",
        "text()",
        "//b/text()",
        ".",
        "a//b",
        "..",
    ]
)
_COMPARED = st.sampled_from(
    [
        "= 'x'",
        "= ''",
        "= 1",
        "= '1'",
        "= 1.0",
        "= 0",
        "= '01'",
        "= 'é'",
        "!= 1",
        "> 0",
        f"= '{'1' * 70}'",
    ]
)
_EXPRESSIONS = st.recursive(
    st.one_of(
        _PATHS,
        st.tuples(_PATHS, _COMPARED).map(" ".join),
        st.tuples(_PATHS, _COMPARED).map(lambda p: f"//*[{p[0]} {p[1]}]"),
        st.tuples(_PATHS, _COMPARED).map(lambda p: f"count({p[0]}) {p[1]}"),
        st.tuples(_PATHS, _PATHS).map(" = ".join),
        _PATHS.map(lambda path: f"starts-with({path}, 'x')"),
    ),
    lambda some: st.one_of(
        st.tuples(some, st.sampled_from(["and", "or"]), some).map(lambda p: f"({' '.join(p)})"),
        some.map(lambda one: f"not({one})"),
        some.map(lambda one: f"//*[{one}]"),
    ),
    max_leaves=4,
)


def _built(tree: object) -> object:
    if not isinstance(tree, tuple):
        return tree
    name, attributes, content = tree
    return _element(name, attributes, [_built(part) for part in content])


@given(_TREES, _EXPRESSIONS, st.sampled_from([b"", b"<!--x-->", b"<![CDATA[x]]>", b"<?x?>"]))
def test_a_signature_leaves_nothing_out(tree: object, expression: str, piece: bytes) -> None:
    root = _built(tree)
    assert isinstance(root, etree._Element)
    document = etree.tostring(root).replace(b"x", b"x" + piece, 1)
    try:
        query = TreeQuery(expression)
    except FilterError:
        return
    signature, size = read_summary((document,))
    if query.holds((document,)):
        assert query.may_hold(signature)
        assert query.holds((document,), size)
