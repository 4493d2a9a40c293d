"""What strangers send to break things: each is refused, changes nothing, and a good request still
works afterwards."""

import asyncio
import gzip
import html
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from gateway.security.resource_addresses import ENDPOINTS, TOPIC_PATHS
from mediation.model.versions import Soap, Wsa
from tests.rigs.consumers import Consumers
from tests.rigs.envelopes import (
    FULL,
    IBM_SIMPLE,
    S11,
    S12,
    SIMPLE,
    WSA10,
    WSE,
    WSNT,
    Answer,
    Speaker,
    message_content,
    topic_expression,
    wse_filter,
)
from tests.rigs.gateways import Running, http_request, running

pytestmark = pytest.mark.asyncio(loop_scope="module")

SOMEWHERE = "http://consumer.example.org/sink"
SPEAKER = Speaker()
WSNB = "http://docs.oasis-open.org/wsn/br-2"
WSRM = "http://docs.oasis-open.org/ws-rx/wsrm/200702"


@pytest_asyncio.fixture(autouse=True, loop_scope="module")
async def nothing_happens(gateway: Running) -> AsyncIterator[None]:
    def counts() -> tuple[int, int]:
        return len(gateway.gateway.subscriptions), gateway.gateway.publishing.accepted

    before = counts()
    yield
    assert counts() == before
    listed = await gateway.api("GET", "/subscriptions")
    assert (listed.status, b'"subscriptions":[]' in listed.body) == (200, True)
    path = await gateway.subscribe(SPEAKER, SPEAKER.wse_subscribe(SOMEWHERE))
    end = f'<e:Unsubscribe xmlns:e="{WSE}"/>'
    assert (await gateway.ask(SPEAKER, end, path)).status == 200


def envelope(soap: Soap, inner: str, prolog: str = "") -> bytes:
    return (
        f'{prolog}<s:Envelope xmlns:s="{soap.value}"><s:Header/><s:Body>{inner}</s:Body></s:Envelope>'
    ).encode()


def laughs() -> str:
    levels = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 10))
    return f'<!DOCTYPE x [<!ENTITY l0 "ha">{levels}]>'


def many(number: int, form: str) -> str:
    return "".join(form.format(n) for n in range(number))


XML = {
    "doctype": ("<a/>", "<!DOCTYPE a>"),
    "doctype after a comment": ("<a/>", "<!-- x --> <!DOCTYPE a []>"),
    "laughs": ("<a>&l9;</a>", laughs()),
    "laughs in an attribute": ('<a b="&l9;"/>', laughs()),
    "quadratic": ("<a>" + "&x;" * 5000 + "</a>", f'<!DOCTYPE a [<!ENTITY x "{"x" * 5000}">]>'),
    "defaults": ("<a/>" * 1000, "<!DOCTYPE a [<!ATTLIST a " + many(100, "b{} CDATA 'x' ") + ">]>"),
    "external entity": ("<a>&x;</a>", '<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]>'),
    "device": ("<a>&x;</a>", '<!DOCTYPE a [<!ENTITY x SYSTEM "file:///dev/zero">]>'),
    "depth": ("<a>" * 257 + "</a>" * 257, ""),
    "great depth": ("<a>" * 100_000, ""),
    "elements": ("<a/>" * 50_001, ""),
    "comments": ("<a>" + "<!---->" * 100_001 + "</a>", ""),
    "attributes": ("<a " + many(129, "b{}='' ") + "/>", ""),
    "many attributes": ("<a " + many(25_000, "b{}='' ") + "/>", ""),
    "attribute value": (f'<a b="{"x" * 65_537}"/>', ""),
    "namespaces": ("<a " + many(140, "xmlns:n{0}='urn:{0}' ") + "/>", ""),
    "many namespaces": ("<a " + many(10_000, "xmlns:n{0}='u:{0}' ") + "/>", ""),
    "name": (f"<{'a' * 1025}/>", ""),
    "long name": (f"<{'a' * 100_000}/>", ""),
    "uri": (f'<a xmlns="u:{"x" * 2048}"/>', ""),
    "instruction": ("<a><?php echo ?></a>", ""),
    "stylesheet": ("<a/>", '<?xml-stylesheet href="http://127.0.0.1/"?>'),
    "not well formed": ("<a>", ""),
    "nul": ("<a>\0</a>", ""),
    "nul as a reference": ("<a>&#0;</a>", ""),
    "undeclared prefix": ("<u:a/>", ""),
    "twice": ('<a b="1" b="2"/>', ""),
    "xml 1.1": ("<a/>", '<?xml version="1.1"?>'),
    "unknown encoding": ("<a/>", '<?xml version="1.0" encoding="Shift_JIS"?>'),
    "utf-7": ("<a/>", '<?xml version="1.0" encoding="UTF-7"?>'),
}


