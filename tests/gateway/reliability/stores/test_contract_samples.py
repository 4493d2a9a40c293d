"""The contract kit lets no field of a record go unnoticed."""

from dataclasses import MISSING, fields

import pytest

from gateway.reliability.records import IncomingSequence, OutgoingSequence
from tests.gateway.reliability.stores.contract.samples import FULL_INCOMING, FULL_OUTGOING


@pytest.mark.parametrize(
    "record", [FULL_INCOMING, FULL_OUTGOING], ids=lambda one: type(one).__name__
)
def test_the_samples_have_every_field(record: IncomingSequence | OutgoingSequence) -> None:
    left_out = [
        field.name
        for field in fields(record)
        if field.default is not MISSING and getattr(record, field.name) == field.default
    ]
    assert left_out == []
