"""The URL and the settings of STOMP's adapter; nothing is connected."""

import json
from pathlib import Path

import pytest

from adapters import AdapterError, load
from adapters.stomp import StompAdapter
from adapters.stomp.address import read_setup
from adapters.stomp.systems import reads_java
from tests.rigs.cases import for_each


@pytest.mark.parametrize(
    ("url", "host", "port", "vhost", "user", "tls"),
    [
        pytest.param("stomp://broker", "broker", 61613, "/", (None, None), False, id="a host"),
        pytest.param("stomp+ssl://broker/", "broker", 61614, "/", (None, None), True, id="TLS"),
        pytest.param(
            "STOMP://a%40b:c%2Fd@[::1]:1/v%2Fh", "::1", 1, "v/h", ("a@b", "c/d"), False, id="all"
        ),
    ],
)
def test_urls(
    url: str, host: str, port: int, vhost: str, user: tuple[str | None, str | None], tls: bool
) -> None:
    setup = read_setup(url, {})
    address = setup.address
    assert (address.host, address.port, address.vhost) == (host, port, vhost)
    assert (address.user, address.password) == user
    assert (address.tls is not None) is tls
    assert "@" not in setup.source
    assert "c/d" not in repr(setup)


def test_what_is_consumed() -> None:
    rows = [{"topic": "VirtualTopic.orders.>"}, {"topic": "audit.*", "namespace": "urn:audit"}]
    setup = read_setup("stomp://broker", {"destinations": json.dumps(rows), "name": "gate"})
    headers = [setup.system.consuming(pattern, 7) for pattern in setup.partitions]
    assert [(one["destination"], one.get("activemq.subscriptionName")) for one in headers] == [
        ("/queue/Consumer.gate.VirtualTopic.dragoman.>", None),
        ("/topic/audit.*", "gate.audit.*"),
        ("/queue/Consumer.gate.VirtualTopic.orders.>", None),
    ]


def rows(*topics: str) -> dict[str, str]:
    return {"destinations": json.dumps([{"topic": topic} for topic in topics])}


@for_each(
    ("url", "settings", "message"),
    [
        pytest.param("stomp:", {}, "the URL must be", id="no host"),
        pytest.param("stomp://host:port", {}, "the URL must be", id="no port"),
        pytest.param("stomp://host?prefetch=0", {}, "'prefetch' must be", id="a number"),
        pytest.param("stomp://host?system=apollo", {}, "activemq or artemis", id="a choice"),
        pytest.param("stomp://host?name=a.b", {}, "'name'", id="a name with dots"),
        pytest.param("stomp://host?virtual-topics=>", {}, "'virtual-topics'", id="a prefix"),
        pytest.param(
            "stomp://host?ca=x.pem", {}, r"need a URL of stomp\+ssl", id="TLS without TLS"
        ),
        pytest.param("stomp+ssl://host?ca=nowhere.pem", {}, "nowhere.pem", id="no such file"),
        pytest.param("stomp://host?prefech=1", {}, "did you mean 'prefetch'", id="misspelt"),
        pytest.param("stomp://host", {"destinations": "{"}, "must be rows", id="no rows"),
        pytest.param(
            "stomp://host", {"destinations": '[{"queue": "a"}]'}, "must be rows", id="row"
        ),
        pytest.param("stomp://host", rows("a.>.b"), "> only at the end", id="a wildcard inside"),
        pytest.param("stomp://host", rows(">"), "> only at the end", id="everything"),
        pytest.param("stomp://host", rows("*.>"), "virtual topics too", id="too wide"),
        pytest.param("stomp://host", rows("a.>", "a.*"), "overlap", id="rows that overlap"),
        pytest.param("stomp://host", rows("VirtualTopic.*.a"), "overlap", id="the root overlaps"),
    ],
)
def test_settings_that_do_not_fit(url: str, settings: dict[str, str], message: str) -> None:
    with pytest.raises(AdapterError, match=message):
        load(url, data=Path("nowhere"), settings=settings)


@pytest.mark.parametrize(
    ("server", "java"),
    [
        ("ActiveMQ/5.17.2", True),
        ("ActiveMQ/5.9.0", True),
        ("ActiveMQ/5.18.6", False),
        ("ActiveMQ/6.1.6", False),
        ("ActiveMQ-Artemis/2.40.0 ActiveMQ Artemis Messaging Engine", False),
        ("", False),
    ],
)
def test_the_text_that_a_broker_reads(server: str, java: bool) -> None:
    assert reads_java(server) == java


def test_isolated_it_shares_nothing_and_keeps_the_name_in_the_certificate() -> None:
    url = "stomp+ssl://me:a%40b@broker.example.org?name=orders&virtual-topics=VT"
    made = StompAdapter.isolate(url, {"destinations": "[]"}, name="drill-1", through=5999)
    assert made.url == "stomp+ssl://me:a%40b@127.0.0.1:5999"
    assert made.address == ("broker.example.org", 61614)
    assert made.settings == {
        "name": "drill-1",
        "root": "drill-1",
        "virtual-topics": "VT",
        "server-name": "broker.example.org",
    }
    assert read_setup(made.url, made.settings).address.certified == "broker.example.org"
