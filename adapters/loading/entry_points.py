"""Finds, checks and makes the adapter of a messaging system's URL.

Ours are loaded when asked for, so that no broker's library is needed for another's sake. Third
parties add a scheme with an entry point::

    [project.entry-points."dragoman.adapters"]
    kafka = "my_package:KafkaAdapter"
"""

import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any, cast
from urllib.parse import unquote, urlsplit

from adapters.protocol import API_VERSION, Adapter, AdapterError, Capabilities
from filters import Reason, Refused
from filters.extras import how_to_install

ENTRY_POINT_GROUP = "dragoman.adapters"
_PASSWORD = re.compile("//[^:/?#@]*:(.*)@", re.DOTALL)

_METHODS = ("from_url", "start", "publish", "want", "unwant", "deliveries", "close")
"""The methods of `adapters.Adapter`."""
_SHARING_METHODS = ("share", "adopt", "take", "release", "arrived")
"""The methods of `adapters.Sharing`."""

_REFUSAL_METHODS = ("refusal_of", "forget")
"""The methods of `adapters.RefusalMemory`."""

_FLAG, _NUMBER, _TEXTS = "True or False", "a number of at least 1", "a tuple of texts"
_FUNCTION = "None or something that can be called"
_CAPABILITIES = {
    "durable": _FLAG,
    "partitions": _NUMBER,
    "prefetch": _NUMBER,
    "dialects": _TEXTS,
    "reporting": _FUNCTION,
    "selecting": _FUNCTION,
    "unreadable": _FUNCTION,
    "queues": _TEXTS,
}
"""The type of each capability, in words for an error message."""

_OURS = {
    "amqp": EntryPoint("amqp", "adapters.rabbitmq:RabbitMQAdapter [rabbitmq]", ENTRY_POINT_GROUP),
    "amqps": EntryPoint("amqps", "adapters.rabbitmq:RabbitMQAdapter [rabbitmq]", ENTRY_POINT_GROUP),
    "embedded": EntryPoint("embedded", "adapters.embedded:EmbeddedAdapter", ENTRY_POINT_GROUP),
    "memory": EntryPoint("memory", "adapters.memory:MemoryAdapter", ENTRY_POINT_GROUP),
    "stomp": EntryPoint("stomp", "adapters.stomp:StompAdapter [stomp]", ENTRY_POINT_GROUP),
    "stomp+ssl": EntryPoint("stomp+ssl", "adapters.stomp:StompAdapter [stomp]", ENTRY_POINT_GROUP),
}
"""Dragoman's own adapters. One with a library of its own names the extra that brings it:
``module:Class [extra]``."""


def schemes() -> list[str]:
    """Return the schemes of all adapters that are installed, sorted."""
    return sorted({*_OURS, *(point.name for point in entry_points(group=ENTRY_POINT_GROUP))})


def load(url: str, *, data: Path, settings: Mapping[str, str]) -> Adapter:
    """Make the adapter of *url*; it is not started. *data* is the folder it may write to.

    Raises:
        AdapterError: No adapter has this scheme or several packages bring one, its library is
            missing, it cannot be loaded or is not an adapter, it was written for another version of
            the protocol, or the URL or the settings do not fit it.
    """
    scheme, colon, _ = url.partition(":")
    point, made = _find_class(scheme if colon else "")
    try:
        adapter = made.from_url(url, data=data, settings=settings)
    except Refused:
        raise
    except Exception as exc:
        text = without_password(f"{type(exc).__name__}: {exc}", url)
        raise _wrong(point, f"could not be made of its URL and settings: {text}") from exc
    _check_capabilities(point, adapter)
    return cast(Adapter, adapter)


def bundled_schemes() -> list[str]:
    """Return the schemes of Dragoman's own adapters, sorted."""
    return sorted(_OURS)


def adapter_class(scheme: str) -> Any:
    """Return the class of the adapter with *scheme*. Its version is known once it is made.

    Raises:
        AdapterError: It does not exist, cannot be loaded, or is not an adapter.
    """
    return _find_class(scheme)[1]


def _find_class(scheme: str) -> tuple[EntryPoint, Any]:
    point = _find(scheme.lower()) if scheme else None
    if point is None:
        raise _unknown(scheme)
    made = _load_class(point)
    _demand(point, made, _METHODS)
    return point, made


