"""What is written for sinks of WS-Management."""

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from mediation.eventing.management import event_octets, write_event
from mediation.model.messages import Notification

ACTIONS = st.none() | st.text("a/:é\N{GRINNING FACE}<&\"'\t\n", max_size=20)


@given(action=ACTIONS, payload=st.binary(max_size=40))
def test_event_octets(action: str | None, payload: bytes) -> None:
    event = Notification("urn:id", "urn:source", payload, datetime.now(UTC), action=action)
    assert event_octets(event) == len(write_event(event))
