"""Packages: an envelope and the attachments that travel beside it, in MIME multipart/related.

    type                  what it is                                      specification
    text/xml              SOAP 1.1 with attachments                       SwA; WS-I Attachments 1.0
    application/soap+xml  the same with SOAP 1.2
    application/xop+xml   an envelope whose base64 text stands in parts   XOP 1.0; MTOM

DIME packages are read and written by `mediation.packaging.dime`. In both, `Attachment.content_id`
is the URI by which the envelope refers to the part: ``cid:`` and the percent-encoded Content-ID, or
what DIME's ID says. So it need not be rewritten when a message goes from one packaging to the
other.
"""

import binascii
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from urllib.parse import quote, unquote

from filters import DocumentLimits, Reason, in_utf_8
from filters.documents import DEFAULT_LIMITS as DEFAULT_DOCUMENT
from mediation.model.errors import MediationError
from mediation.model.messages import Attachment, Packaging
from mediation.model.versions import Soap
from mediation.packaging.mime import (
    MAX_BOUNDARY,
    MAX_PART_HEADER,
    MAX_PARTS,
    MediaType,
    MimeError,
    Part,
    parse_media_type,
    read_fields,
    read_multipart,
    write_multipart,
)
from mediation.packaging.xop import resolve
from mediation.soap.envelopes import http_headers

__all__ = [
    "XOP",
    "Package",
    "PackageLimits",
    "Packaging",
    "content_ids",
    "read_headed_package",
    "read_package",
    "write_package",
]

MULTIPART = "multipart/related"
XOP = "application/xop+xml"
SOAP_OF = {"text/xml": Soap.V1_1, "application/soap+xml": Soap.V1_2}
ROOTS = frozenset({*SOAP_OF, XOP, "application/xml"})
"""The media types that the root part of a package may have."""
BINARY = "application/octet-stream"

_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_HEADER_END = re.compile(rb"\r?\n\r?\n")
_IN_A_HEADER = "!#$%&'()*+,/:;=?@[]^`{|}~\""
"""Characters that a Content-ID may hold as they are, besides letters, digits and ``-._``."""
_IN_A_CID = "!$&'()*+,;=:@"
"""The characters of `_IN_A_HEADER` that the path of a URI may hold (RFC 3986, "Path")."""


@dataclass(frozen=True, slots=True)
class PackageLimits:
    """The bounds of one package, in octets or counts."""

    octets: int = 4 * 2**20
    envelope: int = 2 * 2**20
    """The most octets of an envelope with the parts that XOP includes."""
    parts: int = MAX_PARTS
    documents: DocumentLimits = DEFAULT_DOCUMENT
    """A root that XOP must be resolved in, beside its octets."""


DEFAULT_LIMITS = PackageLimits()


@dataclass(frozen=True, slots=True)
class Package:
    """A package, read. ``envelope`` is in UTF-8; ``soap`` is the version that its media types say,
    None where they say none; ``action`` is that of SOAP 1.2's media type."""

    envelope: bytes
    soap: Soap | None
    action: str | None
    attachments: tuple[Attachment, ...]


def read_package(
    parameters: Mapping[str, str],
    body: bytes,
    *,
    limits: PackageLimits = DEFAULT_LIMITS,
    learnt: set[str] | None = None,
) -> Package:
    """Read a body of the type multipart/related with these *parameters* (RFC 2387).

    ``start`` names the root, else it is the first part. Parts in base64 and quoted-printable, which
    the WS-I profile allows, are decoded. Nothing is ever fetched.

    Args:
        learnt: Collects the names in a root that XOP must be resolved in; see `parse_document`.

    Raises:
        MediationError: ``MESSAGE_INVALID`` where it is not such a package, a part but the root has
            no Content-ID, two have the same, one is a multipart itself, or an ``xop:Include`` is
            not in order; ``TOO_LARGE``; what `parse_document` finds wrong with a root with XOP.
    """
    if len(body) > limits.octets:
        raise MediationError(Reason.TOO_LARGE, "The package is too large.")
    try:
        parts = read_multipart(body, parameters.get("boundary", ""), max_parts=limits.parts)
        ids = _read_ids(parts)
        root = _find_root(parameters.get("start"), ids)
        stated = parts[root].fields.get("content-type") or parameters.get("type", "")
        outer = inner = parse_media_type(stated)
        if outer.name == XOP:
            # XOP 1.0, "XOP Packages": the root's type, and start-info, say what it is inside.
            inner = _media_type(outer.parameters.get("type") or parameters.get("start-info"))
    except MimeError as error:
        raise _invalid(f"The package cannot be read: {error}.") from error
    if outer.name not in ROOTS:
        raise _invalid("The root part of the package is not a SOAP envelope.")
    attachments = {
        ids[number]: Attachment(_uri(ids[number]), _type_of(part), _decode(part))
        for number, part in enumerate(parts)
        if number != root
    }
    envelope = _decode(parts[root])
    if len(envelope) > limits.envelope:
        raise MediationError(Reason.TOO_LARGE, "The envelope is too large.")
    envelope = in_utf_8(envelope, outer.charset, most=limits.envelope)
    if outer.name == XOP:
        resolved = resolve(
            envelope,
            attachments,
            most=limits.envelope,
            documents=limits.documents,
            learnt=learnt,
        )
        envelope = envelope if resolved is None else resolved
    locations = {id_: _location(part) for id_, part in zip(ids, parts, strict=True)}
    return Package(
        envelope,
        SOAP_OF.get(inner.name),
        outer.action or inner.action or parameters.get("action"),
        _as_referred(envelope, attachments, locations),
    )


