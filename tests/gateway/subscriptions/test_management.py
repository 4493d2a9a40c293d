"""The subscriptions of a gateway, listed and deleted: in SOAP, and in the JSON administration."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from lxml import etree

from tests.rigs.consumers import Consumers
from tests.rigs.envelopes import FULL, S11, WSE, WSNT, Answer, Speaker, topic_expression
from tests.rigs.gateways import Running, running

M = "urn:dragoman:management:1"
SPEAKER, OLD = Speaker(), Speaker(S11)
STRANGER = "127.0.0.2"
HERE, THERE = "http://here.example.org/sink", "http://there.example.org/sink?a=1"
SCOPE = 'xmlns:w="urn:test:weather"'


async def ask(run: Running, body: str, *, source: str = "127.0.0.1") -> Answer:
    return await run.ask(SPEAKER, body, source=source)


async def listed(
    run: Running, inner: str = "", *, source: str = "127.0.0.1"
) -> tuple[list[etree._Element], str | None]:
    """The entries of a page, and where to go on."""
    body = f'<m:ListSubscriptions xmlns:m="{M}" {SCOPE}>{inner}</m:ListSubscriptions>'
    answer = await ask(run, body, source=source)
    assert answer.status == 200, answer.body
    [response] = answer.message.body
    assert answer.message.wsa("Action") == f"{M}/ListSubscriptionsResponse"
    following = response.findtext(f"{{{M}}}Next")
    return response.findall(f"{{{M}}}Subscription"), following


async def consumers_of(run: Running, selection: str = "", **said: str) -> list[str]:
    """The consumers of a selection, sorted."""
    inner = f"<m:Selection>{selection}</m:Selection>" if selection else ""
    return sorted(
        str(one.findtext(f"{{{M}}}Consumer")) for one in (await listed(run, inner, **said))[0]
    )


async def delete(
    run: Running, inner: str, attributes: str = "", *, source: str = "127.0.0.1"
) -> list[str]:
    body = f'<m:DeleteSubscriptions xmlns:m="{M}"{attributes}>{inner}</m:DeleteSubscriptions>'
    answer = await ask(run, body, source=source)
    assert answer.status == 200, answer.body
    [response] = answer.message.body
    ids = [str(one.text) for one in response.findall(f"{{{M}}}Id")]
    assert response.findtext(f"{{{M}}}Number") == str(len(ids))
    return ids


@pytest.fixture
async def run(tmp_path: Path) -> AsyncIterator[Running]:
    """A gateway that trusts 127.0.0.1 alone, with three subscriptions: two of it, one of a
    stranger."""
    async with running(tmp_path, trusted=("127.0.0.1/32",), retry_delays=[30.0]) as run:
        storms = topic_expression("w:storms//.", FULL, SCOPE)
        await run.subscribe(SPEAKER, SPEAKER.wsn_subscribe(HERE, filter=storms))
        await run.subscribe(OLD, OLD.wse_subscribe(THERE))
        calm = topic_expression("w:calm", scope=SCOPE)
        body = SPEAKER.wsn_subscribe(HERE, filter=calm)
        await run.subscribe(SPEAKER, body, source=STRANGER)
        yield run


@pytest.mark.parametrize(
    ("selection", "consumers"),
    [
        pytest.param("", [HERE, HERE, THERE], id="all"),
        pytest.param("<m:Topic>w:storms/coast</m:Topic>", [HERE, THERE], id="a topic"),
        pytest.param("<m:Topic>w:calm</m:Topic>", [HERE, THERE], id="another topic"),
        pytest.param("<m:Topic>w:tides</m:Topic>", [THERE], id="a topic of those that take all"),
        pytest.param("<m:Consumer>http://here.</m:Consumer>", [HERE, HERE], id="a prefix"),
        pytest.param("<m:Consumer>*there.*</m:Consumer>", [THERE], id="a pattern"),
        pytest.param("<m:Consumer>http://*/sin?</m:Consumer>", [HERE, HERE], id="one character"),
        pytest.param("<m:Consumer>http://[h]*</m:Consumer>", [], id="no ranges"),
        pytest.param("<m:Specification>wse-2004-08</m:Specification>", [THERE], id="a version"),
        pytest.param("<m:State>active</m:State>", [HERE, HERE, THERE], id="a state"),
        pytest.param("<m:State>paused</m:State><m:State>failing</m:State>", [], id="others"),
        pytest.param(f"<m:Owner>anonymous:{STRANGER}</m:Owner>", [HERE], id="an owner"),
        pytest.param(
            "<m:Topic>w:storms</m:Topic><m:Specification>wsn-1.3</m:Specification>",
            [HERE],
            id="and",
        ),
    ],
)
async def test_selections(run: Running, selection: str, consumers: list[str]) -> None:
    assert await consumers_of(run, selection) == consumers


@pytest.mark.parametrize(
    "selection",
    ["<m:State>nope</m:State>", "<m:Specification>wsn-9</m:Specification>"],
)
async def test_no_such_selection(run: Running, selection: str) -> None:
    for name in ("ListSubscriptions", "DeleteSubscriptions"):
        body = f'<m:{name} xmlns:m="{M}"><m:Selection>{selection}</m:Selection></m:{name}>'
        answer = await ask(run, body)
        assert answer.status == 400 and "there are" in answer.body.decode(), answer.body


async def test_malformed_dry_runs_end_nothing(run: Running) -> None:
    for said in ('dryRun="yes"', 'dryrun="true"', 'm:dryRun="true"'):
        body = f'<m:DeleteSubscriptions xmlns:m="{M}" {said}><m:All/></m:DeleteSubscriptions>'
        assert (await ask(run, body)).status == 400
    assert len((await listed(run))[0]) == 3


async def test_a_stranger_sees_its_own(run: Running) -> None:
    [one], following = await listed(run, source=STRANGER)
    assert following is None
    assert one.findtext(f"{{{M}}}Owner") == f"anonymous:{STRANGER}"
    [expression] = one.iter(f"{{{WSNT}}}TopicExpression")
    assert expression.text == "w:calm"
    other = "<m:Owner>anonymous:127.0.0.1</m:Owner>"
    assert await consumers_of(run, other, source=STRANGER) == []
    everybody, _ = await listed(run)
    ids = "".join(f"<m:Id>{each.findtext(f'{{{M}}}Id')}</m:Id>" for each in everybody)
    assert await delete(run, ids, source=STRANGER) == [one.findtext(f"{{{M}}}Id")]
    assert await delete(run, "<m:All/>", source=STRANGER) == []
    assert len((await listed(run))[0]) == 2


async def test_pages(run: Running) -> None:
    seen: list[str | None] = []
    after: str | None = ""
    while after is not None:
        page, after = await listed(
            run, f"<m:MaximumNumber>1</m:MaximumNumber><m:After>{after}</m:After>"
        )
        assert len(page) <= 1
        seen += [one.findtext(f"{{{M}}}Id") for one in page]
    assert len(seen) == 3 and seen == sorted(seen, key=str)


async def test_what_would_be_deleted(run: Running) -> None:
    selection = "<m:Selection><m:Consumer>http://here.</m:Consumer></m:Selection>"
    would = await delete(run, selection, ' dryRun="1"')
    assert len(would) == 2 and len((await listed(run))[0]) == 3
    assert await delete(run, selection) == would
    assert await consumers_of(run) == [THERE]
    assert await delete(run, "<m:All/><m:MaximumNumber>5</m:MaximumNumber>") != []
    assert await consumers_of(run) == []


async def test_who_has_a_key_may_delete(run: Running) -> None:
    path = await run.subscribe(SPEAKER, SPEAKER.wsn_subscribe(HERE))
    for name in (path.rpartition("/")[2], run.url + path):
        ids = await delete(run, f"<m:Id>{name}</m:Id>", ' dryRun="true"', source=STRANGER)
        assert len(ids) == 1
    assert len(await delete(run, f"<m:Id>{run.url}{path}</m:Id>", source=STRANGER)) == 1
    assert await delete(run, f"<m:Id>{run.url}{path}</m:Id><m:Id>x</m:Id>") == []


async def test_subscribers_are_told(run: Running) -> None:
    async with Consumers() as consumer:
        url, end = consumer.fresh(), consumer.fresh()
        await run.subscribe(OLD, OLD.wse_subscribe(url, end_to=end))
        selection = f"<m:Selection><m:Consumer>{url}</m:Consumer></m:Selection>"
        assert len(await delete(run, selection)) == 1
        told = (await consumer.next(end)).message
        assert told.text(f"{{{WSE}}}SubscriptionEnd/{{{WSE}}}Status") == f"{WSE}/SourceCancelling"


async def test_a_stranger_asks_at_a_rate(run: Running) -> None:
    body = f'<m:ListSubscriptions xmlns:m="{M}"/>'
    statuses = {(await ask(run, body, source=STRANGER)).status for _ in range(30)}
    assert statuses == {200, 429}
    assert (await ask(run, body)).status == 200


# The JSON administration.


async def api(run: Running, method: str, query: str, status: int = 200) -> Any:
    answer = await run.api(method, f"/subscriptions?{query}")
    assert answer.status == status, answer.body
    return json.loads(answer.body)


@pytest.mark.parametrize(
    ("query", "consumers"),
    [
        ("topic=%7Burn:test:weather%7Dstorms/coast", [HERE, THERE]),
        ("topic=nothing", [THERE]),
        ("consumer=http://here.", [HERE, HERE]),
        ("consumer=*there*&spec=wse-2004-08", [THERE]),
        ("state=failing&state=active", [HERE, HERE, THERE]),
        (f"owner=anonymous:{STRANGER}", [HERE]),
    ],
)
async def test_json_selections(run: Running, query: str, consumers: list[str]) -> None:
    found = await api(run, "GET", query)
    assert sorted(one["consumer"] for one in found["subscriptions"]) == consumers


async def test_json_deletes(run: Running) -> None:
    would = await api(run, "DELETE", "spec=wsn-1.3&dry_run=true")
    assert would["number"] == 2
    gone = await api(run, "DELETE", f"id={would['ids'][0]}&id=nobody")
    assert gone == {"number": 1, "ids": [would["ids"][0]], "next": None}
    gone = await api(run, "DELETE", "all=true&limit=1")
    assert gone["number"] == 1 and gone["next"] is not None
    last = await api(run, "DELETE", f"all=true&after={gone['next']}")
    assert (last["number"], last["next"]) == (1, None)


@pytest.mark.parametrize(
    "query",
    ["", "dry_run=true", "all=true&spec=wsn-1.3", "id=", "state=mad", "spec=mad", "all=true&x=1"],
)
async def test_json_that_chooses_nothing(run: Running, query: str) -> None:
    await api(run, "DELETE", query, 422)
    assert len((await api(run, "GET", "limit=9"))["subscriptions"]) == 3


@pytest.mark.parametrize("query", ["topic=a//b", "topic=%7Ba", "limit=0", "limit=1001"])
async def test_json_that_is_no_selection(run: Running, query: str) -> None:
    assert (await run.api("GET", f"/subscriptions?{query}")).status in (400, 422)