@pytest.mark.parametrize("soap", [S11, S12])
async def test_xml(gateway: Running, soap: Soap) -> None:
    for name, (inner, prolog) in XML.items():
        answer = await gateway.post(envelope(soap, inner, prolog), type=soap.media_type)
        check_sender(answer, soap, name)
        assert len(answer.body) < 1500, name


def check_sender(answer: Answer, soap: Soap, name: str) -> None:
    assert answer.status == (500 if soap is S11 else 400), (name, answer.body)
    assert answer.message.soap is soap, name
    assert answer.fault.code == f"{{{soap.value}}}{'Client' if soap is S11 else 'Sender'}", name
    text = answer.fault.text
    assert 0 < len(text) < 200 and "passwd" not in text and "libxml" not in text, name


@pytest.mark.parametrize("soap", [S11, S12])
async def test_encodings(gateway: Running, soap: Soap) -> None:
    text = envelope(soap, "<ä/>").decode()
    bad = {
        "utf-32": text.encode("utf-32"),
        "ebcdic": text.encode("cp500"),
        "latin-1": text.encode("latin-1"),
        "cut": text.encode()[:-1],
        "utf-16 cut": text.encode("utf-16")[:-1],
        "overlong": text.encode().replace(b"\xc3\xa4", b"\xc1\xa4"),
        "surrogate": text.encode().replace(b"\xc3\xa4", b"a\xed\xa0\x80"),
        "empty": b"",
        "space": b" \n",
        "nothing but a mark": b"\xef\xbb\xbf",
        "json": b'{"a": 1}',
    }
    for name, octets in bad.items():
        check_sender(await gateway.post(octets, type=soap.media_type), soap, name)
    contradicting = '<?xml version="1.0" encoding="UTF-16"?>' + text
    check_sender(await gateway.post(contradicting.encode(), type=soap.media_type), soap, "utf-16")
    for charset in ("utf-7", "shift_jis", "utf-32", "x-unknown"):
        answer = await gateway.post(text.encode(), type=f"{soap.media_type}; charset={charset}")
        assert (answer.status, answer.type) == (415, "text/plain; charset=utf-8")
        assert f"{charset!r} is not read; these are: UTF-8, UTF-16,".encode() in answer.body


async def test_good_encodings(gateway: Running) -> None:
    body = f'<e:GetStatus xmlns:e="{WSE}"/><!-- ä -->'
    text = envelope(S12, body).decode()
    for octets, charset in (
        (text.encode("utf-16"), ""),
        (text.encode("utf-16"), "; charset=UTF-16"),
        (text.encode("utf-16-le"), "; charset=utf-16le"),
        (b"\xef\xbb\xbf" + text.encode(), ""),
        (text.encode(), '; charset="UTF-8"; action=http://example.org/x'),
    ):
        answer = await gateway.post(octets, type="application/soap+xml" + charset)
        assert answer.fault.subcode == f"{{{WSE}}}InvalidMessage"


