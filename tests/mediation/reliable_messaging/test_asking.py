"""What a subscriber says to get its notifications in a sequence."""

from dataclasses import replace

import pytest

from filters import Reason
from mediation.client import SPECS, write_subscribe
from mediation.model.delivery_modes import PUSH, DeliveryAssurance, DeliveryMode
from mediation.model.messages import EndpointReference
from mediation.model.requests import Incoming, Subscribe, SubscribePulling
from mediation.model.versions import Version, Wsa
from mediation.reliable_messaging import Rm
from tests.rigs.mediation import envelope, incoming, refused
from tests.rigs.reliable_consumers import policy

SAYING = (Version.WSE_2004_08, Version.WSE_2011_03, Version.WSN_1_3)
HERE = EndpointReference("http://sink.example.com/x", Wsa.V2005_08)
WSP = "http://schemas.xmlsoap.org/ws/2004/09/policy"


def subscribe(read: Incoming) -> Subscribe:
    assert isinstance(read.request, Subscribe)
    return read.request


def written(
    version: Version, reliable: str = "", assurance: DeliveryAssurance | None = None
) -> bytes:
    spec = replace(SPECS[version], wsa=Wsa.V2005_08)
    _, octets = write_subscribe(
        spec,
        to="http://g.example/soap",
        consumer=HERE,
        message_id="urn:m:1",
        reliable=reliable,
        assurance=assurance,
    )
    return octets


@pytest.mark.parametrize("version", SAYING)
@pytest.mark.parametrize("rm", list(Rm))
def test_what_we_write_is_read(version: Version, rm: Rm) -> None:
    read = subscribe(incoming(written(version, reliable=rm.number)))
    assert read.delivery == DeliveryMode(reliable=rm.number)
    assert subscribe(incoming(written(version))).delivery is PUSH


@pytest.mark.parametrize("version", SAYING)
def test_the_newer_of_both(version: Version) -> None:
    octets = written(version, reliable="1.1").decode()
    both = octets.replace("<wsrmp:RM", f"{policy(Rm.V1_0)}<wsrmp:RM")
    assert subscribe(incoming(both.encode())).delivery.reliable == "1.1"


@pytest.mark.parametrize("version", [Version.WSE_2004_08, Version.WSE_2011_03])
@pytest.mark.parametrize("end", ["</wse:Delivery>", "</wse:Subscribe>"])
@pytest.mark.parametrize(
    "within", ["{}", f'<p:Policy xmlns:p="{WSP}"><p:All>{{}}</p:All></p:Policy>']
)
def test_where_it_stands_in_eventing(version: Version, end: str, within: str) -> None:
    octets = written(version).decode()
    asked = octets.replace(end, within.format(policy(Rm.V1_0)) + end)
    assert subscribe(incoming(asked.encode())).delivery.reliable == "1.0"


def test_no_option_of_management_besides() -> None:
    octets = written(Version.WSE_2004_08, reliable="1.1").decode()
    acknowledged = "http://schemas.dmtf.org/wbem/wsman/1/wsman/PushWithAck"
    both = octets.replace("<wse:Delivery>", f'<wse:Delivery Mode="{acknowledged}">')
    assert both != octets
    assert refused(both.encode()).refused.reason is Reason.POLICY_UNSUPPORTED


def test_nothing_is_pulled_in_sequences() -> None:
    tev = "http://www.onvif.org/ver10/events/wsdl"
    body = (
        f'<tev:CreatePullPointSubscription xmlns:tev="{tev}">{{}}</tev:CreatePullPointSubscription>'
    )
    asked = f"<tev:SubscriptionPolicy>{policy()}</tev:SubscriptionPolicy>"
    assert isinstance(incoming(envelope(body.format(""))).request, SubscribePulling)
    assert refused(envelope(body.format(asked))).refused.reason is Reason.POLICY_UNSUPPORTED


@pytest.mark.parametrize(("number", "rm"), [("1.0", Rm.V1_0), ("1.1", Rm.V1_1), ("1.2", Rm.V1_1)])
def test_what_people_call_versions(number: str, rm: Rm) -> None:
    assert Rm.of(number) is rm


def test_no_such_version() -> None:
    with pytest.raises(ValueError, match=r"2\.0"):
        Rm.of("2.0")


OF_SOAP = (*SAYING, Version.WSN_1_0, Version.WSN_1_2)


class TestAssurance:
    @pytest.mark.parametrize("version", OF_SOAP)
    def test_every_specification_has_a_place_for_it(self, version: Version) -> None:
        for wanted in (DeliveryAssurance.AT_MOST_ONCE, DeliveryAssurance.AT_LEAST_ONCE):
            read = subscribe(incoming(written(version, assurance=wanted)))
            assert read.delivery.assurance is wanted
        assert subscribe(incoming(written(version))).delivery is PUSH

    @pytest.mark.parametrize("version", OF_SOAP)
    def test_exactly_once_is_a_sequence(self, version: Version) -> None:
        octets = written(version, assurance=DeliveryAssurance.EXACTLY_ONCE)
        if version in SAYING:
            assert subscribe(incoming(octets)).delivery == DeliveryMode(reliable="1.1")
        else:
            told = refused(octets).refused
            assert told.reason is Reason.POLICY_UNSUPPORTED and "sequences" in str(told)

    @pytest.mark.parametrize("version", SAYING)
    @pytest.mark.parametrize("wanted", list(DeliveryAssurance))
    def test_a_sequence_is_exactly_once_alone(
        self, version: Version, wanted: DeliveryAssurance
    ) -> None:
        octets = written(version, reliable="1.0", assurance=wanted)
        if wanted is DeliveryAssurance.EXACTLY_ONCE:
            assert subscribe(incoming(octets)).delivery == DeliveryMode(reliable="1.0")
        else:
            assert refused(octets).refused.reason is Reason.POLICY_UNSUPPORTED

    @pytest.mark.parametrize("version", OF_SOAP)
    @pytest.mark.parametrize("said", ["", "sometimes", "AT-MOST-ONCE"])
    def test_what_is_none_is_refused(self, version: Version, said: str) -> None:
        octets = written(version, assurance=DeliveryAssurance.AT_MOST_ONCE)
        told = refused(octets.replace(b"at-most-once", said.encode())).refused
        assert told.reason is Reason.POLICY_UNSUPPORTED
        assert "at-most-once, at-least-once, exactly-once" in str(told)

    @pytest.mark.parametrize("mode", ["PushWithAck", "Events", "Pull"])
    def test_what_is_acknowledged_or_stored_is_not_at_most_once(self, mode: str) -> None:
        octets = written(Version.WSE_2004_08, assurance=DeliveryAssurance.AT_MOST_ONCE).decode()
        management = "http://schemas.dmtf.org/wbem/wsman/1/wsman"
        other = octets.replace("<wse:Delivery>", f'<wse:Delivery Mode="{management}/{mode}">')
        assert other != octets
        assert refused(other.encode()).refused.reason is Reason.POLICY_UNSUPPORTED
