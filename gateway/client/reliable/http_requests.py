"""Take messages over HTTP without any server: bytes in; a status, headers and bytes out."""

import asyncio
import contextlib
import logging
from datetime import UTC, datetime
from functools import lru_cache

from filters import Reason, Refused, in_utf_8
from filters.charsets import charset_named, charset_refused
from gateway.client.reliable.endpoint_base import new_id
from gateway.client.reliable.workers import Workers
from gateway.reliability.batches import ReceivedMessage
from gateway.reliability.storage import StorageUnavailable
from mediation.faults import write_fault
from mediation.model.messages import NO_HEADERS
from mediation.model.requests import Context
from mediation.model.values import checked_dataclass
from mediation.model.versions import Soap, Version
from mediation.packaging.mime import MimeError, charset_in, parse_media_type, with_charset
from mediation.reliable_messaging.application import related_in
from mediation.soap.envelopes import http_headers

log = logging.getLogger("dragoman.reliable")

AT_A_TIME = 128
"""Messages that are taken at the same time."""
HELD = 256
"""Connections that are held open for replies."""
MAX_OCTETS = 4 * 1024 * 1024
BODY_TIME = 30.0
"""Seconds from the end of a head to the end of its body."""
PLAIN = ("Content-Type", "text/plain; charset=utf-8")


@checked_dataclass(frozen=True, slots=True)
class HttpReply:
    status: int
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""


def plain(status: int, text: str, *headers: tuple[str, str]) -> HttpReply:
    """An answer in words."""
    return HttpReply(status, (PLAIN, *headers), f"{text}\n".encode())


LATER = plain(503, "It cannot be stored now.", ("Retry-After", "2"))


@lru_cache(256)
def unreadable(content_type: str, content_encoding: str = "") -> HttpReply | None:
    """The answer to a message of another media type than envelopes have: a page on the web may
    post plain text to any address, and no package and no compressed body is opened here."""
    if content_encoding.strip().lower() not in ("", "identity"):
        return plain(415, "No compressed message is taken here.", ("Accept-Encoding", "identity"))
    try:
        media_type = parse_media_type(content_type)
    except MimeError:
        return plain(415, "A message needs a Content-Type, such as application/soap+xml.")
    if media_type.name not in _ENVELOPES and not media_type.name.endswith("+xml"):
        return plain(415, "Messages are application/soap+xml or text/xml, without attachments.")
    charset = media_type.charset
    if charset is not None and charset_named(charset) is None:
        return plain(415, f"The message cannot be read: {charset_refused(charset)}.")
    return None


_ENVELOPES = frozenset({"text/xml", "application/xml"})


class Intake:
    """Takes messages for an end.

    Args:
        hold: Seconds that a connection is held open for a reply.
    """

    def __init__(self, workers: Workers, *, hold: float) -> None:
        self._workers = workers
        self._hold = hold
        self._busy = 0
        self._held = 0

    async def take(
        self,
        octets: bytes,
        *,
        content_type: str,
        owner: str | None,
        service: str,
        peer: str = "",
    ) -> HttpReply:
        """Take a message, in the event loop of any server."""
        if self._busy >= AT_A_TIME:
            return LATER
        self._busy += 1
        try:
            said, octets = octets, in_utf_8(octets, charset_in(content_type))
            if octets is not said:
                content_type = with_charset(content_type, "utf-8")
            arrived = ReceivedMessage(octets, owner, content_type, service, peer)
            reply = await self._workers.receive(arrived)
        except Refused as refused:
            return _refused(octets, refused)
        except StorageUnavailable as error:
            log.info("a message is refused for now: %s", error)
            return LATER
        finally:
            self._busy -= 1
        self._workers.post_soon(reply.outgoing)
        self._workers.wake()
        answer = reply.answer
        if reply.awaited is not None and self._held < HELD:
            self._held += 1
            try:
                waiting = self._workers.submit(self._workers.reply_to(reply.awaited, self._hold))
                found = await asyncio.wrap_future(waiting)
            except StorageUnavailable:
                found = None
            finally:
                self._held -= 1
            answer = found or answer
        if reply.unreliable is not None:
            return plain(400, "Only messages of WS-ReliableMessaging are taken here.")
        if answer is None:
            return HttpReply(202)
        return HttpReply(answer.status, answer.http_headers, answer.envelope)


def _refused(octets: bytes, refused: Refused) -> HttpReply:
    """The fault for a body that is not a message, or not one to be taken, in its own versions as
    far as they can be told."""
    soap = Soap.V1_1 if Soap.V1_1.value.encode() in octets[:4096] else Soap.V1_2
    headers = NO_HEADERS
    with contextlib.suppress(Refused):  # It may be no envelope.
        soap, headers = related_in(octets)
    version = Version.MAKE_CONNECTION_1_1 if refused.reason in _SELECTION else None
    context = Context(soap, headers, version)
    status, action, fault = write_fault(
        refused, context, now=datetime.now(UTC), message_id=new_id()
    )
    return HttpReply(status, http_headers(soap, action), fault)


_SELECTION = frozenset({Reason.SELECTION_MISSING, Reason.SELECTION_UNSUPPORTED})
