"""Additions of WS-Management to Subscribe: delivery modes and how a sink wants its messages
(DSP0226 1.2, section 10.2.2 to 10.2.13).

A peer that asks for heartbeats or bookmarks, is told yes and gets none gives the gateway up, or
loses events. So what is not offered is always a fault (section 14.6, "wsman:UnsupportedFeature").
"""

import re
from collections.abc import Mapping

from lxml import etree

from filters import Reason, quoted
from mediation import names
from mediation.eventing.management.faults import refused, unsupported
from mediation.eventing.management.headers import LEAST_ENVELOPE
from mediation.eventing.management.values import parse_number, read_number, read_seconds
from mediation.model.delivery_modes import PUSH, Bookmark, DeliveryMode, Mode, Oversize
from mediation.model.errors import MediationError
from mediation.soap.envelopes import elements, local_name, namespace_of, text_of

MODES: Mapping[str, Mode] = {
    "": Mode.PUSH,
    names.WSE_PUSH: Mode.PUSH,
    names.WSMAN_PUSH_WITH_ACK: Mode.PUSH_WITH_ACK,
    names.WSMAN_EVENTS: Mode.EVENTS,
    names.WSMAN_PULL: Mode.PULL,
}
"""The delivery modes by ``wse:Delivery/@Mode``."""
LEAST_HEARTBEAT = 5.0
"""The shortest interval between heartbeats, in seconds: they are sent while nothing happens."""
LEAST_RETRY = 1.0
MOST_RETRIES = 1000

_POSITION = f"{{{names.DRAGOMAN_DATA}}}position"
_NUMBER = re.compile(r"[0-9]{1,19}", re.ASCII)
_ENCODINGS = {"utf-8": "utf-8", "utf-16": "utf-16", "utf-16le": "utf-16"}
_ANYWHERE = frozenset({"Filter", "Locale"})
"""Elements that are read elsewhere, or are a hint."""


def read_mode(delivery: etree._Element, offered: frozenset[str] | None = None) -> Mode:
    """Read ``Mode`` of a Delivery, one of those *offered*; None: all.

    Raises:
        MediationError: ``DELIVERY_MODE``.
    """
    mode = (delivery.get("Mode") or "").strip()
    modes = MODES if offered is None else {uri: MODES[uri] for uri in MODES if uri in offered}
    if mode not in modes:
        raise MediationError(
            Reason.DELIVERY_MODE,
            f"The mode {quoted(mode)} is not offered",
            names=tuple(filter(None, modes)),
            value=mode[:200],
        )
    return modes[mode]


def read_delivery_mode(
    subscribe: etree._Element, delivery: etree._Element, offered: frozenset[str] | None = None
) -> tuple[DeliveryMode, Bookmark | None]:
    """Read how a sink wants its deliveries, and the bookmark from which it wants to go on.
    *offered* are the modes, by URI; None: all.

    Raises:
        MediationError: ``DELIVERY_MODE``, ``FEATURE_UNSUPPORTED``, ``ENCODING_LIMIT``,
            ``BOOKMARK_INVALID``, ``MESSAGE_INVALID``.
    """
    found = _Found(read_mode(delivery, offered))
    for child in (*elements(delivery), *elements(subscribe)):
        if namespace_of(child) == names.WSMAN:
            found.read(child)
    return found.result(), found.bookmark


