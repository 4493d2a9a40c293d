"""The context of OpenTelemetry goes with a message."""

from pathlib import Path

from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from sqlalchemy.orm import Session

from gateway.client.outbox import Inbox, Message, Outbox
from tests.rigs.outbox import engine_of
from tests.rigs.ports import free_ports
from tests.rigs.waiting import wait_until


def test_a_function_runs_in_the_trace_of_its_message(tmp_path: Path) -> None:
    tracer = TracerProvider().get_tracer("test")
    (port,) = free_ports(1)
    seen: list[int] = []
    with engine_of("sqlite", tmp_path) as engine:
        inbox = Inbox(engine)

        @inbox.on("orders")
        def take(message: Message) -> None:
            seen.append(trace.get_current_span().get_span_context().trace_id)

        inbox.listen(port)
        with inbox, Outbox(engine, f"http://127.0.0.1:{port}/") as outbox:
            with tracer.start_as_current_span("sell") as span, Session(engine) as session:
                outbox.publish("orders", 1, session)
                session.commit()
            wait_until(lambda: seen)
    assert seen == [span.get_span_context().trace_id]
