"""Calls of handleEvent that differ in the values of their fields alone, read by what recurs.

    <SOAP-ENV:Envelope ..><SOAP-ENV:Body><handleEvent><p1 ..><eventType ..>    recurs
    storm                                                                      a value
    </eventType><timestamp ..>                                                 recurs
    1016000000123                                                              a value
    </timestamp></p1></handleEvent></SOAP-ENV:Body></SOAP-ENV:Envelope>        recurs

A program writes the markup around its values alike each time. Where it is that of a call that was
read as a whole, the values become the payload, and no parser is asked; `texts_in` says whether they
are plain. `mediation.soap.recurring` has what keeps such moulds, and when they are made.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from mediation.grid_events.events import Event
from mediation.grid_events.rewriting import texts_in
from mediation.grid_events.types import BASE_FIELDS, EVENT_TYPES
from mediation.model.messages import Notification
from mediation.model.requests import (
    Arrival,
    Context,
    EndpointRules,
    Incoming,
    Named,
    Publish,
    Rejected,
)
from mediation.model.versions import Version
from mediation.soap.recurring import strange_arrival

_BASE = tuple(name for name, _ in BASE_FIELDS)
_OWN = tuple(name for type_ in EVENT_TYPES.values() for name, _ in type_.fields)
_VALUE = re.compile(
    r"<(?P<tag>(?:[^\s<>/:!?]+:)?(?P<name>{}))(?P<said>\s[^<>]*)?(?<!/)>(?P<value>[^<]*)</(?P=tag)\s*>".format(
        "|".join((*_BASE, *_OWN))
    ).encode()
)
"""A field that has a value, or may have one."""
_LONGS = frozenset({b"timestamp", b"seqNo"})
_SOME: Mapping[bytes, bytes] = {
    name.encode(): b"%d" % number for number, name in enumerate((*_BASE, *_OWN), 951_782_400_000)
}
"""A value of each field, unlike all others."""


@dataclass(slots=True)
class _CallMould:
    """The parts that all calls of one program share.

    Attributes:
        markup: What stands before each value, from where the body begins, and behind the last.
        form: The payload, with a place for each value.
        longs: The places of time and number, which are written without leading zeros.
    """

    markup: tuple[bytes, ...]
    end: bytes
    form: bytes
    longs: tuple[int, ...]
    http_action: str | None
    rules: EndpointRules
    context: Context
    named: Named
    properties: Mapping[str, str]

    def read(
        self, octets: bytes, at: int, arrival: Arrival, learnt: set[str] | None
    ) -> Incoming | None:
        values = []
        for markup in self.markup:
            if not octets.startswith(markup, at):
                return None
            begin = at + len(markup)
            at = octets.find(b"<", begin)
            values.append(octets[begin:at])
        if octets[at:] != self.end or not self._fits(arrival):
            return None
        for place in self.longs:
            text = values[place]
            if text.startswith(b"0") and text.isdigit():
                values[place] = text.lstrip(b"0") or b"0"
        payload = self.form % tuple(values)
        event = _event_in(payload)
        if event is None:
            return None
        notification = Notification(
            event.identity or arrival.fresh_id,
            arrival.source,
            payload,
            event.time or arrival.time,
            event.topic or arrival.url_topic,
            properties=dict(self.properties),
        )
        return Incoming(self.context, Publish((notification,), answered=True), self.named)

    def _fits(self, arrival: Arrival) -> bool:
        """Return whether what came besides the octets is the same."""
        return self.http_action == arrival.http_action and (
            self.rules is arrival.rules or self.rules == arrival.rules
        )


def _event_in(payload: bytes) -> Event | None:
    """The event in a payload, as far as its id, time and topic need it; None where that takes a
    parser."""
    texts = texts_in(payload)
    if texts is None:
        return None
    namespace, type_, source, timestamp, number, *_ = texts
    if any(b"&" in text for text in (namespace, type_, source) if text is not None):
        return None
    return Event(
        None if namespace is None else namespace.decode(),
        None if type_ is None else type_.decode(),
        None if source is None else source.decode(),
        None if timestamp is None else int(timestamp),
        None if number is None else int(number),
    )


class CallMoulds:
    """Makes moulds of calls. *read_whole* reads a message."""

    def __init__(self, read_whole: Callable[[bytes, Arrival], Incoming]) -> None:
        self._read_whole = read_whole

    def make(
        self, octets: bytes, at: int, arrival: Arrival, incoming: Incoming
    ) -> _CallMould | None:
        """A mould that was tried; None where none can be made of this call."""
        if incoming.context.version is not Version.GRID_EVENTS or b"<!" in octets:
            return None
        if b"made" in octets:  # Its payload may be that of another specification (`made_header`).
            return None
        values = [found for found in _VALUE.finditer(octets, at) if not _may_be_null(found["said"])]
        names = [found["name"] for found in values]
        if not values or len(set(names)) != len(names):
            return None
        ends = (at, *(found.end("value") for found in values))
        begins = (*(found.start("value") for found in values), len(octets))
        *markup, end = [octets[begin:until] for begin, until in zip(ends, begins, strict=True)]
        pieces = [
            piece
            for pair in zip(markup, map(_SOME.__getitem__, names), strict=True)
            for piece in pair
        ]
        some = b"".join((octets[:at], *pieces, end))
        strange = strange_arrival(arrival)
        try:
            whole = self._read_whole(some, strange)
        except Rejected:
            return None
        if not isinstance(whole.request, Publish):
            return None
        (event,) = whole.request.notifications
        mould = _CallMould(
            tuple(markup),
            end,
            _form_of(event.payload, names),
            tuple(place for place, name in enumerate(names) if name in _LONGS),
            arrival.http_action,
            arrival.rules,
            whole.context,
            whole.named,
            event.properties,
        )
        proved = mould.read(octets, at, arrival, None) == incoming
        return mould if proved and mould.read(some, at, strange, None) == whole else None


def _may_be_null(said: bytes | None) -> bool:
    """Return whether the attributes of a field may say that it has no value."""
    return said is not None and (b"nil" in said or b"null" in said)


def _form_of(payload: bytes, names: list[bytes]) -> bytes:
    """A payload with places for the values of the fields of these names, in this order."""
    start, end = payload[: payload.find(b">") + 1], payload[payload.rfind(b"<") :]
    fields = b"".join(b"<%b>%%b</%b>" % (name, name) for name in names)
    return b"%b%b%b" % (start.replace(b"%", b"%%"), fields, end)
