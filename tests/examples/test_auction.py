"""The auction: what its command prints, and whether its producer speaks the draft that it says."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType
from urllib.error import HTTPError
from urllib.request import ProxyHandler, Request, build_opener

import pytest

from mediation.client import (
    SPECS,
    AnsweredFault,
    read_answer,
    read_granted,
    read_received,
    write_get_resource_property,
    write_get_status,
    write_pause,
    write_renew,
    write_resume,
    write_subscribe,
    write_unsubscribe,
)
from mediation.model.messages import EndpointReference
from mediation.model.versions import Version, Wsa
from mediation.soap.envelopes import http_headers
from tests.rigs.draft_schemas import DraftValidator
from tests.rigs.envelopes import Message, Speaker

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "auction"
AUCTION = "http://tutorial.globus.org/auction"
SPEC = SPECS[Version.WSN_1_2]
_direct = build_opener(ProxyHandler({}))


@pytest.mark.nightly
@pytest.mark.slow
def test_the_command_as_the_readme_has_it() -> None:
    ended = subprocess.run(
        [sys.executable, "examples/auction/auction.py"],
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "error"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    lines = [tuple(line.strip().split("  ", 1)) for line in ended.stdout.splitlines()]
    topic = f"({{{AUCTION}}}highestBid)"
    for who, said in (
        ("consumer, wse-2004-08", topic),
        ("consumer, wsn-1.3", topic),
        ("Globus client, wsn-1.2", ""),
    ):
        heard = [text for name, text in lines if name == who and text.startswith("highest bid")]
        assert heard == [f"highest bid {amount} {said}".strip() for amount in (100, 120, 150)]
    assert ("auctioneer", "Bela bids 90: too low") in lines
    assert lines[-2:] == [
        ("gateway", "ended its subscription at the auctioneer"),
        ("auctioneer", "sold for 150"),
    ]


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], ModuleType]]:
    """Imports a module of the example."""
    monkeypatch.syspath_prepend(str(EXAMPLE))
    own = ("auctioneer", "bidder", "peers")

    def imported(name: str) -> ModuleType:
        return __import__(name)

    yield imported
    for name in own:
        sys.modules.pop(name, None)


def ask(url: str, written: tuple[str, bytes]) -> bytes:
    action, octets = written
    request = Request(url, octets, dict(http_headers(SPEC.soap, action)))
    try:
        with _direct.open(request, timeout=30) as answer:
            content: bytes = answer.read()
    except HTTPError as refused:
        content = refused.read()
    return content


def test_the_auctioneer_speaks_the_draft(
    example: Callable[[str], ModuleType], tmp_path: Path
) -> None:
    """A subscription from its beginning to its end, by clients of ours; all answers are valid."""
    validator = DraftValidator(None, tmp_path)
    with example("auctioneer").Auctioneer("A vase") as auctioneer:
        consumer = EndpointReference("http://127.0.0.1:9/", Wsa.V2004_03)

        def subscribe(topic: str) -> bytes:
            written = write_subscribe(
                SPEC, to=auctioneer.address, consumer=consumer, message_id="urn:m", topic=topic
            )
            return ask(auctioneer.address, written)

        octets = subscribe(f"{{{AUCTION}}}highestBid")
        validator.check(octets)
        manager = read_granted(octets).manager
        assert manager is not None and auctioneer.subscribers == 1
        time = datetime(2030, 1, 1, tzinfo=UTC)
        for written in (
            write_pause(SPEC, manager, message_id="urn:m"),
            write_resume(SPEC, manager, message_id="urn:m"),
            write_renew(SPEC, manager, time.isoformat(), message_id="urn:m"),
            write_get_status(SPEC, manager, message_id="urn:m"),
            write_unsubscribe(SPEC, manager, message_id="urn:m"),
        ):
            octets = ask(manager.address, written)
            read_answer(octets)
            validator.check(octets)
        assert auctioneer.subscribers == 0
        gone = ask(manager.address, write_unsubscribe(SPEC, manager, message_id="urn:m"))
        with pytest.raises(AnsweredFault, match="no such subscription"):
            read_answer(gone)
        validator.check(gone)
        with pytest.raises(AnsweredFault, match="no topic of the auction"):
            read_answer(subscribe("{urn:other}price"))
        producer = EndpointReference(auctioneer.address, Wsa.V2004_03)
        bid = write_get_resource_property(
            SPEC, producer, f"{{{AUCTION}}}highestBid", message_id="urn:m"
        )
        assert b">0<" in ask(auctioneer.address, bid)


def test_a_bid_is_told_as_the_draft_says(
    example: Callable[[str], ModuleType], tmp_path: Path
) -> None:
    with example("auctioneer").Auctioneer("A vase") as auctioneer:
        body = auctioneer.notification(100, 120)
    octets = Speaker(SPEC.soap, Wsa.V2004_03).envelope(body)
    DraftValidator(None, tmp_path).check(octets)
    received = read_received(octets)
    assert isinstance(received, tuple)
    [one] = received
    assert str(one.topic) == f"{{{AUCTION}}}highestBid"
    [change] = Message(octets).root.iter("{*}ResourcePropertyValueChangeNotification")
    assert [(each.tag.rpartition("}")[2], each[0].text) for each in change] == [
        ("OldValue", "100"),
        ("NewValue", "120"),
    ]


def test_the_bidder_takes_what_is_for_it_alone(example: Callable[[str], ModuleType]) -> None:
    """Its container finds the service by ``wsa:To``, and the resource by its key."""
    peers, bidder_module = example("peers"), example("bidder")
    with example("auctioneer").Auctioneer("A vase") as auctioneer:
        body = auctioneer.notification(0, 10)
    with bidder_module.Bidder() as bidder:
        reference = bidder.reference
        for to, headers, taken in (
            (reference.address, reference.properties, True),
            (reference.address, (), False),
            (bidder.url, reference.properties, False),
        ):
            octets = peers.envelope("urn:a", to, body, headers=headers)
            status, _ = bidder.answer(peers.Message.read(octets))
            assert (status == 202) is taken is not bidder.bids.empty()
            if taken:
                assert bidder.bids.get() == 10
