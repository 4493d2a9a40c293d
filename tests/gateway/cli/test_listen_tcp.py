"""``dragoman listen`` and ``publish`` over SOAP.TCP, as processes."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.client import Client, subscribed
from gateway.client.soap_tcp import SoapTcpConsumer
from mediation.client import SPECS
from tests.rigs.programs import Program, RunningGateway, run

SPECIFICATIONS = [version.value for version in SPECS]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tcp")


@pytest.fixture(scope="module")
def gateway(folder: Path) -> Iterator[RunningGateway]:
    with RunningGateway("--soap-tcp-port", "0", cwd=folder) as running:
        yield running
        assert running.stop(signal.SIGTERM) == 0


def on_tcp(gateway: RunningGateway) -> str:
    """What its greeting says of SOAP.TCP."""
    return gateway.wait_for("SOAP.TCP ").split()[1]


@pytest.mark.parametrize("spec", SPECIFICATIONS)
def test_what_it_prints(gateway: RunningGateway, folder: Path, spec: str) -> None:
    topic, url = f"tcp-{spec.replace('.', '-')}", on_tcp(gateway)
    options = ("--topic", topic, "--spec", spec, "--count", "2")
    with Program("listen", "--gateway", url, *options, cwd=folder) as listener:
        assert "come to soap.tcp://127.0.0.1:" in listener.wait_for("Notif", lines=listener.err)
        listener.wait_for(f"Subscribed to {topic} at {url}", lines=listener.err)
        for gateway_url, payload in ((url, b"<n>1</n>"), (gateway.url, b"<n>2</n>")):
            arguments = ("publish", "--gateway", gateway_url, "--topic", topic, "-")
            published = run(*arguments, cwd=folder, stdin=payload)
            assert published.returncode == 0, published.stderr
        assert listener.end() == 0
        assert listener.out == [topic, "<n>1</n>", topic, "<n>2</n>"]
        assert listener.err[-1] == "Unsubscribed."


def test_a_mailbox_is_not_fetched_from_over_soap_tcp(
    gateway: RunningGateway, tmp_path: Path
) -> None:
    refused = run("listen", "--pull", "--gateway", on_tcp(gateway), cwd=tmp_path)
    assert refused.returncode == 2
    assert "--pull fetches over HTTP alone" in refused.stderr


async def test_what_listens_at_every_address_names_the_one_it_was_reached_at(
    tmp_path: Path,
) -> None:
    """Nobody elsewhere can send to 0.0.0.0."""
    options = ("--without-identities", "--host", "0.0.0.0", "--soap-tcp-port", "0")
    with RunningGateway(*options, cwd=tmp_path, DRAGOMAN_EGRESS_ALLOW="127.0.0.0/8") as gateway:
        url = on_tcp(gateway)
        assert url.startswith("soap.tcp://127.0.0.1:")
        for reached in (url, url.replace("127.0.0.1", "127.0.0.2")):
            async with (
                Client(reached) as client,
                SoapTcpConsumer() as consumer,
                subscribed(client, consumer.address) as held,
            ):
                assert held.subscription.manager.address.startswith(f"{reached}/subscriptions/")


def test_without_soap_tcp_nothing_is_said_of_it(tmp_path: Path) -> None:
    with RunningGateway(cwd=tmp_path) as gateway:
        gateway.wait_for("SOAP endpoint ")
        assert not [line for line in gateway.out if "SOAP.TCP" in line]


def test_what_is_refused_is_not_said_to_be_published(tmp_path: Path) -> None:
    """Though SOAP.TCP answers nothing to what is taken."""
    with RunningGateway("--mailboxes-only", "--soap-tcp-port", "0", cwd=tmp_path) as gateway:
        arguments = ("publish", "--gateway", on_tcp(gateway), "-")
        refused = run(*arguments, cwd=tmp_path, stdin=b"<n>1</n>")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert f"{on_tcp(gateway)} refused: " in refused.stderr


def test_nothing_is_published_where_nobody_speaks_soap_tcp(
    gateway: RunningGateway, tmp_path: Path
) -> None:
    """The machine acknowledges the octets all the same."""
    url = gateway.url.replace("http:", "soap.tcp:")
    refused = run("publish", "--gateway", url, "-", cwd=tmp_path, stdin=b"<n>1</n>")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert f"cannot reach {url}: it closed the connection" in refused.stderr
