"""Channels with names: who gets what, what passes, how they are made and end."""

import asyncio
import json
import shutil
from asyncio.subprocess import DEVNULL
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from adapters import Evaluated
from filters import Question, Reason, Refused
from gateway.channels.channel_filters import Selector
from gateway.channels.channels import FRESH, Channels, ChannelUnknown
from gateway.channels.relay_tokens import RelayTokens
from gateway.egress import AddressPolicy
from gateway.model.channels import Selection
from gateway.parsing import SMALL, Parsing
from gateway.settings.settings import SettingsError, read_settings
from gateway.store import Store, StoreUnavailable
from mediation.model.messages import Notification
from tests.rigs.consumers import Consumer, Consumers
from tests.rigs.envelopes import Answer, Speaker
from tests.rigs.gateways import Running, running
from tests.rigs.grid_events import handle, lease
from tests.rigs.stores import on_each_store

LAB = "/soap/channel/lab"
SPEAKER = Speaker()


@pytest.fixture
async def consumers() -> AsyncIterator[Consumers]:
    async with Consumers() as made:
        yield made


def event(type_: str, number: int = 0, *, source: str = "a.example.org") -> bytes:
    return handle(
        f"<eventNamespace>urn:lab</eventNamespace><eventType>{type_}</eventType>"
        f"<source>{source}</source><seqNo>{number}</seqNo>"
    )


async def listens(run: Running, consumer: Consumer, path: str) -> Answer:
    port = f"<endpoint><location>{consumer.url}</location></endpoint>"
    answer = await run.post(lease(port=port), path)
    assert answer.status == 200, answer.body
    return answer


async def publishes(run: Running, octets: bytes, path: str) -> None:
    answer = await run.post(octets, path)
    assert answer.status == 200, answer.body


def types(consumer: Consumer) -> list[str]:
    """The types of the events that came."""
    found = []
    for message in consumer.received:
        _, _, rest = message.body.decode().partition("<eventType xsi:type='xsd:string'>")
        found.append(rest.partition("<")[0])
    return sorted(found)


async def api(run: Running, method: str, path: str, **asked: Any) -> Any:
    answer = await run.api(method, path, json.dumps(asked).encode() if asked else b"")
    assert answer.status in (200, 201, 204), answer.body
    return json.loads(answer.body) if answer.body else None


async def test_each_channel_is_a_place_of_its_own(tmp_path: Path, consumers: Consumers) -> None:
    rows = ({"name": "lab"}, {"name": "other"})
    async with running(tmp_path, channels=rows) as run:
        places = {"/soap": "main", LAB: "lab", "/soap/channel/other": "other"}
        heard = {path: consumers.at(f"/{name}") for path, name in places.items()}
        for path, consumer in heard.items():
            await listens(run, consumer, path)
        # The same event at each: it is no repetition of that at another.
        for path, name in places.items():
            await publishes(run, event("same", 7), path)
            await publishes(run, event("same", 7), path)
            await publishes(run, event(f"of.{name}"), path)
        for path in places:
            await heard[path].have(2)
        await run.quiet()
        for path, name in places.items():
            assert types(heard[path]) == [f"of.{name}", "same"]


async def test_one_listener_at_two_channels_has_two_subscriptions(
    tmp_path: Path, consumers: Consumers
) -> None:
    async with running(tmp_path, channels=({"name": "lab"},)) as run:
        listener = consumers.at("/")
        for path in ("/soap", LAB, LAB, "/soap"):
            await listens(run, listener, path)
        assert len(run.gateway.subscriptions) == 2


async def test_what_passes_its_filter_is_published(tmp_path: Path, consumers: Consumers) -> None:
    example = {"eventType": "resdata.machine", "source": ".example.org"}
    rows = (
        {"name": "lab", "example": example},
        {"name": "odd", "xpath": "/e:Event/seqNo mod 2 = 1", "namespaces": {"e": EVENTS}},
    )
    async with running(tmp_path, channels=rows) as run:
        lab, odd = consumers.at("/lab"), consumers.at("/odd")
        await listens(run, lab, LAB)
        await listens(run, odd, "/soap/channel/odd")
        for type_, source in (
            ("resdata.machinery", "a.example.org"),
            ("resdata.machine.load", "a.example.com"),
            ("resdata.machine.load", "a.example.org"),
        ):
            await publishes(run, event(type_, source=source), LAB)
        for number in (1, 2, 3):
            await publishes(run, event(f"n{number}", number), "/soap/channel/odd")
        await lab.have(1)
        await odd.have(2)
        await run.quiet()
        assert types(lab) == ["resdata.machine.load"]
        assert types(odd) == ["n1", "n3"]
        metrics = (await run.admin("GET", "/metrics")).body
        assert b'dragoman_channel_events_total{outcome="dropped"} 3.0' in metrics


