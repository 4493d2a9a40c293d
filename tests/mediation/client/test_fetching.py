"""Requests of consumers that fetch are read as what they ask for."""

import pytest

from mediation import names
from mediation.client import read_made, read_taken, write_fetching, write_subscribe
from mediation.model.requests import (
    CreateMailbox,
    MailboxMade,
    Operation,
    Request,
    Subscribe,
    SubscribePulling,
    Take,
    TakeFor,
)
from mediation.model.versions import Soap, Spec, Version, Wsa
from mediation.responses import write_response
from mediation.soap.envelopes import write_envelope
from tests.rigs.cases import for_each
from tests.rigs.mediation import IBM_SIMPLE, epr, incoming

BOXES = (Version.MESSAGE_BOX_2011, Version.MESSAGE_BOX_2004)
GATEWAY = "http://gateway.example.org/soap"
CASES: list[tuple[Version, Operation, type[Request] | tuple[type[Request], ...]]] = [
    (Version.WSN_1_3, Operation.CREATE_PULL_POINT, CreateMailbox),
    (Version.WSN_1_3, Operation.GET_MESSAGES, Take),
    (Version.WSN_1_3, Operation.CREATE_PULL_POINT_SUBSCRIPTION, SubscribePulling),
    (Version.WSN_1_3, Operation.PULL_MESSAGES, (Take, TakeFor)),
    *((version, Operation.CREATE_MESSAGE_BOX, CreateMailbox) for version in BOXES),
    *((version, Operation.TAKE_MESSAGES, Take) for version in BOXES),
]


@for_each(("version", "operation", "kind"), CASES)
@for_each("soap", Soap)
def test_requests(
    version: Version,
    operation: Operation,
    kind: type[Request] | tuple[type[Request], ...],
    soap: Soap,
) -> None:
    spec = Spec(version, soap, Wsa.V2005_08)
    action, octets = write_fetching(spec, operation, GATEWAY, message_id="urn:1", topic="storms")
    read = incoming(octets)
    assert isinstance(read.request, kind)
    assert (read.context.operation, read.context.headers.action) == (operation, action)
    if isinstance(read.request, Take) and operation in (
        Operation.GET_MESSAGES,
        Operation.PULL_MESSAGES,
    ):
        assert read.request.most == 1


@pytest.mark.parametrize("version", [Version.WSN_1_3, *BOXES])
def test_what_was_made_has_an_address_or_a_key(version: Version) -> None:
    making = Operation.CREATE_MESSAGE_BOX if version in BOXES else Operation.CREATE_PULL_POINT
    spec = Spec(version, Soap.V1_1, Wsa.V2005_08)
    _, asked = write_fetching(spec, making, GATEWAY, message_id="urn:1")
    made = MailboxMade("5b1f", "http://gateway.example.org/box/5b1f")
    _, answer = write_response(made, incoming(asked).context, message_id="urn:2")
    assert read_made(answer) in ("5b1f", "http://gateway.example.org/box/5b1f")


def test_a_subscribe_in_a_dialect_and_in_a_mode() -> None:
    spec = Spec(Version.WSE_2004_08, Soap.V1_1, Wsa.V2005_08)
    _, octets = write_subscribe(
        spec,
        to=GATEWAY,
        consumer=epr(),
        message_id="urn:1",
        topic="storms",
        topic_dialect=IBM_SIMPLE,
        mode=names.WSMAN_EVENTS,
    )
    request = incoming(octets).request
    assert isinstance(request, Subscribe)
    assert request.filter.topics[0].dialect == IBM_SIMPLE
    assert request.delivery.batched


def test_a_message_box_tells_payloads() -> None:
    box = "http://org.apache.airavata/ws-messenger/msgbox/2011/"
    taken = f'<b:r xmlns:b="{box}"><b:messages><a>1</a><c xmlns="urn:c"/></b:messages></b:r>'
    answer = write_envelope(Soap.V1_1, Wsa.V2005_08, "", taken)
    assert [one.payload for one in read_taken(answer)] == [b"<a>1</a>", b'<c xmlns="urn:c"/>']
    assert read_taken(write_envelope(Soap.V1_1, None, "", "<r/>")) == ()
    assert read_taken(write_envelope(Soap.V1_1, None, "", "")) == ()
