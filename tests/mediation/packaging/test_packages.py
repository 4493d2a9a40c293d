"""Packages in MIME: SOAP with attachments and MTOM, as peers write them, and what is refused."""

import base64
import contextlib
import os
import time
from collections.abc import Callable
from email import policy
from email.mime.application import MIMEApplication
from email.mime.multipart import MIMEMultipart
from email.mime.text import MIMEText
from email.parser import BytesParser
from random import Random
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from filters import FilterError, Reason, Refused
from mediation.model.errors import MediationError
from mediation.model.messages import Attachment, Notification
from mediation.model.versions import Soap
from mediation.packaging.attachments import attach
from mediation.packaging.mime import MimeError, parse_media_type, read_multipart, write_multipart
from mediation.packaging.packages import (
    Package,
    PackageLimits,
    content_ids,
    read_headed_package,
    read_package,
    write_package,
)
from tests.rigs.cases import for_each
from tests.rigs.mediation import NOW
from tests.rigs.pace import unit

S11, S12 = Soap.V1_1, Soap.V1_2
XOP = "http://www.w3.org/2004/08/xop/include"
BUDGET = 50.0
"""Seconds of processor time that a hostile package may cost (M01)."""


def envelope(body: str = "", soap: Soap = S11) -> bytes:
    return f'<s:Envelope xmlns:s="{soap.value}"><s:Body>{body}</s:Body></s:Envelope>'.encode()


def included(href: str, name: str = "photo") -> str:
    return f'<m:{name} xmlns:m="urn:m"><xop:Include xmlns:xop="{XOP}" href="{href}"/></m:{name}>'


def part(content: bytes, *head: str) -> bytes:
    return "".join(f"{line}\r\n" for line in head).encode() + b"\r\n" + content


def multipart(*parts: bytes, boundary: str = "b") -> bytes:
    line = f"--{boundary}".encode()
    return b"".join([*(line + b"\r\n" + one + b"\r\n" for one in parts), line, b"--\r\n"])


def root(body: str = "", type_: str = "text/xml") -> bytes:
    return part(envelope(body), "Content-ID: <root>", f"Content-Type: {type_}")


def attached(content: bytes = b"\x00\xff", content_id: str = "a@x", *head: str) -> bytes:
    return part(content, "Content-Type: image/png", f"Content-ID: <{content_id}>", *head)


def xop(body: str) -> bytes:
    return root(body, 'application/xop+xml; charset=UTF-8; type="text/xml"')


MTOM = {"boundary": "b", "type": "application/xop+xml", "start": "<root>", "start-info": "text/xml"}
SWA = {"boundary": "b", "type": "text/xml"}

