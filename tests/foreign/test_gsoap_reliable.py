"""gSOAP's WS-ReliableMessaging at both ends, 1.0 and 1.1, over a net that loses, doubles and delays
what is sent."""

import contextlib
from collections.abc import Iterator

from gateway.client.reliable import Answer, Delivery, Policy, Receiver, ReliableClient
from gateway.reliability.records import Wire
from mediation.model.versions import Soap, Wsa
from mediation.reliable_messaging import Rm
from mediation.reliable_messaging.machines import SourceState
from tests.rigs.cases import each_value_once
from tests.rigs.gsoap_reliable import needs_gsoap_reliable, running
from tests.rigs.lossy_relay import ANY, Mishap, relay
from tests.rigs.ports import free_ports
from tests.rigs.receivers import served
from tests.rigs.reliable_http import CallableClient
from tests.rigs.waiting import wait_until

needs_gsoap_reliable()

COUNT = 10
TEXTS = [str(number) for number in range(1, COUNT + 1)]
# gSOAP drops what comes out of order without a word, so that much is sent again and again.
PATIENT = Policy(interval=0.2, ceiling=0.5, ack_after=0.05, poll=0.05, tries=200)
KINDS = {"note": "note", "ask": "ask"}
WIRES = {
    f"{rm.number}-{soap.name}": Wire(rm, Wsa.V2005_08, soap)
    for rm, soap in [(Rm.V1_0, Soap.V1_1), (Rm.V1_1, Soap.V1_1), (Rm.V1_1, Soap.V1_2)]
}


def body(kind: str, text: str) -> bytes:
    return f'<{kind} xmlns="urn:gsoap-peer"><text>{text}</text></{kind}>'.encode()


def text_of(octets: bytes) -> str:
    """The text of a message of the peer."""
    return octets.split(b"text>")[1].split(b"<")[0].decode()


@contextlib.contextmanager
def receiver(address: str, back: int, got: list[str]) -> Iterator[str]:
    """A receiver that answers who asks; yields its URL."""

    def take(delivery: Delivery) -> Answer | None:
        got.append(text_of(delivery.body))
        if b"ask" not in delivery.body:
            return None
        return Answer("urn:gsoap-peer:answer", body("answer", got[-1]))

    made = Receiver(
        "memory:", address=address, may_call=[f"127.0.0.1:{back}"], policy=PATIENT, hold=2
    )
    made.service("/orders", take)
    with served(made) as url:
        yield url


@each_value_once(
    rm={rm.number: rm for rm in Rm},
    kind=KINDS,
    called={"called back": True, "on its connections": False},
    soap={"soap-1.1": [], "soap-1.2": ["--soap12"]},
)
def test_its_client(rm: Rm, kind: str, called: bool, soap: list[str]) -> None:
    got: list[str] = []
    with relay(ANY, seed=1) as there, relay(ANY, seed=2) as here:
        address = f"{there.url}/orders"
        words = ["send", address, kind, str(COUNT)]
        if called:
            [port] = free_ports(1)
            here.target = f"http://127.0.0.1:{port}"
            words += [here.url, str(port)]
        with receiver(address, here.port, got) as there.target, running(rm, *words, *soap) as peer:
            peer.ended()
            wait_until(lambda: len(got) >= COUNT)  # Acknowledged is not yet taken.
        assert there.counts[Mishap.LOSE_REQUEST] and there.counts[Mishap.DOUBLE]
    assert got == TEXTS
    assert peer.got == (TEXTS if kind == "ask" else [])
    assert peer.lines[-2:] == ["left 0", "ended"]


@each_value_once(kind=KINDS, wire=WIRES)
def test_its_server_calls_back(wire: Wire, kind: str) -> None:
    """It does not keep its replies, so that none may be lost."""
    lost = {Mishap.LOSE_REQUEST: 0.0} if kind == "ask" else {}
    with relay(ANY, seed=3) as there, relay({**ANY, **lost}, seed=4) as here:
        client = CallableClient(here.url, PATIENT)
        channel = client.channel(f"{there.url}/service", wire, offers=kind == "ask")
        with running(wire.rm, "serve", "0") as peer, client, served(client) as here.target:
            there.target = f"http://127.0.0.1:{peer.port()}"
            for text in TEXTS:
                client.send(channel, f"urn:gsoap-peer:{kind}", body(kind, text))
            client.end(channel)
            # A TerminateSequenceResponse that was lost is not given again.
            ends = SourceState.TERMINATED
            wait_until(lambda: all(each.state is ends for each in client.sequences))
            wait_until(lambda: len(client.got) == (COUNT if kind == "ask" else 0))
            peer.ended()
        assert there.counts[Mishap.LOSE_REQUEST] and there.counts[Mishap.DOUBLE]
    assert peer.got == TEXTS
    assert [text_of(each) for each in client.got] == (TEXTS if kind == "ask" else [])
    assert [each.failure for each in client.sequences] == [None]


@each_value_once(kind=KINDS, wire=WIRES)
def test_its_server_on_connections(wire: Wire, kind: str) -> None:
    """Requests are lost, but no answers: those gSOAP gives once. It acknowledges no LastMessage
    there, so that a sequence of 1.0 is not ended."""
    replies: list[str] = []
    client = ReliableClient("memory:", rm=wire.rm, soap=wire.soap, wsa=wire.wsa, policy=PATIENT)
    client.callbacks("", on_message=lambda each: None)
    client.callbacks("answers", on_message=lambda each: replies.append(text_of(each.body)))
    odds = {Mishap.LOSE_REQUEST: 0.3, Mishap.LATE: 0.1}
    with running(wire.rm, "serve", "0") as peer, relay(odds, seed=5) as there:
        there.target, address = f"http://127.0.0.1:{peer.port()}", f"{there.url}/service"
        with client:
            for text in TEXTS:
                action, octets = f"urn:gsoap-peer:{kind}", body(kind, text)
                if kind == "ask":
                    client.request(address, octets, action=action, callbacks="answers")
                else:
                    client.send(address, octets, action=action)
            assert client.drain(60)
            wait_until(lambda: len(replies) == (COUNT if kind == "ask" else 0))
            client.terminate()
            if wire.rm is Rm.V1_1:
                wait_until(lambda: any(b"TerminateSequenceResponse" in o for _, o in there.passed))
        peer.ended()
        assert there.counts[Mishap.LOSE_REQUEST]
    assert peer.got == TEXTS
    assert replies == (TEXTS if kind == "ask" else [])
