"""What a listener of ours answers."""

import pytest

from filters import Reason
from mediation.grid_events.serving import write_refusal


@pytest.mark.parametrize(
    ("reason", "code"),
    [
        (Reason.MESSAGE_INVALID, "Client"),
        (Reason.VERSION_MISMATCH, "VersionMismatch"),
        (Reason.NOT_UNDERSTOOD, "MustUnderstand"),
        (Reason.INTERNAL, "Server"),
        (Reason.QUOTA, "Server"),
        (Reason.UNAVAILABLE, "Server"),
    ],
)
def test_whose_fault_it_is(reason: Reason, code: str) -> None:
    """Who is told that it is the listener's sends again."""
    assert f"<faultcode>SOAP-ENV:{code}</faultcode>".encode() in write_refusal(reason, "No.")
