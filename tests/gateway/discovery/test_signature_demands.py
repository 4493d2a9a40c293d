"""A creator says who has to sign the events of a topic: gateways take no others."""

from dataclasses import replace
from pathlib import Path

import pytest

from filters import parse_clark
from gateway.client import Client, GatewayError
from gateway.client.discovery import Entity
from gateway.discovery.protected_topics import ProtectedTopics, SignatureDemand
from gateway.discovery.topic_descriptions import describe, row_of, signers_of
from mediation.discovery import Creator, EventSigners, Right, check_advertisement
from mediation.event_signatures import EventSigner
from tests.rigs.discovery_entities import Speaker
from tests.rigs.discovery_keys import parties
from tests.rigs.discovery_nodes import node_settings
from tests.rigs.discovery_rights import (
    OTHER,
    OWNER,
    Rig,
    made_topic,
    now,
    numbers,
    protected_topic,
)
from tests.rigs.gateways import running
from tests.rigs.waiting import until

STRANGER = Speaker(parties().elliptic)
ALL = list(EventSigners)
CASES: list[tuple[Speaker, Speaker | None, list[EventSigners]]] = [
    (OWNER, OWNER, ALL),
    (OTHER, OWNER, ALL),
    (OTHER, OTHER, [EventSigners.PUBLISHERS]),
    (OWNER, OTHER, []),
    (OTHER, STRANGER, []),
    (OTHER, None, []),
    (OWNER, None, []),
]
"""Who publishes, whose signature the event has, and where that counts."""


async def published(rig: Rig, number: int, by: Speaker, signer: Speaker | None) -> str:
    """What is said to who publishes an event; empty: it is taken."""
    delegation = None if by is OWNER else rig.delegation(Right.PUBLISH)

    def authorize(request: str, address: str, digest: str) -> str:
        path = address.removeprefix(rig.run.url)
        return rig.header(by, Right.PUBLISH, request, path, delegation, digest=digest)

    def sign(payload: bytes, id: str, topic: object) -> str:
        assert signer is not None and signer.credentials is not None
        return EventSigner(signer.credentials).sign(payload, id=id, topic=rig.topic, time=now())

    async with Client(rig.run.url) as client:
        try:
            await client.publish(
                f"<e><n>{number}</n></e>".encode(),
                topic=str(rig.topic),
                authorize=authorize,
                sign=None if signer is None else sign,
            )
        except GatewayError as refused:
            return str(refused)
    return ""


async def check(rig: Rig, signers: EventSigners) -> list[str]:
    """The numbers of the events that are taken."""
    taken = []
    for number, (by, signer, where) in enumerate(CASES):
        why = await published(rig, number, by, signer)
        assert (not why) is (signers in where), (number, why)
        if why:
            told = "must be signed", "signed by neither its publisher nor the creator"
            assert any(text in why for text in told), why
        else:
            taken.append(str(number))
    return taken


@pytest.mark.parametrize("signers", EventSigners)
async def test_who_signs_before_and_after_a_restart(tmp_path: Path, signers: EventSigners) -> None:
    made = made_topic(signers=signers)
    async with protected_topic(tmp_path, made, adapter="embedded:") as rig:
        sink = await rig.owner_subscribes()
        taken = await check(rig, signers)
        await until(lambda: numbers(sink) == taken)
    chosen = {**node_settings(tmp_path), "trusted": ("127.0.0.1",), "adapter": "embedded:"}
    async with running(tmp_path, **chosen) as run:
        rig.run = run
        assert await check(rig, signers) == taken


async def test_who_is_refused_signs_nothing_that_counts(tmp_path: Path) -> None:
    made = made_topic(signers=EventSigners.PUBLISHERS)
    chosen = dict(node_settings(tmp_path))
    chosen["discovery"] = {**chosen["discovery"], "refused": [OTHER.id]}
    async with protected_topic(tmp_path, made, **chosen) as rig:
        assert await published(rig, 1, OWNER, OWNER) == ""
        assert "it is refused here" in await published(rig, 2, OWNER, OTHER)


@pytest.mark.parametrize("encrypted", [False, True])
@pytest.mark.parametrize("signers", [None, *EventSigners])
def test_what_a_row_says(signers: EventSigners | None, encrypted: bool) -> None:
    made = made_topic(signers=signers, encrypted=encrypted)
    octets = OWNER.advertisement(made, now())
    checked = check_advertisement(octets, parties().verifier(), now=now())
    row = row_of(checked, describe(checked.advertisement, checked.signed))
    assert signers_of(row) is (None if encrypted else signers)
    assert signers_of(replace(row, octets=None)) is None


def test_a_demand_goes_with_its_topic() -> None:
    made = made_topic().advertisement
    topics, demand = ProtectedTopics(), SignatureDemand(EventSigners.CREATOR, OWNER.id)
    topics.add(str(made.topic_id), "{urn:a}b", demand)
    assert topics.demand_of(parse_clark("{urn:a}b")) == demand
    assert topics.demand_of(parse_clark("{urn:a}c")) is None
    topics.remove(str(made.topic_id))
    assert topics.demand_of(parse_clark("{urn:a}b")) is None


async def test_an_entity_signs_where_the_topic_asks_for_it(tmp_path: Path) -> None:
    made = made_topic(signers=EventSigners.PUBLISHERS)
    async with protected_topic(tmp_path, made) as rig, Client(rig.run.url) as client:
        sink = await rig.owner_subscribes()
        for number, (speaker, delegation) in enumerate(
            ((OWNER, None), (OTHER, rig.delegation(Right.PUBLISH)))
        ):
            assert speaker.credentials is not None
            who = Entity(client, speaker.credentials, parties().trust, Creator(speaker.id))
            event = f"<e><n>{number}</n></e>".encode()
            await who.publish(made.advertisement, event, delegation=delegation)
        await until(lambda: numbers(sink) == ["0", "1"])
