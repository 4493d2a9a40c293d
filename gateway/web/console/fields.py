"""Lists the fields of a JSON object, with those of the objects in it, for a page."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

_PAGES = {
    "subscription": "subscriptions",
    "channel": "channels",
    "message id": "messages",
    "published id": "messages",
    "last message id": "messages",
}
"""The pages that values of fields lead to, by the names of the fields."""


def fields_of(value: Mapping[str, Any], before: str = "") -> list[tuple[str, Any]]:
    """The fields of a JSON object and of those in it, with their names; not of texts, which are
    shown where somebody asks for them."""
    found: list[tuple[str, Any]] = []
    for name, one in value.items():
        if isinstance(one, Mapping) and "text" not in one:
            found += fields_of(one, f"{before}{name.replace('_', ' ')} ")
        elif one not in (None, [], {}) and not isinstance(one, Mapping):
            found.append((before + name.replace("_", " "), one))
    return found


def texts_of(value: Mapping[str, Any]) -> dict[str, Any]:
    """The texts among the fields of *value*: payloads, envelopes."""
    return {name: one for name, one in value.items() if isinstance(one, Mapping) and "text" in one}


def link_of(name: str, value: object) -> str:
    """The address of the page of what a field names; empty where it has none."""
    page = _PAGES.get(name)
    return f"/console/{page}/{quote(value)}" if page and isinstance(value, str) else ""
