"""What of a message of reliable messaging is refused, what is forgiven, and what is no part of it."""

from collections.abc import Callable
from contextlib import suppress

import pytest
from lxml import etree

from filters import Reason, Refused
from mediation.model.errors import MediationError
from mediation.model.messages import EndpointReference, MessageHeaders
from mediation.model.versions import Wsa
from mediation.reliable_messaging import (
    LARGEST_NUMBER,
    MAX_IDENTIFIER,
    FaultName,
    ReliableMessage,
    Rm,
    RmRefused,
    SequenceHeader,
    make_connection_address,
    read_message,
    read_parts,
    sequence_block,
    write_make_connection,
)
from mediation.soap.addressing import read_headers
from mediation.soap.answers import PeerFault
from mediation.soap.envelopes import read_envelope
from mediation.soap.layout import layout_of
from tests.rigs.pace import growth
from tests.rigs.reliable_envelopes import (
    NAMED,
    S12,
    V1_0,
    V1_1,
    W5,
    acknowledged,
    envelope,
    read,
    refused,
    sequence,
    span,
)


@pytest.mark.parametrize(
    "number", ["", "x", "-1", "1.5", "0", "18446744073709551616", "9" * 30_000, "1 2", "\u0663"]
)
def test_a_number_that_is_none(number: str) -> None:
    assert refused(sequence(number)).reason is Reason.MESSAGE_INVALID


@pytest.mark.parametrize("number", ["7", " 7\n", "+7", "0" * 500 + "7", "<!-- seven -->7"])
def test_numbers_with_more_around_them(number: str) -> None:
    assert read(sequence(number)).sequence == SequenceHeader("urn:s", 7)


@pytest.mark.parametrize("rm", Rm)
def test_the_largest_number(rm: Rm) -> None:
    assert read(sequence(str(LARGEST_NUMBER)), rm=rm).sequence == SequenceHeader(
        "urn:s", LARGEST_NUMBER
    )
    for number in (LARGEST_NUMBER + 1, 2**64 - 1):
        error = refused(sequence(str(number)), rm=rm)
        assert isinstance(error, RmRefused)
        assert error.fault.name is FaultName.MESSAGE_NUMBER_ROLLOVER
        assert (error.fault.identifier, error.fault.largest) == ("urn:s", LARGEST_NUMBER)


IDENTIFIERS = [
    pytest.param("", id="none"),
    pytest.param("<r:Identifier/>", id="empty"),
    pytest.param("<r:Identifier> \n</r:Identifier>", id="blank"),
    pytest.param(NAMED * 2, id="two"),
    pytest.param("<Identifier>urn:s</Identifier>", id="of another namespace"),
    pytest.param(f"<r:Identifier>{'a' * (MAX_IDENTIFIER + 1)}</r:Identifier>", id="long"),
    pytest.param(f"<r:Identifier>{'é' * (MAX_IDENTIFIER // 2 + 1)}</r:Identifier>", id="in octets"),
]


@pytest.mark.parametrize("inner", IDENTIFIERS)
def test_identifiers(inner: str) -> None:
    every = [
        sequence("1", inner),
        acknowledged("", inner),
        f"<r:AckRequested>{inner}</r:AckRequested>",
    ]
    for header in every:
        assert refused(header).reason is Reason.MESSAGE_INVALID
    assert refused("", f"<r:TerminateSequence>{inner}</r:TerminateSequence>").reason is (
        Reason.MESSAGE_INVALID
    )


def test_the_longest_identifier() -> None:
    named = f"<r:Identifier>{'a' * MAX_IDENTIFIER}</r:Identifier>"
    assert read(sequence("1", named)).sequence == SequenceHeader("a" * MAX_IDENTIFIER, 1)


def test_two_sequences() -> None:
    assert refused(sequence("1") + sequence("2")).reason is Reason.MESSAGE_INVALID


def test_two_versions() -> None:
    other = sequence_block(V1_0, S12, SequenceHeader("urn:s", 1)).decode()
    assert "two versions" in refused(sequence("1") + other).text
    body = f'<t:TerminateSequence xmlns:t="{V1_0.namespace}"/>'
    assert "two versions" in refused(sequence("1"), body).text


def test_blocks_for_another_role_are_not_read() -> None:
    octets = envelope(sequence("1").replace("<r:Sequence>", '<r:Sequence s:role="urn:other">'))
    assert read_message(octets).rm is None


def test_the_last_message_is_of_1_0() -> None:
    header = sequence("1", NAMED + "<r:LastMessage/>")
    assert read(header, rm=V1_0).sequence == SequenceHeader("urn:s", 1, last=True)
    assert read(header, rm=V1_1).sequence == SequenceHeader("urn:s", 1)


