"""Every dialect in, every dialect out, octet for octet.

What comes out of the publications in ``sources`` stands in ``goldens``, one file for each dialect
of consumers. After a change that is meant, ``REGENERATE=1 pytest tests/mediation/matrix`` writes
them anew; the difference is for review.
"""

import os
from pathlib import Path

import pytest
from lxml import etree

from mediation.matrix import NOTIFIED, PUBLISHING, Dialect
from mediation.model.versions import Form, Soap
from tests.rigs.cases import for_each
from tests.rigs.matrix import SOURCES, Delivery, decoded, delivered, messages, source
from tests.rigs.mediation import canonical
from tests.rigs.schemas import Validator

GOLDENS = Path(__file__).with_name("goldens")
TARGETS = pytest.mark.parametrize("target", NOTIFIED, ids=lambda one: one.name)


def deliveries(target: Dialect, form: Form) -> dict[Delivery, list[str]]:
    """What consumers get, each with the publications that it comes of."""
    found: dict[Delivery, list[str]] = {}
    for origin in PUBLISHING:
        for message in messages(origin):
            events = source(origin, message)
            for number, event in enumerate(events, 1):
                name = f"{origin.name}/{message}" + (f" #{number}" if len(events) > 1 else "")
                found.setdefault(delivered(event, target, form), []).append(name)
    return found


def written(target: Dialect) -> str:
    """The golden file of *target*."""
    parts = []
    for form in target.forms:
        called = f"SOAP {form.name[1:].replace('_', '.')}" if isinstance(form, Soap) else form.value
        for delivery, names in deliveries(target, form).items():
            parts.append("".join(f"=== {name}, {called}\n" for name in names) + delivery.text)
    return "\n".join(parts)


@TARGETS
def test_deliveries_are_as_they_were(target: Dialect) -> None:
    golden = GOLDENS / f"{target.name}.txt"
    text = written(target)
    if os.environ.get("REGENERATE"):
        golden.write_text(text, encoding="utf-8", newline="")
    with golden.open(encoding="utf-8", newline="") as file:
        assert text == file.read()


def test_every_dialect_has_its_files() -> None:
    assert {path.stem for path in GOLDENS.iterdir()} == {one.name for one in NOTIFIED}
    soap = {one.name for one in PUBLISHING if one.in_soap}
    assert {path.name for path in SOURCES.iterdir()} == soap | {"cloudevents"}


@TARGETS
@for_each("origin", PUBLISHING)
def test_what_is_published_in_any_form_is_delivered_alike(origin: Dialect, target: Dialect) -> None:
    for message in messages(origin):
        for form in target.forms:
            ways = {
                tuple(delivered(event, target, form) for event in source(origin, message, one))
                for one in origin.forms
            }
            assert len(ways) == 1


@TARGETS
def test_deliveries_are_valid(target: Dialect, validator: Validator) -> None:
    """The answers of fetching are tested where they are written."""
    for form in target.forms:
        if target.fetching is None and isinstance(form, Soap):
            for delivery in deliveries(target, form):
                validator.check(delivery.octets)


@TARGETS
@for_each("origin", PUBLISHING)
def test_payloads_arrive_as_they_were(origin: Dialect, target: Dialect) -> None:
    for message in messages(origin):
        for event in source(origin, message):
            for form in target.forms:
                read = decoded(delivered(event, target, form), target).notification
                assert canonical(read.payload) == canonical(event.payload)
                declared = etree.fromstring(read.payload).nsmap
                assert declared.items() >= etree.fromstring(event.payload).nsmap.items()
