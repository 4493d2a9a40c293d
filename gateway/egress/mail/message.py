"""A SOAP message as a mail: the envelope is the body, with its own content type and action."""

import base64
import re
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import formatdate

from gateway.egress.attachments import package_attachments
from gateway.egress.mail.addresses import MailAddress
from gateway.egress.transport import Request

_LINE = 76
_ID = re.compile(r"[^A-Za-z0-9.-]")
_SUBJECT = "SOAP message"


def write_mail(request: Request, to: MailAddress, *, sender: str, now: float) -> tuple[bytes, int]:
    """The mail with *request*, and how many of its attachments are left out.

    ``Message-ID`` comes from that of the message, so that what is sent twice has one.

    Raises:
        ValueError: A header cannot be written, or an attachment does not go into its package.
    """
    headers, body, dropped = package_attachments(request)
    mail = EmailMessage(policy=SMTP)
    mail["From"] = sender
    mail["To"] = to.mailbox
    mail["Subject"] = to.subject or _SUBJECT
    mail["Date"] = formatdate(now)
    if request.message_id:
        mail["Message-ID"] = f"<{_ID.sub('-', request.message_id)}@{sender.partition('@')[2]}>"
    mail["Auto-Submitted"] = "auto-generated"  # RFC 3834: nobody answers it on holidays.
    mail["MIME-Version"] = "1.0"
    for name, value in headers:
        mail[name] = value
    mail["Content-Transfer-Encoding"] = "base64"  # Lines of XML have no end, those of SMTP do.
    text = base64.b64encode(body).decode()
    mail.set_payload("\r\n".join(text[at : at + _LINE] for at in range(0, len(text), _LINE)))
    return mail.as_bytes(), dropped
