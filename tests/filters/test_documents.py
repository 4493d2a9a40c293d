import os
import re
import socket
import time
import tracemalloc
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from filters import DocumentLimits, FilterError, Reason, parse_document
from filters.documents import _may_have_long_tag, replace_forbidden
from tests.rigs.cases import for_each
from tests.rigs.corpus import families, messages
from tests.rigs.pace import pace, unit

MEBI = 2**20


def refusal(octets: bytes) -> Reason:
    """Why *octets* are refused, which costs no more than a hundred small pieces of work."""
    start = time.process_time()
    with pytest.raises(FilterError) as caught:
        parse_document(octets)
    assert time.process_time() - start < 100 * unit()
    assert len(caught.value.text) < 250
    assert caught.value.__cause__ is None  # a library's message repeats input
    return caught.value.reason


# ---- X01, X02, X03: document types ----------------------------------------------------------------

NESTED = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10}">' for n in range(1, 10))
LAUGHS = f'<!DOCTYPE a [<!ENTITY e0 "ha">{NESTED}]>'

DOCUMENT_TYPES = {
    "empty": "<!DOCTYPE a><a/>",
    "empty subset": "<!DOCTYPE a []><a/>",
    "declaration first": '<?xml version="1.0"?><!DOCTYPE a><a/>',
    "after blanks": "\n\t <!DOCTYPE a><a/>",
    "after a comment": "<!-- a --><!DOCTYPE a><a/>",
    "after comments like it": "<!-- <!DOCTYPE x> --> <!-- > --><!DOCTYPE a><a/>",
    "after comments with dashes": "<!---a - -b--><!--> -><!-- -->\n<!DOCTYPE a><a/>",
    "after an instruction": "<?a b?><!DOCTYPE a><a/>",
    "after instructions with marks": "<?a ? ?b?? ><!DOCTYPE x> ?>\n<!DOCTYPE a><a/>",
    "system": '<!DOCTYPE a SYSTEM "a.dtd"><a/>',
    "public": '<!DOCTYPE a PUBLIC "-//W3C//DTD XHTML 1.0//EN" "http://example.org/a.dtd"><a/>',
    "another root": "<!DOCTYPE b><a/>",
    "elements": "<!DOCTYPE a [<!ELEMENT a ANY><!ATTLIST a b CDATA 'c'>]><a/>",
    "notation": '<!DOCTYPE a [<!NOTATION n SYSTEM "n">]><a/>',
    "comment inside": "<!DOCTYPE a [<!-- a -->]><a/>",
    "instruction inside": "<!DOCTYPE a [<?a b?>]><a/>",
    "entity": '<!DOCTYPE a [<!ENTITY e "x">]><a>&e;</a>',
    "entity in an attribute": '<!DOCTYPE a [<!ENTITY e "x">]><a b="&e;"/>',
    "parameter entity": '<!DOCTYPE a [<!ENTITY % e "<!ELEMENT a ANY>">%e;]><a/>',
    "prefixed": "<!DOCTYPE s:a><s:a xmlns:s='u'/>",
    "not closed": "<!DOCTYPE a [",
    "without a document": "<!DOCTYPE a>",
    "laughs": f"{LAUGHS}<a>&e9;</a>",
    "laughs in an attribute": f"{LAUGHS}<a b='&e9;'/>",
    "laughs in a child": f"{LAUGHS}<a><b>&e9;</b><c/></a>",
    "quadratic": f'<!DOCTYPE a [<!ENTITY e "{"x" * 50_000}">]><a>{"&e;" * 300}</a>',
    "default attributes": (
        "<!DOCTYPE a [<!ATTLIST b "
        + " ".join(f"a{n} CDATA '{'x' * 50}'" for n in range(100))
        + f">]><a>{'<b/>' * 5000}</a>"
    ),
    "recursion": '<!DOCTYPE a [<!ENTITY e "&f;"><!ENTITY f "&e;">]><a>&e;</a>',
    "after ninety thousand comments": "<!---->" * 90_000 + "<!DOCTYPE a><a/>",
}


@for_each("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("name", DOCUMENT_TYPES)
def test_document_type(name: str, encoding: str) -> None:
    assert refusal(DOCUMENT_TYPES[name].encode(encoding)) is Reason.DTD


def test_expansion_costs_no_memory() -> None:
    octets = DOCUMENT_TYPES["quadratic"].encode()
    tracemalloc.start()
    try:
        refusal(octets)
        assert tracemalloc.get_traced_memory()[1] < 8 * MEBI
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "text", ["<a><![CDATA[<!DOCTYPE a>]]></a>", "<a><!-- <!DOCTYPE a> --></a>"]
)
def test_text_about_a_document_type(text: str) -> None:
    assert parse_document(text.encode()).tag == "a"


