"""What programs give as the content of a body: one element that stands by itself, or an error."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from filters.documents import parse_document
from mediation.model.messages import EndpointReference
from mediation.model.versions import Soap, Wsa
from mediation.reliable_messaging.application import (
    body_of,
    write_application_fault,
    write_application_message,
)
from mediation.soap.body_elements import InvalidBody, body_element, detail_content

DEEP = 254
BROKEN = [
    pytest.param(b"<p:a/>", "line 1, column 5", id="undeclared prefix"),
    pytest.param(b"<a>\n<b></a>", "line 2, column", id="not closed"),
    pytest.param(b"hello", "line 1, column 1", id="text"),
    pytest.param("hello", "line 1, column 1", id="text as str"),
    pytest.param(b"   ", "column", id="blanks"),
    pytest.param(b"<a/><b/>", "line 1, column 5", id="two elements"),
    pytest.param(b"<a/></s:Body><s:Body>", "line 1, column 5", id="ends the body"),
    pytest.param(b"<s:a/>", "column", id="a prefix of the envelope"),
    pytest.param(b"<a>\0</a>", "line 1, column 4", id="NUL"),
    pytest.param(b"<a>\xff</a>", "line 1, column 4", id="not UTF-8"),
    pytest.param("<a>\n\ud800</a>", "line 2, column 1", id="half of a surrogate pair"),
    pytest.param(b"<!DOCTYPE a><a/>", "document type", id="document type"),
    pytest.param(b"<?xml-stylesheet href='x'?><a/>", "instruction", id="instruction in front"),
    pytest.param("<a><?x y?></a>".encode("utf-16"), "instruction", id="instruction in UTF-16"),
    pytest.param(b"<a>" * DEEP + b"</a>" * DEEP, "too deep", id="too deep in an envelope"),
]


@pytest.mark.parametrize(("content", "said"), BROKEN)
def test_what_is_not_one_element_is_refused_with_its_place(content: bytes | str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        body_element(content)


E_ACUTE = "<a>\xe9</a>"
GIVEN = [
    pytest.param(E_ACUTE, id="text"),
    pytest.param("\ufeff" + E_ACUTE, id="text with a byte order mark"),
    pytest.param('<?xml version="1.0" encoding="latin-1"?>' + E_ACUTE, id="text that declares"),
    pytest.param(E_ACUTE.encode(), id="UTF-8"),
    pytest.param(E_ACUTE.encode("utf-8-sig"), id="UTF-8 with a byte order mark"),
    pytest.param(E_ACUTE.encode("utf-16"), id="UTF-16"),
    pytest.param(b'<?xml version="1.0" encoding="iso-8859-1"?><a>\xe9</a>', id="another encoding"),
    pytest.param(etree.fromstring(E_ACUTE), id="an element"),
]


@pytest.mark.parametrize("content", GIVEN)
def test_text_elements_and_encodings_are_the_same_body(
    content: bytes | str | etree._Element,
) -> None:
    assert body_element(content) == E_ACUTE.encode()
    assert body_of(envelope_of(content)) == E_ACUTE.encode()


def test_an_element_takes_along_the_namespaces_it_uses() -> None:
    parent = etree.fromstring('<x xmlns:p="urn:p" xmlns:q="urn:q"><p:a t="q:v"/>behind</x>')
    found = etree.fromstring(body_element(parent[0]))
    assert (found.tag, found.nsmap) == ("{urn:p}a", {"p": "urn:p", "q": "urn:q"})


@pytest.mark.parametrize("content", [None, 7, etree.Comment("x"), ["<a/>"]])
def test_other_types_are_refused(content: object) -> None:
    with pytest.raises(TypeError, match="a body is bytes, text or an element"):
        body_element(content)  # type: ignore[arg-type]  # the subject


PIECES = ["<a>", "</a>", "<b/>", "x", "</s:Body>", "<s:Body>", "<!--", "-->", "<![CDATA[", "]]>"]
PIECES += ["</s:Envelope>", "</detail>", "<detail>", "<?p ", "?>", "&amp;", "<p:c/>", 'xmlns:p="u"']


@given(st.lists(st.sampled_from(PIECES), max_size=8).map("".join), st.sampled_from(Soap))
def test_nothing_breaks_out_of_an_envelope(content: str, soap: Soap) -> None:
    """Either it is refused, or it is the one child of the body."""
    try:
        envelope = envelope_of(content, soap)
    except InvalidBody:
        return
    root = parse_document(envelope)
    header, body = root
    assert len(header) == 3
    assert len(body) == (1 if content else 0)


@given(st.lists(st.sampled_from(PIECES), max_size=8).map("".join), st.sampled_from(Soap))
def test_nothing_breaks_out_of_a_fault(content: str, soap: Soap) -> None:
    try:
        fault = etree.fromstring(write_application_fault(soap, "no", detail=content))
    except InvalidBody:
        return
    assert len(fault) == 2 + bool(detail_content(content))


def envelope_of(content: bytes | str | etree._Element, soap: Soap = Soap.V1_2) -> bytes:
    return write_application_message(
        soap,
        Wsa.V2005_08,
        action="urn:a",
        body=content,
        to=EndpointReference("http://there.example/", Wsa.V2005_08),
        message_id="urn:1",
    )