PEERS = [
    pytest.param(
        # Java's SAAJ: the root has no Content-ID and is the first part.
        'multipart/related; type="text/xml"; boundary="----=_Part_0_1330.1417"',
        b"------=_Part_0_1330.1417\r\nContent-Type: text/xml; charset=utf-8\r\n\r\n"
        + envelope('<p href="cid:report"/>')
        + b"\r\n------=_Part_0_1330.1417\r\nContent-Type: text/plain\r\nContent-ID: <report>\r\n"
        b"\r\nall well\r\n------=_Part_0_1330.1417--\r\n",
        Package(
            envelope('<p href="cid:report"/>'),
            S11,
            None,
            (Attachment("cid:report", "text/plain", b"all well"),),
        ),
        id="saaj",
    ),
    pytest.param(
        # Axis 1.4 breaks the header of a part into lines; the root need not be the first part.
        'multipart/related; type="text/xml"; start="<E1@host>"; boundary="b"',
        multipart(
            part(
                b"\x89PNG",
                "Content-Type: image/png;",
                '\tname="map.png"',
                "Content-Transfer-Encoding: binary",
                "Content-Id: <M1@host>",
            ),
            part(
                envelope('<p href="cid:M1@host"/>'),
                "Content-Type: text/xml;",
                " charset=UTF-8",
                "Content-Transfer-Encoding: binary",
                "Content-Id: <E1@host>",
            ),
        ),
        Package(
            envelope('<p href="cid:M1@host"/>'),
            S11,
            None,
            (Attachment("cid:M1@host", 'image/png; name="map.png"', b"\x89PNG"),),
        ),
        id="axis",
    ),
    pytest.param(
        # The example of the W3C's note has an image in base64.
        "Multipart/Related; boundary=b; type=text/xml; start=root",
        b"This is a message in MIME.\r\n"
        + multipart(
            root('<p href="cid:a@x"/>'),
            attached(
                base64.encodebytes(b"GIF89a" * 20), "a@x", "Content-Transfer-Encoding: BASE64"
            ),
        )
        + b"behind it",
        Package(
            envelope('<p href="cid:a@x"/>'),
            S11,
            None,
            (Attachment("cid:a@x", "image/png", b"GIF89a" * 20),),
        ),
        id="base64",
    ),
    pytest.param(
        # CXF: the type is said three times over, the parts are given a name that is a URI.
        'multipart/related; type="application/xop+xml"; boundary="uuid:0ca0e16e"; '
        'start="<root.message@cxf.apache.org>"; start-info="application/soap+xml"; action="urn:a"',
        multipart(
            part(
                envelope(included("cid:70c@cxf.apache.org"), S12),
                'Content-Type: application/xop+xml; charset=UTF-8; type="application/soap+xml"',
                "Content-Transfer-Encoding: binary",
                "Content-ID: <root.message@cxf.apache.org>",
            ),
            part(
                b"\x00\x01\x02",
                "Content-Type: application/octet-stream",
                "Content-Transfer-Encoding: binary",
                "Content-ID: <70c@cxf.apache.org>",
            ),
            boundary="uuid:0ca0e16e",
        ),
        Package(envelope('<m:photo xmlns:m="urn:m">AAEC</m:photo>', S12), S12, "urn:a", ()),
        id="cxf",
    ),
    pytest.param(
        # WCF: names that are URIs, percent-encoded in the reference; the action inside start-info.
        'multipart/related; type="application/xop+xml";start="<http://tempuri.org/0>";'
        'boundary="uuid:d0c+id=1";start-info="application/soap+xml; action=\\"urn:a\\""',
        multipart(
            part(
                envelope(included("cid:http%3A%2F%2Ftempuri.org%2F1%2F635"), S12),
                "Content-ID: <http://tempuri.org/0>",
                "Content-Transfer-Encoding: 8bit",
                "Content-Type: application/xop+xml;charset=utf-8;"
                'type="application/soap+xml; action=\\"urn:a\\""',
            ),
            part(
                b"\x00\x01\x02",
                "Content-ID: <http://tempuri.org/1/635>",
                "Content-Transfer-Encoding: binary",
                "Content-Type: application/octet-stream",
            ),
            boundary="uuid:d0c+id=1",
        ),
        Package(envelope('<m:photo xmlns:m="urn:m">AAEC</m:photo>', S12), S12, "urn:a", ()),
        id="wcf",
    ),
    pytest.param(
        # Content-Location, by which the W3C's note resolves references, too.
        "multipart/related; boundary=b; type=text/xml",
        multipart(
            root('<p href="urn:uuid:7"/>'), attached(b"1", "a@x", "Content-Location: urn:uuid:7")
        ),
        Package(
            envelope('<p href="urn:uuid:7"/>'),
            S11,
            None,
            (Attachment("urn:uuid:7", "image/png", b"1"),),
        ),
        id="content-location",
    ),
]


def canonical(package: Package) -> Package:
    """*package*; lxml writes an XML declaration, and nothing else differs."""
    declaration = b"<?xml version='1.0' encoding='UTF-8'?>\n"
    return Package(
        package.envelope.removeprefix(declaration),
        package.soap,
        package.action,
        package.attachments,
    )


