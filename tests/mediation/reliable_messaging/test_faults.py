"""Faults in any form that peers write, and what a version does not have."""

import pytest
from lxml import etree

from mediation.model.messages import EndpointReference
from mediation.model.specification import Code
from mediation.model.versions import Wsa
from mediation.reliable_messaging import (
    MAX_RANGES,
    Acknowledgement,
    CreateSequence,
    FaultName,
    IncompleteBehaviour,
    LastMessage,
    Offer,
    Ranges,
    Rm,
    RmFault,
    RmSpec,
    SequenceHeader,
    TerminateSequence,
    acknowledgement_block,
    read_message,
    sequence_block,
    write_message,
    write_rm_fault,
)
from mediation.soap.answers import PeerFault
from tests.rigs.reliable_envelopes import (
    S12,
    V1_0,
    V1_1,
    W5,
    read,
)


def fault(code: str, declared: str = "", detail: str = "") -> str:
    return (
        f"<s:Fault><s:Code><s:Value>s:Sender</s:Value><s:Subcode><s:Value{declared}>{code}</s:Value>"
        f"</s:Subcode></s:Code><s:Reason><s:Text>No.</s:Text></s:Reason>{detail}</s:Fault>"
    )


@pytest.mark.parametrize(
    "code",
    [
        "r:UnknownSequence",
        " r:UnknownSequence\n",
        f"{{{V1_1.namespace}}}UnknownSequence",
        "undeclared:UnknownSequence",
    ],
)
def test_names_of_faults_in_any_form(code: str) -> None:
    found = read("", fault(code)).fault
    assert found == RmFault(FaultName.UNKNOWN_SEQUENCE, code=Code.SENDER, reason="No.")


@pytest.mark.parametrize("code", ["x:UnknownSequence", "r:Other"])
def test_faults_of_others(code: str) -> None:
    found = read("", fault(code, ' xmlns:x="urn:x"')).fault
    assert isinstance(found, PeerFault)


@pytest.mark.parametrize("rm", Rm)
def test_faults_that_a_version_does_not_have(rm: Rm) -> None:
    missing = FaultName.SEQUENCE_CLOSED if rm is V1_0 else FaultName.LAST_MESSAGE_NUMBER_EXCEEDED
    to = EndpointReference("http://a/", W5)
    with pytest.raises(ValueError, match=missing.value):
        write_rm_fault(RmSpec(rm, S12, W5), RmFault(missing), about_header=True, to=to)


def test_messages_that_a_version_does_not_have() -> None:
    to = EndpointReference("http://a/", W5)
    with pytest.raises(ValueError, match="LastMessage"):
        write_message(RmSpec(V1_1, S12, W5), LastMessage(), to=to)


@pytest.mark.parametrize("number", [0, -1, 2**63])
def test_numbers_that_are_not_written(number: int) -> None:
    with pytest.raises(ValueError, match="message number"):
        sequence_block(V1_1, S12, SequenceHeader("urn:s", number))


def test_too_many_ranges_are_not_written() -> None:
    """A part of them would say that the rest is not there."""
    many = Ranges.of((number, number) for number in range(1, 2 * MAX_RANGES + 2, 2))
    with pytest.raises(ValueError, match="1024"):
        acknowledgement_block(V1_1, Acknowledgement("urn:s", many))


def test_the_actions_of_faults() -> None:
    assert V1_0.fault_action(Wsa.V2004_08) == Wsa.V2004_08.fault_action
    assert V1_0.fault_action(W5) == W5.fault_action
    assert V1_1.fault_action(W5) == f"{V1_1.namespace}/fault"


def test_addresses_are_written_alike() -> None:
    """WCF compares ReplyTo, AcksTo and the endpoint of the offer octet for octet."""
    here = EndpointReference("http://a.example.com/x?a=1&b=%20", W5)
    body = CreateSequence(here, offer=Offer("urn:o", here))
    spec = RmSpec(V1_1, S12, W5)
    _, octets = write_message(spec, body, to=here, message_id="urn:m", reply_to=here)
    addresses = etree.fromstring(octets).iter(f"{{{W5.value}}}Address")
    assert [element.text for element in addresses] == [here.address] * 3


def test_what_1_0_cannot_say_is_left_out() -> None:
    here = EndpointReference("http://a/", W5)
    behaviour = IncompleteBehaviour.DISCARD_ENTIRE_SEQUENCE
    offer = Offer("urn:o", here, incomplete=behaviour)
    spec = RmSpec(V1_0, S12, W5)
    _, octets = write_message(spec, CreateSequence(here, offer=offer), to=here)
    assert read_message(octets).body == CreateSequence(here, offer=Offer("urn:o"))
    _, octets = write_message(spec, TerminateSequence("urn:s", 9), to=here)
    assert read_message(octets).body == TerminateSequence("urn:s")
