"""Packages: MIME and DIME become an envelope with its attachments; an answer is packaged as its
request was."""

from dataclasses import dataclass
from itertools import islice

from filters import Reason, Refused, in_utf_8
from gateway.http.limits import HttpLimits
from gateway.http.media import DIME, MULTIPART, unsupported
from gateway.http.refusal import HttpRefusal
from mediation.model.errors import MediationError
from mediation.model.messages import Attachment, Packaging
from mediation.model.requests import Context, Rejected
from mediation.model.versions import Soap
from mediation.packaging.dime import (
    Decoder,
    DimeError,
    DimeLimits,
    DimeMessage,
    DimeReason,
    Encoder,
)
from mediation.packaging.mime import MAX_PARTS, MediaType
from mediation.packaging.packages import ROOTS, PackageLimits, read_headed_package, read_package
from mediation.soap.envelopes import http_headers

_SOAP_1_2 = "application/soap+xml"
_TOO_LARGE = frozenset({DimeReason.MESSAGE_TOO_LONG, DimeReason.ENVELOPE_TOO_LONG})


@dataclass(slots=True, kw_only=True)  # Not frozen, as `Inbound`: one is made for each message.
class Unpacked:
    """An envelope that was taken out of its package, with its attachments.

    Attributes:
        envelope: The root of its package, or all of it, in UTF-8; XOP is resolved.
        action: That of its media type, if it has one.
        soap: The version of SOAP to refuse it in while the envelope's own is unknown.
        packaging: The packaging it came in, which the peer can read, too.
    """

    envelope: bytes
    action: str | None = None
    soap: Soap = Soap.V1_1
    attachments: tuple[Attachment, ...] = ()
    packaging: Packaging = Packaging.NONE


def is_package(media_type: MediaType) -> bool:
    """Whether a body of *media_type* is a package: it may be as large as a message, and not only as
    an envelope."""
    return media_type.name in (MULTIPART, DIME)


def soap_hint(media_type: MediaType) -> Soap:
    """The version of SOAP that *media_type* names."""
    if media_type.name == _SOAP_1_2:
        return Soap.V1_2
    says = [media_type.parameters.get(name, "").lower() for name in ("type", "start-info")]
    return Soap.V1_2 if _SOAP_1_2 in "".join(says) else Soap.V1_1


def unpack(
    media_type: MediaType, octets: bytes, limits: HttpLimits, learnt: set[str] | None = None
) -> Unpacked:
    """Take the body of a request to a SOAP endpoint out of its package, if it is in one.

    The root of an MTOM package is parsed: call it where strangers' messages may be.

    Args:
        learnt: Collects the names in the envelope.

    Raises:
        HttpRefusal: 413; 415 for a package of something else, or without a boundary; 400 where the
            body is not exactly one DIME message.
        Rejected: The MIME package, or its root, cannot be read; an envelope is in a charset that is
            not read, or in another one than it says.
    """
    if media_type.name == DIME:
        return _unpack_dime(octets, limits, learnt)
    if media_type.name == MULTIPART:
        return _unpack_mime(media_type, octets, limits, learnt)
    hint = soap_hint(media_type)
    envelope = _in_utf_8(octets, media_type.charset, limits, hint)
    return Unpacked(envelope=envelope, action=media_type.action, soap=hint)


def unpack_dime(
    message: DimeMessage, limits: HttpLimits, *, learnt: set[str] | None = None
) -> Unpacked:
    """Unpack a message of DIME, whose first record may hold a MIME package (MTOM of WSE 3.0).

    Raises:
        Rejected: The MIME package cannot be read, or has too many parts; as `unpack`.
    """
    soap = message.soap or Soap.V1_1
    if not message.packaged:
        return Unpacked(
            envelope=_in_utf_8(message.envelope, None, limits, soap),
            soap=soap,
            attachments=message.attachments,
            packaging=Packaging.DIME,
        )
    try:
        package = read_headed_package(message.envelope, limits=_limits(limits), learnt=learnt)
        attachments = package.attachments + message.attachments
        named = [part.content_id for part in attachments if part.content_id]
        if len(attachments) > MAX_PARTS or len(set(named)) < len(named):
            raise MediationError(
                Reason.MESSAGE_INVALID, "The package has too many parts, or two of one name."
            )
    except Refused as refused:
        raise Rejected(Context(soap), refused) from refused
    return Unpacked(
        envelope=package.envelope,
        action=package.action,
        soap=soap,
        attachments=attachments,
        packaging=Packaging.DIME,
    )


def _unpack_dime(octets: bytes, limits: HttpLimits, learnt: set[str] | None) -> Unpacked:
    decoder = Decoder(DimeLimits(message=limits.message, envelope=limits.envelope))
    try:
        messages = list(islice(decoder.feed(octets), 2))
        decoder.eof()
    except DimeError as error:
        if error.reason in _TOO_LARGE:
            raise HttpRefusal(413, "The message is too large.") from error
        raise HttpRefusal(400, f"The DIME message is broken: {error}.") from error
    if len(messages) != 1:
        raise HttpRefusal(400, "The body is not exactly one DIME message.")
    if messages[0].soap is None:
        raise HttpRefusal(415, "The first record of the DIME message is not a SOAP envelope.")
    return unpack_dime(messages[0], limits, learnt=learnt)


def _unpack_mime(
    media_type: MediaType, octets: bytes, limits: HttpLimits, learnt: set[str] | None
) -> Unpacked:
    type_ = media_type.parameters.get("type")
    of_something_else = type_ is not None and type_.lower().partition(";")[0].strip() not in ROOTS
    if of_something_else or "boundary" not in media_type.parameters:
        raise unsupported()
    hint = soap_hint(media_type)
    try:
        package = read_package(media_type.parameters, octets, limits=_limits(limits), learnt=learnt)
    except Refused as refused:
        raise Rejected(Context(hint), refused) from refused
    return Unpacked(
        envelope=package.envelope,
        action=package.action,
        soap=package.soap or hint,
        attachments=package.attachments,
        packaging=Packaging.MIME,
    )


def _in_utf_8(envelope: bytes, charset: str | None, limits: HttpLimits, soap: Soap) -> bytes:
    try:
        return in_utf_8(envelope, charset, most=limits.envelope)
    except Refused as refused:
        raise Rejected(Context(soap), refused) from refused


def _limits(limits: HttpLimits) -> PackageLimits:
    return PackageLimits(limits.message, limits.envelope, documents=limits.documents)


def pack(body: bytes, soap: Soap, action: str, packaging: Packaging) -> tuple[str, bytes]:
    """The content type and the body of an answer without attachments to a request that came in
    *packaging*: DIME is answered in DIME, everything else with the envelope alone."""
    if packaging is Packaging.DIME and body:
        return DIME, Encoder().encode(DimeMessage(soap, body))
    return http_headers(soap, action)[0][1], body
