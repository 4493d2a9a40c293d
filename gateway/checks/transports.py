"""Checks of what carries messages: transports of packages, the smart host, the broker that gets
copies."""

import asyncio
import smtplib
import threading
from collections.abc import Iterator
from contextlib import suppress

from adapters import AdapterError
from gateway.checks.findings import Finding, fail, ok
from gateway.databases import first_line
from gateway.egress.mail import Conversation, MailSettings
from gateway.egress.plugins import PluggedScheme, TransportError, load_transport
from gateway.publishing.event_copies import load_copies
from gateway.security.tls import Names, client_context
from gateway.settings.amqp_copies import AmqpCopies

REPLIED = 3.0
"""Seconds in which the smart host is to reply each time."""
LET_IN = 10.0
"""Seconds in which it is to let us in."""


def check_transports(rows: tuple[PluggedScheme, ...]) -> Iterator[Finding]:
    """Check that each transport is there, and takes its settings."""
    for row in rows:
        try:
            asyncio.run(_make_and_close(row))
        except TransportError as error:
            yield fail("transports", f"{error.text.removeprefix('transports: ')}; correct it there")
        else:
            yield ok("transports", f"{row.scheme}: takes its settings")


async def _make_and_close(row: PluggedScheme) -> None:
    """Make the transport of *row*, which may need an event loop, and close it."""
    transport = load_transport(row, lambda *_: False)
    with suppress(Exception):  # That it is made is what was asked.
        await transport.close()


def check_mail(settings: MailSettings) -> Iterator[Finding]:
    """Check that the smart host lets us in; no mail is sent."""
    host, port = settings.smart_host
    tls = client_context(ca=settings.ca, names=Names("", "", "mail.ca"))
    with Conversation(settings, tls, REPLIED) as conversation:
        deadline = threading.Timer(LET_IN, conversation.end)
        deadline.daemon = True
        deadline.start()
        try:
            conversation.log_in()
        except (OSError, smtplib.SMTPException) as error:
            how = "does not let us in" if conversation.connected else "cannot be reached"
            why = f"no answer in {LET_IN:g} s" if conversation.ended else first_line(str(error))
            text = f"{host}:{port} {how} ({why})"
            yield fail("mail", f"{text}; see what the table mail says")
            return
        finally:
            deadline.cancel()
        conversation.say_goodbye()
    yield ok("mail", f"{host}:{port} lets us in, with security {settings.security}")


def check_copies(settings: AmqpCopies) -> Iterator[Finding]:
    """Check the URL and the file of routing keys; nothing is connected to."""
    try:
        load_copies(settings)
    except AdapterError as error:
        yield fail("copies", f"{error.text.removeprefix('amqp_copies: ')}; correct it there")
    else:
        yield ok("copies", "take their URL, and their file of routing keys")