@pytest.mark.parametrize(("content_type", "body", "package"), PEERS)
def test_peers(content_type: str, body: bytes, package: Package) -> None:
    parameters = parse_media_type(content_type).parameters
    assert canonical(read_package(parameters, body)) == package
    assert (
        attach((notification("<a/>"),), package.attachments)[0].attachments == package.attachments
    )
    # WSE 3.0 puts the package with its own header into DIME's first record.
    headed = f"MIME-Version: 1.0\r\nContent-Type: {content_type}\r\n\r\n".encode() + body
    assert canonical(read_headed_package(headed)) == package
    # Cut anywhere, it is refused, never half read; behind its last boundary there is nothing.
    end = body.rindex(b"--")
    for length in range(0, end + 2, 7):
        with pytest.raises(MediationError):
            read_package(parameters, body[:length])


def test_what_the_standard_library_writes() -> None:
    message = MIMEMultipart("related", boundary="b")
    message.attach(MIMEText(envelope().decode(), "xml", "us-ascii"))
    image = MIMEApplication(b"\x89PNG", "png")
    image.add_header("Content-ID", "<a@x>")
    message.attach(image)
    package = read_headed_package(message.as_bytes())
    assert package.envelope.strip() == envelope()
    assert package.attachments == (Attachment("cid:a@x", "application/png", b"\x89PNG"),)


def test_a_package_without_its_header() -> None:
    package = read_headed_package(multipart(xop(included("cid:a@x")), attached(b"\0\1\2")))
    assert b">AAEC</m:photo>" in package.envelope
    assert package.soap is S11


def test_quoted_printable() -> None:
    body = part(
        envelope().replace(b"=", b"=3D"),
        "Content-Type: text/xml",
        "Content-Transfer-Encoding: quoted-printable",
    )
    assert read_package(SWA, multipart(body)).envelope == envelope()


def test_xop_leaves_the_parts_that_it_does_not_name() -> None:
    body = multipart(
        xop(included("cid:b%20c@x") + '<p href="cid:a@x"/>'),
        attached(b"kept"),
        attached(b"\0", "b c@x"),
    )
    package = read_package(MTOM, body)
    assert b">AA==</m:photo>" in package.envelope
    assert package.attachments == (Attachment("cid:a@x", "image/png", b"kept"),)


def test_an_envelope_without_xop_stays_as_it_was() -> None:
    odd = "<a   b='1'></a>"
    assert read_package(MTOM, multipart(xop(odd))).envelope == envelope(odd)


def test_xop_in_utf_16() -> None:
    text = envelope(included("cid:a@x")).decode().encode("utf-16")
    body = multipart(
        part(text, "Content-ID: <root>", "Content-Type: application/xop+xml; charset=utf-16"),
        attached(b"\0\1\2"),
    )
    package = read_package(MTOM, body)
    assert b">AAEC</m:photo>" in package.envelope


def test_no_two_parts_get_one_name() -> None:
    """DIME forbids it, and both of these are what the reference may mean."""
    body = multipart(
        root('<p href="cid:a%20b"/><p href="urn:l"/><p href="cid:%61"/>'),
        attached(b"1", "a b"),
        attached(b"2", "a%20b"),
        attached(b"3", "c", "Content-Location: urn:l"),
        attached(b"4", "d", "Content-Location: urn:l"),
        attached(b"5", "a", "Content-Location: cid:c"),
    )
    attachments = read_package(SWA, body).attachments
    assert [(part.content_id, part.content) for part in attachments] == [
        ("cid:a%20b", b"1"),
        ("cid:a%2520b", b"2"),
        ("urn:l", b"3"),
        ("cid:d", b"4"),
        ("cid:%61", b"5"),
    ]


def test_without_xop_nothing_is_included() -> None:
    """SOAP with attachments knows no xop:Include: it is content like any other."""
    body = envelope(included("cid:a@x"))
    package = read_package(SWA, multipart(root(included("cid:a@x")), attached()))
    assert package.envelope == body
    assert len(package.attachments) == 1


