"""The topics that are known here: as rows, as AsyncAPI, and as an endpoint registry of xRegistry."""

import asyncio
import json
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import pytest
from jsonschema import Draft7Validator  # type: ignore[import-untyped]

from filters import parse_clark
from filters.dialects import QUERY_STRING
from filters.queries import compile_query
from gateway.discovery.node import Node
from gateway.discovery.protected_topics import ProtectedTopics
from gateway.discovery.topic_descriptions import describe, row_of
from gateway.model.advertisements import AdvertisementLimits, AdvertisementRow
from gateway.publishing.topics import TopicsSeen
from gateway.store import Store, advertisements
from gateway.web.catalogue import KnownTopic, Page, TopicCatalogue
from gateway.web.catalogue.asyncapi import asyncapi_document
from gateway.web.catalogue.known_topics import Origin
from gateway.web.views.topics import topic_view
from mediation.discovery import (
    EventSigners,
    Schema,
    SchemaType,
    Synopsis,
    SynopsisType,
    check_advertisement,
)
from mediation.discovery.signing import sign
from mediation.model.messages import Notification
from tests.rigs.discovery import PATH, SCHEMA
from tests.rigs.discovery_entities import Speaker
from tests.rigs.discovery_keys import parties
from tests.rigs.discovery_nodes import node_settings
from tests.rigs.gateways import Running, running
from tests.rigs.node_packages import node_modules
from tests.rigs.programs import run as program
from tests.rigs.stores import sqlite_url

BASE = "https://gateway.example/dragoman"
PACKAGE = "@asyncapi/specs@6.11.1"
PRODUCER = Speaker(parties().producer)


def now() -> datetime:
    return datetime.now(UTC)


def advertised(
    synopsis: Synopsis = PATH, *, encrypted: bool = False, at: datetime | None = None
) -> AdvertisementRow:
    """An advertisement, as a node keeps it, that was made at *at*."""
    at = at or now()
    verifier = parties().verifier()
    node = Node(parties().node, verifier, sign=sign, new_uuid=uuid4)
    request = PRODUCER.creation(at, synopsis=synopsis, encrypted=encrypted)
    way = next(way for topic, way in node.topics.items() if parties().node_id in str(topic))
    asked = node.read(PRODUCER.for_node(request), way, publisher="peer", now=at)
    answer = node.answer(asked, seconds_left=lambda: 1.0, now=at)  # type: ignore[arg-type]
    created = PRODUCER.made(request, answer.octets, at)  # type: ignore[union-attr]
    checked = check_advertisement(PRODUCER.advertisement(created, at), verifier, now=at)
    return row_of(checked, describe(checked.advertisement))


@pytest.mark.parametrize(
    "schema, format",
    [
        (Schema(SchemaType.XSD, SCHEMA), "application/xml"),
        (Schema(SchemaType.JSON_SCHEMA, "{}"), "application/schema+json;version=draft-07"),
        (
            Schema(
                SchemaType.JSON_SCHEMA,
                '{"$schema": "http://json-schema.org/draft-07/schema#", "type": "object"}',
            ),
            "application/schema+json;version=draft-07",
        ),
        (
            Schema(
                SchemaType.JSON_SCHEMA,
                '{"$schema": "https://json-schema.org/draft/2020-12/schema"}',
            ),
            "application/schema+json;version=draft-2020-12",
        ),
        (
            Schema(SchemaType.JSON_SCHEMA, '{"$schema": "https://evil.example/x;y=1"}'),
            "application/schema+json;version=draft-07",
        ),
    ],
)
def test_asyncapi_and_rows_have_the_schema(schema: Schema, format: str) -> None:
    signers = EventSigners.CREATOR
    topic = KnownTopic("t", Origin.ADVERTISED, "{urn:a}b", now(), schema=schema, signers=signers)
    document = asyncapi_document(Page([topic], None), BASE)
    payload = document["channels"]["t"]["messages"]["notification"]["payload"]
    assert payload["schemaFormat"] == format
    as_it_was = schema.text if schema.type is SchemaType.XSD else json.loads(schema.text)
    assert payload["schema"] == as_it_was
    row = topic_view(topic, None).model_dump(by_alias=True)
    assert document["channels"]["t"]["x-dragoman-signed-by"] == row["signed_by"] == "creator"
    assert row["schema"] == {"type": schema.type.value, "text": schema.text}


async def keep(store: Store, *rows: AdvertisementRow) -> None:
    limits = AdvertisementLimits()
    await store.submit(
        partial(advertisements.keep, rows=rows, limits=limits, now=rows[0].created),
        locks=(advertisements.LOCK,),
    )


def see(seen: TopicsSeen, *topics: str) -> None:
    for topic in topics:
        seen.see([Notification("urn:a", "urn:b", b"<a/>", now(), parse_clark(topic))])


