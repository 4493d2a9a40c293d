"""The action of a request over another body: refused, whatever specification it is of."""

from dataclasses import replace

import pytest

from filters import Reason
from mediation import names as n
from mediation.detect import read
from mediation.faults import write_fault
from mediation.model.requests import Publish, Rejected
from mediation.model.versions import Soap, Wsa
from mediation.request_actions import REQUEST_ACTIONS
from mediation.specifications import SPECIFICATIONS
from tests.rigs.cases import for_each
from tests.rigs.mediation import ARRIVAL, NOW, WSE, WSNT, envelope, parts

EVENT = '<o:R xmlns:o="urn:o">1</o:R>'
NOTIFY = (
    f"<wsnt:Notify xmlns:wsnt='{WSNT}'><wsnt:NotificationMessage><wsnt:Message>{EVENT}"
    "</wsnt:Message></wsnt:NotificationMessage></wsnt:Notify>"
)
UNKNOWN = '<NotificationProducer_Subscribe xmlns="urn:x"/>'
ELSEWHERE = [
    *(f"{namespace}/Do" for namespace in n.KNOWN_ELSEWHERE if namespace != n.WSMAN),
    "http://www.w3.org/2009/02/ws-evt/Subscribe",
]
ACTIONS = [*REQUEST_ACTIONS, *ELSEWHERE]


def _refused_for(octets: bytes, http: str | None = None) -> Rejected:
    with pytest.raises(Rejected) as caught:
        read(octets, replace(ARRIVAL, http_action=http))
    return caught.value


@for_each("soap", Soap)
@for_each("action", ACTIONS)
def test_a_request_is_no_event(action: str, soap: Soap) -> None:
    said = f"<wsa:Action>{action}</wsa:Action>"
    for body in (EVENT, NOTIFY, UNKNOWN):
        for octets, http in (
            (envelope(body, said, soap=soap), None),
            (envelope(body, soap=soap), action),
            (envelope(body, "<wsa:Action>urn:a</wsa:Action>", soap=soap), action),
        ):
            rejected = _refused_for(octets, http)
            assert rejected.refused.reason is Reason.ACTION_UNSUPPORTED
            assert rejected.context.soap is soap


def test_every_request_of_every_specification_has_an_action_here() -> None:
    asked = set(REQUEST_ACTIONS.values())
    missing = {
        operation.value
        for specification in SPECIFICATIONS.values()
        for operation in (
            *specification.requests.elements.values(),
            *specification.requests.actions.values(),
        )
    } - asked
    assert missing == {"Notify", "SubscriptionEnd", "storeMessages"}


@pytest.mark.parametrize("wsa", Wsa)
def test_the_fault_is_that_of_addressing(wsa: Wsa) -> None:
    octets = envelope(EVENT, f"<wsa:Action>{WSE}/Renew</wsa:Action>", wsa=wsa)
    rejected = _refused_for(octets)
    fault = write_fault(rejected.refused, rejected.context, message_id="urn:m", now=NOW)[2]
    assert b"ActionNotSupported" in fault and parts(fault, "s:Body/s:Fault")


@pytest.mark.parametrize("body", ["<wse:Renew/>", "<wsnt:Unsubscribe/>", "<rl:Destroy/>"])
def test_a_request_under_the_action_of_another_is_refused(body: str) -> None:
    said = f"<wsa:Action>{WSE}/GetStatus</wsa:Action>"
    assert _refused_for(envelope(body, said)).refused.reason is Reason.ACTION_UNSUPPORTED
    assert "GetStatus" in _refused_for(envelope(body), f"{WSE}/GetStatus").refused.text


def test_the_same_request_of_another_version_is_taken() -> None:
    said = "<wsa:Action>http://www.w3.org/2011/03/ws-evt/Renew</wsa:Action>"
    read(envelope("<wse:Renew/>", said), ARRIVAL)
    # The action of WS-Addressing is the message's, whatever HTTP says of a request.
    read(envelope("<wse:Renew/>", said), replace(ARRIVAL, http_action=f"{WSE}/Subscribe"))


EVENTS = {
    action
    for specification in SPECIFICATIONS.values()
    if specification.notifications is not None
    for action in specification.notifications.actions
} | {"urn:any", n.WSE_NOTIFICATION, f"{n.MESSAGE_BOX_2011_SLASH}storeMessages"}


@pytest.mark.parametrize("action", sorted(EVENTS))
def test_an_event_under_an_action_of_events_is_taken(action: str) -> None:
    for octets, http in (
        (envelope(EVENT, f"<wsa:Action>{action}</wsa:Action>"), None),
        (envelope(EVENT), action),
    ):
        assert isinstance(read(octets, replace(ARRIVAL, http_action=http)).request, Publish)