EXTERNAL = [
    "<!DOCTYPE a SYSTEM '{}'><a/>",
    "<!DOCTYPE a PUBLIC 'p' '{}'><a/>",
    "<!DOCTYPE a [<!ENTITY e SYSTEM '{}'>]><a>&e;</a>",
    "<!DOCTYPE a [<!ENTITY e SYSTEM '{}'>]><a b='&e;'/>",
    "<!DOCTYPE a [<!ENTITY e PUBLIC 'p' '{}'>]><a>&e;</a>",
    "<!DOCTYPE a [<!ENTITY % e SYSTEM '{}'>%e;]><a/>",
    "<!DOCTYPE a SYSTEM '{}' [<!ENTITY e 'x'>]><a>&e;</a>",
    "<?xml-stylesheet href='{}'?><a/>",
    "<a xmlns:x='http://www.w3.org/2001/XInclude'><x:include href='{}' parse='text'/></a>",
    "<a xmlns:i='http://www.w3.org/2001/XMLSchema-instance' i:schemaLocation='u {}'/>",
    "<a xmlns:i='http://www.w3.org/2001/XMLSchema-instance' i:noNamespaceSchemaLocation='{}'/>",
    "<a xml:base='{}'/>",
]


@pytest.mark.parametrize("document", EXTERNAL)
def test_nothing_is_opened(document: str, tmp_path: Path) -> None:
    """X03, X16: a pipe that would be emptied, and a listener that would be called."""
    pipe = tmp_path / "canary"
    os.mkfifo(pipe)
    descriptor = os.open(pipe, os.O_RDWR | os.O_NONBLOCK)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        try:
            os.write(descriptor, b"canary")
            port = listener.getsockname()[1]
            for address in (str(pipe), pipe.as_uri(), f"http://127.0.0.1:{port}/canary"):
                try:
                    root = parse_document(document.format(address).encode())
                except FilterError as error:
                    assert error.reason in (Reason.DTD, Reason.PROCESSING_INSTRUCTION)
                else:
                    assert b"canary</" not in etree.tostring(root)
            assert os.read(descriptor, 100) == b"canary"
            with pytest.raises(BlockingIOError):
                listener.accept()
        finally:
            os.close(descriptor)


# ---- X04 to X09: limits ---------------------------------------------------------------------------


def attributes(count: int) -> str:
    return "<a " + " ".join(f'b{n}=""' for n in range(count)) + "/>"


def declarations(count: int, *, level: int = 0, uri: str = "u") -> str:
    return " ".join(f'xmlns:p{level}_{n}="{uri}"' for n in range(count))


DECLARING = '<a xmlns:p="u"/>'

TOO_COMPLEX = {
    "257 levels": "<a>" * 257 + "</a>" * 257,
    "100,000 levels": "<a>" * 100_000,
    "600,000 levels": "<a>" * 600_000,
    "49,000 levels": "<a>" * 49_000,
    "50,001 elements": f"<r>{'<a/>' * 50_000}</r>",
    "200,000 elements": f"<r>{'<a/>' * 200_000}</r>",
    "150,000 mixed": f"<r>{'<a/>x' * 150_000}</r>",
    "texts like markup": f"<r>{'<a/>>' * 49_999}<!---->y</r>",
    "100,000 comments": f"<r>{'<!---->' * 100_000}</r>",
    "99,999 comments": f"<r>{'<!---->' * 99_999}x</r>",
    "100,000 comments before": f"{'<!---->' * 100_000}<r/>",
    "comments beside sections": f"<r><![CDATA[x]]>{'<!---->' * 100_000}</r>",
    "attributes of all": f"<r>{attributes(128) * 781}</r>",
    "129 attributes": attributes(129),
    "25,000 attributes": attributes(25_000),
    "70,000 attributes": attributes(70_000),
    "129 attributes in namespaces": (
        "<a xmlns:p='u' xmlns:q='v' "
        + " ".join(f"{'pq'[n % 2]}:b{n // 2}=''" for n in range(129))
        + "/>"
    ),
    "a value of 65,537": f'<a b="{"x" * 65_537}"/>',
    "a value of 65,538 in two each": f"<a b='{'é' * 32_769}'/>",
    "129 namespaces": f"<a {declarations(129)}/>",
    "140 namespaces": f"<a {declarations(140)}/>",
    "10,000 namespaces": f"<a {declarations(10_000)}/>",
    "seven levels of 20": (
        "".join(f"<a {declarations(20, level=n)}>" for n in range(7)) + "</a>" * 7
    ),
    "1,025 declarations": f"<r>{DECLARING * 1_025}</r>",
    "1,000 declarations over 10,000 children": f"<a {declarations(1_000)}>{'<b/>' * 10_000}</a>",
    "a scope of 17 KiB": f"<a {declarations(17, uri='u' * 1_024)}/>",
    "a scope of 17 KiB in levels": "".join(
        f"<a {declarations(1, level=n, uri='u' * 1_024)}>" for n in range(17)
    )
    + "</a>" * 17,
    "a URI of 2,049": f"<a xmlns='{'u' * 2_049}'/>",
    "a URI of 500,000": f"<a xmlns='{'u' * 500_000}'/>",
    "a name of 1,025": f"<{'a' * 1_025}/>",
    "a name of 1,026 in two each": f"<{'é' * 513}/>",
    "an attribute's name of 1,025": f"<a {'b' * 1_025}='c'/>",
    "a prefix of 1,025": f"<a xmlns:{'p' * 1_025}='u'/>",
    "a name of 40,000": f"<{'a' * 40_000}/>",
}


