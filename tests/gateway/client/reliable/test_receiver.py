"""The receiver as an ASGI app: where it is mounted, what it refuses."""

import http.client
import threading
import uuid
from collections.abc import AsyncIterator, Iterator, MutableMapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

import pytest
from fastapi import FastAPI

from gateway.client.reliable import MemoryStore, Receiver, ReliableClient, StorageUnavailable
from mediation.model.messages import EndpointReference
from mediation.model.versions import Soap, Wsa
from mediation.reliable_messaging import CreateSequence, Offer, Rm, RmSpec, write_message
from tests.gateway.client.reliable.test_queued import ORDER, SOON
from tests.rigs.receivers import served
from tests.rigs.waiting import wait_until

XML = {"Content-Type": "application/soap+xml"}


def ask(
    url: str, body: bytes = b"", method: str = "POST", headers: dict[str, str] | None = None
) -> tuple[int, bytes]:
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=60)
    connection.request(method, parts.path, body, XML if headers is None else headers)
    answer = connection.getresponse()
    found = answer.status, answer.read()
    connection.close()
    return found


def create(
    acks_to: str = "http://www.w3.org/2005/08/addressing/anonymous", *, id: str = "urn:example:1"
) -> bytes:
    spoken = RmSpec(Rm.V1_1, Soap.V1_2, Wsa.V2005_08)
    to = EndpointReference("http://server.example/orders", Wsa.V2005_08)
    body = CreateSequence(EndpointReference(acks_to, Wsa.V2005_08))
    return write_message(spoken, body, to=to, message_id=id)[1]


@pytest.fixture
def url() -> Iterator[str]:
    receiver = Receiver("memory:", max_octets=10_000, may_call=["known.example"])
    receiver.service("/orders", lambda each: None)
    with served(receiver) as found:
        yield found


def test_mounted_in_another_app() -> None:
    taken: list[bytes] = []
    receiver = Receiver("memory:", policy=SOON)
    receiver.service("/orders", lambda each: taken.append(each.body))

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with receiver:
            yield

    app = FastAPI(lifespan=lifespan)
    app.mount("/reliable", receiver)
    with served(app) as found, ReliableClient("memory:", policy=SOON) as client:
        client.send(f"{found}/reliable/orders", b"<tea/>", action=ORDER)
        wait_until(lambda: taken)
    assert taken == [b"<tea/>"]


def test_mounted_without_its_lifespan_it_starts_with_the_first_message() -> None:
    taken: list[bytes] = []
    receiver = Receiver("memory:", policy=SOON)
    receiver.service("/orders", lambda each: taken.append(each.body))
    app = FastAPI()
    app.mount("/reliable", receiver)
    with served(app) as found, ReliableClient("memory:", policy=SOON) as client:
        client.send(f"{found}/reliable/orders", b"<tea/>", action=ORDER)
        wait_until(lambda: taken)
    receiver.close()


def test_what_is_no_service(url: str) -> None:
    assert ask(f"{url}/other")[0] == 404
    assert ask(f"{url}/orders", method="GET")[0] == 405


def test_bodies_are_bounded(url: str) -> None:
    assert ask(f"{url}/orders", b"x" * 10_001)[0] == 413
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=60)
    connection.request(
        "POST", "/orders", iter([b"x" * 6_000, b"x" * 6_000]), XML, encode_chunked=True
    )
    assert connection.getresponse().status == 413
    connection.close()


@pytest.mark.parametrize(
    ("length", "status"), [(b"x", 400), (b"-1", 400), (b"9" * 5000, 413), (b"10001", 413)]
)
async def test_a_server_that_lets_any_length_through(length: bytes, status: int) -> None:
    receiver = Receiver("memory:", max_octets=10_000)
    receiver.service("/orders", lambda each: None)
    sent: list[MutableMapping[str, Any]] = []

    async def receive() -> MutableMapping[str, Any]:
        return {"type": "http.request", "body": b""}

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "path": "/orders",
        "method": "POST",
        "headers": [(b"Content-Length", length), (b"Content-Type", b"text/xml")],
    }
    await receiver(scope, receive, send)
    assert sent[0]["status"] == status


