"""UsernameToken of WS-Security: a user and a password, or its digest, in a header block; read from
messages of others, and put into ours.

OASIS, "Web Services Security UsernameToken Profile 1.1.1" (18 May 2012), sections 3 and 4.
"""

import base64
import hashlib
import hmac
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from xml.parsers.expat import ExpatError, ParserCreate

from lxml import etree

from filters import DocumentLimits, Reason, in_utf_8, parse_document
from filters.documents import DEFAULT_LIMITS
from mediation.model.errors import MediationError
from mediation.model.expiry import format_seconds, parse_date_time
from mediation.names import WSSE, WSU
from mediation.soap.envelopes import elements, read_envelope, whole_text, xml_text
from mediation.soap.splicing import add_header_blocks

_SECURITY = f"{{{WSSE}}}Security"
_TOKEN = f"{{{WSSE}}}UsernameToken"
_USER, _PASSWORD = f"{{{WSSE}}}Username", f"{{{WSSE}}}Password"
_NONCE, _CREATED = f"{{{WSSE}}}Nonce", f"{{{WSU}}}Created"
_PROFILE = "http://docs.oasis-open.org/wss/2004/01/oasis-200401-wss-username-token-profile-1.0"
_TEXT, _DIGEST = f"{_PROFILE}#PasswordText", f"{_PROFILE}#PasswordDigest"
_BASE_64 = (
    "http://docs.oasis-open.org/wss/2004/01/oasis-200401-wss-soap-message-security-1.0#Base64Binary"
)
NONCE_LENGTHS = range(8, 65)
"""Bytes of a nonce."""
MAX_TEXT = 1024
_OF_BLOCKS = 3
"""The depth of header blocks, in the Header of an Envelope."""


@dataclass(frozen=True, slots=True)
class UsernameToken:
    """A token as it was sent.

    Attributes:
        password: In the clear; None where there is a digest instead.
        digest: The SHA-1 of nonce, created and password; None where there is the password.
        created: The moment as the sender wrote it, which the digest covers.
    """

    user: str
    password: str | None = field(default=None, repr=False)
    digest: bytes | None = field(default=None, repr=False)
    nonce: bytes = b""
    created: str = ""

    @property
    def moment(self) -> datetime | None:
        """When it was made; None where it does not say that.

        Raises:
            ValueError: It says no dateTime.
        """
        return parse_date_time(self.created) if self.created else None

    def has_digest_of(self, password: str) -> bool:
        """Return True if its digest is that of *password*."""
        wanted = digest_of(password, self.nonce, self.created)
        return self.digest is not None and hmac.compare_digest(wanted, self.digest)


def digest_of(password: str, nonce: bytes, created: str) -> bytes:
    """The digest of section 3.1: SHA-1 is the profile's, and is used for nothing else."""
    octets = nonce + created.encode() + password.encode()
    return hashlib.sha1(octets, usedforsecurity=False).digest()


def read_username_token(
    octets: bytes, limits: DocumentLimits = DEFAULT_LIMITS
) -> UsernameToken | None:
    """Read the token in the header of an envelope; None where it has no Security header for us.

    Raises:
        MediationError: ``TOKEN_INVALID``: it is not what the profile says; ``TOKEN_UNSUPPORTED``:
            there is a Security header, and another token in it.
    """
    envelope = read_envelope(parse_document(octets, limits=limits))
    blocks = [one for one in envelope.headers if one.tag == _SECURITY]
    if not blocks:
        return None
    if len(blocks) > 1:
        raise _invalid("there are several Security headers")
    tokens = [one for one in elements(blocks[0]) if one.tag == _TOKEN]
    if len(tokens) > 1:
        raise _invalid("there are several UsernameTokens")
    if not tokens:
        raise MediationError(
            Reason.TOKEN_UNSUPPORTED, "The Security header has no UsernameToken; no other is taken."
        )
    return _read(elements(tokens[0]))


def may_have_passwords(octets: bytes) -> bool:
    """Return False if no element of an envelope, in whatever encoding, is a password: names have no
    references in the place of letters, and only UTF-16 and UTF-32 have zeros."""
    return b"Password" in octets or b"\0" in octets


def without_passwords(octets: bytes, limits: DocumentLimits = DEFAULT_LIMITS) -> bytes:
    """Return an envelope without the passwords, and digests of passwords, in Security headers for
    us; all else stays as it is, octet for octet, but that it is in UTF-8. A signature over such a
    header holds no more.

    Raises:
        Refused: It is no envelope.
    """
    octets = in_utf_8(octets)
    envelope = read_envelope(parse_document(octets, limits=limits))
    places = {
        elements(header).index(block)
        for block in envelope.headers
        if block.tag == _SECURITY and (header := block.getparent()) is not None
    }
    kept, end = [], 0
    for start, after in _PasswordFinder(octets, places).find():
        kept.append(octets[end:start])
        end = after
    return b"".join((*kept, octets[end:]))


