"""``stomp://user:password@host:61613/?name=value``, and what the settings say."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from adapters.broker.destinations import JMS, Destination, Destinations, Row, overlap
from adapters.broker.endpoint import read_endpoint
from adapters.options import Options
from adapters.protocol import AdapterError
from adapters.stomp.connection import Address
from adapters.stomp.systems import PLAIN, ActiveMQ, Artemis, RabbitMQ, System
from filters import Reason

PREFETCH = 64
"""A crash repeats at most this many."""
HEARTBEAT = 20
VIRTUAL = "VirtualTopic"
SYSTEMS = ("activemq", "artemis", "rabbitmq")

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}\Z")
_WORDS = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*\Z")


@dataclass(frozen=True, slots=True)
class Setup:
    """The settings of the adapter.

    ``partitions`` are the patterns that are consumed; no two match the same destination.
    ``dialects`` are those that the broker evaluates.
    ``source`` is the broker's URL without credentials: the source of native messages.
    ``user`` is ours, where the broker says of each message whose it is (``populateJMSXUserID``).
    """

    address: Address
    source: str
    user: str | None
    name: str
    system: System
    prefetch: int
    destinations: Destinations
    partitions: tuple[Destination, ...]
    dialects: tuple[str, ...]

    @property
    def shareable(self) -> bool:
        """True if several gateways may share the work, because all of it comes from queues."""
        system = self.system
        return isinstance(system, ActiveMQ) and not any(map(system.subscription, self.partitions))


def read_setup(url: str, settings: Mapping[str, str]) -> Setup:
    """Read the URL and the settings.

    Raises:
        AdapterError: They do not fit.
    """
    options = Options(url, settings)
    broker = read_endpoint(
        url,
        options,
        plain=("stomp", 61613),
        secure=("stomp+ssl", 61614),
        form="stomp://user:password@host:61613, or stomp+ssl://",
    )
    name = _matching(_NAME, options.text("name") or "dragoman", "name")
    told = options.flag("jmsx-user-id")
    kind = options.choice("system", "activemq", SYSTEMS)
    virtual = _matching(_WORDS, options.text("virtual-topics") or VIRTUAL, "virtual-topics")
    system: System
    match kind:
        case "artemis":
            system = Artemis(name)
        case "rabbitmq":
            system = RabbitMQ(name)
        case _:
            system = ActiveMQ(name, virtual)
    destinations = Destinations(
        options.text("root") or "dragoman",
        options.group("prefix."),
        _rows(options.text("destinations"), virtual if kind == "activemq" else None),
    )
    setup = Setup(
        address=Address(
            host=broker.host,
            port=broker.port,
            tls=broker.tls,
            certified=broker.certified,
            user=broker.user,
            password=broker.password,
            vhost=broker.vhost,
            heartbeat=options.number("heartbeat", HEARTBEAT, least=1, most=3600),
        ),
        source=broker.source,
        user=(broker.user or "") if told else None,
        name=name,
        system=system,
        prefetch=options.number("prefetch", PREFETCH, least=1, most=1000),
        destinations=destinations,
        partitions=_partitions(destinations),
        dialects=system.dialects,
    )
    options.finish()
    return setup


def _partitions(destinations: Destinations) -> tuple[Destination, ...]:
    """Return the patterns of our own destinations, then those of the rows. They must not overlap: a
    message that two of them match would come twice."""
    patterns = destinations.patterns(None, JMS)
    own = Destination(f"{destinations.root}.{JMS.any}")
    for one, other in combinations(patterns, 2):
        if one.exchange == other.exchange and overlap(_words(one), _words(other)):
            raise _wrong(f"the destinations {one.name!r} and {other.name!r} overlap")
    return (own, *sorted(patterns - {own}, key=repr))


def _words(pattern: Destination) -> tuple[str, ...]:
    return tuple("#" if word == JMS.any else word for word in pattern.name.split("."))


def _rows(text: str | None, virtual: str | None) -> Sequence[Row]:
    if text is None:
        return []
    try:
        return [_row(virtual, **row) for row in json.loads(text)]
    except (ValueError, TypeError) as exc:
        raise _wrong(
            "destinations must be rows of topic, a pattern, and, where there is one, namespace"
        ) from exc


def _row(virtual: str | None, *, topic: Any, namespace: Any = None) -> Row:
    if not isinstance(topic, str) or not isinstance(namespace, str | None):
        raise TypeError
    pattern = topic.removesuffix(f".{JMS.any}").removesuffix(".#")
    if not pattern or set(pattern.split(".")) & {JMS.any, "#"}:
        raise _wrong(f"the destinations {topic!r} may have > only at the end, behind other words")
    if virtual is not None and topic.startswith(f"{virtual}."):
        return Row(topic.removeprefix(f"{virtual}."), None, namespace or None)
    if virtual is not None and overlap(
        tuple(topic.replace(JMS.any, "#").split(".")), (*virtual.split("."), "#")
    ):
        raise _wrong(f"the destinations {topic!r} match virtual topics too")
    return Row(topic, PLAIN, namespace or None)


def _matching(pattern: re.Pattern[str], value: str, setting: str) -> str:
    if not pattern.match(value):
        raise _wrong(f"the setting {setting!r} must be letters, digits, hyphens, underscores")
    return value


def _wrong(text: str) -> AdapterError:
    return AdapterError(Reason.INTERNAL, f"the adapter of stomp: {text}")