def shapes(soap: Soap) -> Iterator[tuple[str, str]]:
    start = f'<s:Envelope xmlns:s="{soap.value}">'
    end, body = "</s:Envelope>", "<s:Body><a/></s:Body>"
    yield "two bodies", f"{start}{body}{body}{end}"
    yield "body first", f"{start}{body}<s:Header/>{end}"
    yield "two headers", f"{start}<s:Header/><s:Header/>{body}{end}"
    yield "nothing", f"{start}{end}"
    yield "no body", f"{start}<s:Header/>{end}"
    yield "a trailer", f"{start}{body}<t/>{end}"
    yield "empty body", f"{start}<s:Body/>{end}"
    yield "text alone", f"{start}<s:Body>x</s:Body>{end}"
    yield "a body of another", f'{start}<Body xmlns="urn:x"><a/></Body>{end}'
    yield "no envelope", "<a/>"
    yield "a body alone", body.replace("<s:Body", f'<s:Body xmlns:s="{soap.value}"')


@pytest.mark.parametrize("soap", [S11, S12])
async def test_shapes(gateway: Running, soap: Soap) -> None:
    for name, text in shapes(soap):
        check_sender(await gateway.post(text.encode(), type=soap.media_type), soap, name)
    for namespace in ("urn:test:soap", "http://www.w3.org/2001/12/soap-envelope", ""):
        text = f'<Envelope xmlns="{namespace}"><Body><a/></Body></Envelope>'
        answer = await gateway.post(text.encode(), type=soap.media_type)
        assert (answer.status, answer.fault.code) == (500, f"{{{soap.value}}}VersionMismatch")


async def test_a_canary_is_never_visited(gateway: Running, tmp_path: Path) -> None:
    async with Consumers() as canary:
        url = canary.url("canary")
        canary_file = tmp_path / "canary"
        canary_file.write_text("secret")
        for inner, prolog in (
            ("<a>&x;</a>", f'<!DOCTYPE a [<!ENTITY x SYSTEM "{url}">]>'),
            ("<a>&x;</a>", f'<!DOCTYPE a [<!ENTITY x SYSTEM "{canary_file.as_uri()}">]>'),
            ("<a/>", f'<!DOCTYPE a SYSTEM "{url}">'),
            ("<a/>", f'<!DOCTYPE a PUBLIC "x" "{url}">'),
            ("<a/>", f'<!DOCTYPE a [<!ENTITY % x SYSTEM "{url}"> %x;]>'),
            ("<a/>", f'<?xml-stylesheet href="{url}"?>'),
        ):
            answer = await gateway.post(envelope(S12, inner, prolog))
            check_sender(answer, S12, prolog)
            assert b"secret" not in answer.body
        await gateway.quiet()
        assert canary.waiting(url) == 0


# HTTP, briefly.


async def test_sizes(gateway: Running) -> None:
    big = envelope(S12, f"<a>{'x' * (2 * 2**20)}</a>")
    assert (await gateway.post(big)).status == 413
    packed = gzip.compress(big)
    answer = await gateway.post(packed, type="application/soap+xml", content_encoding="gzip")
    assert answer.status == 413
    length = http_request(
        gateway.port, "POST", "/soap", b"",
        {"Content-Type": "text/xml"},
    ).replace(b"Content-Length: 0", b"Content-Length: 4194305")  # fmt: skip
    assert (await gateway.raw(length)).status == 413
    endless = length.replace(b"Content-Length: 4194305", b"Transfer-Encoding: chunked")
    endless += b"".join(b"100000\r\n" + b" " * 2**20 + b"\r\n" for _ in range(5))
    assert (await gateway.raw(endless)).status == 413
    answer = await gateway.post(b"not gzip", type="text/xml", content_encoding="gzip")
    assert answer.status == 400
    answer = await gateway.post(b"x", type="text/xml", content_encoding="br")
    assert (answer.status, answer.headers["accept-encoding"]) == (415, "gzip")


async def test_gzip(gateway: Running) -> None:
    packed = gzip.compress(envelope(S12, f'<e:GetStatus xmlns:e="{WSE}"/>'))
    answer = await gateway.post(packed, type="application/soap+xml", content_encoding="gzip")
    assert answer.fault.subcode == f"{{{WSE}}}InvalidMessage"


