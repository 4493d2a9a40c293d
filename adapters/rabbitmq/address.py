"""``amqp://user:password@host:5672/vhost?name=value``, and what the settings say."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pika

from adapters.broker.destinations import Destinations, Row
from adapters.broker.endpoint import read_endpoint
from adapters.options import Options
from adapters.protocol import AdapterError
from filters import Reason

PREFETCH = 64
"""A crash repeats at most this many."""
HEARTBEAT = 20
"""Seconds: a peer that is silent for three of them is gone."""
FRAME = 128 * 2**10

_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}\Z")


@dataclass(frozen=True, slots=True)
class Setup:
    """The settings of the adapter.

    ``hashing``: messages are spread over several partitions, by topic; else all keep one order.
    ``source`` is the broker's URL without credentials: the source of native messages; ``user`` is
    ours.
    """

    parameters: pika.ConnectionParameters
    source: str
    user: str
    exchange: str
    name: str
    quorum: bool
    hashing: bool
    prefetch: int
    destinations: Destinations


def read_setup(url: str, settings: Mapping[str, str]) -> Setup:
    """Read the URL and the settings.

    Raises:
        AdapterError: They do not fit.
    """
    options = Options(url, settings)
    broker = read_endpoint(
        url,
        options,
        plain=("amqp", 5672),
        secure=("amqps", 5671),
        form="amqp://user:password@host:5672/vhost, or amqps://",
    )
    parameters = pika.ConnectionParameters(
        host=broker.host,
        port=broker.port,
        virtual_host=broker.vhost,
        credentials=pika.PlainCredentials(broker.user or "guest", broker.password or "guest"),
        ssl_options=None if broker.tls is None else pika.SSLOptions(broker.tls, broker.certified),
        heartbeat=options.number("heartbeat", HEARTBEAT, least=2, most=3600),
        frame_max=FRAME,
        connection_attempts=1,
        socket_timeout=10,
        stack_timeout=14,
        client_properties={"connection_name": "Dragoman"},
    )
    setup = Setup(
        parameters=parameters,
        source=f"{broker.source}/{'' if broker.vhost == '/' else broker.vhost}",
        user=broker.user or "guest",
        exchange=_name(options, "exchange"),
        name=_name(options, "name"),
        quorum=options.choice("queue-type", "classic", ("classic", "quorum")) == "quorum",
        hashing=options.choice("partitions", "16", ("1", "16")) == "16",
        prefetch=options.number("prefetch", PREFETCH, least=1, most=1000),
        destinations=Destinations(
            options.text("root") or "dragoman",
            options.group("prefix."),
            _rows(options.text("destinations")),
        ),
    )
    options.finish()
    return setup


def _name(options: Options, setting: str) -> str:
    name = options.text(setting) or "dragoman"
    if not _NAME.match(name) or name.startswith("amq."):
        raise _wrong(f"the setting {setting!r} must be letters, digits, dots, hyphens, underscores")
    return name


def _rows(text: str | None) -> list[Row]:
    if text is None:
        return []
    try:
        rows = json.loads(text)
        return [_row(**row) for row in rows]
    except (ValueError, TypeError) as exc:
        raise _wrong(
            "destinations must be rows of exchange, pattern and, where there is one, namespace"
        ) from exc


def _row(*, exchange: Any, pattern: Any, namespace: Any = None) -> Row:
    if not isinstance(exchange, str) or not isinstance(pattern, str) or len(exchange) > 200:
        raise TypeError
    if not isinstance(namespace, str | None):
        raise TypeError
    return Row(pattern, exchange, namespace or None)


def _wrong(text: str) -> AdapterError:
    return AdapterError(Reason.INTERNAL, f"the adapter of amqp: {text}")
