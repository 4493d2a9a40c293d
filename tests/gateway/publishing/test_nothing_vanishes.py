"""Whatever a running gateway answers with 202 reaches a subscriber in every dialect, or is a dead
letter; else the answer is a fault, and nobody gets any of it. Drawn publications, at every door."""

import json
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from mediation.mailboxes.kept import relates_to
from mediation.matrix import PUBLISHING, Fact
from mediation.model.versions import EventForm, Soap
from mediation.packaging.dime import DimeMessage, Encoder
from mediation.soap.answers import fault_in
from tests.rigs.consumers import Consumers
from tests.rigs.envelopes import WSA10, fresh_id
from tests.rigs.gateways import Running, running
from tests.rigs.matrix import cloud_message
from tests.rigs.publications import cloud_events, publications
from tests.rigs.soap_tcp import RawPeer
from tests.rigs.subscribers import Subscriber, subscribe_each

EXAMPLES = 8
"""Publications at each door; each is delivered in every dialect."""
SERVICES = {"ws-messenger": "EventingService", "wsn-1.0": "NotificationService"}
TAKEN, REFUSED = {200, 202}, {400, 413, 415, 500}
Words = Mapping[str, Fact | None]
Send = Callable[[Running, list[bytes]], Awaitable[list[bool]]]
"""Sends publications; whether each was taken."""


@dataclass
class Sent:
    """A publication, the words in it, and whether it was taken."""

    door: str
    octets: bytes
    words: Words
    taken: bool


def draw(strategy: st.SearchStrategy[tuple[bytes, Words]], tag: str) -> list[tuple[bytes, Words]]:
    """Publications whose words no other publication has."""
    found: list[tuple[bytes, Words]] = []

    @settings(
        max_examples=EXAMPLES,
        phases=[Phase.generate],
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def keep(drawn: tuple[bytes, Words]) -> None:
        octets, words = drawn
        own = f"{tag}n{len(found)}word"
        told = {word.replace("word", own): fact for word, fact in words.items()}
        found.append((octets.replace(b"word", own.encode()), told))

    keep()
    return found


def over_http(path: str) -> Send:
    async def send(run: Running, publications: list[bytes]) -> list[bool]:
        answers = [await run.post(octets, path) for octets in publications]
        assert {answer.status for answer in answers} <= TAKEN | REFUSED
        return [answer.status in TAKEN for answer in answers]

    return send


def as_cloud_events(form: EventForm) -> Send:
    async def send(run: Running, publications: list[bytes]) -> list[bool]:
        taken = []
        for octets in publications:
            headers, body = cloud_message(octets, form)
            named = {name.replace("-", "_"): value for name, value in headers}
            answer = await run.request("POST", "/events", body, **named)
            assert answer.status in TAKEN | REFUSED
            taken.append(answer.status in TAKEN)
        return taken

    return send


async def over_tcp(run: Running, publications: list[bytes]) -> list[bool]:
    """One that is refused is told by a fault that relates to it; the last is always refused."""
    ids = [fresh_id() for _ in [*publications, ""]]
    peer = await RawPeer.connect(run.soap_tcp_port)
    encoder = Encoder()
    for id_, octets in zip(ids, [*publications, b""], strict=True):
        envelope = octets or BROKEN
        soap = next(one for one in Soap if one.value.encode() in envelope)
        header = f'<s:Header><a:MessageID xmlns:a="{WSA10}">{id_}</a:MessageID></s:Header>'
        envelope = envelope.replace(b"<s:Header/>", header.encode())
        await peer.send(encoder.encode(DimeMessage(soap, envelope)))
    refused: set[str | None] = set()
    while ids[-1] not in refused:
        message = await peer.receive()
        if fault_in(message.envelope) is not None:
            refused.add(relates_to(message.envelope))
    peer.writer.close()
    return [id_ not in refused for id_ in ids[:-1]]


BROKEN = f'<s:Envelope xmlns:s="{Soap.V1_2.value}"><s:Header/><s:Body/></s:Envelope>'.encode()


def doors() -> Iterable[tuple[str, st.SearchStrategy[tuple[bytes, Words]], Send]]:
    """Every way in, and what is sent there."""
    for origin in PUBLISHING:
        name, form = origin.name, origin.forms[-1]
        if isinstance(form, EventForm):
            yield name, cloud_events(form is EventForm.BATCHED), as_cloud_events(form)
            continue
        drawn = publications(origin, unreadable_topics=True)
        yield name, drawn, over_http("/soap")
        if name in SERVICES:
            yield f"{name}-service", drawn, over_http(f"/axis2/services/{SERVICES[name]}")
        else:
            yield f"{name}-tcp", drawn, over_tcp


def missing(sent: Sent, subscriber: Subscriber, found: set[str]) -> list[str]:
    """Words of a publication that was taken which are not *found*, though the subscriber's dialect
    has a place for them."""
    tells = subscriber.dialect.tells
    return [
        word
        for word, fact in sent.words.items()
        if (fact is None or fact in tells) and word not in found
    ]


def words_in(text: str) -> set[str]:
    return set(re.findall(r"d\d+n\d+word\d+said", text))


async def dead_letters(run: Running) -> str:
    """Everything that an operator sees of the dead letters."""
    listed = json.loads((await run.api("GET", "/deadletters?limit=1000")).body)["dead_letters"]
    shown = [await run.api("GET", f"/deadletters/{one['number']}") for one in listed]
    return "".join(answer.body.decode() for answer in shown)


async def test_what_is_taken_is_all_there(tmp_path: Path) -> None:
    async with Consumers() as consumers, running(tmp_path, soap_tcp_port=0) as run:
        subscribers = await subscribe_each(run, consumers)
        sent = []
        for number, (door, strategy, send) in enumerate(doors()):
            drawn = draw(strategy, f"d{number}")
            taken = await send(run, [octets for octets, _ in drawn])
            sent += [Sent(door, *one, yes) for one, yes in zip(drawn, taken, strict=True)]
            await run.quiet()
        aside = words_in(await dead_letters(run))
        for subscriber in subscribers:
            await subscriber.fetch()
            got = words_in(subscriber.received)
            for one in sent:
                what = (one.door, subscriber.dialect.name, one.octets)
                if one.taken:
                    assert missing(one, subscriber, got | aside) == [], what
                else:
                    assert got.isdisjoint(one.words), what
        assert {one.door for one in sent if one.taken} == {door for door, _, _ in doors()}