INVALID = Reason.MESSAGE_INVALID
REFUSED = [
    pytest.param(MTOM, multipart(xop(included("http://a.example/x"))), INVALID, id="http"),
    pytest.param(MTOM, multipart(xop(included("file:///etc/passwd"))), INVALID, id="file"),
    pytest.param(MTOM, multipart(xop(included("mid:a@x")), attached()), INVALID, id="mid"),
    pytest.param(MTOM, multipart(xop(included("a@x")), attached()), INVALID, id="no scheme"),
    pytest.param(MTOM, multipart(xop(included("")), attached()), INVALID, id="no href"),
    pytest.param(MTOM, multipart(xop(included("cid:b@x")), attached()), INVALID, id="no part"),
    pytest.param(MTOM, multipart(xop(included("cid:root"))), INVALID, id="the root itself"),
    pytest.param(
        MTOM, multipart(xop(included("cid:a@x") * 2), attached()), INVALID, id="a part twice"
    ),
    pytest.param(
        MTOM,
        multipart(xop(included("cid:a@x").replace("/></m:", "/>text</m:")), attached()),
        INVALID,
        id="text beside it",
    ),
    pytest.param(
        MTOM,
        multipart(xop(included("cid:a@x").replace("/></m:", "/><b/></m:")), attached()),
        INVALID,
        id="an element beside it",
    ),
    pytest.param(
        MTOM,
        multipart(xop(included("cid:a@x").replace("/></m:", "/><!-- --></m:")), attached()),
        INVALID,
        id="a comment beside it",
    ),
    pytest.param(
        MTOM,
        multipart(
            part(
                f'<xop:Include xmlns:xop="{XOP}" href="cid:a@x"/>'.encode(),
                "Content-ID: <root>",
                "Content-Type: application/xop+xml",
            ),
            attached(),
        ),
        INVALID,
        id="an Include alone",
    ),
    pytest.param(
        MTOM,
        multipart(
            part(b"<!DOCTYPE a><a/>", "Content-ID: <root>", "Content-Type: application/xop+xml")
        ),
        Reason.DTD,
        id="a DTD",
    ),
    pytest.param(
        MTOM,
        multipart(part(b"<a", "Content-ID: <root>", "Content-Type: application/xop+xml")),
        Reason.NOT_XML,
        id="not XML",
    ),
    pytest.param(
        SWA, multipart(root(), part(b"", "Content-Type: a/b")), INVALID, id="no Content-ID"
    ),
    pytest.param(SWA, multipart(root(), attached(), attached()), INVALID, id="an id twice"),
    pytest.param(SWA, multipart(root(), attached(b"", "root")), INVALID, id="the root's id"),
    pytest.param(
        SWA, multipart(root(), attached(b"", "a", "Content-ID: <b>")), INVALID, id="two ids"
    ),
    pytest.param(
        SWA,
        multipart(
            root(), part(b"", "Content-ID: <a>", "Content-Type: multipart/mixed; boundary=c")
        ),
        INVALID,
        id="nested",
    ),
    pytest.param(
        SWA,
        multipart(root(), part(b"", "Content-ID: <a>", "Content-Type: Multipart/mixed; boundary")),
        INVALID,
        id="nested and broken",
    ),
    pytest.param(
        SWA,
        multipart(part(b"", "Content-Type: multipart/related; boundary=c")),
        INVALID,
        id="a nested root",
    ),
    pytest.param(SWA, multipart(root("", "text/html")), INVALID, id="the root is no envelope"),
    pytest.param(
        SWA,
        multipart(root(), attached(b"", "a", "Content-Transfer-Encoding: x-uuencode")),
        INVALID,
        id="a foreign transfer encoding",
    ),
    pytest.param(
        SWA,
        multipart(root(), attached(b"a?b=", "a", "Content-Transfer-Encoding: base64")),
        INVALID,
        id="no base64",
    ),
    pytest.param({**SWA, "start": "<x>"}, multipart(root()), INVALID, id="no such start"),
    pytest.param({"type": "text/xml"}, multipart(root()), INVALID, id="no boundary"),
    pytest.param({"boundary": "b" * 71}, multipart(root(), boundary="b" * 71), INVALID, id="71"),
    pytest.param(SWA, b"", INVALID, id="nothing"),
    pytest.param(SWA, b"--b--", INVALID, id="no parts"),
    pytest.param(SWA, b"--b\r\n--b--", INVALID, id="an empty part"),
    pytest.param(SWA, multipart(*[root()] * 65), INVALID, id="65 parts"),
    pytest.param(
        SWA, multipart(part(b"", f"X: {'x' * 8192}")), INVALID, id="a large header of a part"
    ),
    pytest.param(SWA, multipart(part(b"", "no field")), INVALID, id="a line that is no field"),
    pytest.param(SWA, multipart(b"X: \xff\r\n\r\n"), INVALID, id="a header that is no text"),
    pytest.param(SWA, multipart(root()).replace(b"--b\r", b"--b-\r"), INVALID, id="--b-"),
]


