"""The URL and the settings of RabbitMQ's adapter; nothing is connected."""

from pathlib import Path

import pytest

from adapters import AdapterError, load
from adapters.rabbitmq import RabbitMQAdapter
from adapters.rabbitmq.address import read_setup


@pytest.mark.parametrize(
    ("url", "host", "port", "vhost", "user"),
    [
        pytest.param("amqp://broker", "broker", 5672, "/", ("guest", "guest"), id="a host"),
        pytest.param("amqps://broker/", "broker", 5671, "/", ("guest", "guest"), id="TLS"),
        pytest.param("amqp://a%40b:c%2Fd@[::1]:1/v%2Fh", "::1", 1, "v/h", ("a@b", "c/d"), id="all"),
        pytest.param("AMQP://broker/%2F", "broker", 5672, "/", ("guest", "guest"), id="escaped"),
    ],
)
def test_urls(url: str, host: str, port: int, vhost: str, user: tuple[str, str]) -> None:
    setup = read_setup(url, {})
    parameters = setup.parameters
    assert (parameters.host, parameters.port, parameters.virtual_host) == (host, port, vhost)
    assert (parameters.credentials.username, parameters.credentials.password) == user
    assert "@" not in setup.source


@pytest.mark.parametrize(
    ("url", "settings", "message"),
    [
        pytest.param("amqp:", {}, "the URL must be", id="no host"),
        pytest.param("amqp://host:port/", {}, "the URL must be", id="no port"),
        pytest.param("amqp://host/?prefetch=0", {}, "'prefetch' must be", id="a number"),
        pytest.param("amqp://host/?queue-type=stream", {}, "classic or quorum", id="a choice"),
        pytest.param("amqp://host/?name=a/b", {}, "'name'", id="a name"),
        pytest.param("amqp://host/?exchange=amq.topic", {}, "'exchange'", id="the broker's own"),
        pytest.param("amqp://host/?ca=x.pem", {}, "need a URL of amqps", id="TLS without TLS"),
        pytest.param("amqps://host/?ca=nowhere.pem", {}, "nowhere.pem", id="no such file"),
        pytest.param("amqp://host/?prefech=1", {}, "did you mean 'prefetch'", id="misspelt"),
        pytest.param("amqp://host/", {"destinations": "{"}, "destinations must be rows", id="rows"),
        pytest.param(
            "amqp://host/", {"destinations": '[{"pattern": "a"}]'}, "must be rows", id="half a row"
        ),
        pytest.param("amqp://host/", {"prefix.a.b": "urn:x"}, "the prefix 'a.b'", id="a prefix"),
    ],
)
def test_settings_that_do_not_fit(url: str, settings: dict[str, str], message: str) -> None:
    with pytest.raises(AdapterError, match=message):
        load(url, data=Path("nowhere"), settings=settings)


def test_isolated_it_shares_nothing_and_keeps_the_name_in_the_certificate() -> None:
    url = "AMQPS://me:a%40b@broker.example.org/v?name=orders&destinations=[]&prefix.o=urn:o"
    made = RabbitMQAdapter.isolate(url, {"prefetch": "7"}, name="drill-1", through=5999)
    assert made.url == "amqps://me:a%40b@127.0.0.1:5999/v"
    assert made.address == ("broker.example.org", 5671)
    assert made.settings == {
        "name": "drill-1",
        "exchange": "drill-1",
        "root": "drill-1",
        "prefetch": "7",
        "server-name": "broker.example.org",
    }
    options = read_setup(made.url, made.settings).parameters.ssl_options
    assert options.server_hostname == "broker.example.org"
