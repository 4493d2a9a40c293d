"""Spans of OpenTelemetry on the way of an event: received, committed, matched, each attempt.

    receive    child of the context that came with the event, else of that of its request
      commit   until it is durable
      match    when the messaging system has yielded it, and how many it matched
      deliver  one attempt to deliver

The context of ``receive`` goes with the event, as the properties ``traceparent`` and ``tracestate``
(W3C Trace Context): messaging systems carry them as theirs, CloudEvents as attributes of the
extension Distributed Tracing. That of ``deliver`` goes with the message, as headers of HTTP and,
in SOAP, as properties in a header block. Whether a trace is recorded its parent says.

Only a gateway that is to tell its traces imports this module.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from opentelemetry.context import Context
from opentelemetry.trace import (
    Link,
    SpanKind,
    Status,
    StatusCode,
    Tracer,
    get_current_span,
    set_span_in_context,
)
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from mediation.cloudevents import TRACE_ATTRIBUTES
from mediation.model.messages import Notification
from mediation.soap.properties import properties_block

_PROPAGATOR = TraceContextTextMapPropagator()
_NOTHING = Context()
LONGEST = 512
"""Characters of a context that is handed on, as much as W3C asks for: servers of consumers refuse
long headers, and with them the event."""
Received: TypeAlias = list[tuple[Any, Any]]
"""The spans ``receive`` and ``commit`` of each notification of a request."""


@dataclass(slots=True)
class AttemptSpan:
    """The span of an attempt.

    Attributes:
        headers: What says its context, in HTTP.
        block: The same as a header block of SOAP.
    """

    span: Any
    headers: tuple[tuple[str, str], ...]
    block: bytes


class Spans:
    """Makes spans with *tracer*."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer

    def receive(
        self,
        notifications: Sequence[Notification],
        headers: Iterable[tuple[bytes, bytes]],
        dialect: str,
    ) -> tuple[tuple[Notification, ...], Received]:
        """Begin the spans of *notifications*, which came in a request with *headers*; each carries
        the context of its own from now on."""
        request = {
            name.decode("latin-1"): value.decode("latin-1")
            for name, value in headers
            if name in (b"traceparent", b"tracestate")
        }
        carried, spans = [], Received()
        for one in notifications:
            span = self._tracer.start_span(
                "receive",
                _parent(one.properties, request),
                SpanKind.SERVER,
                {**_described(one), "dragoman.dialect": dialect},
                start_time=int(one.time.timestamp() * 1e9),
            )
            context = set_span_in_context(span, _NOTHING)
            commit = self._tracer.start_span("commit", context, SpanKind.PRODUCER)
            carried.append(replace(one, properties={**one.properties, **_injected(context)}))
            spans.append((span, commit))
        return tuple(carried), spans

    def received(self, spans: Received, error: BaseException | None = None) -> None:
        """End *spans*: what they are of is durable, or *error* says why not."""
        for span, commit in spans:
            for one in (commit, span):
                if error is not None:
                    one.set_status(Status(StatusCode.ERROR, type(error).__name__))
                one.end()

    def matched(self, notification: Notification, number: int) -> None:
        """Note that *notification* was yielded by the messaging system, and matched a *number* of
        subscriptions."""
        described = {**_described(notification), "dragoman.matched": number}
        parent = _parent(notification.properties, {})
        self._tracer.start_span("match", parent, SpanKind.CONSUMER, described).end()

    def attempt(
        self, notifications: Sequence[Notification], subscription: str, host: str
    ) -> AttemptSpan:
        """Begin the span of an attempt that carries *notifications*; those behind the first are
        links."""
        first, *others = notifications
        linked = (get_current_span(_parent(one.properties, {})) for one in others)
        links = [Link(context) for one in linked if (context := one.get_span_context()).is_valid]
        span = self._tracer.start_span(
            "deliver",
            _parent(first.properties, {}),
            SpanKind.CLIENT,
            {**_described(first), "dragoman.subscription": subscription, "server.address": host},
            links,
        )
        injected = _injected(set_span_in_context(span, _NOTHING))
        return AttemptSpan(span, tuple(injected.items()), properties_block(injected))

    def attempted(
        self, attempt: AttemptSpan, verdict: str, status: int | None, error: str | None
    ) -> None:
        """End the span of an attempt that came to *verdict*; *error* says why it failed."""
        attempt.span.set_attribute("dragoman.verdict", verdict)
        if status is not None:
            attempt.span.set_attribute("http.response.status_code", status)
        if error is not None:
            attempt.span.set_status(Status(StatusCode.ERROR, error))
        attempt.span.end()


def _parent(properties: Mapping[str, str], request: Mapping[str, str]) -> Context:
    """The context that an event carries; that of its request where it is of the same trace, for it
    is the younger one, or where the event has none. An intermediary's own trace is not followed."""
    own = _PROPAGATOR.extract(properties, _NOTHING)
    outer = _PROPAGATOR.extract(request, _NOTHING) if request else _NOTHING
    known, younger = (get_current_span(one).get_span_context() for one in (own, outer))
    if not known.is_valid or known.trace_id == younger.trace_id:
        return outer
    return own


def _injected(context: Context) -> dict[str, str]:
    found: dict[str, str] = {}
    _PROPAGATOR.inject(found, context)
    return {
        name: found[name] for name in TRACE_ATTRIBUTES if 0 < len(found.get(name, "")) <= LONGEST
    }


def _described(notification: Notification) -> dict[str, Any]:
    """The attributes of a span that is about *notification*; nothing of its payload."""
    found = {"messaging.system": "dragoman", "messaging.message.id": notification.id}
    if notification.topic is not None:
        found["messaging.destination.name"] = str(notification.topic)
    return found