def read_headed_package(
    octets: bytes, *, limits: PackageLimits = DEFAULT_LIMITS, learnt: set[str] | None = None
) -> Package:
    """Read a package whose own MIME header stands in front of it, as WSE 3.0 puts MTOM into DIME's
    first record.

    Raises:
        MediationError: as `read_package`.
    """
    if octets.startswith(b"--"):
        line = octets[2 : MAX_BOUNDARY + 4].split(b"\n")[0].rstrip()
        parameters: Mapping[str, str] = {"boundary": line.decode("latin-1")}
        return read_package(parameters, octets, limits=limits, learnt=learnt)
    head = _HEADER_END.search(octets, 0, MAX_PART_HEADER)
    try:
        if head is None:
            raise MimeError("its header does not end")
        media_type = parse_media_type(read_fields(octets[: head.start()]).get("content-type", ""))
    except MimeError as error:
        raise _invalid(f"The package cannot be read: {error}.") from error
    if media_type.name != MULTIPART:
        raise _invalid("The package is not multipart/related.")
    return read_package(media_type.parameters, octets[head.end() :], limits=limits, learnt=learnt)


def write_package(
    envelope: bytes, soap: Soap, action: str, attachments: Sequence[Attachment]
) -> tuple[str, bytes]:
    """The content type and the body of a SOAP message with attachments; *envelope* is UTF-8.

    An attachment whose ``media_type`` is none (DIME knows URIs, and nothing at all) goes as
    application/octet-stream. One that ``cid:`` does not refer to is labelled with Content-Location,
    too, by which the specification resolves other URIs.
    """
    root_type = http_headers(soap, action)[0][1]
    seed = envelope[:4096]
    taken: set[str] = set()
    parts: list[tuple[str, bytes]] = []
    for number, attachment in enumerate(attachments, 1):
        uri = attachment.content_id
        name = _header_id(uri)
        if not name or name in taken:
            name = f"part{number}@dragoman.invalid"
        taken.add(name)
        head = [
            f"Content-ID: <{name}>",
            f"Content-Type: {_sent_type(attachment.media_type)}",
            "Content-Transfer-Encoding: binary",
        ]
        if _URI.match(uri) and not _is_cid(uri):
            head.append(f"Content-Location: {quote(uri, safe=_IN_A_HEADER)}")
        parts.append(("\r\n".join(head), attachment.content))
    start = "envelope@dragoman.invalid"
    while start in taken:
        start = f"an-{start}"
    head_of_root = (
        f"Content-ID: <{start}>\r\nContent-Type: {root_type}\r\nContent-Transfer-Encoding: binary"
    )
    boundary, body = write_multipart([(head_of_root, envelope), *parts], seed)
    type_ = "text/xml" if soap is Soap.V1_1 else "application/soap+xml"
    return f'{MULTIPART}; type="{type_}"; start="<{start}>"; boundary="{boundary}"', body


def content_ids(uri: str) -> frozenset[str]:
    """The forms in which an envelope may refer to the part whose ``content_id`` is *uri*: the URI,
    and its text behind ``cid:``, decoded and as it stands."""
    if not _is_cid(uri):
        return frozenset({uri, f"cid:{uri}"})
    bare = uri[4:]
    return frozenset({uri, f"cid:{unquote(bare)}", bare, unquote(bare)})


# ---- parts ------------------------------------------------------------------------------------


def _media_type(text: str | None) -> MediaType:
    return parse_media_type(text) if text else MediaType("")


def _type_of(part: Part) -> str:
    """The media type of a part, as it is written (RFC 2045, "Content-Type Defaults").

    Raises:
        MediationError: It is a multipart; what is none at all is that of unknown octets.
    """
    text = part.fields.get("content-type", "text/plain").replace("\t", " ").strip()
    if text.lower().startswith("multipart/"):
        raise _invalid("A part of the package is a multipart itself.")
    try:
        parse_media_type(text)
    except MimeError:
        return BINARY
    return text


