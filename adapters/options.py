"""The settings of one adapter: those of its URL's query, then those of the configuration."""

import re
from collections.abc import Collection, Mapping
from difflib import get_close_matches
from typing import overload
from urllib.parse import parse_qsl, urlsplit, urlunsplit

from adapters.protocol import AdapterError
from filters import Reason

_UNITS = {"": 1, "kib": 2**10, "mib": 2**20, "gib": 2**30}
_OCTETS = re.compile(r"(\d+)\s*(kib|mib|gib|)\Z", re.IGNORECASE)
_WORDS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


class Options:
    """Reads settings as numbers, flags and texts. A setting that is never read is refused by
    `finish`."""

    def __init__(self, url: str, settings: Mapping[str, str]) -> None:
        self._values = {**settings, **dict(parse_qsl(urlsplit(url).query))}
        self._known: list[str] = []

    def number(self, name: str, default: int, *, least: int = 0, most: int = 2**31 - 1) -> int:
        """Read a number from *least* to *most*."""
        text = self._take(name)
        if text is None:
            return default
        if not text.isdecimal() or not least <= int(text) <= most:
            raise _wrong(name, f"a number from {least} to {most}")
        return int(text)

    def flag(self, name: str, default: bool = False) -> bool:
        """Read ``true``, ``yes``, ``1``, or ``false``, ``no``, ``0``."""
        text = self._take(name)
        if text is None:
            return default
        if text.lower() not in _WORDS:
            raise _wrong(name, "true or false")
        return _WORDS[text.lower()]

    def octets(self, name: str, default: int | None = None) -> int | None:
        """Read a number of bytes: ``4096``, ``64MiB``. *default* if it is not set."""
        text = self._take(name)
        if text is None:
            return default
        found = _OCTETS.match(text.strip())
        if found is None:
            raise _wrong(name, "a number of bytes, such as 64MiB")
        return int(found[1]) * _UNITS[found[2].lower()]

    @overload
    def text(self, name: str) -> str | None: ...
    @overload
    def text(self, name: str, default: str) -> str: ...
    def text(self, name: str, default: str | None = None) -> str | None:
        """Read a text; *default* if it is not set, or empty."""
        return self._take(name) or default

    def choice(self, name: str, default: str, choices: tuple[str, ...]) -> str:
        """Read one of *choices*."""
        text = self._take(name)
        if text is not None and text not in choices:
            raise _wrong(name, " or ".join(choices))
        return text or default

    def group(self, start: str) -> dict[str, str]:
        """Read all settings whose names begin with *start*, by the rest of their names."""
        names = [name for name in self._values if name.startswith(start)]
        return {name.removeprefix(start): self._take(name) or "" for name in names}

    def finish(self) -> None:
        """Refuse settings that were never read."""
        for name in self._values.keys() - self._known:
            near = get_close_matches(name, self._known, 1)
            meant = f"; did you mean {near[0]!r}?" if near else ""
            raise AdapterError(
                Reason.INTERNAL,
                f"the adapter has no setting {name!r}{meant} (it has {', '.join(self._known)})",
            )

    def _take(self, name: str) -> str | None:
        self._known.append(name)
        return self._values.get(name)


def with_own(
    url: str, settings: Mapping[str, str], own: Mapping[str, str], *, without: Collection[str] = ()
) -> tuple[str, dict[str, str]]:
    """Return *url* without a query, and all settings: those of *settings*, of the query, and of
    *own*, the later ones first; but none whose name begins with one of *without*."""
    parts = urlsplit(url)
    merged = {**settings, **dict(parse_qsl(parts.query))}
    kept = {name: value for name, value in merged.items() if not name.startswith(tuple(without))}
    return urlunsplit(parts._replace(query="")), {**kept, **own}


def at_port(url: str, port: int) -> str:
    """Return *url* with 127.0.0.1 and *port* in the place of its host."""
    parts = urlsplit(url)
    user, at, _ = parts.netloc.rpartition("@")
    return urlunsplit(parts._replace(netloc=f"{user}{at}127.0.0.1:{port}"))


def _wrong(name: str, expected: str) -> AdapterError:
    return AdapterError(Reason.INTERNAL, f"the adapter's setting {name!r} must be {expected}")
