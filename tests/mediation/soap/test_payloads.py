"""Payloads, cut out of their envelopes as their publishers wrote them."""

import re
from functools import cache
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lxml import etree

from filters import parse_document
from mediation.client import read_received
from mediation.model.versions import Soap, Version, Wsa
from mediation.names import WSN_1_3, XSI
from mediation.soap.payloads import payload_of
from tests.mediation.test_rendering import delivered
from tests.rigs.cases import for_each
from tests.rigs.examples import examples
from tests.rigs.mediation import canonical, events, scopes
from tests.rigs.pace import growth
from tests.rigs.payloads import elements

SOAP = Soap.V1_2.value
SCOPE = (
    f'xmlns:s="{SOAP}" xmlns:wsnt="{WSN_1_3}" xmlns:t="urn:t" xmlns:a-t="urn:a" xmlns:xsi="{XSI}"'
)
ALONE, BESIDE = "{}", "<!-- before -->{}<other/> after"


def enveloped(body: str, scope: str = SCOPE) -> bytes:
    return f"<s:Envelope {scope}><s:Body>{body}</s:Body></s:Envelope>".encode()


def cut(body: str, scope: str = SCOPE) -> bytes:
    """The first element of a body."""
    element = parse_document(enveloped(body, scope))[0].find("{*}*")
    assert element is not None
    return payload_of(element)


UNUSED = [
    "<speed>7</speed>",
    "<speed/>",
    '<speed unit="knots" note="&lt;&gt;&quot;">7 &lt; 8 &gt; 6</speed>',
    '<w:speed xmlns:w="urn:w" w:unit="w:knots">w:7</w:speed>',
    '<speed xmlns="urn:w"><unit xmlns="">7</unit></speed>',
    f'<speed xmlns:s="{SOAP}" xmlns:q="urn:q">7</speed>',
    '<t:speed xmlns:t="urn:other">t:7</t:speed>',
    "<speed>s: 7 m/s: 7 s:7 at 12:30, xmlns:x, urn:t:x and https://t:80/</speed>",
    "<speed>line\none</speed>",
]


@for_each("around", [ALONE, BESIDE], ids=["alone", "beside others"])
@for_each("payload", UNUSED)
def test_a_payload_is_what_its_publisher_wrote(payload: str, around: str) -> None:
    assert cut(around.format(payload)) == payload.encode()


USED = [
    ("<t:speed>7</t:speed>", "t"),
    ("<speed><t:unit/></speed>", "t"),
    ('<speed t:unit="1"/>', "t"),
    ('<speed unit="t:knots"/>', "t"),
    ("<speed>t:knots</speed>", "t"),
    ("<speed>a-t:knots</speed>", "a-t t"),
    ("<speed>/child::t:x[3 -t:y]</speed>", "t"),
    ("<speed>t:*</speed>", "t"),
    ("<speed>(t:ä)</speed>", "t"),
    ("<speed><!-- t:x --></speed>", "t"),
    ('<t:speed unit="x xmlns:t=y"/>', "t"),
    ('<speed unit=" xmlns:t=" t:note="1"/>', "t"),
    ('<t:speed unit="x" note=\' xmlns:t="y"\'/>', "t"),
    ('<speed xsi:type="t:knots" xmlns:w="urn:w"/>', "xsi t"),
    ('<c:i xmlns:c="urn:c" PrefixList="t"/>', "s wsnt t a-t xsi"),
]


@for_each("around", [ALONE, BESIDE], ids=["alone", "beside others"])
@for_each(("payload", "prefixes"), USED)
def test_what_a_payload_uses_it_takes_along(payload: str, prefixes: str, around: str) -> None:
    root = parse_document(cut(around.format(payload)))
    there = parse_document(enveloped(payload))[0][0]
    own = set(there.nsmap) - set(there.getparent().nsmap)  # type: ignore[union-attr]  # it has one
    assert set(root.nsmap) == {*prefixes.split(), *own}
    assert canonical(root) == canonical(there)


@pytest.mark.parametrize(
    ("payload", "kept"),
    [
        ("<speed/>", True),
        ('<speed unit="x xmlns=y"/>', True),
        ('<w:speed xmlns:w="urn:w"><unit/></w:speed>', True),
        (f'<w:speed xmlns:w="urn:w" xmlns:xsi="{XSI}" xsi:type="Knots"/>', True),
        ('<w:speed xmlns:w="urn:w" unit="knots">7</w:speed>', False),
        ('<speed xmlns=""/>', False),
        ('<speed xmlns="urn:w"/>', False),
    ],
)
@pytest.mark.parametrize("around", [ALONE, BESIDE], ids=["alone", "beside others"])
def test_the_default_namespace_of_the_envelope(payload: str, kept: bool, around: str) -> None:
    octets = cut(around.format(payload), f'{SCOPE} xmlns="urn:default"')
    assert (b' xmlns="urn:default"' in octets) == kept
    if not kept:
        assert octets == payload.encode()


