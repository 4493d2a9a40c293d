"""Declared topics through a running gateway."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from lxml import etree

from filters import Refused
from tests.rigs.consumers import Consumers
from tests.rigs.envelopes import (
    CONCRETE,
    RP,
    WSNT,
    Answer,
    Speaker,
    notification_message,
    notify,
    topic_expression,
)
from tests.rigs.gateways import Running, running

pytestmark = pytest.mark.asyncio(loop_scope="module")

SPEAKER = Speaker()
WSTOP = "http://docs.oasis-open.org/wsn/t-1"
TEV = "http://www.onvif.org/ver10/events/wsdl"
WEATHER = f"""<t:TopicNamespace xmlns:t="{WSTOP}" targetNamespace="urn:weather" final="true">
  <t:Topic name="storms"><t:Topic name="snow" final="true"/></t:Topic>
</t:TopicNamespace>"""
SCOPE = 'xmlns:w="urn:weather"'
UNSUPPORTED = f"{{{WSNT}}}TopicNotSupportedFault"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def weather(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Running]:
    """A gateway with declared topics."""
    folder = tmp_path_factory.mktemp("topics")
    (folder / "weather.xml").write_text(WEATHER)
    async with running(folder / "data", topic_namespaces=(folder / "weather.xml",)) as run:
        yield run


async def publish(run: Running, topic: str) -> Answer:
    body = notify(notification_message("<a/>", topic), scope=SCOPE)
    return await run.ask(SPEAKER, body)


async def test_they_are_known_before_anything_is_published(weather: Running) -> None:
    await publish(weather, "w:storms/dust")
    body = f'<r:GetResourcePropertyDocument xmlns:r="{RP}"/>'
    [document] = (await weather.ask(SPEAKER, body)).message.body[0]
    for_onvif = (await weather.ask(SPEAKER, f'<e:GetEventProperties xmlns:e="{TEV}"/>')).message
    for told in (document, for_onvif.body[0]):
        [topics] = told.iter(f"{{{WSTOP}}}TopicSet")
        [storms] = topics
        assert storms.tag == "{urn:weather}storms"
        assert [storms.get(f"{{{WSTOP}}}topic"), *(each.tag for each in storms)] == [
            "true",
            "snow",
            "dust",
        ]
        assert told.findtext(f"{{{WSNT}}}FixedTopicSet") == "false"


@pytest.mark.parametrize("topic", ["w:calm", "w:storms/snow/deep"])
async def test_others_are_kept_out(weather: Running, consumer: Consumers, topic: str) -> None:
    assert (await publish(weather, topic)).fault.element == UNSUPPORTED
    filter_ = topic_expression(topic, scope=SCOPE)
    body = SPEAKER.wsn_subscribe(consumer.fresh(), filter=filter_)
    assert (await weather.ask(SPEAKER, body)).fault.element == UNSUPPORTED
    body = (
        f'<n:GetCurrentMessage xmlns:n="{WSNT}" {SCOPE}><n:Topic Dialect="{CONCRETE}">{topic}'
        "</n:Topic></n:GetCurrentMessage>"
    )
    assert (await weather.ask(SPEAKER, body)).fault.element == UNSUPPORTED


@pytest.mark.parametrize("topic", ["w:storms/snow", "w:storms/dust/red", "elsewhere"])
async def test_the_rest_is_delivered(weather: Running, consumer: Consumers, topic: str) -> None:
    url = consumer.fresh()
    filter_ = topic_expression(topic, scope=SCOPE)
    await weather.subscribe(SPEAKER, SPEAKER.wsn_subscribe(url, filter=filter_))
    assert (await publish(weather, topic)).status == 202
    assert (await consumer.next(url)).payload.tag == "a"


async def test_a_fixed_set_has_no_others(tmp_path: Path) -> None:
    (tmp_path / "weather.xml").write_text(WEATHER)
    files = (tmp_path / "weather.xml",)
    async with running(tmp_path / "d", topic_namespaces=files, fixed_topic_set=True) as run:
        assert (await publish(run, "w:storms/dust")).fault.element == UNSUPPORTED
        refused = await run.ask(SPEAKER, "<bare/>")
        assert refused.status == 400 and "is not known" in refused.fault.text
        assert (await publish(run, "w:storms")).status == 202
        body = f'<r:GetResourceProperty xmlns:r="{RP}" xmlns:n="{WSNT}">n:FixedTopicSet'
        body += "</r:GetResourceProperty>"
        [fixed] = (await run.ask(SPEAKER, body)).message.body[0]
        assert fixed.text == "true"
        assert etree.QName(fixed).localname == "FixedTopicSet"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, r"topic_namespaces: .*weather.xml cannot be read \(No such file"),
        ("<a/>", r"topic_namespaces: .*weather.xml: line 1: its root element is not"),
        (WEATHER.replace("storms", "a b"), 'weather.xml: line 2: "a b" is not the name'),
    ],
)
async def test_a_file_that_is_none(tmp_path: Path, text: str | None, said: str) -> None:
    path = tmp_path / "weather.xml"
    if text is not None:
        path.write_text(text)
    with pytest.raises(Refused, match=said):
        async with running(tmp_path / "data", topic_namespaces=(path,)):
            pass