def _find(scheme: str) -> EntryPoint | None:
    """Find the entry point of *scheme*; Dragoman's own cannot be replaced.

    Raises:
        AdapterError: Several packages bring one.
    """
    if scheme in _OURS:
        return _OURS[scheme]
    found = [point for point in entry_points(group=ENTRY_POINT_GROUP) if point.name == scheme]
    if len(found) > 1:
        packages = " and ".join(sorted(_package(point) for point in found))
        raise _wrong(found[0], f"is brought by {packages}: uninstall all but one")
    return found[0] if found else None


def _load_class(point: EntryPoint) -> Any:
    try:
        return point.load()
    except ModuleNotFoundError as exc:
        raise _wrong(
            point, f"needs {exc.name}, which is not installed: {_how_to_install(point)}"
        ) from exc
    except Exception as exc:  # A third party's module may raise anything.
        raise _wrong(point, f"cannot be loaded: {type(exc).__name__}: {exc}") from exc


def _how_to_install(point: EntryPoint) -> str:
    """Say how to install the library that the adapter of *point* misses."""
    if point.dist is None:
        return how_to_install(",".join(point.extras))
    extras = f"[{','.join(point.extras)}]" if point.extras else ""
    return f"pip install '{point.dist.name}{extras}'"


def _check_capabilities(point: EntryPoint, adapter: Any) -> None:
    """Check the capabilities of *adapter*, which the gateway relies on."""
    found = getattr(adapter, "capabilities", None)
    version = getattr(found, "api_version", None)
    if version not in (None, API_VERSION):
        raise _wrong(
            point,
            f"speaks version {version} of the adapter protocol,"
            f" this Dragoman speaks {API_VERSION}: install the one made for it",
        )
    if not isinstance(found, Capabilities):
        raise _wrong(point, f"has no adapters.Capabilities as its capabilities, but {found!r}")
    for name, kind in _CAPABILITIES.items():
        value = getattr(found, name)
        if not _is(kind, value):
            raise _wrong(point, f"says {name}={value!r} of itself, which must be {kind}")
    if found.sharing is not None:
        _demand(point, found.sharing, _SHARING_METHODS)
    if found.refusals is not None:
        _demand(point, found.refusals, _REFUSAL_METHODS)


def _is(kind: str, value: object) -> bool:
    if kind == _FLAG:
        return isinstance(value, bool)
    if kind == _NUMBER:
        return type(value) is int and value >= 1
    if kind == _FUNCTION:
        return value is None or callable(value)
    return isinstance(value, tuple) and all(isinstance(each, str) for each in value)


def _demand(point: EntryPoint, candidate: Any, methods: tuple[str, ...]) -> None:
    missing = [name for name in methods if not callable(getattr(candidate, name, None))]
    if missing:
        raise _wrong(point, f"is not an adapter: {point.value} has no {', '.join(missing)}")


def _package(point: EntryPoint) -> str:
    return f"{point.dist.name} {point.dist.version}" if point.dist else point.value


def without_password(text: str, url: str) -> str:
    """Return *text* without the password of *url*, both percent-encoded and decoded."""
    for password in filter(None, _passwords_of(url)):
        for secret in (password, unquote(password)):
            text = text.replace(secret, "...")
    return text


def _passwords_of(url: str) -> Sequence[str | None]:
    """What may be the password of *url*: where it cannot be read, errors quote any part of it."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        found = _PASSWORD.search(url)
        return [found[1], re.split("[/?#]", found[1])[0]] if found else []
    return [parts.password]


def _wrong(point: EntryPoint, text: str) -> AdapterError:
    return AdapterError(Reason.INTERNAL, f"the adapter of {point.name}: {text}")


def _unknown(scheme: str) -> AdapterError:
    known = schemes()
    near = get_close_matches(scheme.lower(), known, 1)
    meant = f"did you mean {near[0]}:? " if near else ""
    what = f"no adapter has the scheme {scheme!r}" if scheme else "the adapter's URL has no scheme"
    return AdapterError(
        Reason.INTERNAL, f"{what}; {meant}installed: {', '.join(f'{name}:' for name in known)}"
    )
