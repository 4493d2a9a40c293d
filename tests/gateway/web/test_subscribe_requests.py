"""The request that made a subscription, as operators are shown it."""

import json
from pathlib import Path
from typing import Any

import pytest

from gateway.security.resource_addresses import MAILBOXES, ResourceKind
from tests.rigs.envelopes import FULL, Speaker, message_content, topic_expression
from tests.rigs.gateways import Running, running
from tests.rigs.json_mailboxes import Box

SPEAKER = Speaker()
SINK = "http://consumer.example.org/a?b=c&d=e"


async def request_of(run: Running) -> Any:
    [entry] = run.gateway.subscriptions.entries
    answer = await run.api("GET", f"/subscriptions/{entry.id}/request")
    assert answer.status == 200, answer.body
    assert entry.subscription.key not in answer.body.decode()
    return json.loads(answer.body)


async def test_as_it_came(tmp_path: Path) -> None:
    """With what its subscriber wrote around it; but for who it says it is."""
    proof = (
        '<sec:Security xmlns:sec="urn:sec"><sec:UsernameToken>me</sec:UsernameToken></sec:Security>'
    )
    async with running(tmp_path, console_mask=["subscriptionpolicy"]) as run:
        body = SPEAKER.wsn_subscribe(SINK.replace("&", "&amp;"), raw=True)
        await run.subscribe(SPEAKER, body, path="/soap/topic/storms", headers=proof)
        seen = await request_of(run)
        assert seen["as_it_came"] is True and seen["path"] == "/soap/topic/storms"
        text = seen["body"]["text"]
        assert SINK.replace("&", "&amp;") in text
        assert "UsernameToken" not in text and "UseRaw" not in text and text.count("***") == 2


SUBSCRIBES = {
    "wsn": SPEAKER.wsn_subscribe(
        "http://consumer.example.org/", filter=topic_expression("storms//.", FULL), raw=True
    ),
    "wse": SPEAKER.wse_subscribe("http://consumer.example.org/", expires="PT1H"),
    "wsn-xpath": SPEAKER.wsn_subscribe(
        "http://consumer.example.org/",
        filter=message_content("//w:a = 1", 'xmlns:w="urn:w"'),
    ),
}


@pytest.mark.parametrize("name", SUBSCRIBES)
async def test_as_our_client_would_write_it(tmp_path: Path, name: str) -> None:
    """After a restart nothing is kept as it came; what is written makes the same subscription."""
    async with running(tmp_path) as run:
        await run.subscribe(SPEAKER, SUBSCRIBES[name])
    async with running(tmp_path) as run:
        [entry] = run.gateway.subscriptions.entries
        seen = await request_of(run)
        assert (seen["as_it_came"], seen["path"], seen["why"]) == (False, "/soap", None)
        again = await run.post(seen["body"]["text"].encode())
        assert again.status == 200, again.body
        [other] = [one for one in run.gateway.subscriptions.entries if one is not entry]
        first, second = entry.subscription, other.subscription
        assert (second.consumer, second.policy, second.spec) == (
            first.consumer, first.policy, first.spec,
        )  # fmt: skip
        pairs = zip(second.filter.expressions, first.filter.expressions, strict=True)
        for new, old in pairs:  # Prefixes that stand around it may be others.
            assert (new.text, new.dialect) == (old.text, old.dialect)
            assert dict(new.namespaces).get("w") == dict(old.namespaces).get("w")


async def test_what_our_client_does_not_write(tmp_path: Path) -> None:
    two = topic_expression("a") + topic_expression("b")
    async with running(tmp_path) as run:
        await run.subscribe(SPEAKER, SPEAKER.wsn_subscribe(SINK.replace("&", "&amp;"), filter=two))
    async with running(tmp_path) as run:
        seen = await request_of(run)
        assert seen["body"] is None and "so many parts" in seen["why"]


KINDS = [kind for kind in ResourceKind if kind is not ResourceKind.CHANNEL]


@pytest.mark.parametrize("escaped", [False, True])
@pytest.mark.parametrize("behind", ["", "?x=1&amp;y=2"])
@pytest.mark.parametrize("kind", KINDS)
async def test_no_key_of_another_mailbox(
    tmp_path: Path, kind: ResourceKind, behind: str, *, escaped: bool
) -> None:
    """A reader sees none in any address of the request, however it is written."""
    async with running(tmp_path) as run:
        boxes = [await Box.make(run) for _ in range(4)]
        keys = [f"&#{ord(one.key[0])};{one.key[1:]}" if escaped else one.key for one in boxes]
        addresses = [f"{kind.address(run.url, key)}{behind}" for key in keys]
        where = addresses if kind in MAILBOXES else [SINK.partition("?")[0]] * 2
        body = SPEAKER.wse_subscribe(where[0], end_to=where[1])
        box = f'<m:MsgBoxId xmlns:m="urn:m">{keys[3]}</m:MsgBoxId>'
        more = f'<x:also xmlns:x="urn:x" at="{addresses[2]}">{addresses[2]}{box}</x:also>'
        header = f"<wsa:From>{SPEAKER.epr(addresses[2])}</wsa:From>"
        await run.subscribe(
            SPEAKER, body.replace("</e:Subscribe>", f"{more}</e:Subscribe>"), headers=header
        )
        text = json.dumps(await request_of(run)).lower()
        assert not [one.id for one in boxes if one.key in text], text


async def test_subscriptions_to_cloud_events(tmp_path: Path) -> None:
    async with running(tmp_path) as run:
        await Box.make(run, xpath="//storm")
        seen = await request_of(run)
        [entry] = run.gateway.subscriptions.entries
        assert entry.target.host not in json.dumps(seen)
        assert "as_it_came" in seen and (seen["body"] or seen["why"])
        answer = await run.api("GET", "/subscriptions/nobody/request")
        assert answer.status == 404