ANSWERED = "http://docs.oasis-open.org/ws-rx/wsmc/200702/fault"
SELECTIONS = [
    pytest.param("", "MissingSelection", id="nothing"),
    pytest.param("<c:Address> </c:Address>", "MissingSelection", id="an empty address"),
    pytest.param("<r:Identifier>urn:x</r:Identifier>", "UnsupportedSelection", id="a sequence"),
]


def make_connection(content: str, *, soap: Soap = Soap.V1_2, action: bool = True) -> bytes:
    namespace = "http://docs.oasis-open.org/ws-rx/wsmc/200702"
    said = f"<a:Action>{namespace}/MakeConnection</a:Action>" if action else ""
    return (
        f'<s:Envelope xmlns:s="{soap.value}" xmlns:a="{Wsa.V2005_08.value}" xmlns:c="{namespace}"'
        f' xmlns:r="{Rm.V1_1.namespace}"><s:Header>{said}<a:MessageID>urn:example:7</a:MessageID>'
        f"</s:Header><s:Body><c:MakeConnection>{content}</c:MakeConnection></s:Body></s:Envelope>"
    ).encode()


@pytest.mark.parametrize("action", [True, False])
@pytest.mark.parametrize("soap", list(Soap))
@pytest.mark.parametrize(("content", "fault"), SELECTIONS)
def test_make_connection_that_selects_nothing(
    url: str, content: str, fault: str, soap: Soap, action: bool
) -> None:
    headers = {"Content-Type": soap.media_type}
    octets = make_connection(content, soap=soap, action=action)
    status, body = ask(f"{url}/orders", octets, headers=headers)
    assert (status, f":{fault}<" in body.decode()) == (500, True)
    assert f"Action>{ANSWERED}<" in body.decode()
    assert b"RelatesTo>urn:example:7<" in body


def test_make_connection_is_known_by_its_body(url: str) -> None:
    address = f"http://docs.oasis-open.org/ws-rx/wsmc/200702/anonymous?id={uuid.uuid4()}"
    for action in (True, False):
        octets = make_connection(f"<c:Address>{address}</c:Address>", action=action)
        assert ask(f"{url}/orders", octets) == (202, b"")


@pytest.mark.parametrize("soap", list(Soap))
@pytest.mark.parametrize(
    ("header", "code"),
    [
        ('<r:Sequence {must}><r:Identifier>u</r:Identifier><r:MessageNumber>0</r:MessageNumber>'
         '</r:Sequence>', "Sender"),
        ('<r:Sequence {must}><r:MessageNumber>1</r:MessageNumber></r:Sequence>', "Sender"),
        ('<x:Unknown xmlns:x="urn:x" {must}/>', "MustUnderstand"),
    ],
)  # fmt: skip
def test_faults_are_addressed(url: str, soap: Soap, header: str, code: str) -> None:
    must = f's:mustUnderstand="{1 if soap is Soap.V1_1 else "true"}"'
    octets = make_connection("", soap=soap).decode()
    octets = octets[: octets.index("<a:Action>")] + header.format(must=must)
    octets += "<a:MessageID>urn:example:7</a:MessageID></s:Header><s:Body><e/></s:Body>"
    status, body = ask(
        f"{url}/orders",
        f"{octets}</s:Envelope>".encode(),
        headers={"Content-Type": soap.media_type},
    )
    sender = soap is Soap.V1_2 and code == "Sender"
    assert status == (400 if sender else 500)
    assert b"RelatesTo>urn:example:7<" in body
    assert b"Action>http://www.w3.org/2005/08/addressing/" in body
    assert ("Client" if soap is Soap.V1_1 and code == "Sender" else code) in body.decode()


