"""Topics of sources: what is subscribed to, and the topic of events that come without one."""

import time
from datetime import UTC, datetime
from functools import lru_cache

from filters import (
    Filter,
    Namespaces,
    Reason,
    Refused,
    Topic,
    compile,
    dialects,
    parse_clark,
    parse_topics,
    quoted,
)
from gateway.model.sources import Source
from gateway.security.keys import new_key
from gateway.sources.requests import subscribe_request
from mediation.detect import read
from mediation.model.requests import Arrival, Rejected, Subscribe, SubscribePulling

_PATTERNS = ("*", "//", "|", "/.")


@lru_cache(maxsize=1024)
def topic_named(text: str, namespaces: Namespaces) -> Topic:
    """The one topic that *text* names: ``a/b``, ``{urn:example}a/b``, or with *namespaces*
    ``x:a/b``.

    Raises:
        Refused: ``TOPIC_INVALID``.
    """
    try:
        if any(mark in text.rpartition("}")[2] for mark in _PATTERNS):
            raise ValueError(text)
        if "{" in text:
            return parse_clark(text)
        [topic] = parse_topics(text, dialects.TOPIC_CONCRETE, namespaces)
    except (ValueError, Refused):
        raise Refused(Reason.TOPIC_INVALID, f"{quoted(text)} does not name one topic.") from None
    return topic


def default_topic(source: Source) -> Topic | None:
    """The topic of events of *source* that come without one: what the operator said, else the one
    topic that is subscribed to; None where that is none, or several."""
    text = source.publish_on or source.topic
    if text is None:
        return None
    try:
        return topic_named(text, source.namespaces)
    except Refused:
        return None


def filter_of(source: Source, base: str) -> Filter:
    """The filter that *source* subscribes with, as the gateway would read it.

    Raises:
        Refused: It is none: a prefix is not declared, an expression cannot be read.
    """
    _, envelope = subscribe_request(source, base, new_key(), time.time())
    arrival = Arrival("urn:dragoman:source", datetime.now(UTC), "urn:dragoman:source:check")
    try:
        request = read(envelope, arrival).request
    except Rejected as rejected:
        raise rejected.refused from rejected
    if not isinstance(request, Subscribe | SubscribePulling):
        raise Refused(Reason.MESSAGE_INVALID, "The specification has no subscribers.")
    compile(request.filter)
    return request.filter