def test_a_message_without_reliable_messaging() -> None:
    message = read("<wsa:Action>urn:app</wsa:Action><x:y xmlns:x='urn:x'/>")
    headers = MessageHeaders(W5, action="urn:app")
    assert message == ReliableMessage(S12, headers)
    assert message.wsa is W5


def test_a_fault_of_the_application() -> None:
    body = (
        "<s:Fault><s:Code><s:Value>s:Receiver</s:Value></s:Code><s:Reason>"
        "<s:Text xml:lang='en'>No.</s:Text></s:Reason></s:Fault>"
    )
    for header in ("", sequence("2")):
        message = read(header, body)
        assert message.fault == PeerFault("Receiver", None, "No.", permanent=False)
        assert (message.sequence is not None) == bool(header)


def test_a_mandatory_block_of_its_namespace_that_nobody_knows() -> None:
    error = refused('<r:Strange s:mustUnderstand="1"/>')
    assert error.reason is Reason.NOT_UNDERSTOOD
    assert read("<r:Strange/>").rm is None
    assert refused('<x:y xmlns:x="urn:x" s:mustUnderstand="true"/>').reason is Reason.NOT_UNDERSTOOD


@pytest.mark.parametrize("name", ["UsesSequenceSTR", "UsesSequenceSSL"])
def test_bindings_are_told(name: str) -> None:
    message = read(f'<r:{name} s:mustUnderstand="1"/>')
    assert (message.uses_token, message.uses_tls) == (name.endswith("STR"), name.endswith("SSL"))
    error = refused(f'<r:{name} s:mustUnderstand="1"/>', rm=V1_0)
    assert error.reason is Reason.NOT_UNDERSTOOD


def test_versions_of_addressing() -> None:
    for rm in Rm:
        for wsa in (Wsa.V2004_08, W5):
            header = "<wsa:Action>urn:app</wsa:Action>" + sequence("1")
            assert read_message(envelope(header, rm=rm, wsa=wsa)).wsa is wsa
    header = "<wsa:Action>urn:app</wsa:Action>" + sequence("1")
    with pytest.raises(MediationError, match="WS-Addressing"):
        read_message(envelope(header, wsa=Wsa.V2003_03))


def test_an_envelope_that_was_taken_apart() -> None:
    octets = envelope("<wsa:Action>urn:app</wsa:Action>" + sequence("4"))
    parts = read_envelope(etree.fromstring(octets))
    headers = read_headers(parts, layout_of(parts.names))
    assert read_parts(parts, headers) == read_message(octets)


@pytest.mark.parametrize(
    ("pending", "expected"), [("true", True), ("1", True), ("false", False), ("", False)]
)
def test_whether_more_messages_wait(pending: str, expected: bool) -> None:
    header = (
        '<c:MessagePending xmlns:c="http://docs.oasis-open.org/ws-rx/wsmc/200702" '
        f'pending="{pending}"/>'
    )
    assert read(header).message_pending is expected
    assert read().message_pending is None


def test_make_connection() -> None:
    to = EndpointReference("http://a.example.com/", W5)
    address = make_connection_address("550e8400-e29b-11d4-a716-446655440000")
    action, octets = write_make_connection(address, to=to, message_id="urn:m")
    assert action == "http://docs.oasis-open.org/ws-rx/wsmc/200702/MakeConnection"
    root = etree.fromstring(octets)
    assert root.findtext(".//{http://docs.oasis-open.org/ws-rx/wsmc/200702}Address") == address
    assert read_message(octets).rm is None


LARGE = [
    pytest.param(lambda n: sequence("9" * n), id="digits"),
    pytest.param(lambda n: sequence("0" * n + "x"), id="zeros"),
    pytest.param(lambda n: sequence(" " * n + "1"), id="blanks"),
    pytest.param(lambda n: sequence("1", f"<r:Identifier>{'a' * n}</r:Identifier>"), id="name"),
    pytest.param(lambda n: acknowledged(span("0" * n, "1" * n)), id="attributes"),
    pytest.param(lambda n: acknowledged(span(" " * n, "1")), id="blank attributes"),
    pytest.param(lambda n: acknowledged("<r:None/>" * (n // 10)), id="None"),
    pytest.param(lambda n: acknowledged("<other/>" * (n // 10)), id="elements of others"),
]


@pytest.mark.parametrize("make", LARGE)
def test_time_is_linear(make: Callable[[int], str]) -> None:
    def attempt(size: int) -> None:
        with suppress(Refused):
            read(make(size))

    assert growth(attempt, 8_000) < 4