async def test_types(gateway: Running) -> None:
    good = envelope(S12, "<a/>")
    for type_ in ("application/json", "text/plain", "multipart/related", "text/xml; text/xml", "x"):
        answer = await gateway.post(good, type=type_)
        assert answer.status == 415
        assert "application/soap+xml" in answer.headers["accept-post"]


@pytest.mark.parametrize("path", ["/soap", "/soap/", "/soap/topic/a", "/subscriptions/x"])
async def test_methods(gateway: Running, path: str) -> None:
    for method in ("GET", "HEAD", "PUT", "DELETE", "OPTIONS", "PATCH"):
        body = b"x" if method in ("PUT", "PATCH") else b""
        answer = await gateway.request(method, path, body)
        assert (answer.status, answer.headers["allow"]) == (405, "POST"), method


async def test_hosts_and_lengths(gateway: Running) -> None:
    good = http_request(gateway.port, "POST", "/soap", b"", {"Content-Type": "text/xml"})
    foreign = good.replace(f"127.0.0.1:{gateway.port}".encode(), b"evil.example.org")
    assert (await gateway.raw(foreign)).status == 421
    empty = await gateway.raw(good)
    assert empty.status == 500 and b"Fault" in empty.body
    silent = await gateway.raw(good.replace(b"Content-Length: 0\r\n", b""))
    assert (silent.status, silent.fault) == (500, empty.fault)
    smuggled = good.replace(
        b"Content-Length: 0", b"Content-Length: 3\r\nTransfer-Encoding: chunked"
    )
    assert (await gateway.raw(smuggled + b"0\r\n\r\n")).status == 400


async def test_topics_in_urls(gateway: Running) -> None:
    """In the envelope's SOAP version, whatever the type says."""
    for path in (
        "a//b",
        "a/",
        "%7Burn:x",
        "%7B%7Da",
        "%7Ba%20b%7Dx",
        "%7Burn:%C3%A9%7Dx",
        "%00",
        "a%0Ab",
        "/".join("a" * 65),
        "a" * 4097,
    ):
        for soap, type_ in ((S11, "application/soap+xml"), (S12, "text/xml")):
            answer = await gateway.post(envelope(soap, "<a/>"), f"/soap/topic/{path}", type=type_)
            check_sender(answer, soap, path)


@pytest.mark.parametrize("path", TOPIC_PATHS)
async def test_a_line_break_in_the_url_of_a_topic(gateway: Running, path: str) -> None:
    """It is the endpoint that answers, at whichever of its paths."""
    answer = await gateway.post(envelope(S12, "<a/>"), f"{path}a%0Ab", type="text/xml")
    check_sender(answer, S12, path)


@pytest.mark.parametrize("path", [*ENDPOINTS, *(f"{path}/" for path in ENDPOINTS)])
async def test_every_endpoint_answers(gateway: Running, path: str) -> None:
    answer = await gateway.post(envelope(S12, "<a"), path)
    check_sender(answer, S12, path)
    assert (await gateway.request("GET", f"{path}?wsdl")).status == 200


@pytest.mark.parametrize("hops", ["8", "9", "99", "100", "-1", "+1", "x", "1.0", "٣", " "])
async def test_loops_end(gateway: Running, hops: str) -> None:
    head = {
        "Content-Type": "application/soap+xml",
        "Dragoman-Hops": hops.encode().decode("latin-1"),
    }
    body = envelope(S12, "<a/>")
    answer = await gateway.raw(http_request(gateway.port, "POST", "/soap", body, head))
    check_sender(answer, S12, hops)


# Filters.

