"""Schemas of classes of events, and classes of schemas."""

from dataclasses import dataclass

import pytest

from gateway.client.grid_events import Event, EventTypes, classes_of, schema_of

TYPES = EventTypes()


@TYPES.register("urn:lab", "RunEvent")
@dataclass(frozen=True, slots=True, kw_only=True)
class RunEvent(Event):
    iterations: int = 0
    cpu_utilization: float = 0.0
    failed: bool = False
    why: str | None = None


def test_a_class_gives_its_schema_and_the_schema_its_class() -> None:
    other = EventTypes()
    made = classes_of(schema_of("urn:lab", TYPES), other)
    event = made["RunEvent"](source="bench7", iterations=17, cpu_utilization=0.5, why="<&>")  # type: ignore[call-arg]  # made at run time
    # What is sent is the same, and each side reads the other's.
    wire = other.write(event)
    ours = RunEvent(source="bench7", iterations=17, cpu_utilization=0.5, why="<&>")
    assert wire == TYPES.write(ours)
    assert TYPES.read(wire) == ours and other.read(TYPES.write(ours)) == event


def test_numbers_stay_what_a_schema_says() -> None:
    schema = schema_of("urn:lab", TYPES).replace(b"xs:long", b"xs:short")
    other = EventTypes()
    made = classes_of(schema, other)
    assert other.of(made["RunEvent"]).elements[7] == ("iterations", "short")
    assert schema_of("urn:lab", other) == schema


def test_what_has_no_class_or_schema() -> None:
    with pytest.raises(ValueError, match="no class of events is registered with 'urn:none'"):
        schema_of("urn:none", TYPES)
    odd = schema_of("urn:lab", TYPES).replace(b"iterations", b"class")
    with pytest.raises(ValueError, match="has the element class"):
        classes_of(odd, EventTypes())
    with pytest.raises(ValueError, match="is RunEvent already"):
        classes_of(schema_of("urn:lab", TYPES), TYPES)