@for_each("name", TOO_COMPLEX)
def test_too_complex(name: str) -> None:
    assert refusal(TOO_COMPLEX[name].encode()) is Reason.TOO_COMPLEX


def test_a_name_beyond_the_parser() -> None:
    assert refusal(f"<{'a' * 100_000}/>".encode()) is Reason.NOT_XML


def test_crowds_are_refused_before_there_is_a_tree() -> None:
    """X04, X05: two million unclosed elements, where the size alone would not refuse them."""
    limits = DocumentLimits(octets=10 * MEBI)
    start = time.process_time()
    with pytest.raises(FilterError) as caught:
        parse_document(b"<a>" * 2_000_000, limits=limits)
    assert caught.value.reason is Reason.TOO_COMPLEX
    assert time.process_time() - start < 100 * unit()


AT_THE_LIMIT = {
    "256 levels": "<a>" * 256 + "</a>" * 256,
    "50,000 elements": f"<r>{'<a/>' * 49_999}</r>",
    "50,000 elements and texts": f"<r>{'<a/>x' * 49_999}</r>",
    "99,999 comments": f"<r>{'<!---->' * 99_999}</r>",
    "elements in a section": f"<r><![CDATA[{'<a/>' * 200_000}]]></r>",
    "elements in a comment": f"<r><!--{'<a/>' * 200_000}--></r>",
    "sections that are one text": f"<r>{'<![CDATA[x]]>' * 120_000}</r>",
    "text like attributes": f"<r>{' a=b' * 120_000}</r>",
    "128 attributes": attributes(128),
    "a value of 65,536": f'<a b="{"x" * 65_536}"/>',
    "a value of references": f'<a b="{"&#65;" * 20_000}"/>',
    "a value like attributes": f'<a b="{"c= " * 10_000}"/>',
    "128 namespaces": f"<a {declarations(128)}/>",
    "1,024 declarations": f"<r>{DECLARING * 1_024}</r>",
    "one namespace, 200 levels": '<a xmlns:p="u">' * 200 + "</a>" * 200,
    "text like namespaces": f"<r>{'xmlns:a=b ' * 2_000}</r>",
    "a scope of nearly 16 KiB": f"<a {declarations(15, uri='u' * 1_024)}/>",
    "URIs beside each other": "<r>"
    + "".join(f"<a {declarations(1, level=n, uri='u' * 1_024)}/>" for n in range(20))
    + "</r>",
    "a URI of 2,048": f"<a xmlns='{'u' * 2_048}'/>",
    "a name of 1,024": f"<{'a' * 1_024}/>",
    "a name of 1,024 in two each": f"<{'é' * 512}/>",
    "a long text": f"<a>{'x' * (2 * MEBI - 7)}</a>",
}


@for_each("name", AT_THE_LIMIT)
def test_at_the_limit(name: str) -> None:
    assert parse_document(AT_THE_LIMIT[name].encode()).tag


def test_too_large() -> None:
    assert refusal(b"<a>" + b"x" * (2 * MEBI - 6) + b"</a>") is Reason.TOO_LARGE
    assert refusal(b"x" * (4 * MEBI + 1)) is Reason.TOO_LARGE


