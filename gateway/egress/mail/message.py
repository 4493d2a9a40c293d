"""A SOAP message as a mail: the envelope is the body, with its own content type and action.

The lines are written here. `email.message` reads what it is given before it writes it: of an
encoded word (RFC 2047) in a subject or an action it writes what that stands for, line ends too.
"""

import base64
import re
from email.utils import formatdate

from gateway.egress.attachments import package_attachments
from gateway.egress.mail.addresses import ENCODED_WORD, MailAddress
from gateway.egress.transport import Request

_LINE = 76
_MAX_LINE = 998
"""Octets of a line without its end (RFC 5322, section 2.1.1)."""
_WORD = 45
"""Octets in an encoded word: in Base64 it has 72 characters, of the 75 that it may have."""
_SHORT = 66
"""Characters of a subject that are written in one line."""
_ID = re.compile(r"[^A-Za-z0-9.-]")
_NAME = re.compile(r"[A-Za-z0-9-]{1,64}")
_VALUE = re.compile(r"[\x20-\x7e]*")
_ACTION = re.compile(r'; *action="[^"]*"', re.IGNORECASE)
_SUBJECT = "SOAP message"


def write_mail(request: Request, to: MailAddress, *, sender: str, now: float) -> tuple[bytes, int]:
    """The mail with *request*, and how many of its attachments are left out.

    ``Message-ID`` comes from that of the message, so that what is sent twice has one.

    Raises:
        ValueError: A header cannot be written, or an attachment does not go into its package.
    """
    headers, body, dropped = package_attachments(request)
    lines = [
        _header("From", sender),
        _header("To", to.mailbox),
        f"Subject: {_subject(to.subject or _SUBJECT)}",
        _header("Date", formatdate(now)),
    ]
    if request.message_id:
        id_ = _ID.sub("-", request.message_id)
        lines.append(_header("Message-ID", f"<{id_}@{sender.partition('@')[2]}>"))
    lines.append("Auto-Submitted: auto-generated")  # RFC 3834: nobody answers it on holidays.
    lines.append("MIME-Version: 1.0")
    lines += [_header(name, _without_action(name, value)) for name, value in headers]
    lines.append("Content-Transfer-Encoding: base64")  # Lines of XML have no end, those of SMTP do.
    lines.append("")
    text = base64.b64encode(body).decode()
    lines += [text[at : at + _LINE] for at in range(0, len(text), _LINE)]
    return "\r\n".join((*lines, "")).encode("ascii"), dropped


def _header(name: str, value: str) -> str:
    """One line, of printable ASCII, that nobody decodes.

    Raises:
        ValueError: That cannot be.
    """
    line = f"{name}: {value}"
    if not _NAME.fullmatch(name) or not _VALUE.fullmatch(value) or ENCODED_WORD in value:
        raise ValueError(f"a mail cannot have the header {line[:200]!r}")
    if len(line) > _MAX_LINE:
        raise ValueError(f"the header {name[:64]} is longer than a line of a mail may be")
    return line


def _without_action(name: str, value: str) -> str:
    """*value*, where a mail can hold it; else that without the action, which is in the envelope.

    An action that is written in another way, with escapes, would be another action, and a receiver
    would have to refuse a message that says two. None is what a receiver has to understand.
    """
    if ENCODED_WORD not in value and len(name) + 2 + len(value) <= _MAX_LINE:
        return value
    if name.lower() == "soapaction":
        return '""'
    return _ACTION.sub("", value) if name.lower() == "content-type" else value


def _subject(text: str) -> str:
    """*text*, in encoded words where it needs them.

    Raises:
        ValueError: It has characters that no line of text has.
    """
    if not text.isprintable():
        raise ValueError(f"a mail cannot have the subject {text[:200]!r}")
    if text.isascii() and ENCODED_WORD not in text and len(text) <= _SHORT and text == text.strip():
        return text
    words, word = list[str](), b""
    for character in text:
        octets = character.encode()
        if len(word) + len(octets) > _WORD:
            words.append(_encoded(word))
            word = b""
        word += octets
    words.append(_encoded(word))
    return "\r\n ".join(words)


def _encoded(octets: bytes) -> str:
    return f"=?utf-8?b?{base64.b64encode(octets).decode()}?="
