"""What a message says of sequences, read with the rest of it; and how it is refused."""

from datetime import UTC, datetime

import pytest

from filters import Reason
from mediation.detect import read
from mediation.faults import write_fault
from mediation.model.requests import (
    Arrival,
    EndpointRules,
    Incoming,
    Operation,
    Publish,
    Rejected,
    RunSequence,
    SequenceAnswered,
    Sequences,
    Subscribe,
)
from mediation.model.versions import Soap, Version
from mediation.reliable_messaging import (
    FaultName,
    ReliableMessage,
    Rm,
    RmFault,
    RmRefused,
    SequenceHeader,
    read_message,
)
from mediation.responses import write_response
from tests.rigs.reliable_envelopes import NAMED, envelope, sequence

NOW = datetime(2026, 3, 1, tzinfo=UTC)
TAKEN = EndpointRules(sequences=Sequences.OFFERED)
MUST = 's:mustUnderstand="true"'
CREATE = (
    "<r:CreateSequence><r:AcksTo><wsa:Address>http://a.example.com/</wsa:Address></r:AcksTo>"
    "</r:CreateSequence>"
)


def arrived(octets: bytes, rules: EndpointRules = TAKEN) -> Incoming:
    return read(octets, Arrival("urn:p", NOW, "urn:fresh", rules=rules))


def refused(octets: bytes, rules: EndpointRules = TAKEN) -> Rejected:
    with pytest.raises(Rejected) as caught:
        arrived(octets, rules)
    return caught.value


def said(incoming: Incoming) -> ReliableMessage:
    assert isinstance(incoming.context.reliable, ReliableMessage)
    return incoming.context.reliable


@pytest.mark.parametrize("rm", Rm)
@pytest.mark.parametrize("mode", [Sequences.OFFERED, Sequences.REQUIRED])
def test_an_event_in_a_sequence(rm: Rm, mode: Sequences) -> None:
    header = sequence("7").replace("<r:Sequence>", f"<r:Sequence {MUST}>")
    incoming = arrived(envelope(header, "<a/>", rm=rm), EndpointRules(sequences=mode))
    assert isinstance(incoming.request, Publish)
    assert incoming.request.notifications[0].headers == (), "it does not travel with the event"
    assert said(incoming).sequence == SequenceHeader("urn:s", 7)
    assert said(incoming).rm is rm


def test_a_message_without_one() -> None:
    assert arrived(envelope("", "<a/>")).context.reliable is None


def test_where_there_are_none() -> None:
    header = sequence("7")
    assert arrived(envelope(header), EndpointRules()).context.reliable is None
    mandatory = header.replace("<r:Sequence>", f"<r:Sequence {MUST}>")
    rejected = refused(envelope(mandatory), EndpointRules())
    assert rejected.refused.reason is Reason.NOT_UNDERSTOOD


@pytest.mark.parametrize(
    ("body", "operation"),
    [
        (CREATE, Operation.CREATE_SEQUENCE),
        (f"<r:TerminateSequence>{NAMED}</r:TerminateSequence>", Operation.TERMINATE_SEQUENCE),
        (f"<r:CloseSequence>{NAMED}</r:CloseSequence>", Operation.CLOSE_SEQUENCE),
    ],
)
def test_requests(body: str, operation: Operation) -> None:
    incoming = arrived(envelope("", body))
    assert incoming.context.operation is operation
    assert incoming.context.version is Version.WSRM_1_1
    assert isinstance(incoming.request, RunSequence)
    assert said(incoming).body is not None
    assert refused(envelope("", body), EndpointRules()).refused.reason is Reason.ACTION_UNSUPPORTED


def test_requests_without_a_body() -> None:
    action = f"<wsa:Action>{Rm.V1_1.namespace}/AckRequested</wsa:Action>"
    incoming = arrived(envelope(f"{action}<r:AckRequested>{NAMED}</r:AckRequested>", ""))
    assert incoming.context.operation is Operation.REQUEST_ACKNOWLEDGEMENT
    assert said(incoming).ack_requested[0].identifier == "urn:s"


def test_another_request_in_a_sequence() -> None:
    body = (
        '<n:Subscribe xmlns:n="http://docs.oasis-open.org/wsn/b-2"><n:ConsumerReference>'
        "<wsa:Address>http://c.example.com/</wsa:Address></n:ConsumerReference></n:Subscribe>"
    )
    incoming = arrived(envelope(sequence("1"), body))
    assert isinstance(incoming.request, Subscribe)
    assert said(incoming).sequence is not None


def test_what_is_refused_says_where_it_stood() -> None:
    """So that it can have had its turn."""
    body = '<n:Unknown xmlns:n="http://docs.oasis-open.org/wsn/b-2"/>'
    context = refused(envelope(sequence("3"), body)).context
    assert isinstance(context.reliable, ReliableMessage)
    assert context.reliable.sequence == SequenceHeader("urn:s", 3)


def test_an_answer_is_the_envelope_that_was_written() -> None:
    context = arrived(envelope("", CREATE)).context
    answer = SequenceAnswered("urn:action", b"<whole/>")
    assert write_response(answer, context, message_id="urn:m") == ("urn:action", b"<whole/>")


@pytest.mark.parametrize("soap", Soap)
@pytest.mark.parametrize("rm", Rm)
@pytest.mark.parametrize("name", [FaultName.UNKNOWN_SEQUENCE, FaultName.SEQUENCE_TERMINATED])
def test_faults(name: FaultName, rm: Rm, soap: Soap) -> None:
    context = arrived(envelope(sequence("1"), "<a/>", rm=rm, soap=soap)).context
    block = b'<x:extra xmlns:x="urn:x"/>'
    error = RmRefused(RmFault(name, "urn:s"), blocks=(block,))
    status, _, octets = write_fault(error, context, now=NOW, message_id="urn:m")
    found = read_message(octets)
    assert isinstance(found.fault, RmFault)
    assert (found.fault.name, found.fault.identifier, found.rm) == (name, "urn:s", rm)
    assert (block in octets) and found.soap is soap
    sender = name is FaultName.UNKNOWN_SEQUENCE and soap is Soap.V1_2
    assert status == (400 if sender else 500)


@pytest.mark.parametrize("soap", Soap)
def test_a_fault_about_a_message_that_says_nothing_of_sequences(soap: Soap) -> None:
    context = arrived(envelope("", "<a/>", soap=soap)).context
    error = RmRefused(RmFault(FaultName.WSRM_REQUIRED))
    _, _, octets = write_fault(error, context, now=NOW, message_id="urn:m")
    found = read_message(octets)
    assert isinstance(found.fault, RmFault)
    assert (found.fault.name, found.rm) == (FaultName.WSRM_REQUIRED, Rm.V1_1)


def test_a_number_that_is_too_large() -> None:
    rejected = refused(envelope(sequence(str(2**63))))
    assert isinstance(rejected.refused, RmRefused)
    _, _, octets = write_fault(rejected.refused, rejected.context, now=NOW, message_id="urn:m")
    assert b"MessageNumberRollover" in octets
