"""Sends mail through the smart host, each in a thread of its own."""

import asyncio
import contextlib
import smtplib
import socket
import ssl
import threading
import time

import structlog

from gateway.egress.addresses import AddressRefused, Target
from gateway.egress.causes import certificate_words, name_words, one_line, system_words
from gateway.egress.host_list import HostList
from gateway.egress.mail.addresses import parse_mailto, target_of
from gateway.egress.mail.conversation import Conversation
from gateway.egress.mail.message import write_mail
from gateway.egress.mail.settings import MailSettings
from gateway.egress.transport import (
    GIVEN_UP,
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

    How many are under way is bounded by whoever calls: `send` lasts as long as its thread, also
    when it is cancelled. Nothing waits here.

    Args:
        tls: For the smart host.
    """

    api_version = TRANSPORT_API_VERSION

    def __init__(self, settings: MailSettings, tls: ssl.SSLContext) -> None:
        self._settings = settings
        self._tls = tls
        self._domains = HostList(settings.domains)
        self._under_way: dict[Conversation, asyncio.Future[Answer]] = {}

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
            SendFailed: The smart host cannot be reached, or did not reply to the mail in time.
        """
        try:
            to = parse_mailto(request.target.url)
        except AddressRefused as error:  # Subscribed when it was one.
            raise SendFailed(FailureKind.FORBIDDEN, error.text) from error
        if not self._domains.has_name(to.domain):  # The list is another than at Subscribe.
            text = "mail.domains does not name its domain"
            raise SendFailed(FailureKind.FORBIDDEN, text)
        try:
            mail, dropped = write_mail(request, to, sender=self._settings.sender, now=time.time())
        except ValueError as error:  # It would be the same the next time.
            return Answer(NEVER, f"not sent: {error}".encode()[:1000])
        answer = await self._conversed(to.mailbox, mail)
        return Answer(answer.status, answer.body, dropped=dropped)

    async def _conversed(self, mailbox: str, mail: bytes) -> Answer:
        """Send one mail, in a thread that nobody waits for at the end of the process. At the
        deadline, and when this is cancelled, the conversation is ended, and so its thread is."""
        loop = asyncio.get_running_loop()
        conversation = Conversation(self._settings, self._tls, self._settings.timeout)
        over: asyncio.Future[Answer] = loop.create_future()

        def run() -> None:
            outcome: Answer | Exception
            try:
                with conversation:
                    outcome = self._send(conversation, mailbox, mail)
            except Exception as error:
                outcome = error.with_traceback(None)
            with contextlib.suppress(RuntimeError):  # The loop is closed.
                loop.call_soon_threadsafe(_settle, over, outcome)

        self._under_way[conversation] = over
        deadline = loop.call_later(self._settings.timeout, conversation.end)
        try:
            threading.Thread(target=run, name="mail", daemon=True).start()
            try:
                return await asyncio.shield(over)
            except asyncio.CancelledError:
                conversation.end()
                with contextlib.suppress(Exception):
                    await over
                raise
        finally:
            deadline.cancel()
            del self._under_way[conversation]

    def _send(self, conversation: Conversation, mailbox: str, mail: bytes) -> Answer:
        """Send one mail, in a thread."""
        try:
            smart_host = conversation.log_in()
        except (OSError, smtplib.SMTPException) as failure:
            raise self._failed(conversation, failure) from failure
        try:
            smart_host.sendmail(self._settings.sender, [mailbox], mail)
        except smtplib.SMTPRecipientsRefused as refused:
            answer = _refused(*refused.recipients[mailbox])
        except smtplib.SMTPResponseException as refused:
            answer = _refused(refused.smtp_code, refused.smtp_error)
        except (OSError, smtplib.SMTPException) as failure:
            if _is_late(conversation, failure):
                raise SendFailed(FailureKind.TIMEOUT, self._late()) from failure
            text = f"the smart host: {mail_words(failure, self._settings)}"
            raise SendFailed(FailureKind.RESET, text) from failure
        else:
            answer = ACCEPTED
        conversation.say_goodbye()
        return answer

    def _failed(self, conversation: Conversation, failure: Exception) -> SendFailed:
        """The failure of a connection, which is that of no mailbox."""
        host, port = self._settings.smart_host
        late = _is_late(conversation, failure)
        error = self._late() if late else f"the smart host: {mail_words(failure, self._settings)}"
        _log.warning("mail.smart-host-failed", smart_host=f"{host}:{port}", error=error)
        if late:
            kind = FailureKind.TIMEOUT
        elif isinstance(failure, ssl.SSLError | smtplib.SMTPNotSupportedError):
            kind = FailureKind.TLS
        else:
            kind = FailureKind.CONNECT
        return SendFailed(kind, error, connecting=True)

    def _late(self) -> str:
        return f"the smart host did not reply within {self._settings.timeout:g} s"

    async def close(self) -> None:
        """End all conversations. Nothing waits for a thread that cannot be ended now: that of a
        name which is being resolved."""
        for conversation, over in self._under_way.items():
            conversation.end()
            _settle(over, SendFailed(FailureKind.RESET, GIVEN_UP))


def _settle(over: asyncio.Future[Answer], outcome: Answer | Exception) -> None:
    """Say how a conversation ended, unless that was said."""
    if over.done():
        return
    if isinstance(outcome, Exception):
        over.set_exception(outcome)
    else:
        over.set_result(outcome)


def mail_words(failure: Exception, settings: MailSettings) -> str:
    """Why the conversation with the smart host failed, without its reply's lines but the first."""
    host, port = settings.smart_host
    if isinstance(failure, smtplib.SMTPResponseException):
        said = failure.smtp_error
        text = said.decode(errors="replace") if isinstance(said, bytes) else said
        return one_line(f"it replied {failure.smtp_code} {text}")
    if isinstance(failure, ssl.SSLCertVerificationError):
        return certificate_words(failure, f"{host}:{port}", host, trust="mail.ca")
    if isinstance(failure, socket.gaierror):
        return name_words(host, failure)
    if isinstance(failure, smtplib.SMTPException):
        return one_line(str(failure)) or "the conversation failed"
    return system_words(failure)


def _is_late(conversation: Conversation, failure: Exception) -> bool:
    """Whether it failed for want of time, which `smtplib` reports as a lost connection."""
    return conversation.ended or any(
        isinstance(one, TimeoutError) for one in (failure, failure.__context__)
    )


def _refused(code: int, text: bytes | str) -> Answer:
    said = text if isinstance(text, bytes) else text.encode()
    return Answer(NEVER if 500 <= code < 600 else LATER, b"%d %b" % (code, said[:1000]))
