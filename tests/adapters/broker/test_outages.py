"""What the log says of connections that are down."""

import logging

import pytest

from adapters.broker.outages import MOST, Outages
from tests.rigs.adapters import told


@pytest.fixture(autouse=True)
def _all_of_the_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "adapters")


def said(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    records = [*told(caplog, "adapter.disconnected"), *told(caplog, "adapter.connected")]
    records.sort(key=lambda fields: fields["created"])
    return [(fields.get("connection", "all"), fields.get("reason", "up")) for fields in records]


def test_one_outage_of_two_connections_is_two_reasons_and_an_end(
    caplog: pytest.LogCaptureFixture,
) -> None:
    outages = Outages("rabbitmq")
    for reason in ("lost", "refused", "refused"):
        for connection in ("consuming", "publishing"):
            outages.down(connection, reason)
    outages.up("publishing")
    assert said(caplog) == [("consuming", "lost"), ("consuming", "refused")]
    outages.up("consuming")
    outages.up("consuming")
    assert said(caplog)[2:] == [("all", "up")]
    outages.down("publishing", "lost")
    assert said(caplog)[3:] == [("publishing", "lost")]


def test_a_connection_that_comes_and_goes_beside_one_that_stays_away(
    caplog: pytest.LogCaptureFixture,
) -> None:
    outages = Outages("rabbitmq")
    outages.down("consuming", "locked")
    for _ in range(2):
        outages.down("publishing", "lost")
        outages.up("publishing")
    assert said(caplog) == [("consuming", "locked"), *[("publishing", "lost")] * 2]


def test_a_connection_that_is_wanted_no_more(caplog: pytest.LogCaptureFixture) -> None:
    outages = Outages("stomp")
    outages.down("partition 1", "refused")
    assert not outages.forget("partition 1")
    outages.up("consuming")
    assert said(caplog) == [("partition 1", "refused")]


def test_a_broker_that_says_something_else_each_time(caplog: pytest.LogCaptureFixture) -> None:
    """Neither the log nor memory grows with an outage."""
    outages = Outages("stomp")
    for number in range(10 * MOST):
        outages.down("consuming", f"refused: request {number}")
    assert said(caplog) == [("consuming", f"refused: request {n}") for n in range(MOST)]
    outages.up("consuming")
    assert said(caplog)[MOST:] == [("all", "up")]