@asynccontextmanager
async def catalogue(
    tmp_path: Path, *rows: AdvertisementRow, clock: Any = now, topics: tuple[str, ...] = ()
) -> AsyncIterator[TopicCatalogue]:
    store = Store(sqlite_url(tmp_path))
    await store.start()
    try:
        if rows:
            await keep(store, *rows)
        seen = TopicsSeen()
        see(seen, *topics)
        protected = ProtectedTopics()
        for row in rows:
            protected.add(row.topic_id, row.topic)
        yield TopicCatalogue(store, seen, protected, now=clock)
    finally:
        await store.close()


async def whole(known: TopicCatalogue, limit: int) -> list[str]:
    found: list[str] = []
    after: str | None = ""
    while after is not None:
        page = await known.page(after, limit)
        assert len(page.topics) <= limit
        found += [topic.id for topic in page.topics]
        after = page.next
    return found


@pytest.mark.parametrize("limit", [1, 2, 3, 10])
async def test_pages(tmp_path: Path, limit: int) -> None:
    """Each topic once, whatever the size of the pages; what is advertised is not plain as well,
    and what discovery itself uses is not there."""
    rows = [advertised() for _ in range(3)]
    one = rows[0].topic
    assert one is not None
    plain = ("a", "b", "{urn:c}c/d", one, "{urn:dragoman:tdn:1}Services/Discovery/Topics")
    async with catalogue(tmp_path, *rows, topics=plain) as known:
        found = await whole(known, limit)
        assert found[:3] == sorted(row.topic_id for row in rows)
        assert len(found) == len(set(found)) == 6
        assert found == sorted(found)
        assert (await known.extent()).count == 6
        for id in found:
            topic = await known.one(id)
            assert topic is not None and topic.id == id
        assert await known.one("t-none") is None
        assert await known.one(str(uuid4())) is None


async def test_what_ends_is_gone(tmp_path: Path) -> None:
    row = advertised()
    async with catalogue(tmp_path, row, clock=lambda: now() + timedelta(days=60)) as known:
        assert (await known.page("", 10)).topics == []
        assert await known.one(row.topic_id) is None
        assert (await known.extent()).count == 0


def official() -> Draft7Validator:
    """The schema that the AsyncAPI initiative publishes in a package, which is fetched once."""
    modules = node_modules("the schema of AsyncAPI", PACKAGE)
    file = modules / "@asyncapi/specs/schemas/3.0.0-without-$id.json"
    return Draft7Validator(json.loads(file.read_text()))


SYNOPSES = [
    PATH,
    Synopsis(SynopsisType.INTEGER),
    Synopsis(SynopsisType.TAGS, "a=1,b=2"),
]


async def some_document(tmp_path: Path) -> dict[str, Any]:
    rows = [advertised(synopsis) for synopsis in SYNOPSES] + [advertised(encrypted=True)]
    async with catalogue(tmp_path, *rows, topics=("a", "{urn:c}c/d")) as known:
        page = Page((await known.page("", 10)).topics, "more")
    return json.loads(json.dumps(asyncapi_document(page, BASE)))  # type: ignore[no-any-return]


@pytest.mark.slow
async def test_asyncapi_is_valid(tmp_path: Path) -> None:
    """By the official schema."""
    validator = official()
    document = await some_document(tmp_path)
    validator.validate(document)
    channel = next(iter(document["channels"].values()))
    channel["adress"] = "no such word"
    assert not validator.is_valid(document)


async def test_asyncapi_says_whose_topics_are(tmp_path: Path) -> None:
    document = await some_document(tmp_path)
    assert document["asyncapi"] == "3.0.0"
    server = document["servers"]["gateway"]
    assert (server["host"], server["pathname"]) == ("gateway.example", "/dragoman/soap")
    channels = document["channels"]
    assert len(channels) == len(document["operations"]) == 6
    owned = [one for one in channels.values() if one["x-dragoman-origin"] == "advertised"]
    assert len(owned) == 4
    own = {"id": PRODUCER.id}
    said = {**own, "name": "North mole", "institution": "Harbour Office"}
    for one in owned:
        assert one["x-dragoman-owner"] == (own if one.get("x-dragoman-encrypted") else said)
        assert datetime.fromisoformat(one["x-dragoman-expires"]) > now()
    hidden = [one for one in owned if one.get("x-dragoman-encrypted")]
    assert len(hidden) == 1 and "tags" not in hidden[0] and "description" not in hidden[0]
    for operation in document["operations"].values():
        assert operation["channel"]["$ref"].removeprefix("#/channels/") in channels
    plain = [one for one in channels.values() if one["x-dragoman-origin"] == "seen"]
    assert {one["address"] for one in plain} == {"a", "{urn:c}c/d"}
    assert not any("x-dragoman-owner" in one for one in plain)
    assert document["x-dragoman-next"] == "more"