class _PasswordFinder:
    """Finds where passwords begin and end in an envelope in UTF-8, which lxml does not say: in the
    header blocks at *places*."""

    def __init__(self, octets: bytes, places: Collection[int]) -> None:
        self._octets = octets
        self._places = places
        self._depth = 0
        self._block = -1
        self._behind_header = False
        self._begun: tuple[int, int] | None = None
        """The depth of a password, and where it begins."""
        self._has_text = False
        self._found: list[tuple[int, int]] = []
        self._parser = ParserCreate("utf-8", "}")
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.CharacterDataHandler = self._text

    def find(self) -> list[tuple[int, int]]:
        """The place of the first octet of each element, and that behind its last.

        Raises:
            MediationError: ``TOKEN_INVALID``: another parser does not read it.
        """
        try:
            if self._places:
                self._parser.Parse(self._octets, True)
        except ExpatError as error:
            raise _invalid("the envelope cannot be read") from error
        return self._found

    def _start(self, name: str, _: object) -> None:
        self._depth += 1
        if self._depth == _OF_BLOCKS:
            self._block += 1
        ours = self._block in self._places and not self._behind_header
        if ours and self._begun is None and name == _PASSWORD[1:]:
            self._begun = self._depth, self._parser.CurrentByteIndex
            self._has_text = False

    def _text(self, _: str) -> None:
        self._has_text = True

    def _end(self, name: str) -> None:
        if self._begun is not None and self._begun[0] == self._depth:
            if self._has_text:  # Else it may have no end tag, and the index is behind it.
                after = self._octets.index(b">", self._parser.CurrentByteIndex) + 1
                self._found.append((self._begun[1], after))
            self._begun = None
        self._depth -= 1
        # The first child of an envelope with header blocks is their Header.
        self._behind_header = self._behind_header or self._depth == _OF_BLOCKS - 2


def _read(children: Sequence[etree._Element]) -> UsernameToken:
    parts = {child.tag: child for child in children}
    if len(parts) < len(children):
        raise _invalid("a part of the token stands twice")
    texts = {tag: whole_text(child) for tag, child in parts.items()}
    if any(len(text) > MAX_TEXT for text in texts.values()):
        raise _invalid("a part of the token is too long")
    user, password = texts.get(_USER, "").strip(), texts.get(_PASSWORD)
    if not user or password is None:
        raise _invalid("the token has no user, or no password")
    nonce = _base64(texts[_NONCE]) if _NONCE in texts else b""
    created = texts.get(_CREATED, "").strip()
    kind = parts[_PASSWORD].get("Type", _TEXT).strip()
    if kind == _TEXT:
        token = UsernameToken(user, password, None, nonce, created)
    elif kind == _DIGEST:
        token = UsernameToken(user, None, _base64(password), nonce, created)
    else:
        raise MediationError(Reason.TOKEN_UNSUPPORTED, "The type of the password is not known.")
    _check_fresh_parts(token)
    return token


def _check_fresh_parts(token: UsernameToken) -> None:
    """Refuse a nonce or a moment that are not what the profile says, and a digest without either:
    it could be sent again."""
    if token.digest is not None and not (token.nonce and token.created):
        raise _invalid("a digest needs a nonce and the moment when it was made")
    if token.nonce and len(token.nonce) not in NONCE_LENGTHS:
        raise _invalid("the nonce has fewer than 8 bytes, or more than 64")
    try:
        token.moment  # noqa: B018 - whether it can be read
    except ValueError as error:
        raise _invalid("the moment when it was made is no dateTime") from error


def _base64(text: str) -> bytes:
    try:
        return base64.b64decode("".join(text.split()), validate=True)
    except ValueError as error:
        raise _invalid("what should be Base64 is not") from error


def _invalid(why: str) -> MediationError:
    return MediationError(Reason.TOKEN_INVALID, f"The Security header cannot be used: {why}.")


def add_username_token(
    envelope: bytes,
    user: str,
    password: str,
    *,
    nonce: bytes,
    created: datetime,
    in_clear: bool = False,
) -> bytes:
    """Put ``wsse:Security`` into *envelope*, before all other header blocks.

    Args:
        nonce: Bytes that no other message has.
        created: The time, by the clock of who reads it.
        in_clear: It has the password as it is, instead of its digest.

    Raises:
        ValueError: It is no envelope.
    """
    at = format_seconds(created)
    shown, type_ = xml_text(password), _TEXT
    if not in_clear:
        shown, type_ = base64.b64encode(digest_of(password, nonce, at)).decode(), _DIGEST
    once = base64.b64encode(nonce).decode()
    return add_header_blocks(
        envelope,
        (
            f'<wsse:Security xmlns:wsse="{WSSE}" xmlns:wsu="{WSU}"><wsse:UsernameToken>'
            f"<wsse:Username>{xml_text(user)}</wsse:Username>"
            f'<wsse:Password Type="{type_}">{shown}'
            f'</wsse:Password><wsse:Nonce EncodingType="{_BASE_64}">{once}'
            f"</wsse:Nonce><wsu:Created>{at}</wsu:Created></wsse:UsernameToken></wsse:Security>"
        ).encode(),
    )
