"""Traces of OpenTelemetry: where they go, by the variables of its SDK (``OTEL_...``)."""

import asyncio
import threading
from typing import TYPE_CHECKING, Any

from filters import Reason, Refused
from gateway.publishing.operations import release
from gateway.rooms import Room

if TYPE_CHECKING:
    pass

CLOSING = 5.0
"""Seconds that a stop waits for the last spans to be exported."""


class TelemetryRoom(Room):
    """Spans, and their export over OTLP: they wait in memory, few thousand at most, and are lost
    when more come than are taken. A program around the gateway that has a provider of its own gets
    them instead.

    Raises:
        Refused: The extra is not installed.
    """

    def __init__(self) -> None:
        try:
            from opentelemetry import trace
            from opentelemetry.sdk.trace import TracerProvider

            from gateway.observing.spans import Spans
        except ModuleNotFoundError as missing:
            raise _without_extra(missing) from missing
        found = trace.get_tracer_provider()
        self._own: Any = None
        if not isinstance(found, TracerProvider):
            found = self._own = _provider()
        self.spans: Spans = Spans(found.get_tracer("dragoman", release()))

    async def close(self) -> None:
        if self._own is not None:
            # A daemon, for which the end of the process does not wait: a collector that does not
            # answer holds the exporter for 10 s and more. (One of the loop's own threads would.)
            ending = threading.Thread(target=self._own.shutdown, daemon=True)
            ending.start()
            await asyncio.to_thread(ending.join, CLOSING)


def _provider() -> Any:
    """A provider that exports over OTLP; it samples as the parent of a span says, unless
    ``OTEL_TRACES_SAMPLER`` says something else."""
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    except ModuleNotFoundError as missing:
        raise _without_extra(missing) from missing
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    # `create` reads OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES, but prefers what it is given.
    resource = Resource.create({"service.version": release()})
    if str(resource.attributes["service.name"]).startswith("unknown_service"):
        resource = resource.merge(Resource({"service.name": "dragoman"}))
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)  # `close` ends it.
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return provider


def _without_extra(missing: ModuleNotFoundError) -> Refused:
    text = f"telemetry needs the extra telemetry, which is not installed ({missing.name})"
    return Refused(Reason.UNAVAILABLE, text)
