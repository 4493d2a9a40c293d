"""``mailto:`` addresses (RFC 6068), as far as consumers may have them: one mailbox, and a subject.

What a mail system could read in another way is no address here: quoted local parts, comments,
address literals, further recipients, header fields that the address would set.
"""

import re
from dataclasses import dataclass
from urllib.parse import unquote_to_bytes

from gateway.egress.addresses import AddressRefused, Target, parse_target

SCHEME = "mailto"
PORT = 25
"""The port in the destination of a domain's mail; nothing connects to it."""
MAX_SUBJECT = 200
ENCODED_WORD = "=?"
"""How a word begins that mail systems decode (RFC 2047), to line ends and further fields."""
_ADDRESS = re.compile(
    r"mailto:(?P<local>[^@?#\s]{1,200})@(?P<domain>[^@?#\s/\\:\[\]]{1,253})"
    r"(?:\?(?P<fields>[^#\s]{0,1000}))?",
    re.IGNORECASE,
)
_LOCAL = re.compile(r"(?!-)[A-Za-z0-9#$&'*+=?^_{}~-]+(\.[A-Za-z0-9#$&'*+=?^_{}~-]+)*")
"""A dot-atom, without what mail systems once took for routes (``%``, ``!``), files and commands,
and what their programs take for options (a ``-`` in front)."""
_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")


@dataclass(frozen=True, slots=True)
class MailAddress:
    """A consumer's mailbox, and the subject that it asks for."""

    local: str
    domain: str
    subject: str = ""

    @property
    def mailbox(self) -> str:
        return f"{self.local}@{self.domain}"


def parse_mailto(address: str) -> MailAddress:
    """Read *address*.

    Raises:
        AddressRefused: It is anything but one mailbox of a domain, with a subject or without.
    """
    match = _ADDRESS.fullmatch(address)
    if match is None:
        raise _ill_formed(address)
    local = _decoded(match["local"], address)
    if not _LOCAL.fullmatch(local) or len(local) > 64 or ENCODED_WORD in local:
        raise _ill_formed(address)
    return MailAddress(local, _domain(match["domain"], address), _subject(match["fields"], address))


def target_of(address: str) -> Target:
    """The target of *address*; its host is the domain.

    Raises:
        AddressRefused: As `parse_mailto`.
    """
    domain = parse_mailto(address).domain
    return Target(SCHEME, domain, PORT, f"/{address.partition(':')[2]}", address)


def is_mailbox(text: str) -> bool:
    """Whether *text* is a mailbox of a domain, as a consumer's may be."""
    try:
        return parse_mailto(f"mailto:{text}").mailbox.lower() == text.lower()
    except AddressRefused:
        return False


def is_domain(text: str) -> bool:
    """Whether *text* is the name of a domain, in ASCII."""
    try:
        return text.isascii() and _domain(text, text) == text.lower()
    except AddressRefused:
        return False


def _ill_formed(address: str) -> AddressRefused:
    text = (
        "This is not an address to send to: mailto: takes one mailbox, name@domain, and a subject."
    )
    return AddressRefused(address, text=text)


def _domain(text: str, address: str) -> str:
    target = parse_target(f"http://{text}/")
    if target.literal is not None or target.port != 80:
        raise _ill_formed(address)
    return target.host


def _subject(fields: str | None, address: str) -> str:
    if not fields:
        return ""
    name, equals, value = fields.partition("=")
    if name.lower() != "subject" or not equals or "&" in value:
        raise _ill_formed(address)  # Cc, bcc and the like would reach others.
    subject = _decoded(value, address)
    if len(subject) > MAX_SUBJECT or not subject.isprintable():
        raise _ill_formed(address)
    return subject


def _decoded(text: str, address: str) -> str:
    if _ESCAPE.search(text):
        raise _ill_formed(address)
    try:
        return unquote_to_bytes(text).decode("utf-8")
    except UnicodeDecodeError as exc:
        raise _ill_formed(address) from exc
