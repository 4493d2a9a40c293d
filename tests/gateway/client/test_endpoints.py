"""Which address a URL means, and the proxy on the way to it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from gateway.client import Administration, Client, GatewayError, endpoint_url, speaking
from gateway.client.management import Management
from mediation.model.versions import Version
from mediation.specifications import SPECIFICATIONS
from tests.gateway.egress.test_proxy import SmallProxy
from tests.rigs.cases import for_each
from tests.rigs.gateways import running
from tests.rigs.scripted_peers import consuming, read_request


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:8080", "http://127.0.0.1:8080/soap"),
        ("http://h", "http://h/soap"),
        ("http://h/", "http://h/soap"),
        ("http://h/soap", "http://h/soap"),
        ("http://h/soap/", "http://h/soap"),
        ("http://h/soap/topic/storms", "http://h/soap/topic/storms"),
        ("http://h/wsrf/services/AuctionService", "http://h/wsrf/services/AuctionService"),
        ("http://h/a/", "http://h/a/"),
        ("http://h/?service=x", "http://h/?service=x"),
        ("https://h/a?b=c", "https://h/a?b=c"),
    ],
)
def test_the_address_that_a_url_means(text: str, address: str) -> None:
    assert endpoint_url(text) == address
    assert endpoint_url(address) == address


@for_each("version", Version)
def test_a_client_says_what_it_speaks(version: Version) -> None:
    try:
        client = Client("http://h", version)
    except GatewayError as error:
        assert f"there is no Client for {version.value}, but for" in str(error)
        if SPECIFICATIONS[version].calls or SPECIFICATIONS[version].bodies is not None:
            assert f"speaking(url, Version.{version.name})" in str(error)
            speaking("http://h", version)
    else:
        assert client._spec.version is version


@pytest.mark.parametrize(
    ("version", "path"),
    [
        (Version.WSN_1_3, "/wsrf/services/AuctionService?x=y"),
        (Version.WSE_2004_08, "/a/b/"),
        (Version.CLOUDEVENTS, "/sink"),
    ],
)
async def test_an_endpoint_of_others_gets_what_is_for_it(version: Version, path: str) -> None:
    """On its own path; and an error names the whole of it."""
    seen: list[bytes] = []

    async def lost(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append((await read_request(reader)).partition(b"\r\n")[0])
        writer.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
        await writer.drain()

    async with consuming(lost) as peer, speaking(peer.url(path), version) as client:
        with pytest.raises(GatewayError, match="404") as failure:
            await client.publish(b"<a/>", topic="a")
    assert seen == [f"POST {path} HTTP/1.1".encode()]
    if version is not Version.CLOUDEVENTS:
        assert path in str(failure.value)


@asynccontextmanager
async def small_proxy(user: str = "") -> AsyncIterator[tuple[SmallProxy, int]]:
    small = SmallProxy(user)
    async with consuming(small) as proxy:
        yield small, proxy.port


@pytest.mark.parametrize("version", [Version.WSN_1_3, Version.CLOUDEVENTS, Version.GRID_EVENTS])
async def test_what_is_sent_goes_through_the_proxy(
    tmp_path: Path, version: Version, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Through the one that is named, and none that the environment does."""
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    async with running(tmp_path) as run, small_proxy("ann:secret") as (small, port):
        url = run.url
        async with speaking(url, version) as client:
            await client.publish(b"<a/>", topic="a")
        assert not small.seen
        async with speaking(url, version, proxy=f"http://ann:secret@127.0.0.1:{port}") as client:
            await client.publish(b"<a/>", topic="a")
        assert len(small.seen) == 1 and small.seen[0].startswith(f"POST {url}/".encode())


@pytest.mark.parametrize("proxy", ["proxy:3128", "socks5://h:1", "http://h/path", "http://", ""])
def test_what_is_no_proxy(proxy: str) -> None:
    with pytest.raises(GatewayError, match="the proxy must be"):
        Client("http://h", proxy=proxy)


def test_soap_tcp_goes_through_no_proxy() -> None:
    with pytest.raises(GatewayError, match=r"SOAP\.TCP goes through no HTTP proxy"):
        Client("soap.tcp://h", proxy="http://proxy:3128")


async def test_subscriptions_are_managed_in_soap_where_the_administration_is_elsewhere(
    tmp_path: Path,
) -> None:
    """Listed, selected and ended: what the JSON administration would list, as far as it goes."""
    async with running(tmp_path) as run, Client(run.url) as client:
        for number, topic in enumerate(("storms", "{urn:w}storms")):
            await client.subscribe(f"http://127.0.0.1:9{number}00/x", topic=topic)
        async with Administration(f"http://127.0.0.1:{run.admin_port or run.port}") as other:
            known = {one["id"]: one async for one in other.subscriptions()}
        async with Management(run.url) as management:
            found = [one async for one in management.subscriptions()]
            assert len(found) == 2
            for one in found:
                json = known[one["id"]]
                for name in ("owner", "spec", "consumer", "state", "topics", "paused"):
                    assert one[name] == json[name], name
                assert await management.subscription(one["id"]) == one
            selected = [one["id"] async for one in management.subscriptions(topic="{urn:w}storms")]
            [one] = selected
            assert known[one]["consumer"].endswith(":9100/x")
            ending = management.delete_subscriptions(dry_run=True, consumer="http://127.0.0.1:90")
            assert len([id_ async for id_ in ending]) == 1
            await management.delete_subscription(one)
            with pytest.raises(GatewayError, match="no such subscription"):
                await management.delete_subscription(one)
            assert len([id_ async for id_ in management.delete_subscriptions(all=True)]) == 1
            assert not [one async for one in management.subscriptions()]
            with pytest.raises(GatewayError, match="refused: There is no state"):
                [one async for one in management.subscriptions(state="odd")]