@pytest.mark.parametrize(
    ("content_type", "encoding"),
    [
        ("text/plain", None),
        ("", None),
        ("application/x-www-form-urlencoded", None),
        ("application/json", None),
        ('multipart/related; type="application/xop+xml"; boundary=b', None),
        ("text/xml; charset=shift_jis", None),
        ("text/xml", "gzip"),
    ],
)
def test_what_is_no_envelope_by_its_media_type(
    url: str, content_type: str, encoding: str | None
) -> None:
    headers = {"Content-Type": content_type}
    if encoding is not None:
        headers["Content-Encoding"] = encoding
    status, said = ask(f"{url}/orders", create(), headers=headers)
    assert (status, said.startswith(b"<")) == (415, False)


@pytest.mark.parametrize(
    "content_type",
    ["application/soap+xml; charset=UTF-8", "text/xml;charset=utf-8", 'application/xml; a="b"'],
)
def test_media_types_of_envelopes(url: str, content_type: str) -> None:
    assert ask(f"{url}/orders", create(), headers={"Content-Type": content_type})[0] == 200
    octets = create(id="urn:example:2").decode().encode("utf-16")
    assert (
        ask(f"{url}/orders", octets, headers={"Content-Type": "text/xml; charset=utf-16"})[0] == 200
    )


def test_what_is_no_envelope_gets_a_fault(url: str) -> None:
    status, body = ask(f"{url}/orders", b"<no/>")
    assert status >= 400
    assert b"Fault" in body


def test_a_message_without_a_sequence_is_refused(url: str) -> None:
    envelope = (
        b'<e:Envelope xmlns:e="http://www.w3.org/2003/05/soap-envelope"><e:Body><a/></e:Body>'
        b"</e:Envelope>"
    )
    status, body = ask(f"{url}/orders", envelope)
    assert status == 400
    assert b"WSRMRequired" in body


@pytest.mark.parametrize(
    ("acks_to", "taken"),
    [
        ("http://www.w3.org/2005/08/addressing/anonymous", True),
        ("http://known.example/acks", True),
        ("http://KNOWN.example:8080/acks", True),
        ("http://169.254.169.254/latest", False),
        ("http://known.example.evil.example/", False),
        ("http://known.example@evil.example/", False),
        ("file:///etc/passwd", False),
        ("http://[", False),
    ],
)
def test_nothing_is_sent_to_addresses_that_were_not_allowed(
    url: str, acks_to: str, taken: bool
) -> None:
    status, body = ask(f"{url}/orders", create(acks_to))
    assert (b"CreateSequenceResponse" in body) is taken, (status, body)


@pytest.mark.parametrize("named", ["AcksTo", "Endpoint", "ReplyTo"])
@pytest.mark.parametrize(
    ("address", "taken"),
    [("http://known.example/acks", True), ("http://169.254.169.254/latest", False)],
)
def test_every_address_of_a_request_has_to_be_allowed(
    url: str, named: str, address: str, taken: bool
) -> None:
    spoken = RmSpec(Rm.V1_1, Soap.V1_2, Wsa.V2005_08)
    here = EndpointReference(Wsa.V2005_08.anonymous, Wsa.V2005_08)
    there = EndpointReference(address, Wsa.V2005_08)
    chosen = {name: there if name == named else here for name in ("AcksTo", "Endpoint", "ReplyTo")}
    offer = Offer(f"urn:offered:{uuid.uuid4()}", chosen["Endpoint"])
    _, octets = write_message(
        spoken,
        CreateSequence(chosen["AcksTo"], offer=offer),
        to=EndpointReference("http://server.example/orders", Wsa.V2005_08),
        message_id=f"urn:example:{uuid.uuid4()}",
        reply_to=chosen["ReplyTo"],
    )
    status, body = ask(f"{url}/orders", octets)
    refused = b"CreateSequenceRefused" in body
    assert refused is not taken, (status, body)