@for_each(("parameters", "body", "reason"), REFUSED)
def test_refused(parameters: dict[str, str], body: bytes, reason: Reason) -> None:
    with pytest.raises((MediationError, FilterError)) as caught:
        read_package(parameters, body)
    assert caught.value.reason is reason


LIMITS = PackageLimits()
AT_THE_LIMIT = LIMITS.octets - len(multipart(root(), attached(b"")))


@pytest.mark.parametrize("beyond", [0, 1])
def test_the_size_of_a_package(beyond: int) -> None:
    body = multipart(root(), attached(bytes(AT_THE_LIMIT + beyond)))
    if beyond:
        with pytest.raises(MediationError) as caught:
            read_package(SWA, body)
        assert caught.value.reason is Reason.TOO_LARGE
    else:
        assert len(read_package(SWA, body).attachments[0].content) == AT_THE_LIMIT


def test_an_envelope_may_not_grow_beyond_its_limit() -> None:
    half = LIMITS.envelope // 2
    small = multipart(xop(included("cid:a@x")), attached(bytes(half)))
    assert len(read_package(MTOM, small).envelope) > half
    for body in (
        multipart(xop(included("cid:a@x")), attached(bytes(LIMITS.envelope * 3 // 4))),
        multipart(
            xop(included("cid:a@x") + included("cid:b@x")),
            attached(bytes(half)),
            attached(bytes(half), "b@x"),
        ),
        multipart(root("x" * LIMITS.envelope)),
    ):
        with pytest.raises(MediationError) as caught:
            read_package(MTOM, body)
        assert caught.value.reason is Reason.TOO_LARGE


def _many_includes() -> bytes:
    return multipart(xop(included("cid:a@x") * 15_000), attached())


BOMBS: dict[str, Callable[[], bytes]] = {
    "boundaries": lambda: b"--b" * (LIMITS.octets // 3),
    "lines of boundaries": lambda: b"--b\r\n\r\n" * (LIMITS.octets // 7),
    "line breaks": lambda: multipart(root(), attached(b"\n" * (LIMITS.octets - 400))),
    "almost boundaries": lambda: multipart(
        root(), attached(b"\r\n-" * (LIMITS.octets // 3 - 200)), boundary="b"
    ),
    "blanks behind a boundary": lambda: b"--b" + b" " * (LIMITS.octets - 3),
    "a preamble": lambda: b"\n--c" * (LIMITS.octets // 4),
    "headers": lambda: multipart(*[part(b"", *["X:"] * 2000)] * 64),
    "folded headers": lambda: multipart(*[part(b"", "X: a", *[" a"] * 2000)] * 64),
    "base64": lambda: multipart(
        root(),
        attached(b"A\n" * (LIMITS.octets // 2 - 400), "a", "Content-Transfer-Encoding: base64"),
    ),
    "quoted-printable": lambda: multipart(
        root(),
        attached(
            b"=\n" * (LIMITS.octets // 2 - 400), "a", "Content-Transfer-Encoding: quoted-printable"
        ),
    ),
    "references": lambda: multipart(
        root("".join(f" cid:{number}" for number in range(170_000))), attached()
    ),
    "references to all": lambda: multipart(
        root("cid:" * (LIMITS.envelope // 4 - 100)), *[attached(b"", str(n)) for n in range(60)]
    ),
    "includes of one part": _many_includes,
    "elements": lambda: multipart(xop("<a/>" * 500_000)),
    "namespaces": lambda: multipart(
        xop("<a " + " ".join(f'xmlns:p{n}="u:{n}"' for n in range(50_000)) + "/>")
    ),
    "includes in includes": lambda: multipart(
        xop(f'<x:Include xmlns:x="{XOP}" href="cid:a@x">' * 250 + "</x:Include>" * 250), attached()
    ),
}


@for_each("bomb", BOMBS)
def test_bombs_cost_little(bomb: str) -> None:
    body = BOMBS[bomb]()
    parameters = {"boundary": "b"}
    assert len(body) <= LIMITS.octets
    spent = []
    for _ in range(3):
        started = time.process_time()
        with contextlib.suppress(Refused):
            read_package(parameters, body)
        spent.append((time.process_time() - started) / unit())
        if spent[-1] < BUDGET:
            break
    assert min(spent) < BUDGET


# Writing.

contents = st.binary(max_size=80) | st.sampled_from(
    [b"\r\n--", b"\n", b"\r", b"--b--", os.urandom(2000)]
)
uris = st.one_of(
    st.text(min_size=1, max_size=20),
    st.text(max_size=20).map(lambda text: f"cid:{text}"),
    st.sampled_from(["uuid:1", "cid:a%20b@x", "http://a.example/?b=c", ""]),
)


@given(
    st.lists(st.tuples(uris, contents), max_size=5),
    st.sampled_from(Soap),
    st.sampled_from(["", "urn:a"]),
)
def test_what_is_written_is_read(parts: list[tuple[str, bytes]], soap: Soap, action: str) -> None:
    attachments = [Attachment(uri, "image/png", content) for uri, content in parts]
    content_type, body = write_package(envelope("<a/>", soap), soap, action, attachments)
    media_type = parse_media_type(content_type)
    package = read_package(media_type.parameters, body)
    assert media_type.name == "multipart/related"
    assert (package.envelope, package.soap) == (envelope("<a/>", soap), soap)
    assert package.action == (action or None if soap is S12 else None)
    assert [one.content for one in package.attachments] == [content for _, content in parts]


@pytest.mark.parametrize(
    "reference", ["cid:a@x", "cid:a%20b@x", "uuid:1", "cid:http%3A%2F%2Fa%2F1", "CID:a@x"]
)
def test_references_still_find_their_parts(reference: str) -> None:
    octets = envelope(f'<p href="{reference}"/>')
    attachment = Attachment(reference, "image/png", b"1")
    content_type, body = write_package(octets, S11, "", [attachment])
    # Read by a parser that is not ours.
    message = BytesParser(policy=policy.HTTP).parsebytes(
        f"Content-Type: {content_type}\r\n\r\n".encode() + body
    )
    _, found = message.iter_parts()
    assert found.get_content() == b"1"
    if reference[:4].lower() != "cid:":
        assert found["Content-Location"] == reference
    if reference[:4] != "CID:":
        [read] = read_package(parse_media_type(content_type).parameters, body).attachments
        assert read == attachment


@pytest.mark.parametrize("media_type", ["", "http://a.example/type", "text", "a/b\r\nX: y", "é/b"])
def test_what_is_no_media_type_goes_as_octets(media_type: str) -> None:
    content_type, body = write_package(envelope(), S11, "", [Attachment("cid:a", media_type, b"")])
    [read] = read_package(parse_media_type(content_type).parameters, body).attachments
    assert read.media_type == "application/octet-stream"


def test_an_id_cannot_break_a_header() -> None:
    attachment = Attachment("cid:a%0d%0aX: y>", "a/b", b"")
    content_type, body = write_package(
        envelope(), S11, "", [attachment, Attachment("a\r\nX:y", "a/b", b"")]
    )
    assert b"\r\nX" not in body
    assert len(read_package(parse_media_type(content_type).parameters, body).attachments) == 2


@given(st.lists(contents, min_size=1, max_size=5), st.binary(max_size=8))
def test_multipart_is_read_as_it_was_written(parts: list[bytes], seed: bytes) -> None:
    boundary, body = write_multipart([("A: b", content) for content in parts], seed)
    assert [(one.fields, one.content) for one in read_multipart(body, boundary)] == [
        ({"a": "b"}, content) for content in parts
    ]
    with pytest.raises(MimeError):
        read_multipart(body, boundary, max_parts=len(parts) - 1)


# Whose parts are whose.


def notification(payload: str) -> Notification:
    return Notification(id="1", source="s", payload=payload.encode(), time=NOW)


A, B, C = (Attachment(uri, "a/b", b"12345") for uri in ("cid:a@x", "uuid:b", "cid:c%20c"))


@pytest.mark.parametrize(
    ("payloads", "expected"),
    [
        pytest.param(["<a/>"], [[A, B, C]], id="one gets all"),
        pytest.param(["<a/>", "<b/>"], [[A, B, C], [A, B, C]], id="all that nobody names"),
        pytest.param(
            ['<a href="cid:a@x"/>', "<b/>"], [[A, B, C], [B, C]], id="an attribute's value"
        ),
        pytest.param(
            ["<a><r> cid:a@x </r></a>", "<r>uuid:b</r>"], [[A, C], [B, C]], id="an element's text"
        ),
        pytest.param(
            ["<r>a@x</r>", '<r i="cid:c c"/>', '<r i="c%20c"/>'],
            [[A, B], [B, C], [B, C]],
            id="other spellings",
        ),
        pytest.param(["<r>cid:a@x.</r>", "<b/>"], [[A, B, C], [A, B, C]], id="not within a text"),
        pytest.param(
            ['<r i="uuid:b"/>', '<r i="uuid:b"/>', "<a/>"],
            [[A, B, C], [A, B, C], [A, C]],
            id="several name one",
        ),
    ],
)
def test_whose_parts_are_whose(payloads: list[str], expected: list[list[Attachment]]) -> None:
    with_parts = attach(tuple(map(notification, payloads)), [A, B, C])
    assert [list(one.attachments) for one in with_parts] == expected


def test_copies_are_bounded() -> None:
    large = Attachment("cid:a", "a/b", bytes(2**20))
    crowd = tuple(notification(f"<a>{number}</a>") for number in range(5))
    assert len(attach(crowd[:4], [large])) == 4
    with pytest.raises(MediationError) as caught:
        attach(crowd, [large])
    assert caught.value.reason is INVALID
    named = tuple(notification(f"<a>cid:{number}</a>") for number in range(60))
    parts = [Attachment(f"cid:{number}", "a/b", bytes(60_000)) for number in range(60)]
    assert [one.attachments for one in attach(named, parts)] == [(part,) for part in parts]


@pytest.mark.parametrize(
    "attachment", [Attachment("a\0b", "a/b", b""), Attachment("a", "a\n", b"")]
)
def test_control_characters_are_refused(attachment: Attachment) -> None:
    with pytest.raises(MediationError) as caught:
        attach((notification("<a/>"),), [attachment])
    assert caught.value.reason is INVALID


def test_names_of_a_part() -> None:
    assert content_ids("cid:a%20b") == {"cid:a%20b", "cid:a b", "a%20b", "a b"}
    assert content_ids("uuid:1") == {"uuid:1", "cid:uuid:1"}


@pytest.mark.parametrize("seed", range(8))
def test_what_is_broken_is_refused_and_breaks_nothing(seed: int) -> None:
    """Packages of peers with octets lost, doubled and changed: each is read, or refused."""
    chance = Random(seed)
    packages = [cast("tuple[str, bytes, Package]", case.values) for case in PEERS]
    read = 0
    for _ in range(300):
        content_type, body, _ = chance.choice(packages)
        octets = bytearray(f"Content-Type: {content_type}\r\n\r\n".encode() + body)
        for _ in range(chance.choice([1, 1, 2, 5])):
            at = chance.randrange(len(octets))
            match chance.randrange(4):
                case 0:
                    octets[at] = chance.randrange(256)
                case 1:
                    del octets[at : at + chance.choice([1, 2, 30])]
                case 2:
                    octets[at:at] = octets[at : at + chance.choice([1, 30, 200])]
                case _:
                    octets[at:at] = chance.choice([b"\r\n", b"--b", b"--", b": ", b"\x00", b'"'])
        with contextlib.suppress(MediationError, FilterError):
            package = read_headed_package(bytes(octets))
            names = [part.content_id for part in package.attachments]
            assert len(set(names)) == len(names)
            read += 1
    assert 20 < read < 280
