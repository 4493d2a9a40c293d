"""Sends mail through the smart host, with the standard library's `smtplib` in a few threads."""

import asyncio
import contextlib
import smtplib
import ssl
import time
from concurrent.futures import ThreadPoolExecutor

import structlog

from gateway.egress.addresses import AddressRefused, Target
from gateway.egress.host_list import HostList
from gateway.egress.mail.addresses import parse_mailto, target_of
from gateway.egress.mail.message import write_mail
from gateway.egress.mail.settings import MailSettings
from gateway.egress.transport import (
    TRANSPORT_API_VERSION,
    Answer,
    FailureKind,
    Request,
    SendFailed,
)

ACCEPTED = Answer(202)
LATER, NEVER = 503, 422
"""Statuses that stand for replies 4yz (try again) and 5yz (do not) of SMTP."""
_log = structlog.get_logger("dragoman.mail")


class MailTransport:
    """The transport of ``mailto:``. One mail is one connection to the smart host; what that replies
    to a mail becomes its answer: 4yz is tried again, 5yz is not.

    Args:
        tls: For the smart host.
    """

    api_version = TRANSPORT_API_VERSION

    def __init__(self, settings: MailSettings, tls: ssl.SSLContext) -> None:
        self._settings = settings
        self._tls = tls
        self._domains = HostList(settings.domains)
        self._threads = ThreadPoolExecutor(settings.at_a_time, thread_name_prefix="mail")

    def target(self, address: str) -> Target:
        """Read *address*, which is of a domain that mail may go to.

        Raises:
            AddressRefused: It is not.
        """
        target = target_of(address)
        if not self._domains.has_name(target.host):
            raise AddressRefused(address, allowed_by="mail.domains")
        return target

    async def send(self, request: Request) -> Answer:
        """Send *request* as a mail.

        Raises:
            SendFailed: The smart host cannot be reached, or did not reply to the mail.
        """
        to = parse_mailto(request.target.url)
        if not self._domains.has_name(to.domain):  # The list is another than at Subscribe.
            raise SendFailed(FailureKind.FORBIDDEN)
        mail, dropped = write_mail(request, to, sender=self._settings.sender, now=time.time())
        loop = asyncio.get_running_loop()
        answer = await loop.run_in_executor(self._threads, self._send, to.mailbox, mail)
        return Answer(answer.status, answer.body, dropped=dropped)

    def _send(self, mailbox: str, mail: bytes) -> Answer:
        """Send one mail, in a thread."""
        sender = self._settings.sender
        smart_host = self._connected()
        try:
            smart_host.sendmail(sender, [mailbox], mail)
        except smtplib.SMTPRecipientsRefused as refused:
            return _refused(*refused.recipients[mailbox])
        except smtplib.SMTPResponseException as refused:
            return _refused(refused.smtp_code, refused.smtp_error)
        except TimeoutError as failure:
            raise SendFailed(FailureKind.TIMEOUT) from failure
        except (OSError, smtplib.SMTPException) as failure:
            raise SendFailed(FailureKind.RESET) from failure
        finally:
            # Whatever it replies to QUIT, the mail was accepted or it was not.
            with contextlib.suppress(OSError, smtplib.SMTPException):
                smart_host.quit()
            smart_host.close()
        return ACCEPTED

    def _connected(self) -> smtplib.SMTP:
        """Connect to the smart host, and log in.

        Raises:
            SendFailed: One of these is not possible now.
        """
        try:
            return log_in(self._settings, self._tls, self._settings.timeout)
        except (OSError, smtplib.SMTPException) as failure:
            raise self._failed(failure) from failure

    def _failed(self, failure: Exception) -> SendFailed:
        """The failure of a connection, which is that of no mailbox."""
        host, port = self._settings.smart_host
        _log.warning(
            "mail.smart-host-failed", smart_host=f"{host}:{port}", error=str(failure)[:300]
        )
        if isinstance(failure, ssl.SSLError | smtplib.SMTPNotSupportedError):
            kind = FailureKind.TLS
        elif isinstance(failure, TimeoutError):
            kind = FailureKind.TIMEOUT
        else:
            kind = FailureKind.CONNECT
        return SendFailed(kind, connecting=True)

    async def close(self) -> None:
        """Take no more; threads end with their connections."""
        self._threads.shutdown(wait=False, cancel_futures=True)


def log_in(settings: MailSettings, tls: ssl.SSLContext, seconds: float) -> smtplib.SMTP:
    """Connect to the smart host, secure the connection, and log in, each as *settings* say; each
    reply may take so many *seconds*.

    Raises:
        OSError, smtplib.SMTPException: One of these is not possible.
    """
    host, port = settings.smart_host
    name = settings.sender.partition("@")[2]
    made: smtplib.SMTP
    if settings.security == "tls":
        made = smtplib.SMTP_SSL(host, port, name, timeout=seconds, context=tls)
    else:
        made = smtplib.SMTP(host, port, name, timeout=seconds)
    try:
        if settings.security == "starttls":
            made.starttls(context=tls)
        if settings.user is not None and settings.password is not None:
            made.login(settings.user, settings.password.get_secret_value())
        made.ehlo_or_helo_if_needed()
    except BaseException:
        made.close()
        raise
    return made


def _refused(code: int, text: bytes | str) -> Answer:
    said = text if isinstance(text, bytes) else text.encode()
    return Answer(NEVER if 500 <= code < 600 else LATER, b"%d %b" % (code, said[:1000]))