async def get(run: Running, path: str, status: int = 200) -> Any:
    answer = await run.admin("GET", path)
    assert answer.status == status, answer.body
    return json.loads(answer.body)


async def test_a_gateway_tells(tmp_path: Path) -> None:
    row = advertised()
    async with running(tmp_path, **node_settings(tmp_path)) as run:
        await keep(run.gateway.store, row)
        see(run.gateway.topics, "storms")
        page = await get(run, "/api/v1/topics?limit=1")
        (shown,) = page["topics"]
        assert (shown["id"], shown["origin"], shown["topic"]) == (
            row.topic_id, "advertised", row.topic
        )  # fmt: skip
        assert shown["owner"]["id"] == row.creator == PRODUCER.id
        assert await get(run, f"/api/v1/topics/{row.topic_id}") == shown
        (plain,) = (await get(run, f"/api/v1/topics?after={page['next']}"))["topics"]
        assert (plain["topic"], plain["origin"], plain["owner"]) == ("storms", "seen", None)
        about = f'{shown["keywords"][0].upper()} "{shown["texts"][0]}"'
        for words, ids in (
            ("storms", [plain["id"]]),
            (about, [shown["id"]]),
            (f"{about} storms", []),
        ):
            asked = f"/api/v1/topics?q={quote(words)}"
            assert [one["id"] for one in (await get(run, asked))["topics"]] == ids
        assert "no word" in str(await get(run, "/api/v1/topics?q=!", 422))
        for words, listed in (("STORMS", ["storms"]), ("calm", [])):
            page = (await run.admin("GET", f"/console/topics?q={words}")).body.decode()
            assert [one for one in ("storms", row.topic) if f">{one}<" in page] == listed
        await get(run, "/api/v1/topics/none", 404)
        await get(run, "/api/v1/topics?limit=501", 422)
        await get(run, "/api/v1/topics?format=raml", 422)
        answer = await run.admin("GET", "/api/v1/topics?format=asyncapi")
        assert answer.type == "application/vnd.aai.asyncapi+json;version=3.0.0"
        assert set(json.loads(answer.body)["channels"]) == {shown["id"], plain["id"]}


async def test_a_search_goes_on_where_it_ended(tmp_path: Path) -> None:
    async with catalogue(tmp_path) as known:
        see(known.seen, *(f"a/b{number}" for number in range(1200)), *(f"c/d{n}" for n in range(7)))
        query, found, after = compile_query(QUERY_STRING, "c"), list[str](), ""
        pages = 0
        while True:
            page = await known.search(query, after, 3)
            found += [str(topic.topic) for topic in page.topics]
            pages += 1
            if page.next is None:
                break
            after = page.next
        assert sorted(found) == [f"c/d{n}" for n in range(7)]
        assert pages == 3
        nothing = await known.search(compile_query(QUERY_STRING, "e"), "", 3)
        assert nothing == Page([], None)


async def test_xregistry(tmp_path: Path) -> None:
    row = advertised()
    async with running(tmp_path, **node_settings(tmp_path)) as run:
        await keep(run.gateway.store, row)
        see(run.gateway.topics, "storms", "rain")
        root = await get(run, "/xregistry")
        assert (root["specversion"], root["xid"], root["endpointscount"]) == ("1.0-rc4", "/", 3)
        assert root["self"] == f"{run.url}/xregistry"
        (known,) = (await get(run, "/xregistry/capabilities"))["specversions"]
        assert known == root["specversion"]
        found: dict[str, Any] = {}
        path = root["endpointsurl"].removeprefix(run.url) + "?limit=1"
        for _ in range(3):
            answer = await run.admin("GET", path)
            link = answer.headers["link"]
            assert f"<{run.url}/xregistry>;rel=xregistry-root" in link
            found |= json.loads(answer.body)
            path = link.partition(f"<{run.url}/xregistry/endpoints")[2].partition(">")[0]
            path = f"/xregistry/endpoints{path}"
        assert ";rel=next" not in link
        assert len(found) == 3
        for id, one in found.items():
            assert (one["endpointid"], one["xid"]) == (id, f"/endpoints/{id}")
            assert one["usage"] == ["subscriber"]
            assert one["epoch"] >= 1
            (where,) = one["protocoloptions"]["endpoints"]
            assert where["uri"].endswith("/soap")
            assert await get(run, one["self"].removeprefix(run.url)) == one
            messages = await get(run, one["messagesurl"].removeprefix(run.url))
            assert len(messages) == one["messagescount"] == (id == row.topic_id)
            for message in messages.values():
                assert message["dataschemaformat"] == "XSD/1.0"
                assert message["dataschema"] == SCHEMA
                assert message["datacontenttype"] == "application/xml"
                assert await get(run, message["self"].removeprefix(run.url)) == message
        labels = found[row.topic_id]["labels"]
        assert (labels["owner"], labels["institution"]) == (PRODUCER.id, "Harbour Office")
        await get(run, "/xregistry/endpoints/none", 404)
        assert (await run.admin("DELETE", f"/xregistry/endpoints/{row.topic_id}")).status == 405


