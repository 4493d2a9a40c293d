"""Sources of Windows events that subscribe themselves, as MS-WSMV says."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from lxml import etree
from structlog.testing import capture_logs

from filters import Expression, Filter, compile
from filters.dialects import EVENT_QUERY
from gateway.settings.tables import WindowsEvents
from gateway.sources.windows import WantedEvents
from mediation import names
from mediation.detect import read
from mediation.model.delivery_modes import Mode
from mediation.model.requests import Subscribe
from mediation.model.versions import Wsa
from mediation.names import WSE_2004_08 as WSE
from mediation.names import WSEN, WSMAN
from tests.rigs.consumers import accept, consumers
from tests.rigs.envelopes import S12, Answer, Speaker
from tests.rigs.gateways import Running, running
from tests.rigs.mediation import ARRIVAL

SPEAKER = Speaker(S12, Wsa.V2004_08)
PATH = "/wsman/SubscriptionManager/WEC"
RESOURCE = "http://schemas.microsoft.com/wbem/wsman/1/SubscriptionManager/Subscription"
SUBSCRIPTION = "http://schemas.microsoft.com/wbem/wsman/1/subscription"
QUERY = (
    '<QueryList><Query Path="Security"><Select>*[System[EventID=4624]]</Select></Query></QueryList>'
)
ISSUER = "0123456789abcdef0123456789ABCDEF01234567"
WANTED = WindowsEvents(name="Logons", query=QUERY, topic="windows/logons", issuer=ISSUER)
ENUMERATE = (
    f'<n:Enumerate xmlns:n="{WSEN}"><w:OptimizeEnumeration xmlns:w="{WSMAN}"/></n:Enumerate>'
)


@pytest_asyncio.fixture
async def run(tmp_path: Path) -> AsyncIterator[Running]:
    async with running(tmp_path, windows_events=(WANTED,)) as one:
        yield one


async def enumerate_(
    run: Running,
    resource: str = RESOURCE,
    *,
    source: str = "127.0.0.1",
    machine: str = "win10",
) -> Answer:
    """As Windows asks: in UTF-16, with headers of its own."""
    octets = SPEAKER.envelope(
        ENUMERATE,
        action=f"{WSEN}/Enumerate",
        message_id="uuid:E9802257-6A7D-4C0D-BFA4-E81C7B1C447E",
        headers=f'<w:ResourceURI xmlns:w="{WSMAN}" s:mustUnderstand="true">{resource}'
        "</w:ResourceURI>"
        f'<m:MachineID xmlns:m="{names.WSMAN_MACHINE_ID}" s:mustUnderstand="false">'
        f"{machine}</m:MachineID>",
    )
    octets = octets.decode().encode("utf-16")
    type_ = "application/soap+xml;charset=UTF-16"
    return await run.post(octets, PATH, type=type_, source=source)


def inner(answer: Answer) -> bytes:
    """The Subscribe that a source gets."""
    items = answer.message.find(f"{{{WSEN}}}EnumerateResponse/{{{WSMAN}}}Items")
    assert items is not None, answer.body
    [subscription] = items
    assert subscription.tag == f"{{{SUBSCRIPTION}}}Subscription"
    version, envelope = subscription
    assert (version.text or "").startswith("uuid:")
    return etree.tostring(envelope)


async def test_what_a_source_is_told(run: Running) -> None:
    """A whole Subscribe, which this gateway could read itself."""
    answer = await enumerate_(run)
    assert answer.status == 200
    assert answer.message.wsa("RelatesTo", Wsa.V2004_08) == (
        "uuid:E9802257-6A7D-4C0D-BFA4-E81C7B1C447E"
    )
    octets = inner(answer)
    request = read(octets, ARRIVAL).request
    assert isinstance(request, Subscribe)
    assert request.consumer.address == f"{run.url}/soap/topic/windows/logons"
    assert request.end_to is not None and request.end_to.properties == request.consumer.properties
    assert (request.delivery.mode, request.delivery.heartbeats) == (Mode.EVENTS, 3600.0)
    assert (request.delivery.encoding, request.delivery.max_time) == ("utf-16", 30.0)
    assert "4624" in request.filter.contents[0].text
    compile(Filter(contents=(Expression(request.filter.contents[0].text, EVENT_QUERY),)))
    assert ISSUER.encode() in octets
    other = etree.fromstring(inner(await enumerate_(run)))
    first = etree.fromstring(octets)
    ids = {one.findtext(f".//{{{Wsa.V2004_08.value}}}MessageID") for one in (other, first)}
    assert len(ids) == 2


async def test_what_a_source_then_sends(run: Running) -> None:
    """To the address that it was told, with the header that it was given."""
    request = read(inner(await enumerate_(run)), ARRIVAL).request
    assert isinstance(request, Subscribe)
    identifier = b"".join(request.consumer.properties).decode()
    event = (
        f'<Event xmlns="{names.WINDOWS_EVENTS}"><System><Channel>Security</Channel></System>'
        "<n xmlns=''>1</n></Event>"
    )
    async with consumers() as sinks:
        sink = sinks.add(accept)
        await run.subscribe(SPEAKER, SPEAKER.wse_subscribe(sink.url))
        answer = await run.post(
            SPEAKER.envelope(
                f'<w:Events xmlns:w="{WSMAN}"><w:Event Action="{names.WSMAN_EVENT}">'
                f"<![CDATA[{event}]]></w:Event></w:Events>",
                action=names.WSMAN_EVENTS,
                message_id="uuid:A",
                headers=f'{identifier}<w:AckRequested xmlns:w="{WSMAN}"/>',
            ),
            request.consumer.address.removeprefix(run.url),
        )
        assert answer.message.wsa("Action", Wsa.V2004_08) == names.WSMAN_ACK
        receipt = await sink.next()
        topic = receipt.topic
        assert topic is not None and topic.text == "windows/logons"


async def deliver(
    run: Running, mark: str, *, machine: str = "win10", source: str = "127.0.0.1", version: str = ""
) -> None:
    """Send a delivery without events, as Windows does: with what says where it is."""
    identifier = version or WantedEvents(**WANTED.model_dump()).version
    octets = SPEAKER.envelope(
        f'<w:Events xmlns:w="{WSMAN}"/>',
        action=names.WSMAN_HEARTBEAT,
        message_id="uuid:A",
        headers=f'<m:MachineID xmlns:m="{names.WSMAN_MACHINE_ID}">{machine}</m:MachineID>'
        f'<e:Identifier xmlns:e="{WSE}">\n{identifier}\n</e:Identifier>'
        f'<w:Bookmark xmlns:w="{WSMAN}" s:mustUnderstand="true">{mark}</w:Bookmark>'
        f'<w:AckRequested xmlns:w="{WSMAN}"/>',
    )
    answer = await run.post(octets, "/wsman", source=source)
    assert answer.message.wsa("Action", Wsa.V2004_08) == names.WSMAN_ACK


def mark_of(record: int, filling: str = "") -> str:
    """A bookmark as Windows writes it."""
    one = f'<Bookmark Channel="Security{filling}" RecordId="{record}" IsCurrent="true"/>'
    return f"<BookmarkList>{one}</BookmarkList>"


async def told(run: Running, **peer: str) -> tuple[list[str], int]:
    """The records in the bookmark that a source is told to go on behind; and how often it is to
    send bookmarks itself."""
    subscribe = etree.fromstring(inner(await enumerate_(run, **peer))).find(
        f".//{{{WSE}}}Subscribe"
    )
    assert subscribe is not None
    marks = subscribe.findall(f"{{{WSMAN}}}Bookmark")
    for mark in marks:
        assert not mark.attrib
    wanted = subscribe.findall(f"{{{WSMAN}}}SendBookmarks")
    return [str(one.get("RecordId")) for mark in marks for one in mark.iter("Bookmark")], len(
        wanted
    )


async def test_a_source_goes_on_behind_its_bookmark(tmp_path: Path) -> None:
    """Also after a restart of the gateway, and when something else is wanted by the same name."""
    async with running(tmp_path, windows_events=(WANTED,)) as run:
        assert await told(run) == ([], 1)
        await deliver(run, mark_of(7))
        await deliver(run, mark_of(9))
        assert await told(run) == (["9"], 1)
    changed = WANTED.model_copy(update={"heartbeats": 60.0, "existing": True})
    async with running(tmp_path, windows_events=(changed,)) as run:
        assert await told(run) == (["9"], 1)
        assert b"ReadExistingEvents" not in inner(await enumerate_(run))
        assert await told(run, machine="win11") == ([], 1)
        assert b"ReadExistingEvents" in inner(await enumerate_(run, machine="win11"))


@pytest.mark.parametrize(
    ("mark", "peer"),
    [
        pytest.param(mark_of(8), {"machine": "win11"}, id="of another machine"),
        pytest.param(mark_of(8), {"source": "127.0.0.9"}, id="of another principal"),
        pytest.param(mark_of(8), {"version": "another"}, id="of nothing that is wanted"),
        pytest.param(mark_of(8, "x" * 16384), {}, id="too large"),
    ],
)
async def test_bookmarks_that_change_nothing(run: Running, mark: str, peer: dict[str, str]) -> None:
    await deliver(run, mark_of(7))
    await deliver(run, mark, **peer)
    assert await told(run) == (["7"], 1)


async def test_a_machine_without_a_name_has_no_bookmark(run: Running) -> None:
    """Others may share its network address, and their records are not its own."""
    await deliver(run, mark_of(7), machine="")
    assert await told(run, machine="") == ([], 1)


async def test_the_end_of_an_exchange(run: Running) -> None:
    octets = SPEAKER.envelope(
        "",
        action="http://schemas.microsoft.com/wbem/wsman/1/wsman/End",
        message_id="uuid:B",
        headers=f'<w:ResourceURI xmlns:w="{WSMAN}" s:mustUnderstand="true">'
        "http://schemas.microsoft.com/wbem/wsman/1/wsman/FullDuplex</w:ResourceURI>",
    )
    answer = await run.post(octets, PATH)
    assert (answer.status, answer.body) == (204, b"")


async def test_nothing_else_is_enumerated(run: Running) -> None:
    answer = await enumerate_(run, "urn:another")
    assert answer.fault.subcode == f"{{{Wsa.V2004_08.value}}}ActionNotSupported"


async def test_nothing_may_be_wanted(tmp_path: Path) -> None:
    async with running(tmp_path) as run:
        answer = await enumerate_(run)
        assert answer.status == 200
        items = answer.message.find(f"{{{WSEN}}}EnumerateResponse/{{{WSMAN}}}Items")
        assert items is not None and len(items) == 0


def test_the_version_changes_with_what_is_wanted() -> None:
    versions = [
        WantedEvents("a", QUERY).version,
        WantedEvents("b", QUERY).version,
        WantedEvents("a", QUERY, heartbeats=60.0).version,
    ]
    assert len(set(versions)) == 3
    assert WantedEvents("a", QUERY).version == versions[0]


@pytest.mark.parametrize(
    "row",
    [
        {"name": "a", "query": "<QueryList>"},
        {"name": "a", "query": "<Query/>"},
        {"name": "a<b", "query": QUERY},
        {"name": "a", "query": QUERY, "topic": "a b"},
        {"name": "a", "query": QUERY, "issuer": "CN=x"},
        {"name": "a", "query": QUERY, "heartbeats": 1},
    ],
)
def test_what_cannot_be_wanted(row: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"name|query|topic|issuer|heartbeats"):
        WindowsEvents(**row)


async def test_a_stranger_asks_so_often_and_no_more(tmp_path: Path) -> None:
    async with running(tmp_path, windows_events=(WANTED,), trusted="127.0.0.1") as run:
        answered = [(await enumerate_(run, source="127.0.0.9")).status for _ in range(60)]
        assert answered[:10] == [200] * 10
        assert 429 in answered
        assert (await enumerate_(run)).status == 200, "whom the gateway trusts"


@pytest.mark.parametrize("version", ["", "00000000-0000-0000-0000-000000000000"])
async def test_a_source_that_ends_its_subscription(run: Running, version: str) -> None:
    """At the EndTo that it was given, also by settings that have changed meanwhile."""
    request = read(inner(await enumerate_(run)), ARRIVAL).request
    assert isinstance(request, Subscribe) and request.end_to is not None
    identifier = b"".join(request.end_to.properties).decode()
    if version:
        identifier = f'<e:Identifier xmlns:e="{WSE}">uuid:{version}</e:Identifier>'
    octets = SPEAKER.envelope(
        f'<e:SubscriptionEnd xmlns:e="{WSE}"><e:Status>{WSE}/SourceCancelling</e:Status>'
        '<e:Reason xml:lang="en">The channel has gone.</e:Reason></e:SubscriptionEnd>',
        action=f"{WSE}/SubscriptionEnd",
        message_id="uuid:E",
        headers=f'{identifier}<m:MachineID xmlns:m="{names.WSMAN_MACHINE_ID}">pc1</m:MachineID>'
        f'<w:OperationTimeout xmlns:w="{WSMAN}">PT60S</w:OperationTimeout>',
    )
    with capture_logs() as logs:
        answer = await run.post(octets, request.end_to.address.removeprefix(run.url))
    assert answer.status == 202, answer.body
    [said] = [one for one in logs if one["event"] == "windows-source.ended"]
    assert (said["machine"], said["status"], said["reason"]) == (
        "pc1",
        "SourceCancelling",
        "The channel has gone.",
    )
    assert (said["wanted"] == "Logons") == (not version)
    metrics = await run.admin("GET", "/metrics")
    assert b"dragoman_windows_sources_ended_total 1.0" in metrics.body


async def test_who_told_nobody_of_a_subscription_takes_no_end(tmp_path: Path) -> None:
    octets = SPEAKER.envelope(
        f'<e:SubscriptionEnd xmlns:e="{WSE}"><e:Status>{WSE}/SourceCancelling</e:Status>'
        "</e:SubscriptionEnd>",
        action=f"{WSE}/SubscriptionEnd",
        message_id="uuid:E",
    )
    async with running(tmp_path) as one:
        assert (await one.post(octets, "/wsman")).status == 400
