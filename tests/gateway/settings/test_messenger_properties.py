"""The settings of a WS-Messenger (Apache Airavata 0.11), taken over."""

import tomllib

import pytest

from gateway.settings.messenger_properties import UNKNOWN, as_toml, read_properties, take_over
from gateway.settings.settings import Settings

SHIPPED = r"""
# broker
broker.storage.type=persistent
broker.jdbc.driver=org.apache.derby.jdbc.ClientDriver
broker.jdbc.url=jdbc:derby://localhost:1527/wsmg;create=true;user=wsmg;password=wsmg
broker.start.delivery.thread=true
broker.delivery.method = serial
broker.socket.timeout: 60000
broker.msg.delivery.retries=2
consumer.expiration.time.gap=5
! message box
msgBox.usedatabase=true
messagePreservationDays=2
messagePreservationHours=3
messagePerservationIntervalMinutes=5
amqp.notification.enable=1
amqp.broker.host=mq.example.org
amqp.broker.port=5673
amqp.broker.username=u@x
amqp.broker.password=p\:w
amqp.sender=org.apache.airavata.Sender
registry.user=airavata
registry.jdbc.password=secret
"""


def taken(text: str) -> str:
    return as_toml(list(take_over(read_properties(text))))


def test_the_shipped_file() -> None:
    text = taken(SHIPPED)
    settings = tomllib.loads(text)
    assert settings == {
        "adapter": "embedded:",
        "slots": 1,
        "mailbox_age": "P2DT3H0M",
        "amqp_copies": {
            "url": "amqp://u%40x@mq.example.org:5673/",
            "routing_keys": "amqp-routing-keys.xml",
        },
    }
    Settings(**settings)
    assert "user=wsmg" not in text and "p:w" not in text and "p%3Aw" not in text
    lines = text.splitlines()
    assert [line for line in lines if "registry" in line] == [
        f"# registry.user: {UNKNOWN}",
        f"# registry.jdbc.password: {UNKNOWN}",
    ]  # Nothing of their values, which are others'.
    for key in ("broker.jdbc.url", "broker.socket.timeout", "messagePreservationHours"):
        assert f"# {key} = " in text


@pytest.mark.parametrize(
    ("line", "settings"),
    [
        ("broker.delivery.method=parallel", {"slots": 512}),
        ("broker.delivery.method=pcrew", {"slots": 4}),
        ("broker.delivery.method=pcrew\nsending.thread.pool.size=9", {"slots": 9}),
        ("broker.delivery.method=other", {}),
        ("broker.storage.type=memory", {"adapter": "memory:"}),
        ("amqp.notification.enable=0", {}),
        ("messagePreservationDays=0", {}),
        ("broker.unheard.of=1", {}),
    ],
)
def test_one_key(line: str, settings: dict[str, object]) -> None:
    text = taken(line)
    assert tomllib.loads(text) == settings
    assert bool(settings) or text.startswith("# ")


def test_properties() -> None:
    text = "a=1\nb : 2\n c   3\nd\n# e=5\n! f=6\ng=h\\\n   i\nj=k=l\n"
    assert read_properties(text) == {"a": "1", "b": "2", "c": "3", "d": "", "g": "hi", "j": "k=l"}
