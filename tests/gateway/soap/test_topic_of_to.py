"""The topic that ``wsa:To`` names, for a transport without paths."""

from gateway.soap.read import _with_topic_of_to
from mediation.model.requests import Publish
from mediation.model.versions import Wsa
from mediation.names import WSMAN_ACTIONS
from tests.rigs.mediation import envelope, incoming


def test_it_changes_nothing_else() -> None:
    """Whoever waits for an acknowledgement gets it."""
    octets = envelope(
        '<wsman:Events><wsman:Event Action="urn:a"><a/></wsman:Event></wsman:Events>',
        f"<wsa:Action>{WSMAN_ACTIONS}Events</wsa:Action><wsa:MessageID>uuid:1</wsa:MessageID>"
        "<wsa:To>http://gateway/soap/topic/storms</wsa:To>"
        '<wsman:AckRequested s:mustUnderstand="true"/>',
        wsa=Wsa.V2004_08,
    )
    came = incoming(octets)
    assert isinstance(came.request, Publish) and came.request.acknowledged
    found = _with_topic_of_to(came)
    assert isinstance(found.request, Publish) and found.request.acknowledged
    assert [str(one.topic) for one in found.request.notifications] == ["storms"]
