"""``nats://user:password@host:4222?name=value``, and what the settings say."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit

from adapters import AdapterError
from adapters.broker.destinations import Destinations, Row
from adapters.options import Options
from filters import Reason

PREFETCH = 64
PORT = 4222

_NAME = re.compile(r"[A-Za-z0-9_-]{1,32}\Z")


@dataclass(frozen=True, slots=True)
class Setup:
    """The settings of the adapter. ``server`` is the URL without a user and a password."""

    server: str
    user: str | None = None
    password: str | None = None
    stream: str = "dragoman"
    replicas: int = 1
    prefetch: int = PREFETCH
    destinations: Destinations = field(default_factory=Destinations)

    @property
    def source(self) -> str:
        """The source of messages that name none."""
        return f"{self.server}/{self.stream}"


def read_setup(url: str, settings: Mapping[str, str]) -> Setup:
    """Read the URL and the settings.

    Raises:
        AdapterError: They do not fit.
    """
    options = Options(url, settings)
    parts = urlsplit(url)
    try:
        port = parts.port or PORT
    except ValueError:
        port = 0
    if not parts.hostname or not port or parts.path.strip("/"):
        raise _wrong("the URL must be nats://user:password@host:4222")
    stream = options.text("stream") or "dragoman"
    if not _NAME.match(stream):
        raise _wrong(
            "the setting 'stream' must be letters, digits, hyphens, underscores, 32 at most"
        )
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    setup = Setup(
        server=f"nats://{host}:{port}",
        user=unquote(parts.username) if parts.username else None,
        password=unquote(parts.password) if parts.password else None,
        stream=stream,
        replicas=options.number("replicas", 1, least=1, most=5),
        prefetch=options.number("prefetch", PREFETCH, least=1, most=1000),
        destinations=Destinations(
            options.text("root") or "dragoman",
            options.group("prefix."),
            _rows(options.text("subjects")),
        ),
    )
    options.finish()
    return setup


def _rows(text: str | None) -> list[Row]:
    """Subjects that exist already: ``{"orders.>": "urn:orders"}``, each with its namespace."""
    try:
        rows = {} if text is None else json.loads(text)
        found = [Row(pattern, namespace=namespace or None) for pattern, namespace in rows.items()]
    except (ValueError, TypeError, AttributeError) as exc:
        raise _wrong("the setting 'subjects' must be an object: subject to namespace") from exc
    if any(row.pattern[:1] in ("", "$", "*", "#", ">") for row in found):
        raise _wrong("the setting 'subjects': each begins with a word of your own")
    return found


def _wrong(text: str) -> AdapterError:
    return AdapterError(Reason.INTERNAL, f"the adapter of nats: {text}")