@pytest.mark.parametrize(
    ("limits", "document"),
    [
        (DocumentLimits(octets=5), "<a>x</a>"),
        (DocumentLimits(depth=2), "<a><b><c/></b></a>"),
        (DocumentLimits(elements=2), "<a><b/><c/></a>"),
        (DocumentLimits(nodes=3), "<a><b/>x<c/></a>"),
        (DocumentLimits(nodes=3), "<a b='' c='' d=''/>"),
        (DocumentLimits(attributes=1), "<a b='' c=''/>"),
        (DocumentLimits(attribute_value=2), "<a b='ccc'/>"),
        (DocumentLimits(namespaces_in_scope=1), "<a xmlns='u' xmlns:b='v'/>"),
        (DocumentLimits(namespaces_declared=1), "<a xmlns='u'><b xmlns='u'/></a>"),
        (DocumentLimits(scope_octets=2), "<a xmlns:bc='u'/>"),
        (DocumentLimits(uri=2), "<a xmlns='uvw'/>"),
        (DocumentLimits(name=2), "<abc/>"),
        (DocumentLimits(name=2), "<a bcd=''/>"),
    ],
)
def test_limits_are_those_of_the_caller(limits: DocumentLimits, document: str) -> None:
    assert parse_document(document.encode()) is not None
    with pytest.raises(FilterError) as caught:
        parse_document(document.encode(), limits=limits)
    assert caught.value.reason in (Reason.TOO_COMPLEX, Reason.TOO_LARGE)


words = st.text(st.sampled_from("abé"), min_size=1, max_size=6)
values = st.text(st.sampled_from("x=> é"), max_size=12)
uris = st.text(st.sampled_from("u=:"), max_size=12).map("urn:".__add__)
scopes = st.dictionaries(st.sampled_from(["p", "pq", "pqrs"]), uris)


@st.composite
def documents(draw: st.DrawFn, depth: int = 3) -> str:
    """Elements with attributes, declarations and texts of about as much as `small_limits` allow."""
    declared = "".join(f" xmlns:{prefix}='{uri}'" for prefix, uri in draw(scopes).items())
    attributes = "".join(
        f" {name}='{value}'" for name, value in draw(st.dictionaries(words, values)).items()
    )
    children = draw(st.lists(documents(depth - 1), max_size=3)) if depth else []
    inner = draw(values).join(["", *children, ""])
    name = draw(words)
    return f"<{name}{declared}{attributes}>{inner}</{name}>"


def small_or_none(least: int, most: int) -> st.SearchStrategy[int]:
    return st.integers(least, most) | st.just(2**16)


small_limits = st.builds(
    DocumentLimits,
    attributes=small_or_none(1, 6),
    attribute_value=small_or_none(4, 20),
    namespaces_in_scope=small_or_none(1, 4),
    namespaces_declared=small_or_none(1, 9),
    scope_octets=small_or_none(10, 60),
    uri=small_or_none(6, 20),
    name=small_or_none(2, 12),
)


def breaks(element: etree._Element, limits: DocumentLimits) -> bool:
    """Whether something about one element is too long or too many."""
    scope = {prefix or "": uri for prefix, uri in element.nsmap.items()}
    names = [etree.QName(name).localname for name in (element.tag, *element.attrib)]
    return (
        len(element.attrib) > limits.attributes
        or any(len(str(value).encode()) > limits.attribute_value for value in element.values())
        or any(len(name.encode()) > limits.name for name in (*names, *scope))
        or any(len(uri) > limits.uri for uri in scope.values())
        or len(scope) > limits.namespaces_in_scope
        or sum(len(prefix) + len(uri) for prefix, uri in scope.items()) > limits.scope_octets
    )


@given(documents(), small_limits)
def test_limits_of_a_tag(document: str, limits: DocumentLimits) -> None:
    octets = document.encode()
    elements = list(etree.fromstring(octets).iter(etree.Element))
    declared = document.count("xmlns")
    if declared > limits.namespaces_declared or any(breaks(each, limits) for each in elements):
        with pytest.raises(FilterError) as caught:
            parse_document(octets, limits=limits)
        assert caught.value.reason is Reason.TOO_COMPLEX
    else:
        assert parse_document(octets, limits=limits) is not None


def test_colliding_attribute_names() -> None:
    """X18: too many at once are refused; 128 on each of many elements cost what they should."""
    octets = f"<r>{attributes(128) * 78}</r>".encode()
    assert pace(lambda: parse_document(octets), enough=400) < 400