XPATHS = (
    "", " ", "/", "]", "a[", "a b", "//*[" * 20 + "]" * 20, "(" * 500 + "1" + ")" * 500,
    " or ".join(["a"] * 150), "|".join(["a"] * 20_000), "a" * 4097, "/".join("a" * 65),
    "a" + "[1]" * 33, "-" * 2000 + "1", "'" + "x" * 5000 + "'", "9" * 5000,
    "document('file:///etc/passwd')", "re:test(., '(a+)+$')", "dyn:evaluate('1')",
    "str:tokenize('a')", "exsl:node-set(a)", "$x", "u:a", "//u:a", "current()", "key('a', 'b')",
    "system-property('xsl:version')", "for $x in a return $x", "if (a) then b else c", "a => b()",
    "matches(a, 'b')", "ends-with(a, 'b')", "a eq b", "unknown(1)", "child::", "a/@", "@@a", "//",
    "count()", "count(1, 2)", "count('a')", "id(", "processing-instruction('", "\N{SNOWMAN}(1)",
)  # fmt: skip
"""None is within the limits of XPath 1.0's core library; `/` alone is."""
TOPICS = (
    (SIMPLE, "a/b"), (SIMPLE, ""), (SIMPLE, "*"), (FULL, "a//"), (FULL, "a||b"), (FULL, "|"),
    (FULL, "a" * 4097), (FULL, "|".join(["a"] * 65)), (FULL, "/".join(["a"] * 65)), (FULL, "a b"),
    (FULL, "../a"), (FULL, "/a"), (FULL, "a[1]"), (FULL, "$a"), (FULL, "a//*//*//" + "*//" * 100),
    (IBM_SIMPLE, "a" * 4097), ("urn:test:dialect", "a"),
)  # fmt: skip


async def test_filters(gateway: Running) -> None:
    unavailable = f"{{{WSE}}}FilteringRequestedUnavailable"
    content = f"{{{WSNT}}}InvalidMessageContentExpressionFault"
    for xpath in XPATHS:
        text = xpath.replace("&", "&amp;").replace("<", "&lt;")
        if xpath == "/":
            continue
        body = SPEAKER.wse_subscribe(SOMEWHERE, filter=wse_filter(text))
        answer = await gateway.ask(SPEAKER, body)
        assert (answer.status, answer.fault.subcode) == (400, unavailable), xpath
        body = SPEAKER.wsn_subscribe(SOMEWHERE, filter=message_content(text))
        answer = await gateway.ask(SPEAKER, body)
        assert (answer.status, answer.fault.element) == (400, content), xpath
    faults = {
        f"{{{WSNT}}}InvalidTopicExpressionFault",
        f"{{{WSNT}}}TopicExpressionDialectUnknownFault",
    }
    for dialect, topic in TOPICS:
        body = SPEAKER.wse_subscribe(SOMEWHERE, filter=wse_filter(topic, dialect))
        answer = await gateway.ask(SPEAKER, body)
        assert (answer.status, answer.fault.subcode) == (400, unavailable), topic
        body = SPEAKER.wsn_subscribe(SOMEWHERE, filter=topic_expression(topic, dialect))
        answer = await gateway.ask(SPEAKER, body)
        assert (answer.status, answer.fault.element in faults) == (400, True), topic
    filters = "".join(message_content(f"a{number}") for number in range(17))
    answer = await gateway.ask(SPEAKER, SPEAKER.wsn_subscribe(SOMEWHERE, filter=filters))
    assert answer.status == 400


# Addresses.

