"""What a setting may be: its text in the environment, and its bounds."""

import json
import re
from datetime import timedelta
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr
from pydantic_settings import NoDecode

from gateway.egress import AddressPolicy, Proxy
from gateway.egress.addresses import DEFAULT_PORTS
from gateway.security.networks import networks
from gateway.security.resource_addresses import TOPIC_PATHS, is_endpoint
from mediation.model.requests import Sequences

CENTURY = timedelta(days=36525)
_MESSENGER_STRATEGIES = {"serial": 1, "parallel": 512, "pcrew": 4}
"""Delivery strategies of WS-Messenger, as `Settings.slots`: one message after the other, one worker
a consumer, and a pool of workers."""
_HOST = re.compile(r"(\*\.)?[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*|[0-9A-Fa-f:.]+")
_PORTS = re.compile(r"([0-9]{1,5})(?:-([0-9]{1,5}))?")
_PREFIX = re.compile(r"(/[A-Za-z0-9._~-]+)*")


def read_words(value: object) -> object:
    """Read lists in the environment: words separated by commas, or JSON."""
    if not isinstance(value, str):
        return value
    if value.lstrip().startswith("["):
        try:
            return json.loads(value)
        except ValueError:
            raise ValueError("must be words separated by commas, or a list in JSON") from None
    return tuple(word.strip() for word in value.split(",") if word.strip())


def read_seconds(value: object) -> object:
    """A bare number is seconds, also in the environment, where all is text."""
    if not isinstance(value, str):
        return value
    if re.fullmatch(r"\s*\d{1,12}(\.\d*)?\s*", value):
        return float(value)
    if not re.fullmatch(r"\s*P[0-9.A-Z]{2,40}\s*", value):
        raise ValueError("must be seconds, or a duration such as PT24H")
    return value


def _delays(value: object) -> object:
    """Read delays; ``none`` is none at all."""
    if value == "none":
        return ()
    if not (found := read_words(value)):
        raise ValueError("must be a delay at least, or none")
    return found


def read_slots(value: object) -> object:
    """Read slots; the delivery strategies of WS-Messenger are numbers of them."""
    return _MESSENGER_STRATEGIES.get(value, value) if isinstance(value, str) else value


def _are_networks(value: tuple[str, ...]) -> tuple[str, ...]:
    networks(value)
    return value


def may_be_allowed(value: tuple[str, ...]) -> tuple[str, ...]:
    AddressPolicy(allow=value)
    for word in value:
        if "/" not in word and not _HOST.fullmatch(word):
            raise ValueError(f"{word!r} is neither a network nor an address nor a name")
    return value


def may_be_listed(value: tuple[str, ...]) -> tuple[str, ...]:
    return value if value == ("*",) else may_be_allowed(value)


def is_proxy(value: SecretStr) -> SecretStr:
    Proxy.parse(value.get_secret_value())
    return value


def are_ports(value: tuple[str, ...]) -> tuple[str, ...]:
    port_ranges(value)
    return value


def port_ranges(words: tuple[str, ...]) -> tuple[range, ...]:
    """Ports (``81``) and ranges of ports (``500-600``).

    Raises:
        ValueError: A word is neither.
    """
    found = []
    for word in words:
        match = _PORTS.fullmatch(word)
        first = int(match[1]) if match else 0
        last = int(match[2] or first) if match else 0
        if not 1 <= first <= last <= 65535:
            raise ValueError(f"{word!r} is neither a port, 81, nor a range of ports, 500-600")
        found.append(range(first, last + 1))
    return tuple(found)


def are_schemes(value: tuple[str, ...]) -> tuple[str, ...]:
    for word in value:
        if word not in DEFAULT_PORTS:
            raise ValueError(f"{word!r} is none of {', '.join(DEFAULT_PORTS)}")
    return value


def are_prefixes(value: tuple[str, ...]) -> tuple[str, ...]:
    for word in value:
        if not _PREFIX.fullmatch(word):
            raise ValueError(f"{word!r} must be a path such as /services, without a slash behind")
    return value


def is_base(value: str) -> str:
    parts = urlsplit(value)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.port == 0:
        raise ValueError("must be http:// or https:// and a host")
    if parts.query or parts.fragment or "@" in parts.netloc:
        raise ValueError("must have no query, fragment or user")
    if not value.isascii() or not value.isprintable() or set(value) & set(" <>&\"'"):
        raise ValueError("must be a URI: a host outside ASCII is written as xn--...")
    return value


def _is_endpoint_path(value: str) -> str:
    if not is_endpoint(value) and not value.startswith(TOPIC_PATHS):
        raise ValueError(
            f"{value!r} is not a path of the SOAP endpoint, such as /soap/topic/orders"
        )
    return value.removesuffix("/")


WsrmMode = Annotated[str, Field(pattern=f"^({'|'.join(mode.value for mode in Sequences)})$")]
EndpointPath = Annotated[str, AfterValidator(_is_endpoint_path)]
Words = Annotated[tuple[str, ...], NoDecode, BeforeValidator(read_words)]
NetworkWords = Annotated[Words, AfterValidator(_are_networks)]
Length = Annotated[timedelta, BeforeValidator(read_seconds), Field(gt=timedelta(), le=CENTURY)]
Delay = Annotated[float, Field(ge=0, le=30 * 86400, allow_inf_nan=False)]
Delays = Annotated[tuple[Delay, ...], NoDecode, BeforeValidator(_delays), Field(max_length=1000)]
