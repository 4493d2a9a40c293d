"""Contexts of OpenTelemetry: stored with a message, and restored around the function that takes it.
Without the package ``opentelemetry-api`` nothing is done."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

try:
    from opentelemetry import context, trace
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
except ModuleNotFoundError:
    _propagator = None
else:
    _propagator = TraceContextTextMapPropagator()

_NAMES = ("traceparent", "tracestate")
"""Attributes of CloudEvents (Distributed Tracing extension)."""


def current_trace() -> dict[str, str]:
    """The context of now, as attributes of an event."""
    found: dict[str, str] = {}
    if _propagator is not None:
        _propagator.inject(found)
    return {name: found[name] for name in _NAMES if found.get(name)}


@contextmanager
def traced(name: str, attributes: Mapping[str, Any]) -> Iterator[None]:
    """A span *name* in the context that an event's *attributes* have."""
    if _propagator is None:
        yield
        return
    carrier = {each: str(attributes[each]) for each in _NAMES if each in attributes}
    token = context.attach(_propagator.extract(carrier))
    try:
        kind = trace.SpanKind.CONSUMER
        with trace.get_tracer("dragoman").start_as_current_span(name, kind=kind):
            yield
    finally:
        context.detach(token)