class _Found:
    """What was read so far."""

    def __init__(self, mode: Mode) -> None:
        self._mode = mode
        self._numbers: dict[str, int] = {}
        self._times: dict[str, float] = {}
        self._oversize = Oversize.NOTIFY
        self._bookmarks = False
        self._encoding = "utf-8"
        self.bookmark: Bookmark | None = None

    def read(self, child: etree._Element) -> None:
        name = local_name(child)
        match name:
            case "MaxElements":
                self._numbers[name] = read_number(child)
            case "MaxTime":
                self._times[name] = read_seconds(child)
            case "MaxEnvelopeSize":
                self._read_size(child)
            case "Heartbeats":
                self._read_heartbeats(child)
            case "ConnectionRetry":
                self._read_retry(child)
            case "ContentEncoding":
                self._read_encoding(child)
            case "SendBookmarks":
                self._bookmarks = True
            case "Bookmark":
                self.bookmark = _read_bookmark(child, self._mode)
            case _ if name not in _ANYWHERE:
                raise unsupported(name)

    def _read_size(self, child: etree._Element) -> None:
        size = read_number(child)
        if size < LEAST_ENVELOPE:
            text = f"MaxEnvelopeSize is below {LEAST_ENVELOPE} octets."
            raise refused(Reason.ENCODING_LIMIT, text, "MaxEnvelopeSize")
        policy = (child.get("Policy") or Oversize.NOTIFY.value).strip()
        try:
            self._oversize = Oversize(policy)
        except ValueError as error:
            text = "The Policy of MaxEnvelopeSize is not known."
            raise refused(Reason.FEATURE_UNSUPPORTED, text, "MaxEnvelopePolicy") from error
        self._numbers["MaxEnvelopeSize"] = size

    def _read_heartbeats(self, child: etree._Element) -> None:
        if self._mode is Mode.PULL:
            raise unsupported("Heartbeats", f"is not of the mode {names.WSMAN_PULL}")
        interval = read_seconds(child)
        if interval < LEAST_HEARTBEAT:
            raise unsupported("Heartbeats", f"below PT{LEAST_HEARTBEAT:.0f}S is not offered")
        self._times["Heartbeats"] = interval

    def _read_retry(self, child: etree._Element) -> None:
        total = child.get("Total")
        self._times["ConnectionRetry"] = max(LEAST_RETRY, read_seconds(child))
        if total is not None:
            self._numbers["Total"] = min(MOST_RETRIES, parse_number(total, "Total"))

    def _read_encoding(self, child: etree._Element) -> None:
        encoding = _ENCODINGS.get(text_of(child).lower())
        if encoding is None:
            text = "The ContentEncoding is neither UTF-8 nor UTF-16."
            raise refused(Reason.ENCODING_LIMIT, text, "CharacterSet")
        self._encoding = encoding

    def result(self) -> DeliveryMode:
        retry = self._times.get("ConnectionRetry")
        found = DeliveryMode(
            self._mode,
            self._numbers.get("MaxElements"),
            self._times.get("MaxTime") or None,
            self._numbers.get("MaxEnvelopeSize"),
            self._oversize,
            self._times.get("Heartbeats"),
            self._bookmarks,
            self._encoding,
            retry,
            None if retry is None else self._numbers.get("Total", 1),
        )
        return PUSH if found == PUSH else found  # One object: every delivery looks at it.


def _read_bookmark(child: etree._Element, mode: Mode) -> Bookmark:
    """Read a bookmark of ours.

    Raises:
        MediationError: ``BOOKMARK_INVALID``: it is another's, or that of the earliest event; or it
            is of events that are pulled.
    """
    if text_of(child) == names.WSMAN_EARLIEST:
        text = "What came before a subscription is not kept for it: it begins now."
        raise refused(Reason.BOOKMARK_INVALID, text, "Expired")
    marks = elements(child)
    if len(marks) == 1 and marks[0].tag == _POSITION:
        position = text_of(marks[0])
        if mode is Mode.PULL:
            text = "Events that are pulled wait in their EnumerationContext, not behind a bookmark."
            raise refused(Reason.BOOKMARK_INVALID, text, "Expired")
        if _NUMBER.fullmatch(position):
            of, by = (str(marks[0].get(name) or "")[:100] for name in ("of", "by"))
            return Bookmark(of, by, int(position))
    raise refused(Reason.BOOKMARK_INVALID, "The bookmark was not made by this gateway.", "Invalid")