HOSTILE = (
    "", " ", "x", "/path", "//host/", "http:", "http://", "http:///x", "http://[", "http://[::1",
    "ftp://example.org/", "file:///etc/passwd", "gopher://example.org/", "javascript:alert(1)",
    "mailto:a@example.org", "urn:uuid:00000000-0000-0000-0000-000000000000", "soap.udp://x/",
    "http://10.0.0.1/", "http://172.16.0.1/", "http://192.168.1.1/", "http://169.254.169.254/",
    "http://100.64.0.1/", "http://0.0.0.0/", "http://224.0.0.1/", "http://255.255.255.255/",
    "http://192.0.2.1/", "http://198.18.0.1/", "http://240.0.0.1/", "http://168.63.129.16/",
    "http://127.1/", "http://0177.0.0.1/", "http://0x7f000001/", "http://2130706433/",
    "http://127.0.0.1./", "http://[::]/", "http://[::ffff:10.0.0.1]/", "http://[::10.0.0.1]/",
    "http://[64:ff9b::a00:1]/", "http://[2002:a00:1::]/", "http://[2001:0:a00:1::]/",
    "http://[fe80::1]/", "http://[fe80::1%25eth0]/", "http://[fc00::1]/", "http://[fec0::1]/",
    "http://[ff02::1]/", "http://user@example.org/", "http://user:secret@example.org/",
    "http://good.example@10.0.0.1/", "http://example.org\\@10.0.0.1/", "http://example.org#x",
    "http://example.org/#x", "http://example.org/a b", "http://example.org/&#10;x", "http://exa mple.org/",
    "http://example.org:0/",
    "http://example.org:65536/",
    "http://example.org:-1/", "http://example.org:80x/", "http://example.org:/", "http://.example.org/",
    "http://example..org/", f"http://{'a' * 64}.org/", f"http://{'a.' * 130}org/",
    f"http://example.org/{'x' * 4097}", "http://ex%61mple.org/", "http://１２７.0.0.1/",
    "http://example.org/%", "http://example.org/%zz", "https://10.0.0.1/", "HTTP://10.0.0.1/",
    "http://169.254.170.2/", "http://192.0.0.192/", "http://192.88.99.1/", "http://0/", "http://10.1/",
    "http://[64:ff9b:1::a00:1]/", "http://[fd00:ec2::254]/", "http://[100::1]/", "http://[2001:db8::1]/",
    "http://[::ffff:a9fe:a9fe]/", "http://[0:0:0:0:0:ffff:a00:1]/", "http://[::ffff:0:a00:1]/",
    "http://127。0。0。1/", "http://①②⑦.0.0.1/", "http://0300.0250.1.1/", "http://017700000001/",
    "http://example.org%2f@10.0.0.1/", "http://10.0.0.1%00.example.org/", "http://example.org&#9;/",
    "soap.tcp://10.0.0.1/", "soap.tcp://user@example.org/", "http:\\\\10.0.0.1/", "http:10.0.0.1/",
)  # fmt: skip
UNSPOKEN = {"ftp", "file", "gopher", "javascript", "mailto", "urn", "soap.udp"}
ANONYMOUS = (WSA10 + "/anonymous", WSA10 + "/none", Wsa.V2004_08.anonymous)


def fields(address: str) -> dict[str, tuple[Speaker, str, str]]:
    """A request with *address* in each place, and its headers."""
    good = SOMEWHERE
    old = Speaker(S12, Wsa.V2004_08)

    def reply(name: str) -> str:
        return f"<wsa:{name}><wsa:Address>{address}</wsa:Address></wsa:{name}>"

    return {
        "NotifyTo": (old, old.wse_subscribe(address), ""),
        "EndTo": (old, old.wse_subscribe(good, end_to=address or " "), ""),
        "ConsumerReference": (SPEAKER, SPEAKER.wsn_subscribe(address), ""),
        "ReplyTo": (SPEAKER, SPEAKER.wsn_subscribe(good), reply("ReplyTo")),
        "FaultTo": (SPEAKER, SPEAKER.wsn_subscribe(good), reply("FaultTo")),
    }


def fields_of_others(address: str) -> dict[str, tuple[Speaker, str, str]]:
    """The same of other specifications."""
    good = SOMEWHERE
    publisher = (
        f'<b:RegisterPublisher xmlns:b="{WSNB}"><b:PublisherReference>{SPEAKER.epr(address)}'
        "</b:PublisherReference><b:Topic Dialect='http://docs.oasis-open.org/wsn/t-1/TopicExpression/"
        "Concrete'>storms</b:Topic><b:Demand>true</b:Demand></b:RegisterPublisher>"
    )
    return {
        "PublisherReference": (SPEAKER, publisher, ""),
        "NotifyTo of 2011": (SPEAKER, SPEAKER.wse11_subscribe(address), ""),
        "EndTo of 2011": (SPEAKER, SPEAKER.wse11_subscribe(good, end_to=address or " "), ""),
    }


