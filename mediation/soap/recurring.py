"""Messages of a publisher that differ in their id and their event alone, read by what recurs.

    <s:Envelope ..><s:Header>..<wsa:MessageID>     beginning
    urn:uuid:6e2d0f0b-..                           the message's id; there may be none
    </wsa:MessageID>..</s:Header><s:Body>          middle
    <o:readings ..>..</o:readings>                 the event
    </s:Body></s:Envelope>                         end

All that a message says besides these two is the same where the octets around them are. So a
publisher's envelope, when it came again and again, becomes a *mould*: of the next message only the
event is parsed, within the same limits. Whatever is not plainly of that form is read as a whole,
and so is all that is to be refused.

A mould is tried before it is used: a message that is made with it is read as a whole and by the
mould, and both must come to the same.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from typing import Protocol, TypeAlias

from lxml import etree

from filters import Refused, Step, Topic, parse_document
from filters.documents import DEFAULT_LIMITS, parse_own
from mediation import names
from mediation.model.messages import MessageHeaders, Notification
from mediation.model.requests import (
    Arrival,
    Context,
    EndpointRules,
    Incoming,
    Named,
    Publish,
    Rejected,
    Sequences,
)
from mediation.soap.envelopes import octets_of
from mediation.soap.payloads import declares, uses

_LIMITS = DEFAULT_LIMITS
LONGEST = min(_LIMITS.scope_octets, _LIMITS.elements, _LIMITS.nodes, _LIMITS.octets)
"""Octets of a message: so short a one exceeds no limit of the whole document, if only it has few
attributes and its event is not deep."""
_SHALLOW = 200
"""End tags, and so levels, of an event."""
_SHALLOW_OCTETS = _SHALLOW * len("<a></a>")
_SEEN, _TIMES = 4096, 3
"""Beginnings of which it is known how often they came; the times after which a mould is made."""
_TRIES = 8
"""Times after which no mould is made any more, for its messages are no good."""
_MISSES = 16
"""Events in a row that took the whole message, after which a mould is no longer tried."""
_KEPT, _ALIKE = 128, 8
"""Beginnings that have moulds, and moulds of each; all are forgotten as a whole."""

_ID = re.compile(rb"[!#-%'-;=?-~]{1,250}")
"""An id that is kept as it is: without blanks, quotes, and signs that are escaped in XML."""
_NAME = re.compile(rb"<([^\s/>]+)")
_BEHIND_NAME = frozenset({b" ", b"\t", b"\r", b"\n", b"/", b">"})
_SOME_ID = "urn:uuid:00000000-0000-0000-0000-000000000000"
_SOME_EVENT = f'<dragoman:event xmlns:dragoman="{names.DRAGOMAN_DATA}">0</dragoman:event>'.encode()
_SOME_TIME = datetime(2000, 1, 1, tzinfo=UTC)
SOME_TOPIC = Topic((Step(None, "somewhere"),))


@dataclass(slots=True)
class _EventMould:
    """The parts that all messages of one envelope share.

    Attributes:
        is_event: Whether an element of this expanded name is an event wherever it stands, and
            nothing else is read in it.
        signs: The equals signs in it, which are at least as many as its attributes.
        scope: The prefixes that are declared where the event stands.
        numbered: The messages have ids.
        bare: The event is the body's child.
        follows: The topic is that of the URL.
        missed: Events in a row that took the whole message.
    """

    is_event: Callable[[str], bool]
    middle: bytes
    end: bytes
    signs: int
    scope: tuple[str | None, ...]
    numbered: bool
    bare: bool
    follows: bool
    http_action: str | None
    rules: EndpointRules
    context: Context
    publish: Publish
    named: Named
    missed: int = field(default=0, compare=False)

    def read(
        self, octets: bytes, at: int, arrival: Arrival, learnt: set[str] | None
    ) -> Incoming | None:
        id_, end = "", at
        if self.numbered:
            found = _ID.match(octets, at)
            if found is None:
                return None
            id_, end = found[0].decode(), found.end()
        if not (
            octets.startswith(self.middle, end)
            and octets.endswith(self.end)
            and self.missed < _MISSES
            and self._fits(arrival)
        ):
            return None
        event = octets[end + len(self.middle) : len(octets) - len(self.end)]
        read = self._read_event(event, learnt)
        if read is None:
            self.missed += 1
            return None
        self.missed = 0
        return self._filled(id_, *read, arrival)

    def _read_event(self, event: bytes, learnt: set[str] | None) -> tuple[str, bytes] | None:
        """The expanded name of an event, and its payload; None where it takes the whole message to
        read it."""
        if not _is_plain(event, self.signs):
            return None
        try:
            root = parse_document(event, names=learnt)
        except Refused:
            return None  # What is wrong with it is said of the whole.
        name = root.tag
        if not self.is_event(name):
            return None
        payload = octets_of(root)
        for prefix in self.scope:  # A generator is dearer.
            if uses(payload, prefix) and not declares(payload, prefix):
                return None
        return name, payload

    def _fits(self, arrival: Arrival) -> bool:
        """Return whether what came besides the octets is the same."""
        return self.http_action == arrival.http_action and (
            self.rules is arrival.rules or self.rules == arrival.rules
        )

    def _filled(self, id_: str, name: str, payload: bytes, arrival: Arrival) -> Incoming:
        """The message with this id, and this event in it, whose root has this expanded name."""
        told, headers, publish = self.context, self.context.headers, self.publish
        (event,) = publish.notifications
        if self.numbered:
            headers = MessageHeaders(
                headers.wsa,
                headers.action,
                headers.to,
                id_,
                headers.relates_to,
                headers.reply_to,
                headers.fault_to,
            )
        context = Context(
            told.form,
            headers,
            told.version,
            told.operation,
            name if self.bare else told.element,
            told.header_namespaces,
            told.managed,
        )
        notification = Notification(
            id_ if self.numbered else arrival.fresh_id,
            arrival.source,
            payload,
            arrival.time,
            arrival.url_topic if self.follows else event.topic,
            event.action,
            event.producer,
            event.expires,
            event.properties,
            event.headers,
            (),
            event.topic_header,
        )
        request = Publish((notification,), publish.answered, publish.acknowledged)
        return Incoming(context, request, self.named)


class EventMoulds:
    """Makes moulds of messages with an event in them.

    Args:
        read_whole: Reads a message.
        is_event: As in a mould.
    """

    def __init__(
        self, read_whole: Callable[[bytes, Arrival], Incoming], is_event: Callable[[str], bool]
    ) -> None:
        self._read_whole = read_whole
        self._is_event = lru_cache(maxsize=256)(is_event)

    def make(
        self, octets: bytes, at: int, arrival: Arrival, incoming: Incoming
    ) -> _EventMould | None:
        """A mould that was tried; None where none can be made of this message."""
        assert isinstance(incoming.request, Publish), "others are not published"
        (event,) = incoming.request.notifications
        place = _place_of(event.payload, octets, at)
        if place is None or b"<!" in octets:
            return None
        id_ = _ID.match(octets, at)
        numbered = id_ is not None and incoming.context.headers.message_id == id_[0].decode()
        end = id_.end() if id_ is not None and numbered else at
        start, stop = place
        if start < end:
            return None
        middle, behind = octets[end:start], octets[stop:]
        some_id = _SOME_ID.encode() if numbered else b""
        some = b"".join((octets[:at], some_id, middle, _SOME_EVENT, behind))
        scope, strange = _scope_in(some), strange_arrival(arrival)
        if scope is None:
            return None
        try:
            whole = self._read_whole(some, strange)
        except Rejected:
            return None
        publish = whole.request
        if not isinstance(publish, Publish) or len(publish.notifications) != 1:
            return None
        mould = _EventMould(
            self._is_event,
            middle,
            behind,
            some.count(b"="),
            scope,
            numbered,
            whole.context.element == _tag_of(_SOME_EVENT),
            publish.notifications[0].topic is SOME_TOPIC,
            arrival.http_action,
            arrival.rules,
            whole.context,
            publish,
            whole.named,
        )
        proved = mould.read(octets, at, arrival, None) == incoming
        return mould if proved and mould.read(some, at, strange, None) == whole else None


class Mould(Protocol):
    """Knowledge of the messages of one envelope. Two that know the same are equal."""

    def read(
        self, octets: bytes, at: int, arrival: Arrival, learnt: set[str] | None
    ) -> Incoming | None:
        """Read a message whose beginning, up to *at*, is that of the envelope, to what it would be
        read as a whole; None where it is not plainly of that form, or is to be refused."""


Maker: TypeAlias = Callable[[bytes, int, Arrival, Incoming], Mould | None]
"""Makes a mould of a message, its beginning, what came besides, and what was read; None where none
can be made of it."""


class Moulds:
    """The moulds of those who publish, and what makes them."""

    def __init__(self, *makers: Maker) -> None:
        self._makers = makers
        self._moulds: dict[bytes, list[Mould]] = {}
        self._seen: dict[int, int] = {}

    def read(self, octets: bytes, arrival: Arrival, learnt: set[str] | None) -> Incoming | None:
        """Read a message by a mould, to what it would be read as a whole; None where there is none
        for it. *learnt* as in `mediation.read`."""
        at = _beginning(octets)
        alike = self._moulds.get(octets[:at])
        if alike is None or arrival.attachments:
            return None
        for mould in alike:
            found = mould.read(octets, at, arrival, learnt)
            if found is not None:
                return found
        return None

    def learn(self, octets: bytes, arrival: Arrival, incoming: Incoming) -> None:
        """Make a mould of a message, should its beginning have come again and again."""
        request, at = incoming.request, _beginning(octets)
        if not at or not isinstance(request, Publish) or len(request.notifications) != 1:
            return
        beginning = octets[:at]
        if len(self._seen) >= _SEEN:
            self._seen.clear()
        seen = self._seen[hash(beginning)] = self._seen.get(hash(beginning), 0) + 1
        if not _TIMES <= seen < _TRIES or not _may_recur(arrival, incoming):
            return
        for make in self._makers:
            mould = make(octets, at, arrival, incoming)
            if mould is not None:
                self._keep(beginning, mould)
                return

    def _keep(self, beginning: bytes, mould: Mould) -> None:
        if len(self._moulds) >= _KEPT:
            self._moulds.clear()
            self._seen.clear()
        alike = self._moulds.get(beginning, [])
        if mould not in alike:
            self._moulds[beginning] = [mould, *alike[: _ALIKE - 1]]


def strange_arrival(arrival: Arrival) -> Arrival:
    """Another arrival at the same address, by which it shows what of a message comes from there."""
    return Arrival(
        "urn:dragoman:somebody",
        _SOME_TIME,
        "urn:dragoman:fresh",
        SOME_TOPIC,
        arrival.http_action,
        rules=arrival.rules,
    )


def _may_recur(arrival: Arrival, incoming: Incoming) -> bool:
    """Return whether nothing came with a message that no other has: its place in a sequence, and
    parts."""
    return (
        arrival.rules.sequences is Sequences.OFF
        and incoming.context.reliable is None
        and not arrival.attachments
    )


def _beginning(octets: bytes) -> int:
    """Return where the id of a message begins, or, where it has none, its body; 0 where nothing
    does."""
    if len(octets) > LONGEST:
        return 0
    at = octets.find(b"MessageID>")
    if at >= 0:
        return at + len(b"MessageID>")
    at = octets.find(b"Body>")
    return at + len(b"Body>") if at >= 0 else 0


def _is_plain(event: bytes, signs: int) -> bool:
    """Return whether an event may be read by itself: neither too much with its envelope, nor with
    anything around its root, nor what means something else by itself."""
    # One octet is found far more quickly than several, and most events have none of these.
    return (
        event.startswith(b"<")
        and event.endswith(b">")
        and not (b"!" in event and b"<!" in event)
        and not (b"?" in event and b"<?" in event)
        and not (b"L" in event and b"PrefixList" in event)
        and signs + event.count(b"=") <= _LIMITS.few_attributes
        and (len(event) <= _SHALLOW_OCTETS or event.count(b"</") <= _SHALLOW)
    )


def _place_of(payload: bytes, octets: bytes, behind: int) -> tuple[int, int] | None:
    """Return where the element stands in *octets* that became *payload*: from its first start tag
    to its last end tag."""
    name = _NAME.match(payload)
    if name is None:
        return None
    start, length = octets.find(name[0], behind), len(name[0])
    while start >= 0 and octets[start + length : start + length + 1] not in _BEHIND_NAME:
        start = octets.find(name[0], start + 1)
    end = octets.rfind(b"</%b" % name[1])
    stop = octets.find(b">", end) + 1
    return None if start < 0 or end < start else (start, stop)


def _tag_of(payload: bytes) -> str:
    return parse_own(payload).tag


def _scope_in(some: bytes) -> tuple[str | None, ...] | None:
    """The prefixes that are declared around `_SOME_EVENT`; None where it is not in *some*."""
    try:
        root = parse_own(some)
    except etree.XMLSyntaxError:
        return None
    event = next(root.iter(_tag_of(_SOME_EVENT)), None)
    around = None if event is None else event.getparent()
    return None if around is None else tuple(around.nsmap)
