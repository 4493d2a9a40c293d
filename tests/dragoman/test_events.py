"""Dataclasses as XML, and back."""

import dataclasses
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as some

from dragoman.events import Event, event_type, from_xml, to_xml

TEXT = some.text(
    some.characters(
        codec="utf-8", exclude_categories=("Cc", "Cs"), exclude_characters="\ufffe\uffff"
    )
)


@dataclass
class Place:
    name: str
    depth: int | None = None


@event_type("urn:weather", "storm")
@dataclass
class Storm:
    speed: float
    wet: bool
    at: datetime
    day: date
    cost: Decimal
    raw: bytes
    place: Place
    names: list[str] = field(default_factory=list)
    ports: list[Place] = field(default_factory=list)
    note: str | None = None


PLACES = some.builds(Place, TEXT, some.none() | some.integers())


STORMS = some.builds(
    Storm,
    some.floats(allow_nan=False), some.booleans(), some.datetimes(timezones=some.just(UTC)), some.dates(),
    some.decimals(-10**12, 10**12, allow_nan=False), some.binary(max_size=20), PLACES,
    some.lists(TEXT, max_size=3), some.lists(PLACES, max_size=2), some.none() | TEXT,
)  # fmt: skip


@given(STORMS)
def test_what_is_written_is_read_back(storm: Storm) -> None:
    assert from_xml(Storm, to_xml(storm)) == storm
    assert Event(to_xml(storm)).into(Storm) == storm


def test_it_is_one_element_with_its_fields_as_children() -> None:
    @event_type("urn:w")
    @dataclass
    class Speed:
        knots: int
        gusts: list[float]

    assert to_xml(Speed(9, [1.5, float("inf")])) == (
        b'<Speed xmlns="urn:w"><knots>9</knots><gusts>1.5</gusts><gusts>INF</gusts></Speed>'
    )
    assert to_xml(Place("x")) == b"<Place><name>x</name></Place>"


@pytest.mark.parametrize(
    ("xml", "why"),
    [
        (b"<Place>", "no XML"),
        (b"<Storm/>", "this is Storm, not Place"),
        (b"<Place/>", "missing 1 required"),
        (b"<Place><name/><depth>x</depth></Place>", "'x' is no int"),
        (b"<!DOCTYPE Place [<!ENTITY a 'b'>]><Place><name>&a;</name></Place>", "no document type"),
    ],
)
def test_what_is_no_such_event_is_refused(xml: bytes, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        from_xml(Place, xml)


def test_what_has_no_form_in_xml_is_refused() -> None:
    odd = dataclasses.make_dataclass("Odd", [("one", object)])
    with pytest.raises(TypeError, match="no element has values of object"):
        to_xml(odd(object()))
    with pytest.raises(TypeError):
        from_xml(odd, b"<Odd/>")
    for event in (7, Place):
        with pytest.raises(TypeError, match="is no dataclass"):
            to_xml(event)