async def test_the_epoch_of_the_registry_grows_with_each_topic(tmp_path: Path) -> None:
    """A catalogue that looks at nothing else learns of a topic that is seen or advertised."""
    async with running(tmp_path, **node_settings(tmp_path)) as run:
        first = await get(run, "/xregistry")
        assert await get(run, "/xregistry") == first
        see(run.gateway.topics, "storms")
        second = await get(run, "/xregistry")
        await keep(run.gateway.store, advertised())
        third = await get(run, "/xregistry")
        for before, after in ((first, second), (second, third)):
            assert after["endpointscount"] == before["endpointscount"] + 1
            assert after["epoch"] > before["epoch"]
            assert after["modifiedat"] > before["modifiedat"] >= first["createdat"]
    async with running(tmp_path, **node_settings(tmp_path)) as run:
        assert (await get(run, "/xregistry"))["epoch"] > third["epoch"]


async def test_a_page_of_the_registry_has_no_more_than_was_asked_for(tmp_path: Path) -> None:
    async with running(tmp_path, **node_settings(tmp_path)) as run:
        see(run.gateway.topics, *(f"t{n}" for n in range(501)))
        for limit, given in (("1", 1), ("500", 500), ("501", 500), (str(2**63), 500)):
            assert len(await get(run, f"/xregistry/endpoints?limit={limit}")) == given
        for query in ("limit=0", "limit=-1", "limit=x", "limit=", "after=%00", "after=" + "a" * 65):
            answer = await run.admin("GET", f"/xregistry/endpoints?{query}")
            said = json.loads(answer.body)
            assert (answer.status, said["subject"]) == (400, "/endpoints"), query
            assert said["type"].endswith("/core/spec.md#bad_request")
            name = query.partition("=")[0]
            assert f"The request cannot be processed as provided: {name}: must " in said["title"]


@pytest.mark.slow
async def test_the_command_line_tells(tmp_path: Path) -> None:
    row = advertised()
    async with running(tmp_path, **node_settings(tmp_path)) as run:
        there = ("--gateway", run.url)

        async def command(*words: str) -> subprocess.CompletedProcess[str]:
            return await asyncio.to_thread(program, *words, cwd=tmp_path)

        nothing = await command("topics", "list", *there)
        assert (nothing.returncode, nothing.stderr) == (0, "There are no topics.\n")
        await keep(run.gateway.store, row)
        see(run.gateway.topics, "storms")
        listed = (await command("topics", "list", *there)).stdout.splitlines()
        assert len(listed) == 3
        assert row.topic_id in listed[1] and "Harbour Office" in listed[1]
        assert "storms" in listed[2]
        shown = (await command("topics", "show", row.topic_id, *there)).stdout
        assert PRODUCER.id in shown and "North mole" in shown
        missing = await command("topics", "show", "none", *there)
        assert missing.returncode == 1
        assert missing.stderr.startswith("dragoman: ") and missing.stderr.count("\n") == 1


async def test_errors_of_xregistry(tmp_path: Path) -> None:
    errors = "https://github.com/xregistry/spec/blob/main/core"
    async with running(tmp_path, **node_settings(tmp_path)) as run:
        for method, path, status, kind, subject in (
            ("GET", "/export", 404, "http.md#api_not_found", "/xregistry/export"),
            ("GET", "/model", 404, "http.md#api_not_found", "/xregistry/model"),
            ("GET", "/endpoints/none", 404, "spec.md#not_found", "/endpoints/none"),
            ("GET", "/endpoints/none/messages", 404, "spec.md#not_found", "/endpoints/none"),
            ("GET", "/dirs/d1", 404, "spec.md#not_found", "/dirs/d1"),
            ("PUT", "", 405, "spec.md#action_not_supported", "/"),
            ("DELETE", "/endpoints/a", 405, "spec.md#action_not_supported", "/endpoints/a"),
        ):
            answer = await run.admin(method, f"/xregistry{path}")
            assert answer.status == status, (path, answer.body)
            assert answer.headers["content-type"].startswith("application/json")
            said = json.loads(answer.body)
            assert (said["type"], said["subject"]) == (f"{errors}/{kind}", subject)
            assert subject in said["title"]
        assert (await run.admin("GET", "/xregistry")).status == 200