# ---- X10: processing instructions -----------------------------------------------------------------


@pytest.mark.parametrize(
    "document",
    [
        "<a><?b c?></a>",
        "<?b c?><a/>",
        "<a/><?b c?>",
        "<?xml version='1.0'?><?xml-stylesheet href='a'?><a/>",
        "<a><b><?php echo 1 ?></b></a>",
        "<a><?b?></a>",
        "<a><?b <a> <!-- ?></a>",
    ],
)
def test_instructions(document: str) -> None:
    assert refusal(document.encode()) is Reason.PROCESSING_INSTRUCTION


def test_text_about_an_instruction() -> None:
    assert parse_document(b"<?xml version='1.0'?><a><![CDATA[<?b c?>]]><!--<?d?>--></a>").tag == "a"


# ---- X12: not XML ---------------------------------------------------------------------------------

NOT_XML = {
    "empty": b"",
    "blank": b" \n",
    "text": b"hello",
    "not closed": b"<a><b></a>",
    "two roots": b"<a/><b/>",
    "text behind": b"<a/>b",
    "a NUL": b"<a>\0</a>",
    "a NUL behind": b"<a/>\0",
    "a NUL in an attribute": b"<a b='\0'/>",
    "a reference to NUL": b"<a>&#0;</a>",
    "a control character": b"<a>\x01</a>",
    "a lone octet": b"<a>\xe9</a>",
    "a lone octet in an attribute": b"<a b='\xe9'/>",
    "a lone octet in a comment": b"<!--\xe9--><a/>",
    "cut short": b"<a>\xe2\x82</a>",
    "overlong": b"<a>\xc0\xaf</a>",
    "a surrogate": b"<a>\xed\xa0\x80</a>",
    "beyond Unicode": b"<a>\xf4\x90\x80\x80</a>",
    "a surrogate alone in UTF-16": b"\xff\xfe<\0a\0>\0\0\xd8<\0/\0a\0>\0",
    "an odd octet in UTF-16": b"\xff\xfe<\0a\0/\0>\0x",
    "XML 1.1": b"<?xml version='1.1'?><a/>",
    "XML 1.1 with NEL": b"<?xml version='1.1'?><a>\xc2\x85</a>",
    "XML 1.1 in UTF-16": "<?xml version='1.1'?><a/>".encode("utf-16"),
    "XML 2.0": b"<?xml version='2.0'?><a/>",
    "no version": b"<?xml encoding='utf-8'?><a/>",
    "a declaration that is not closed": b"<?xml version='1.0'",
    "a declaration not first": b" <?xml version='1.0'?><a/>",
    "an attribute twice": b"<a b='' b=''/>",
    "an attribute twice by namespace": b"<a xmlns:p='u' xmlns:q='u' p:b='' q:b=''/>",
    "an undeclared prefix": b"<p:a/>",
    "a namespace that is no URI": b"<a xmlns='\xc3\xa9'/>",
    "an undeclared entity": b"<a>&nbsp;</a>",
    "markup in a value": b"<a b='<'/>",
    "two hyphens in a comment": b"<a><!-- -- --></a>",
    "comments that are not closed": b"<a>" + b"<!--" * 500_000,
    "sections that are not closed": b"<a>" + b"<![CDATA[" * 100_000,
    "document types inside": b"<a><!DOCTYPE a></a>",
    "lower case": b"<!doctype a><a/>",
    "UTF-7": b"+ADw-a/+AD4-",
    "gzip": b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03\xb3I\xd4\xb7\x03\x00\xa9\x8c",
}


@for_each("name", NOT_XML)
def test_not_xml(name: str) -> None:
    assert refusal(NOT_XML[name]) is Reason.NOT_XML


# ---- what is read ---------------------------------------------------------------------------------


def test_names_are_collected() -> None:
    names: set[str] = set()
    parse_document(b"<a b=''><c xmlns='u' p:d='' xmlns:p='v'/>text<!-- x --></a>", names=names)
    assert names == {"a", "b", "{u}c", "{v}d", "xmlns:", "xmlns:p", "u", "v"}


@given(documents())
def test_all_names_are_collected(document: str) -> None:
    names: set[str] = set()
    root = parse_document(document.encode(), names=names)
    wanted: set[str] = set()
    for element in root.iter(etree.Element):
        wanted |= {element.tag, *map(str, element.attrib)}
        for prefix, uri in element.nsmap.items():
            wanted |= {f"xmlns:{prefix or ''}", uri}
    assert names == wanted