WAYS = [(Version.WSN_1_3, False), (Version.WSN_1_3, True), (Version.WSE_2004_08, True)]
PAYLOAD = '<speed xmlns:q="urn:q" note="s:a wsa:b wsnt:c">7 q:8</speed>'
NOTIFY = (
    f'<n:Notify xmlns:n="{WSN_1_3}" xmlns:xsi="{XSI}"><n:NotificationMessage>'
    '<n:Topic xmlns:u="urn:u" Dialect="http://docs.oasis-open.org/wsn/t-1/TopicExpression/Simple">'
    "u:storms</n:Topic><n:Message>{}</n:Message></n:NotificationMessage></n:Notify>"
)


@pytest.mark.parametrize("wrapped", [False, True], ids=["bare", "in Notify"])
def test_every_view_of_a_payload_shows_the_same_octets(wrapped: bool) -> None:
    """Prefixes that it does not declare mean nothing, whatever our own envelopes call so."""
    body = NOTIFY.format(PAYLOAD) if wrapped else PAYLOAD
    published = enveloped(body).replace(b"<s:", b"<soap:").replace(b"</s:", b"</soap:")
    published = published.replace(b"xmlns:s=", b"xmlns:soap=").replace(b"xmlns:wsnt=", b"xmlns:o=")
    (event,) = events(published)
    assert event.payload == PAYLOAD.encode()
    if wrapped:
        assert str(event.topic) == "{urn:u}storms"
    for (version, raw), soap, wsa in product(WAYS, Soap, Wsa):
        octets = delivered(event, version, raw, soap=soap, wsa=wsa)
        assert PAYLOAD.encode() in octets
        received = read_received(octets)
        assert isinstance(received, tuple)
        assert [one.payload for one in received] == [PAYLOAD.encode()]


NAMESPACES = ["urn:one", "urn:two", SOAP]
OUTER = st.dictionaries(
    st.sampled_from(["p", "q", "s", "wsa", "n", "unused-1", "d", "ä"]),
    st.sampled_from(NAMESPACES),
    max_size=6,
)


@settings(max_examples=examples(day=75, night=400))
@given(
    outer=OUTER,
    default=st.sampled_from(["", "urn:default"]),
    around=st.sampled_from([ALONE, BESIDE, " {} "]),
    data=st.data(),
)
def test_any_payload_means_the_same_outside_of_any_envelope(
    outer: dict[str, str], default: str, around: str, data: st.DataObject
) -> None:
    """Its names, and all that looks like one; and nothing is declared for nobody."""
    scope = {**outer, "": default} if default else dict(outer)
    payload = data.draw(elements(scope))
    declared = "".join(
        f' xmlns{":" if prefix else ""}{prefix}="{uri}"' for prefix, uri in scope.items()
    )
    octets = (
        f'<e:Envelope xmlns:e="{SOAP}"><e:Body{declared}>{around.format(payload)}</e:Body>'
        "</e:Envelope>"
    ).encode()
    there = next(iter(parse_document(octets)[0].iterchildren(etree.Element)))
    made = payload_of(there)
    root = parse_document(made)
    assert canonical(root) == canonical(there)
    for before, after in zip(scopes(there), scopes(root), strict=True):
        assert all(before[prefix] == uri for prefix, uri in after.items())
        for prefix in before:
            if prefix and re.search(rf"(?<!\w){prefix}:[\w*]", payload):
                assert after[prefix] == before[prefix]
    for prefix in outer:
        if f"{prefix}:" not in payload and f":{prefix}=" not in payload:
            assert prefix not in root.nsmap


@for_each("payload", ["<t:a><!--{}:--></t:a>", "<t:a b='{}'/>", "<t:a>{}</t:a>"])
@for_each("filling", ["<", "<a", "< ", "a", " t:", ":", "=&quot; ", "x:type=", ">"])
def test_a_payload_costs_what_it_is_long(payload: str, filling: str) -> None:
    filling = filling if "<!--" in payload else filling.replace("<", "&lt;")

    @cache
    def parsed(size: int) -> etree._Element:
        body = payload.format(filling * (size // len(filling)))
        return parse_document(enveloped(body, f'xmlns="urn:default" {SCOPE}'))[0][0]

    assert growth(lambda size: payload_of(parsed(size)), 4000) < 3
