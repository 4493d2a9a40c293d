"""Message selectors of JMS: what is let through, and what ActiveMQ makes of it."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from adapters import AdapterUnavailable, Interest, XPathFilterAdapter, load
from adapters.stomp import consuming
from adapters.stomp.selectors import check_selector
from adapters.testing import Inbox
from filters import EVERYTHING, Expression, Filter, FilterError, Reason
from filters.dialects import JMS_SELECTOR, TOPIC_FULL
from mediation.model.messages import Notification
from tests.rigs.activemq import ActiveMQ, activemq, needs_activemq
from tests.rigs.adapters import SECONDS, published, storm
from tests.rigs.brokers import wire_to
from tests.rigs.cases import for_each
from tests.rigs.stomp_adapters import running
from tests.rigs.waiting import until_taken

needs_activemq()


@pytest.fixture(scope="module")
def broker() -> ActiveMQ:
    return activemq()


@pytest.mark.parametrize(
    "text",
    [
        "severity = '9'",
        "severity >= 5 AND (wind BETWEEN 1 AND 2.5 OR name LIKE 'a''b%' ESCAPE '!')",
        "name NOT IN ('a', 'b') or NOT (x <> 3)",
        " JMSPriority IS NOT NULL\n",
        "-x + 3 * 2e3 = .5",
        "$a_1",
    ],
)
def test_let_through(text: str) -> None:
    assert check_selector(text) == text.strip()


@for_each(
    ("text", "reason"),
    [
        pytest.param("", Reason.FILTER_INVALID, id="nothing"),
        pytest.param("XPATH '//a'", Reason.FILTER_INVALID, id="XPATH"),
        pytest.param("a = 1 AND xquery 'x'", Reason.FILTER_INVALID, id="XQUERY"),
        pytest.param("REGEX('(a+)+$', name)", Reason.FILTER_INVALID, id="a function"),
        pytest.param("INLIST (x)", Reason.FILTER_INVALID, id="a function with a space"),
        pytest.param("a = 'b", Reason.FILTER_INVALID, id="an open string"),
        pytest.param("a = 'b\x00'", Reason.FILTER_INVALID, id="a control character"),
        pytest.param("(a = 1", Reason.FILTER_INVALID, id="an open parenthesis"),
        pytest.param("a = 1)", Reason.FILTER_INVALID, id="a closing parenthesis"),
        pytest.param(
            "hyphenated_props:a-b = 1", Reason.FILTER_INVALID, id="a prefix of ActiveMQ's"
        ),
        pytest.param("a = 1 -- comment;", Reason.FILTER_INVALID, id="a semicolon"),
        pytest.param("a = 1 /* b */", Reason.FILTER_INVALID, id="a comment"),
        pytest.param("XPATH/**/'//a'", Reason.FILTER_INVALID, id="XPATH behind a comment"),
        pytest.param("XPATH --\n'//a'", Reason.FILTER_INVALID, id="behind a line's comment"),
        pytest.param("(" * 33 + "a" + ")" * 33, Reason.FILTER_COSTLY, id="deep"),
        pytest.param("a" * 2049, Reason.FILTER_COSTLY, id="long"),
    ],
)
def test_not_let_through(text: str, reason: Reason) -> None:
    with pytest.raises(FilterError) as refused:
        check_selector(text)
    assert refused.value.reason is reason


def selecting(text: str) -> Interest:
    return Interest(Expression(text, JMS_SELECTOR))


def graded(number: int, topic: str = "storm") -> Notification:
    return replace(storm(number, topic), properties={"severity": str(number)})


async def test_subscriptions(broker: ActiveMQ, name: str, tmp_path: Path) -> None:
    """Each gets what it asked for, once: by selector, topic and content together."""
    filters = {
        "all": EVERYTHING,
        "severe": Filter(contents=(Expression(" severity > 5 ", JMS_SELECTOR),)),
        "severe too": Filter(others=(Expression("severity > 5", JMS_SELECTOR),)),
        "severe storms": Filter(
            (Expression("storm", TOPIC_FULL),), (Expression("severity > 5", JMS_SELECTOR),)
        ),
        "odd": Filter(
            contents=(Expression("severity > 5", JMS_SELECTOR), Expression("/n mod 2 = 1"))
        ),
        "mild": Filter(contents=(Expression("severity < 5", JMS_SELECTOR),)),
    }
    settled: list[Notification] = []
    async with running(broker.url, name, tmp_path) as unused:
        assert unused.capabilities.dialects == (JMS_SELECTOR,)
    adapter = load(broker.url, data=tmp_path, settings={"name": name, "root": name})
    outer = XPathFilterAdapter(adapter, settled=settled.append)
    several = Filter(contents=(Expression("a = 1", JMS_SELECTOR),) * 2)
    refused = await outer.start({"all": filters.pop("all"), "several": several})
    assert refused.keys() == {"several"}
    try:
        for key, filter in filters.items():
            await outer.add(key, filter)
        assert len(set(outer.interests)) == 3
        sent = [graded(4), graded(9), graded(8, "calm"), graded(5)]
        await outer.publish(sent)
        expected = {
            (key, one.id)
            for key, numbers in {
                "all": [0, 1, 2, 3], "severe": [1, 2], "severe too": [1, 2],
                "severe storms": [1], "odd": [1], "mild": [0],
            }.items()
            for one in map(sent.__getitem__, numbers)
        }  # fmt: skip
        deliveries = outer.deliveries()
        got: list[tuple[str, str]] = []
        async with asyncio.timeout(SECONDS):
            while len(got) < len(expected):
                matched = await anext(deliveries)
                got += [(key, matched.delivery.notification.id) for key in matched.keys]
                matched.delivery.settle()
        assert len(got) == len(set(got)) and set(got) == expected
        assert [one.id for one in settled] == [one.id for one in sent]  # each once, for the archive

        await outer.add("mild", EVERYTHING)
        await outer.remove("odd")
        assert len(set(outer.interests)) == 2
        await outer.publish([last := graded(3)])
        async with asyncio.timeout(SECONDS):
            matched = await anext(deliveries)
        assert (set(matched.keys), matched.delivery.notification) == ({"all", "mild"}, last)
        with pytest.raises(FilterError) as unknown:
            await outer.add("x", Filter(contents=(Expression("x", "urn:no-such"),)))
        assert JMS_SELECTOR in unknown.value.names
    finally:
        await outer.close()


async def test_a_connection_is_cut(broker: ActiveMQ, name: str, tmp_path: Path) -> None:
    """What is wanted stays, what is not is removed, and what was not taken is not there."""
    kept, gone, late = (selecting(f"severity = '{number}'") for number in (1, 2, 3))
    async with (
        wire_to(broker.port) as wire,
        running(broker.at(wire.port), name, tmp_path, kept, gone) as adapter,
    ):
        inbox = Inbox(adapter, SECONDS)
        await wire.cut()
        with pytest.raises(AdapterUnavailable):
            await adapter.unwant(gone)
        with pytest.raises(AdapterUnavailable):
            await adapter.want(late)
        await wire.join()
        await published(adapter, graded(2))
        await published(adapter, graded(3))
        await published(adapter, sent := graded(1))
        assert (await inbox.take(1))[0].notification == sent
        # A message may come before everything else is set up again.
        await until_taken(lambda: adapter.want(late), AdapterUnavailable, SECONDS)
        await adapter.publish([last := graded(3)])
        assert await inbox.until(last.id) == []


async def test_too_many(
    broker: ActiveMQ, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consuming, "MAX_SELECTORS", 2)
    async with running(broker.url, name, tmp_path) as adapter:
        await adapter.want(selecting("a = 1"))
        await adapter.want(selecting("a = 2"))
        with pytest.raises(FilterError, match="too many"):
            await adapter.want(selecting("a = 3"))
        await adapter.unwant(selecting("a = 1"))
        await adapter.want(selecting("a = 3"))
