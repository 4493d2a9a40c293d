"""What is written is read again: every protocol message, header block and fault, in each version of
WS-ReliableMessaging, SOAP and WS-Addressing."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from mediation.model.messages import EndpointReference
from mediation.model.specification import Code
from mediation.model.versions import Soap, Wsa
from mediation.reliable_messaging import (
    CONNECTION_LIMIT_REACHED,
    FAULTS,
    LARGEST_NUMBER,
    MAX_BUFFER,
    Acknowledgement,
    AcknowledgementAlone,
    AckRequested,
    AckRequestedAlone,
    Body,
    CloseSequence,
    CloseSequenceResponse,
    CreateSequence,
    CreateSequenceResponse,
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
    TerminateSequenceResponse,
    Told,
    ack_requested_block,
    acknowledgement_block,
    read_message,
    sequence_block,
    with_blocks,
    write_message,
    write_rm_fault,
)

WORDS = st.text("abc:-/?&<>\"' é", min_size=1, max_size=30).map(str.strip).filter(bool)
NUMBERS = st.integers(1, LARGEST_NUMBER)
TIMES = st.none() | st.timedeltas(timedelta(microseconds=1), timedelta(days=9))
PAIRS = st.tuples(NUMBERS, NUMBERS).map(lambda pair: (min(pair), max(pair)))
RANGES = st.lists(PAIRS).map(Ranges.of)
SPECS = st.builds(
    RmSpec,
    st.sampled_from(Rm),
    st.sampled_from(Soap),
    st.sampled_from([Wsa.V2004_08, Wsa.V2005_08]),
)
PARAMETER = b'<p:Key xmlns:p="urn:app">1 &amp; 2</p:Key>'
TOKEN = (
    b'<o:SecurityTokenReference xmlns:o="http://docs.oasis-open.org/wss/2004/01/'
    b'oasis-200401-wss-wssecurity-secext-1.0.xsd"><o:Reference URI="#t"/></o:SecurityTokenReference>'
)


def references(spec: RmSpec) -> st.SearchStrategy[EndpointReference]:
    parameters = st.sampled_from([(), (PARAMETER,), (PARAMETER, PARAMETER)])
    return st.builds(
        lambda address, kept: EndpointReference(address, spec.wsa, parameters=kept),
        WORDS,
        parameters,
    )


def behaviours(spec: RmSpec) -> st.SearchStrategy[IncompleteBehaviour]:
    every = list(IncompleteBehaviour)
    return st.sampled_from(every if spec.rm is Rm.V1_1 else every[:1])


def offers(spec: RmSpec) -> st.SearchStrategy[Offer]:
    endpoint = references(spec) if spec.rm is Rm.V1_1 else st.none()
    return st.builds(Offer, WORDS, endpoint, TIMES, behaviours(spec))


def bodies(spec: RmSpec) -> st.SearchStrategy[Body]:
    last = st.none() | NUMBERS if spec.rm is Rm.V1_1 else st.none()
    token = st.sampled_from([None, TOKEN])
    every: list[st.SearchStrategy[Any]] = [
        st.builds(CreateSequence, references(spec), TIMES, st.none() | offers(spec), token),
        st.builds(
            CreateSequenceResponse, WORDS, TIMES, behaviours(spec), st.none() | references(spec)
        ),
        st.builds(TerminateSequence, WORDS, last),
        st.just(AcknowledgementAlone()),
        st.just(AckRequestedAlone()),
    ]
    if spec.rm is Rm.V1_0:
        every.append(st.just(LastMessage()))
    else:
        every.append(st.builds(CloseSequence, WORDS, last))
        every.append(st.builds(CloseSequenceResponse, WORDS))
        every.append(st.builds(TerminateSequenceResponse, WORDS))
    return st.one_of(every)


def acknowledgements(spec: RmSpec) -> st.SearchStrategy[Acknowledgement]:
    remaining = st.none() | st.integers(0, MAX_BUFFER)
    final = st.booleans() if spec.rm is Rm.V1_1 else st.just(False)
    nacks = st.lists(NUMBERS, min_size=1, max_size=5).map(tuple)
    return st.builds(Acknowledgement, WORDS, RANGES, final, buffer_remaining=remaining) | st.builds(
        Acknowledgement, WORDS, st.just(Ranges()), nacks=nacks, buffer_remaining=remaining
    )


@given(st.data())
def test_protocol_messages(data: st.DataObject) -> None:
    spec = data.draw(SPECS)
    body = data.draw(bodies(spec))
    to = EndpointReference("http://broker.example.org/", spec.wsa, parameters=(PARAMETER,))
    reply_to = data.draw(st.none() | references(spec))
    message_id = data.draw(st.none() | WORDS)
    relates_to = data.draw(st.none() | WORDS)
    action, envelope = write_message(
        spec, body, to=to, message_id=message_id, relates_to=relates_to, reply_to=reply_to
    )
    message = read_message(envelope)
    assert (message.rm, message.soap, message.wsa) == (spec.rm, spec.soap, spec.wsa)
    assert message.body == body
    headers = message.headers
    assert (headers.action, headers.to) == (action, to.address)
    assert (headers.message_id, headers.relates_to) == (message_id, relates_to)
    assert headers.reply_to == reply_to
    assert PARAMETER[:6] in envelope


@given(st.data())
def test_header_blocks(data: st.DataObject) -> None:
    """They ride on any finished envelope, whose other octets stay as they are."""
    spec = data.draw(SPECS)
    sequence = SequenceHeader(
        data.draw(WORDS), data.draw(NUMBERS), data.draw(st.booleans()) and spec.rm is Rm.V1_0
    )
    acknowledged = tuple(data.draw(st.lists(acknowledgements(spec), max_size=3)))
    requested = tuple(data.draw(st.lists(st.builds(AckRequested, WORDS), max_size=3)))
    plain = application(spec)
    blocks = [
        sequence_block(spec.rm, spec.soap, sequence),
        *(acknowledgement_block(spec.rm, one) for one in acknowledged),
        *(ack_requested_block(spec.rm, one) for one in requested),
    ]
    octets = with_blocks(plain, blocks)
    assert octets.replace(b"".join(blocks), b"") == plain
    message = read_message(octets)
    assert message.rm is spec.rm
    assert message.sequence == sequence
    assert message.acknowledgements == acknowledged
    assert message.ack_requested == requested
    assert message.body is None
    assert message.fault is None
    assert message.refusals == ()


def application(spec: RmSpec) -> bytes:
    return (
        f'<s:Envelope xmlns:s="{spec.soap.value}" xmlns:wsa="{spec.wsa.value}"><s:Header>'
        "<wsa:Action>urn:app</wsa:Action></s:Header><s:Body><a>1</a></s:Body></s:Envelope>"
    ).encode()


@given(st.data())
def test_faults(data: st.DataObject) -> None:
    spec = data.draw(SPECS)
    name = data.draw(
        st.sampled_from([name for name, row in FAULTS.items() if spec.rm in row.versions])
    )
    about_header = data.draw(st.booleans())
    fault = RmFault(
        name,
        data.draw(st.none() | WORDS),
        data.draw(st.sampled_from([Code.SENDER, Code.RECEIVER])),
        data.draw(st.sampled_from(["", "No more."])),
        data.draw(st.sampled_from(["", CONNECTION_LIMIT_REACHED])),
    )
    action, envelope = write_rm_fault(
        spec,
        fault,
        about_header=about_header,
        to=EndpointReference("http://a.example.org/", spec.wsa),
        relates_to="urn:uuid:1",
    )
    message = read_message(envelope)
    assert message.rm is spec.rm
    assert message.headers.action == action
    assert action in spec.rm.fault_actions
    expected = replace(fault, reason=fault.reason or FAULTS[name].text)
    if FAULTS[name].told is Told.LARGEST and spec.rm is Rm.V1_1:
        expected = replace(expected, largest=LARGEST_NUMBER)
    if spec.soap is Soap.V1_1:
        # There is no subcode, and the code has no place beside the name.
        code = fault.code if about_header else None
        expected = replace(expected, subcode="", code=code)
    assert message.fault == expected
    assert message.body is None


def test_the_acknowledgement_that_is_not_valid_is_told() -> None:
    block = acknowledgement_block(Rm.V1_1, Acknowledgement("urn:s", Ranges.of([(1, 9)])))
    for soap in Soap:
        spec = RmSpec(Rm.V1_1, soap, Wsa.V2005_08)
        fault = RmFault(FaultName.INVALID_ACKNOWLEDGEMENT, "urn:s", detail=block)
        _, envelope = write_rm_fault(
            spec, fault, about_header=True, to=EndpointReference("http://a/", spec.wsa)
        )
        found = read_message(envelope).fault
        assert isinstance(found, RmFault)
        assert (found.identifier, found.detail) == ("urn:s", block)