EVENTS = "http://www.extreme.indiana.edu/soap/events"


async def test_other_specifications_publish_and_subscribe_there(
    tmp_path: Path, consumers: Consumers
) -> None:
    rows = ({"name": "lab", "xpath": "/a"},)
    async with running(tmp_path, channels=rows) as run:
        at_lab, elsewhere = consumers.at("/lab"), consumers.at("/else")
        for consumer, path in ((at_lab, LAB), (elsewhere, "/soap")):
            await run.subscribe(SPEAKER, SPEAKER.wsn_subscribe(consumer.url), path=path)
        await run.publish("<b/>", path=LAB)
        await run.publish("<a/>", path=LAB)
        await run.publish("<a/>", path="/soap")
        await at_lab.have(1)
        await elsewhere.have(1)
        await run.quiet()
        assert [len(one.received) for one in (at_lab, elsewhere)] == [1, 1]
        # What its consumers are told is the channel's own address.
        (came,) = at_lab.received
        assert f"{run.url}{LAB}<".encode() in came.body


async def test_nobody_publishes_or_subscribes_at_what_is_not_there(tmp_path: Path) -> None:
    async with running(tmp_path) as run:
        for octets in (event("a"), lease()):
            answer = await run.post(octets, "/soap/channel/nowhere")
            assert answer.status == 410 and b"nowhere" in answer.body
        assert (await run.request("GET", "/soap/channel/nowhere?wsdl")).status == 404


async def test_operators_make_change_and_remove_channels(
    tmp_path: Path, consumers: Consumers
) -> None:
    async with running(tmp_path) as run:
        made = await api(run, "POST", "/channels", name="lab", example={"eventType": "a"})
        assert made["address"] == f"{run.url}{LAB}" and made["made_by"] == "operator"
        listener = consumers.at("/")
        await listens(run, listener, LAB)
        await publishes(run, event("b"), LAB)
        await api(run, "PUT", "/channels/lab", example={"eventType": "b"})
        await publishes(run, event("a"), LAB)
        await publishes(run, event("b.c"), LAB)
        await listener.have(1)
        await run.quiet()
        assert types(listener) == ["b.c"]
        (shown,) = (await api(run, "GET", "/channels"))["channels"]
        assert shown["subscriptions"] == 1 and shown["example"] == {"eventType": "b"}
        await api(run, "DELETE", "/channels/lab")
        assert not len(run.gateway.subscriptions)
        assert (await run.post(event("b"), LAB)).status == 410
        assert (await run.api("DELETE", "/channels/lab")).status == 404


