"""From the URL of a messaging system to its adapter.

Ours are loaded when asked for, so that no broker's library is needed for another's sake. Third
parties add a scheme with an entry point::

    [project.entry-points."dragoman.adapters"]
    kafka = "my_package:KafkaAdapter"
"""

from collections.abc import Mapping
from difflib import get_close_matches
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

from adapters.protocol import API_VERSION, Adapter, AdapterError
from filters import Reason

ENTRY_POINT_GROUP = "dragoman.adapters"

_OURS = {
    "amqp": EntryPoint("amqp", "adapters.rabbitmq:RabbitMQAdapter [rabbitmq]", ENTRY_POINT_GROUP),
    "amqps": EntryPoint("amqps", "adapters.rabbitmq:RabbitMQAdapter [rabbitmq]", ENTRY_POINT_GROUP),
    "embedded": EntryPoint("embedded", "adapters.embedded:EmbeddedAdapter", ENTRY_POINT_GROUP),
    "memory": EntryPoint("memory", "adapters.memory:MemoryAdapter", ENTRY_POINT_GROUP),
    "stomp": EntryPoint("stomp", "adapters.stomp:StompAdapter [stomp]", ENTRY_POINT_GROUP),
    "stomp+ssl": EntryPoint("stomp+ssl", "adapters.stomp:StompAdapter [stomp]", ENTRY_POINT_GROUP),
}
"""Those with a library of their own name the extra that brings it: ``module:Class [extra]``."""


def schemes() -> list[str]:
    """The schemes of all adapters that are installed, sorted."""
    return sorted({*_OURS, *(point.name for point in entry_points(group=ENTRY_POINT_GROUP))})


def load(url: str, *, data: Path, settings: Mapping[str, str]) -> Adapter:
    """Make the adapter of *url*; it is not started. *data* is the folder it may write to.

    Raises:
        AdapterError: No adapter has this scheme, its library is missing, it was written for
            another version of the protocol, or the URL or the settings do not fit it.
    """
    scheme, colon, _ = url.partition(":")
    point = _find(scheme.lower()) if colon else None
    if point is None:
        raise _unknown(scheme if colon else "")
    adapter: Adapter = _load_class(point).from_url(url, data=data, settings=settings)
    version = adapter.capabilities.api_version
    if version != API_VERSION:
        raise AdapterError(
            Reason.INTERNAL,
            f"the adapter of {point.name}: speaks version {version} of the adapter protocol,"
            f" this Dragoman speaks {API_VERSION}: install the one made for it",
        )
    return adapter


def _find(scheme: str) -> EntryPoint | None:
    if scheme in _OURS:
        return _OURS[scheme]
    return next(iter(entry_points(group=ENTRY_POINT_GROUP, name=scheme)), None)


def _load_class(point: EntryPoint) -> Any:
    try:
        return point.load()
    except ModuleNotFoundError as exc:
        extras = ",".join(point.extras)
        package = point.dist.name if point.dist else "dragoman"
        remedy = f": pip install '{package}[{extras}]'" if extras else ""
        raise AdapterError(
            Reason.INTERNAL,
            f"the adapter of {point.name}: needs {exc.name}, which is not installed{remedy}",
        ) from exc
    except (ImportError, AttributeError) as exc:
        raise AdapterError(
            Reason.INTERNAL, f"the adapter of {point.name}: cannot be loaded: {exc}"
        ) from exc


def _unknown(scheme: str) -> AdapterError:
    known = schemes()
    near = get_close_matches(scheme.lower(), known, 1)
    meant = f"did you mean {near[0]}:? " if near else ""
    what = f"no adapter has the scheme {scheme!r}" if scheme else "the adapter's URL has no scheme"
    return AdapterError(
        Reason.INTERNAL, f"{what}; {meant}installed: {', '.join(f'{name}:' for name in known)}"
    )
