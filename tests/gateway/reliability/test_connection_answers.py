"""Acknowledgements of one sequence are taken together, and nothing else is left out."""

from gateway.reliability.batches import AcknowledgementAnswer
from gateway.reliability.connection_answers import (
    ConnectionAnswer,
    acknowledgement_in,
    largest_of_each,
)
from gateway.reliability.records import Wire
from gateway.reliability.values import Outgoing
from mediation.model.messages import EndpointReference
from mediation.model.versions import Soap, Wsa
from mediation.reliable_messaging import (
    Acknowledgement,
    AcknowledgementAlone,
    Body,
    Ranges,
    Rm,
    RmSpec,
    TerminateSequenceResponse,
    acknowledgement_block,
    write_message,
)

SPOKEN = RmSpec(Rm.V1_1, Soap.V1_2, Wsa.V2005_08)
TO = EndpointReference("http://here.example/", Wsa.V2005_08)


def came(*saids: Acknowledgement, body: Body | None = None, ends: bool = False) -> ConnectionAnswer:
    blocks = [acknowledgement_block(Rm.V1_1, said) for said in saids]
    _, envelope = write_message(
        SPOKEN, body or AcknowledgementAlone(), to=TO, message_id="urn:example:1", blocks=blocks
    )
    wire = Wire(Rm.V1_1, Wsa.V2005_08, Soap.V1_2)
    outgoing = Outgoing(TO, b"", "", wire, "message 1", "key", ends)
    return ConnectionAnswer(outgoing, envelope, "application/soap+xml")


def ack(text: str, identifier: str = "urn:example:a", *, final: bool = False) -> Acknowledgement:
    return Acknowledgement(identifier, Ranges.parse(text), final=final)


def read(said: Acknowledgement) -> AcknowledgementAnswer:
    found = acknowledgement_in(came(said))
    assert found is not None
    return found


def test_the_largest_is_taken() -> None:
    small, large, middle = read(ack("1-2")), read(ack("1-5,7")), read(ack("1-4"))
    assert largest_of_each([small, large, middle]) == [large]
    assert largest_of_each([large, small]) == [large]


def test_neither_contains_the_other() -> None:
    one, other = read(ack("1-2")), read(ack("4"))
    assert sorted(largest_of_each([one, other]), key=id) == sorted([one, other], key=id)


def test_sequences_are_told_apart() -> None:
    one, other = read(ack("1-2")), read(ack("1-3", "urn:example:b"))
    assert largest_of_each([one, other]) == [one, other]


def test_what_says_more_is_taken_for_itself() -> None:
    answers = [
        came(ack("1-2", final=True)),
        came(Acknowledgement("urn:example:a", Ranges(), nacks=(3,))),
        came(ack("1-2"), ack("1", "urn:example:b")),
        came(ack("1-2"), ends=True),
        came(ack("1-2"), body=TerminateSequenceResponse("urn:example:a")),
        ConnectionAnswer(came().outgoing, None, ""),
        ConnectionAnswer(came().outgoing, b"<no/>", "text/xml"),
        ConnectionAnswer(came().outgoing, b"no", "text/xml"),
    ]
    assert [acknowledgement_in(each) for each in answers] == [None] * len(answers)
    said = ack("1-9")
    assert read(said).message.acknowledgements == (said,)