def test_names_of_a_refused_document_are_collected() -> None:
    names: set[str] = set()
    with pytest.raises(FilterError):
        parse_document(b"<a><?b c?></a>", names=names)
    assert names == {"a"}


def test_real_messages(material: Path) -> None:
    for family in families(material):
        for octets in messages(material, family, every=7):
            root = parse_document(octets)
            assert etree.tostring(root) == etree.tostring(etree.fromstring(octets))


@given(
    st.lists(
        st.sampled_from(
            [b"<", b">", b"a", b" " * 3, b"x" * 9, b"x" * 20, b"<a>", b"<a " + b"b" * 9]
        )
    ).map(b"".join),
    st.integers(1, 24),
)
def test_a_long_tag_is_never_missed(octets: bytes, length: int) -> None:
    """A tag reaches from one `<` to the last `>` before the next; between them all is text."""
    longest = max(piece.rfind(b">") + 1 for piece in octets.split(b"<"))
    assert _may_have_long_tag(octets, length) or longest <= length


def test_long_texts_are_no_long_tags() -> None:
    text = b"<a b='c'>" + b"x" * 5000 + b"<b/>" + b"y" * 5000 + b"</a>" + b" " * 1000
    assert not _may_have_long_tag(text, 640)
    assert _may_have_long_tag(text + b">", 640)
    assert _may_have_long_tag(b"<a>" + b"x" * 100 + b"<b c='" + b"d" * 640 + b"'/></a>", 640)


@pytest.mark.parametrize(
    ("octets", "mended"),
    [
        pytest.param(b"<a>\x01</a>", "<a>\ufffd</a>".encode(), id="UTF-8"),
        pytest.param(
            "\ufeff<a>\x01\U0001f600</a>".encode("utf-16-be"),
            "<a>\ufffd\U0001f600</a>".encode(),
            id="UTF-16 with its byte order mark",
        ),
        pytest.param(
            b"\xff\xfe<\0a\0>\0\0\xd8<\0/\0a\0>\0",
            "<a>\ufffd</a>".encode(),
            id="half of a pair in UTF-16",
        ),
        pytest.param(
            b"&#0;&#9;&#x0000A;&#xb;&#31;&#32;&#xFFFD;",
            "\ufffd&#9;&#x0000A;\ufffd\ufffd&#32;&#xFFFD;".encode(),
            id="references",
        ),
        pytest.param("<a>\t\r\n\ue000\ufffd\U0010ffff</b>".encode(), None, id="none"),
        pytest.param(b"<a>\x01\xe9</a>", None, id="not in its encoding"),
    ],
)
def test_forbidden_characters(octets: bytes, mended: bytes | None) -> None:
    assert replace_forbidden(octets) == mended


def test_forbidden_characters_are_looked_for_once() -> None:
    few, many = b"&#000000000" * 10_000, b"&#000000000" * 40_000
    assert replace_forbidden(few) is None
    assert pace(lambda: replace_forbidden(many)) < 16 * pace(lambda: replace_forbidden(few))


@for_each(
    "octets",
    [
        b"<a>&#xFFFE;</a>", b"<a>&#0;</a>", b"<a>&#x;</a>", b"<a b=\"&#xFFFF;\"/>", b"<a>&b;</a>",
        b"<a>\x01</a>", b"<a", b"<a b/>", b"<a b=c/>", b"<a b='<'/>", b"<1/>", b"<a><!-- -- ></a>",
        b"<a><?xml x?></a>", b"<a>]]></a>", b"<a><![CDATA[x</a>", b"<a:b:c/>", b"<:a/>",
        b"<a xmlns:b=''/>", b"<a xmlns:xml='x'/>", b"<b:a/>", b"<a>&lt</a>", b"<a>&</a>", b"",
        b"<a></b>", b"<a/><b/>", b"<?xml version='1.0' standalone='x'?><a/>", b"<a>\xff</a>",
    ],
)  # fmt: skip
def test_words_name_no_function_of_the_parser(octets: bytes) -> None:
    with pytest.raises(FilterError) as caught:
        parse_document(octets)
    assert re.search(r"\b(?:xml|html)[A-Z]\w+", caught.value.text) is None, caught.value.text


def test_wider_limits_cover() -> None:
    usual = DocumentLimits()
    assert usual.covers_usual
    assert replace(usual, octets=2**23, elements=10**6, nodes=2 * 10**6).covers_usual
    assert not replace(usual, octets=2**23, elements=10_000).covers_usual