def test_a_sequence_belongs_to_who_made_it() -> None:
    receiver = Receiver(
        "memory:",
        identify=lambda scope: dict(scope["headers"]).get(b"x-who", b"").decode() or None,
    )
    receiver.service("/orders", lambda each: None)
    with served(receiver) as found:
        status, _ = ask(f"{found}/orders", create(), headers={**XML, "X-Who": "alice"})
        assert status == 200
        with receiver.store.look() as look:
            [sequence] = look.incoming_page("", 10)
    assert sequence.owner == "alice"


def test_strangers_have_so_many_sequences_each() -> None:
    receiver = Receiver("memory:", policy=replace(SOON, sequences_per_peer=2))
    receiver.service("/orders", lambda each: None)
    statuses: dict[str, list[int]] = {}
    with served(receiver) as found:  # uvicorn believes a proxy on its own machine.
        for peer in ("192.0.2.1", "192.0.2.2", "2001:db8::1", "2001:db8::2"):
            headers = {**XML, "X-Forwarded-For": peer}
            statuses[peer] = [
                ask(f"{found}/orders", create(id=f"urn:{peer}:{number}"), headers=headers)[0]
                for number in range(3)
            ]
    assert statuses["192.0.2.1"] == statuses["192.0.2.2"] == [200, 200, 400]
    # Who has one address of IPv6 has its network.
    assert statuses["2001:db8::1"] == [200, 200, 400]
    assert statuses["2001:db8::2"] == [400, 400, 400]


def test_who_is_not_counted() -> None:
    policy = replace(SOON, sequences_per_peer=1)
    receiver = Receiver("memory:", policy=policy, address_of=lambda scope: "")
    receiver.service("/orders", lambda each: None)
    with served(receiver) as found:
        statuses = [ask(f"{found}/orders", create(id=f"urn:{each}"))[0] for each in range(3)]
    assert statuses == [200] * 3


def test_functions_that_hang_do_not_stop_what_comes() -> None:
    """A message is acknowledged though the function has another one still."""
    release = threading.Event()
    first = threading.Event()

    def take(each: object) -> None:
        first.set()
        release.wait(60)

    receiver = Receiver("memory:", policy=SOON)
    receiver.service("/slow", take)
    receiver.service("/quick", lambda each: None)
    with served(receiver) as found, ReliableClient("memory:", policy=SOON) as client:
        client.send(f"{found}/slow", b"<tea/>", action=ORDER)
        assert first.wait(60)
        client.send(f"{found}/quick", b"<tea/>", action=ORDER)
        assert client.drain(60)
        release.set()


def test_a_store_that_is_away() -> None:
    """It is said to come again later; nothing is promised."""
    away = False

    def step(what: str) -> None:
        if away:
            raise StorageUnavailable("the disk is full")

    receiver = Receiver(MemoryStore(step=step))
    receiver.service("/orders", lambda each: None)
    with served(receiver) as found:
        away = True
        assert ask(f"{found}/orders", create())[0] == 503
        away = False
        assert ask(f"{found}/orders", create())[0] == 200


def test_a_path_begins_with_a_slash() -> None:
    with pytest.raises(ValueError, match="path"):
        Receiver("memory:").service("orders", lambda each: None)


def test_what_is_closed_starts_when_its_user_says_so() -> None:
    """No request does it: its store may be closed, too."""
    receiver = Receiver("memory:")
    receiver.service("/orders", lambda each: None)
    with served(receiver) as found:
        assert ask(f"{found}/orders", create())[0] == 200
        receiver.close()
        assert ask(f"{found}/orders", create())[0] == 503
        assert not receiver._workers.running
        receiver.start()
        assert ask(f"{found}/orders", create())[0] == 200


async def test_workers_that_have_stopped_run_nothing() -> None:
    receiver = Receiver("memory:")
    async with receiver:
        loop = receiver._workers.loop
    assert loop is not None and loop.is_closed()

    async def never() -> None:
        raise AssertionError

    for found in (None, loop):  # It is there until the threads have ended.
        receiver._workers._loop = found
        with pytest.raises(StorageUnavailable):
            receiver._workers.submit(never())
    receiver._workers._loop = None