async def test_a_removal_that_failed_halfway_can_be_finished(
    tmp_path: Path, consumers: Consumers, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(tmp_path) as run:
        await api(run, "POST", "/channels", name="lab")
        await listens(run, consumers.at("/"), LAB)
        submit = run.gateway.store.submit

        async def away(*_: object, **__: object) -> None:
            raise StoreUnavailable

        # The store goes away behind each of the steps in turn.
        for step in (run.gateway.management, Channels):
            name = "remove" if step is Channels else "end_at"
            did = getattr(step, name)

            async def fails(*said: Any, did: Any = did) -> None:
                monkeypatch.setattr(run.gateway.store, "submit", away)
                await did(*said)

            with monkeypatch.context() as patch:
                patch.setattr(step, name, fails)
                assert (await run.api("DELETE", "/channels/lab")).status == 503
            monkeypatch.setattr(run.gateway.store, "submit", submit)
        assert (await run.api("DELETE", "/channels/lab")).status == 204
        assert not len(run.gateway.subscriptions)
        assert (await run.post(event("b"), LAB)).status == 410


async def test_channels_and_subscriptions_at_them_outlive_the_process(
    tmp_path: Path, consumers: Consumers
) -> None:
    listener = consumers.at("/")
    async with running(tmp_path) as run:
        await api(run, "POST", "/channels", name="lab", xpath="/x")
        await listens(run, listener, LAB)
    async with running(tmp_path) as run:
        (shown,) = (await api(run, "GET", "/channels"))["channels"]
        assert (shown["xpath"], shown["subscriptions"]) == ("/x", 1)
        (subscription,) = (await api(run, "GET", "/subscriptions"))["subscriptions"]
        assert subscription["channel"] == "lab"
        answer = await run.api("POST", f"/subscriptions/{subscription['id']}/explain", b"{}")
        said = {step["name"]: step["text"] for step in json.loads(answer.body)}
        assert "lab" in said["channel"] and "topics" not in said
        await run.publish("<y/>", path=LAB)
        await run.publish("<x/>", path="/soap")
        await run.publish("<x/>", path=LAB)
        await listener.have(1)
        await run.quiet()
        assert len(listener.received) == 1


REFUSED: tuple[tuple[dict[str, Any], int], ...] = (
    ({"name": "Lab"}, 400),
    ({"name": "a/b"}, 400),
    ({"name": "ours"}, 403),
    ({"name": "lab", "xpath": "/a["}, 400),
    ({"name": "lab", "example": {"seqno": "1"}}, 400),
)


async def test_what_cannot_be_made_is_refused(tmp_path: Path) -> None:
    async with running(tmp_path, channels=({"name": "ours"},)) as run:
        for asked, status in REFUSED:
            answer = await run.api("POST", "/channels", json.dumps(asked).encode())
            assert answer.status == status, (asked, answer.body)
        for method in ("PUT", "DELETE"):
            body = b"{}" if method == "PUT" else b""
            answer = await run.api(method, "/channels/ours", body)
            assert answer.status == 403, answer.body
        assert len((await api(run, "GET", "/channels"))["channels"]) == 1


async def test_settings_that_cannot_be_used(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="two have one name"):
        read_settings(channels=[{"name": "a"}, {"name": "a"}])
    with pytest.raises(SettingsError, match=r"channels\.0\.name"):
        read_settings(channels=[{"name": "A b"}])
    with pytest.raises(Refused, match="channels: a: "):
        async with running(tmp_path, channels=({"name": "a", "xpath": "]"},)):
            pass


async def test_its_description_has_its_address(tmp_path: Path) -> None:
    async with running(tmp_path / "data", channels=({"name": "lab"},)) as run:
        described = await run.request("GET", f"{LAB}?wsdl")
        same = await run.request("GET", f"{LAB}?wsdl=grid-events")
        assert described.status == 200 and described.body == same.body
        assert f'location="{run.url}{LAB}"'.encode() in described.body
        assert (await run.request("GET", LAB)).status == 405
    if shutil.which("wsdl2h") is None:
        pytest.skip("needs gSOAP: wsdl2h is not installed")
    (tmp_path / "channel.wsdl").write_bytes(described.body)
    arguments = ("wsdl2h", "-o", "channel.h", "channel.wsdl")
    reading = await asyncio.create_subprocess_exec(*arguments, cwd=tmp_path, stderr=DEVNULL)
    async with asyncio.timeout(30):
        assert await reading.wait() == 0
    assert LAB in (tmp_path / "channel.h").read_text()


async def test_current_messages_of_a_channel_stay_there(tmp_path: Path) -> None:
    async with running(tmp_path, channels=({"name": "lab"},)) as run:
        await publishes(run, event("at.lab"), LAB)
        await publishes(run, event("elsewhere"), "/soap")
        listed = (await run.api("GET", "/topics")).body
        assert b"elsewhere" in listed and b"at/lab" not in listed


async def test_large_events_pass_by_the_same_filter(tmp_path: Path, consumers: Consumers) -> None:
    """They are matched in another thread."""
    async with running(tmp_path, channels=({"name": "lab", "xpath": "/a/@n mod 2 = 1"},)) as run:
        listener = consumers.at("/")
        await run.subscribe(SPEAKER, SPEAKER.wsn_subscribe(listener.url), path=LAB)
        filling = "<b/>" * (2 * SMALL // 4)
        for number in range(6):
            await run.publish(f'<a n="{number}">{filling if number < 3 else ""}</a>', path=LAB)
        await listener.have(3)
        await run.quiet()
        assert listener.count == 3


DEAR = "//*[../*[../*[../*[name() = 'x']]]]"
COSTLY = f"<r>{'<a/>' * 500}</r>"


async def test_what_a_dear_filter_takes_is_charged_to_the_stranger_that_publishes(
    tmp_path: Path, consumers: Consumers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the channel, and at the address of a link."""
    shares: list[str | None] = []

    async def evaluate(share: str | None, questions: Sequence[Question]) -> Evaluated:
        shares.append(share)
        return Evaluated([True for _ in questions], 0.0)

    rows, trusted = ({"name": "lab", "xpath": DEAR},), ("127.0.0.1",)
    async with running(tmp_path, channels=rows, trusted=trusted, deliver_to_self=True) as run:
        monkeypatch.setattr(run.gateway.adapter._slow_filters, "evaluate", evaluate)
        await api(run, "POST", "/links", url=f"{run.url}/soap", channel="lab")
        await run.until(lambda: len(run.gateway.subscriptions) == 1)
        (link,) = run.gateway.subscriptions.entries
        for source in ("127.0.0.1", "127.0.0.2"):
            for path in (LAB, urlsplit(link.target.url).path):
                await run.publish(COSTLY, path=path, source=source)
    assert shares == [None, None, "anonymous:127.0.0.2", "anonymous:127.0.0.2"]


@pytest.mark.parametrize(("verdict", "passes"), [(True, 1), (False, 0), (None, None)])
async def test_what_takes_too_long_is_refused(verdict: bool | None, passes: int | None) -> None:
    """Its publisher is told, and may send it again: nobody knows whether it passes."""

    async def evaluate(_: str | None, questions: Sequence[Question]) -> Evaluated:
        return Evaluated([verdict for _ in questions], 0.0)

    selector = Selector("lab", Selection(xpath=DEAR), Parsing(), evaluate)
    came = [Notification("urn:1", "urn:p", COSTLY.encode(), datetime(2026, 1, 1, tzinfo=UTC))]
    if passes is None:
        with pytest.raises(Refused) as refused:
            await selector.passing(came, stranger=None)
        assert refused.value.reason is Reason.UNAVAILABLE
    else:
        assert len(await selector.passing(came, stranger=None)) == passes


@on_each_store
async def test_one_token_leads_to_one_place(store: Store) -> None:
    """Also where another gateway made it a moment ago."""
    ours, theirs = (
        RelayTokens([], AddressPolicy(), store, shared=True, clock=lambda: 0.0) for _ in range(2)
    )
    await theirs.named("t" * 16)  # It knows all that is there for now.
    await ours.add("http://listener.example/", "t" * 16)
    with pytest.raises(Refused) as refused:
        await theirs.add("http://other.example/", "t" * 16)
    assert refused.value.reason is Reason.NOT_ALLOWED


@on_each_store
async def test_gateways_that_share_a_store_share_channels_and_relays(store: Store) -> None:
    async def evaluate(share: str | None, questions: object) -> None:
        raise AssertionError

    time = 0.0
    ours, theirs = (
        Channels(store, Parsing(), evaluate, shared=True, clock=lambda: time) for _ in range(2)
    )
    keys, others = (
        RelayTokens([], AddressPolicy(), store, shared=True, clock=lambda: time) for _ in range(2)
    )
    await ours.add("lab", Selection(xpath="/a"))
    relay, token = await keys.add("http://listener.example/")
    assert (await theirs.named("lab")).selection == Selection(xpath="/a")
    assert (await others.named(token)) is not None
    await ours.change("lab", Selection(xpath="/b"))
    time += FRESH
    assert (await theirs.named("lab")).selection == Selection(xpath="/b")
    await ours.remove("lab")
    await keys.remove(relay.id)
    time += FRESH
    with pytest.raises(ChannelUnknown):
        await theirs.named("lab")
    assert await others.named(token) is None