async def test_addresses_of_sequences_and_sinks(tmp_path: Path) -> None:
    """Where a sequence is acknowledged, where the one that is offered would go, and where
    CloudEvents would."""
    anonymous = f"<a:Address>{WSA10}/anonymous</a:Address>"
    async with running(tmp_path, wsrm="offered") as run:
        for address in HOSTILE:
            named = f"<a:Address>{address}</a:Address>"
            offer = f"<r:Offer><r:Identifier>urn:x:1</r:Identifier><r:Endpoint>{named}</r:Endpoint></r:Offer>"
            for acks_to, more in ((named, ""), (anonymous, offer)):
                body = (
                    f'<r:CreateSequence xmlns:r="{WSRM}" xmlns:a="{WSA10}"><r:AcksTo>{acks_to}</r:AcksTo>'
                    f"{more}</r:CreateSequence>"
                )
                answer = await run.ask(SPEAKER, body)
                assert answer.status in (400, 500), (address, more, answer.body)
                assert "CreateSequenceResponse" not in answer.body.decode(), (address, more)
            sink = json.dumps({"sink": html.unescape(address), "protocol": "HTTP"}).encode()
            answer = await run.request(
                "POST", "/events/subscriptions", sink, content_type="application/json"
            )
            assert 400 <= answer.status < 500, (address, answer.body)
        assert len(run.gateway.subscriptions) == 0


async def test_addresses(gateway: Running) -> None:
    own = [
        f"http://{host}:{gateway.port}{path}"
        for host in ("127.0.0.1", "localhost", "[::1]", "LOCALHOST", "[::ffff:127.0.0.1]")
        for path in ("/soap", "/", "/subscriptions/x")
    ]
    seen: dict[str, set[tuple[str, ...]]] = {}
    texts: dict[str, set[str]] = {}
    for address in (*HOSTILE, *own, *ANONYMOUS):
        asked = fields(address) | fields_of_others(address)
        for field, (speaker, body, headers) in asked.items():
            if address in ANONYMOUS and field in ("ReplyTo", "FaultTo"):
                continue
            answer = await gateway.ask(speaker, body, headers=headers)
            assert answer.status == 400, (field, address)
            fault = answer.fault
            if address.strip() and len(address) <= 4096:
                said = (fault.code, *fault.subcodes, fault.element)
                text = fault.text
                if "with the scheme" in text:
                    scheme = address.partition(":")[0]
                    assert scheme in UNSPOKEN and text.count(scheme) == 1, text
                    text = ""
                seen.setdefault(field, set()).add(said)
                if "The policy of" in text:  # Who is trusted is told a setting, too.
                    texts.setdefault(field, set()).add(text.partition(" The setting ")[0])
    assert {address.partition(":")[0] for address in HOSTILE} >= UNSPOKEN
    # One text, whatever the policy has against an address: refusals map no network.
    assert {len(found) for found in texts.values()} == {1}
    assert texts.keys() >= {"NotifyTo", "EndTo", "ConsumerReference"}
    assert {field: len(texts) for field, texts in seen.items()} == dict.fromkeys(seen, 1)
    [notify_to], [end_to] = seen["NotifyTo"], seen["EndTo"]
    assert notify_to[1] == end_to[1] == f"{{{WSE}}}InvalidMessage"
    [consumer] = seen["ConsumerReference"]
    assert consumer[1] == f"{{{WSNT}}}SubscribeCreationFailedFault"
    [reply] = seen["ReplyTo"]
    assert reply[1:3] == (f"{{{WSA10}}}InvalidAddressingHeader", f"{{{WSA10}}}InvalidAddress")