def _location(part: Part) -> str:
    """The location that a part says it has, if that is an absolute URI of its own."""
    location = part.fields.get("content-location", "").strip()
    return location if _URI.match(location) and not _is_cid(location) else ""


def _read_ids(parts: Sequence[Part]) -> list[str]:
    """The Content-ID of each part without its brackets; the root, which may lack it, has ""."""
    ids = [_bare(part.fields.get("content-id", "").strip()) for part in parts]
    named = [id_ for id_ in ids if id_]
    if len(set(named)) != len(named):
        raise _invalid("Two parts of the package have the same Content-ID.")
    return ids


def _bare(text: str) -> str:
    """Some write a Content-ID, and start, without the brackets."""
    return text[1:-1].strip() if text.startswith("<") and text.endswith(">") else text


def _find_root(start: str | None, ids: Sequence[str]) -> int:
    root = 0
    if start is not None:
        wanted = _bare(start.strip())
        if not wanted or wanted not in ids:
            raise _invalid("The package has no part that is its start.")
        root = ids.index(wanted)
    if any(not id_ for number, id_ in enumerate(ids) if number != root):
        raise _invalid("A part of the package has no Content-ID.")
    return root


def _decode(part: Part) -> bytes:
    """The octets of *part* (RFC 2045, "Content-Transfer-Encoding Header Field")."""
    encoding = part.fields.get("content-transfer-encoding", "").strip().lower()
    match encoding:
        case "" | "7bit" | "8bit" | "binary":
            return part.content
        case "base64":
            try:
                text = part.content.translate(None, b" \t\r\n")
                return binascii.a2b_base64(text, strict_mode=True)
            except binascii.Error as exc:
                raise _invalid("A part of the package is not in base64, as it says.") from exc
        case "quoted-printable":
            return binascii.a2b_qp(part.content)
        case _:
            raise _invalid("A part of the package has an unknown Content-Transfer-Encoding.")


def _invalid(text: str) -> MediationError:
    return MediationError(Reason.MESSAGE_INVALID, text)


# ---- references -------------------------------------------------------------------------------

_CID = re.compile(rb"""cid:[^"'<>&\s]{1,4096}""")
_ENDS = (b'"', b"'", b"<", b" ", b"\t", b"\r", b"\n")
_MOST_REFERENCES = 1024
_MOST_BEGINNINGS = 16


def _is_cid(uri: str) -> bool:
    return uri[:4].lower() == "cid:"


def _uri(content_id: str) -> str:
    """Make the ``cid:`` URI of a Content-ID (RFC 2392, "The MID and CID URL Schemes")."""
    return f"cid:{quote(content_id, safe=_IN_A_CID)}"


def _as_referred(
    envelope: bytes, attachments: Mapping[str, Attachment], locations: Mapping[str, str]
) -> tuple[Attachment, ...]:
    """*attachments*, by their Content-ID, each named as *envelope* spells it: in DIME, references
    are compared by octets. *locations* are the URIs of Content-Location, which it may use, too. No
    two get the same name."""
    own = {one.content_id for one in attachments.values()}
    others = {id_ for id_, one in attachments.items() if not _names(envelope, one.content_id)}
    spelt = {id_: locations[id_] for id_ in others if _names(envelope, locations[id_])}
    if others:
        for found in islice(_CID.finditer(envelope), _MOST_REFERENCES):
            text = found[0].decode("utf-8", "replace")
            for id_ in others.intersection((text[4:], unquote(text[4:]))):
                spelt[id_] = text
    named: dict[str, Attachment] = {}
    for id_, one in attachments.items():
        uri = spelt.get(id_, "")
        taken = not uri or uri in own or uri in named
        renamed = one if taken else replace(one, content_id=uri)
        named[renamed.content_id] = renamed
    return tuple(named.values())


def _names(envelope: bytes, uri: str) -> bool:
    """Return whether *uri* stands in *envelope*, and not only the beginning of another."""
    octets, at = uri.encode(), -1
    for _ in range(_MOST_BEGINNINGS):
        at = envelope.find(octets, at + 1)
        if at < 0:
            return False
        if envelope[at + len(octets) : at + len(octets) + 1] in _ENDS:
            return True
    return False


def _header_id(uri: str) -> str:
    text = unquote(uri[4:]) if _is_cid(uri) else uri
    return quote(text, safe=_IN_A_HEADER)


def _sent_type(media_type: str) -> str:
    try:
        parse_media_type(media_type)
    except MimeError:
        return BINARY
    return media_type if media_type.isascii() else BINARY
