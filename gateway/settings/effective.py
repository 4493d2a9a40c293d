"""The settings that are in force, and where each of them comes from."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from pydantic import SecretStr

from gateway.security.resource_addresses import shown as shown_address
from gateway.settings.settings import Settings, place_of

MASK = "***"
_SECRET = re.compile("pass|secret|token|credential|key", re.IGNORECASE)
"""Words in the names of options of adapters and destinations whose values are not shown."""


@dataclass(frozen=True, slots=True)
class InForce:
    """One setting, for people and programs."""

    name: str
    value: Any
    """The value as JSON has it; of a secret, the part that may be seen."""
    source: str
    """``default``, ``dragoman.toml``, the variable, or the option."""


def in_force(settings: Settings, given: Mapping[str, Any]) -> Iterator[InForce]:
    """All settings in their order, for a gateway with the options *given*; None was not given."""
    options = {name for name, value in given.items() if value is not None}
    values = settings.model_dump(mode="json")
    for name in type(settings).model_fields:
        found = getattr(settings, name)
        value = values[name]
        if isinstance(found, SecretStr):
            value = masked_url(found.get_secret_value())
        elif name == "adapter_settings":  # What `destinations` adds to them is shown there.
            value = {key: held for key, held in value.items() if key != "destinations"}
        yield InForce(name, _masked(value), place_of(name, options))


def masked_url(url: str) -> str:
    """*url* without its password and its query's secrets; nothing of one that cannot be read."""
    try:
        parts = urlsplit(url)
        password = parts.password
    except ValueError:
        return MASK
    location = parts.netloc
    if password is not None:
        user, _, host = location.rpartition("@")
        location = f"{user.partition(':')[0]}:{MASK}@{host}"
    query = "&".join(
        f"{name}={MASK}" if equals and _SECRET.search(name) else f"{name}{equals}{value}"
        for name, equals, value in (pair.partition("=") for pair in parts.query.split("&"))
    )
    return parts._replace(netloc=location, query=query).geturl()


def shown(value: Any) -> str:
    """A value for people: text as it is, the rest as JSON."""
    if value is None:
        return "-"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _masked(value: Any) -> Any:
    if isinstance(value, str):
        return shown_address(value) if "/relay/" in value else value
    if isinstance(value, list):
        return [_masked(each) for each in value]
    if isinstance(value, dict):
        return {
            name: MASK if isinstance(held, str) and _hides(name, held) else _masked(held)
            for name, held in value.items()
        }
    return value


def _hides(name: str, value: str) -> bool:
    """Whether a text is secret by its name; the path of a file is not secret."""
    return bool(_SECRET.search(name)) and not value.endswith((".pem", ".key", ".crt"))