async def test_refusals_take_no_time(gateway: Running) -> None:
    """Nothing is looked up or connected to before the answer."""
    clock = asyncio.get_running_loop().time

    async def refused(address: str) -> float:
        started = clock()
        answer = await gateway.ask(SPEAKER, SPEAKER.wsn_subscribe(address))
        assert answer.status == 400
        return clock() - started

    usual = max([await refused("nowhere") for _ in range(10)])
    for address in ("http://10.255.255.1/", "http://127.1/", "http://user@name.invalid/"):
        assert min([await refused(address) for _ in range(3)]) < 5 * usual


async def test_loopback_is_open_on_loopback_alone(tmp_path: Path) -> None:
    async with running(tmp_path, host="0.0.0.0") as run:
        hosts = ("127.0.0.1:9999", "localhost:9999", "[::1]:9999", f"127.0.0.1:{run.port}")
        for host in hosts:
            for field, (speaker, body, headers) in fields(f"http://{host}/").items():
                answer = await run.ask(speaker, body, headers=headers)
                assert answer.status == 400, (host, field)
        assert len(run.gateway.subscriptions) == 0
        answer = await run.ask(SPEAKER, SPEAKER.wsn_subscribe(SOMEWHERE, expires="P30D"))
        assert answer.fault.element.endswith("UnacceptableInitialTerminationTimeFault")


async def test_the_public_address_is_ours(tmp_path: Path) -> None:
    async with running(tmp_path, public_url="https://events.example.org/base/") as run:
        for address in ("https://events.example.org/soap", "https://EVENTS.example.org:443/"):
            answer = await run.ask(SPEAKER, SPEAKER.wsn_subscribe(address))
            assert answer.status == 400
        answer = await run.ask(SPEAKER, SPEAKER.wsn_subscribe("https://events.example.org:444x/"))
        assert answer.status == 400
        answer = await run.ask(SPEAKER, SPEAKER.wsn_subscribe("https://events.example.org:8443/"))
        assert answer.status == 200
        assert b"https://events.example.org/base/subscriptions/" in answer.body


async def test_what_is_allowed_is_allowed(tmp_path: Path) -> None:
    async with running(tmp_path, host="0.0.0.0", egress_allow=("127.0.0.0/8", "*.lan")) as run:
        for address in ("http://127.0.0.1:9999/", "http://127.9.9.9/", "http://consumer.lan/"):
            answer = await run.ask(SPEAKER, SPEAKER.wsn_subscribe(address))
            assert answer.status == 200, address
        answer = await run.ask(SPEAKER, SPEAKER.wsn_subscribe(f"http://127.0.0.1:{run.port}/soap"))
        assert answer.status == 400


async def test_references_are_bounded(gateway: Running) -> None:
    for inner in (
        SPEAKER.parameters(*(f'<x:a{n} xmlns:x="urn:x"/>' for n in range(33))),
        SPEAKER.parameters(f'<x:a xmlns:x="urn:x">{"x" * 16_400}</x:a>'),
    ):
        for body in (
            SPEAKER.wse_subscribe(SOMEWHERE, inner=inner),
            SPEAKER.wsn_subscribe(SOMEWHERE, inner=inner),
        ):
            assert (await gateway.ask(SPEAKER, body)).status == 400


async def test_notifications_are_bounded(gateway: Running) -> None:
    inner = "<n:NotificationMessage><n:Message><a/></n:Message></n:NotificationMessage>"
    body = f'<n:Notify xmlns:n="{WSNT}">{inner * 257}</n:Notify>'
    check_sender(await gateway.ask(SPEAKER, body), S12, "257")
    headers = f'<x:a xmlns:x="urn:x">{"x" * 6200}</x:a>'
    check_sender(await gateway.ask(SPEAKER, "<a/>", headers=headers), S12, "headers")
    for body in (
        f'<n:Notify xmlns:n="{WSNT}"/>',
        f'<n:Notify xmlns:n="{WSNT}"><n:NotificationMessage/></n:Notify>',
    ):
        answer = await gateway.ask(SPEAKER, body)
        assert answer.status == 400
