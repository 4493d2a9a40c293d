"""What is written is valid by the schemas: our own always, the official ones where they are."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from lxml import etree

from mediation.model.messages import EndpointReference
from mediation.model.versions import Soap, Wsa
from mediation.names import MAKE_CONNECTION_1_1, POLICY_2004_09
from mediation.reliable_messaging import (
    EMPTY,
    FAULTS,
    Acknowledgement,
    AckRequested,
    Assurance,
    Body,
    Bound,
    CloseSequence,
    CloseSequenceResponse,
    CreateSequence,
    CreateSequenceResponse,
    Offer,
    Ranges,
    Rm,
    RmAssertion,
    RmFault,
    RmSpec,
    SequenceHeader,
    TerminateSequence,
    TerminateSequenceResponse,
    ack_requested_block,
    acknowledgement_block,
    make_connection_address,
    read_message,
    sequence_block,
    write_make_connection,
    write_message,
    write_rm_assertion,
    write_rm_fault,
)
from tests.rigs.reliable_schemas import check, connection_schema, jar, policy_schema, schema

HOUR = timedelta(hours=1, microseconds=500_000)
SPECS = [RmSpec(rm, soap, wsa) for rm in Rm for soap in Soap for wsa in rm.rules.wsa]


@pytest.fixture(params=SPECS, ids=lambda spec: f"{spec.rm.name}-{spec.soap.name}-{spec.wsa.name}")
def spec(request: pytest.FixtureRequest) -> RmSpec:
    found: RmSpec = request.param
    return found


@pytest.fixture(params=["ours", "official"])
def valid(request: pytest.FixtureRequest, spec: RmSpec, tmp_path: Path) -> Any:
    """Asserts that an envelope has this many valid elements of reliable messaging."""
    against = schema(spec.rm, spec.wsa, tmp_path, official=request.param == "official")

    def assert_valid(octets: bytes, count: int) -> None:
        assert check(against, octets, spec.rm.namespace) == count
        read_message(octets)

    return assert_valid


def reference(spec: RmSpec) -> EndpointReference:
    return EndpointReference("http://a.example.com/", spec.wsa, parameters=(b"<key>1</key>",))


def test_protocol_messages(spec: RmSpec, valid: Any) -> None:
    to = reference(spec)
    offer = Offer("urn:offered", to, HOUR)
    bodies: list[Body] = [
        CreateSequence(to),
        CreateSequence(to, HOUR, offer),
        CreateSequenceResponse("urn:s"),
        CreateSequenceResponse("urn:s", HOUR, accept_acks_to=to),
        TerminateSequence("urn:s"),
        TerminateSequence("urn:s", 9),
    ]
    if spec.rm.rules.closes:
        bodies += [
            CloseSequence("urn:s"),
            CloseSequence("urn:s", 9),
            CloseSequenceResponse("urn:s"),
        ]
    if spec.rm.rules.terminate_answered:
        bodies.append(TerminateSequenceResponse("urn:s"))
    for body in bodies:
        _, octets = write_message(spec, body, to=to, message_id="urn:m", reply_to=to)
        valid(octets, 1)


def test_header_blocks(spec: RmSpec, valid: Any) -> None:
    rm = spec.rm
    some = Ranges.of([(1, 2), (4, 6)])
    blocks = [
        sequence_block(rm, spec.soap, SequenceHeader("urn:s", 1)),
        sequence_block(rm, spec.soap, SequenceHeader("urn:s", 2**63 - 1, last=True)),
        ack_requested_block(rm, AckRequested("urn:s")),
        *(
            acknowledgement_block(rm, Acknowledgement("urn:s", ranges, final, nacks, remaining))
            for ranges in (EMPTY, some)
            for final in (False, True)
            for nacks in ((), (7, 9))
            for remaining in (None, 3)
        ),
    ]
    envelope = (
        f'<s:Envelope xmlns:s="{spec.soap.value}"><s:Header>%b</s:Header><s:Body/></s:Envelope>'
    )
    for block in blocks:
        valid(envelope.encode() % block, 1)


def test_faults(spec: RmSpec, valid: Any) -> None:
    block = acknowledgement_block(spec.rm, Acknowledgement("urn:s", Ranges.of([(1, 9)])))
    for name, row in FAULTS.items():
        if spec.rm not in row.versions:
            continue
        for fault in (RmFault(name), RmFault(name, "urn:s"), RmFault(name, detail=block)):
            _, octets = write_rm_fault(spec, fault, about_header=True, to=reference(spec))
            valid(octets, 1 if spec.soap is Soap.V1_1 else 0)


def test_policy_assertions() -> None:
    assertions = [
        *(RmAssertion(bound=bound) for bound in Bound),
        RmAssertion(
            optional=True,
            assurance=Assurance.EXACTLY_ONCE,
            in_order=True,
            inactivity_timeout=timedelta(minutes=10),
            base_retransmission_interval=timedelta(seconds=2),
            exponential_backoff=True,
            acknowledgement_interval=timedelta(milliseconds=200),
        ),
    ]
    jar()
    for rm in Rm:
        against = policy_schema(rm)
        for assertion in assertions:
            octets = write_rm_assertion(rm, assertion, policy=POLICY_2004_09)
            assert against.validate(etree.fromstring(octets)), against.error_log


def test_make_connection(tmp_path: Path) -> None:
    jar()
    against = connection_schema(tmp_path)
    to = EndpointReference("http://a.example.com/", Wsa.V2005_08)
    _, octets = write_make_connection(make_connection_address("1"), to=to, message_id="urn:m")
    assert check(against, octets, MAKE_CONNECTION_1_1) == 1
