"""``dragoman plugins``."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from importlib import metadata
from importlib.metadata import EntryPoint, PackageNotFoundError, entry_points
from typing import Any

import typer

from adapters import API_VERSION
from adapters.loading import ENTRY_POINT_GROUP as ADAPTERS
from adapters.loading import adapter_class, bundled_schemes
from filters import Refused, check_engine
from filters.compiling import ENTRY_POINT_GROUP as FILTERS
from gateway.cli.options import Form, OutputOption
from gateway.cli.output import json_line, line, table
from gateway.egress.plugins import ENTRY_POINT_GROUP as TRANSPORTS
from gateway.egress.plugins import OURS as OUR_TRANSPORTS
from gateway.egress.plugins import transport_class
from gateway.security.identity_plugins import ENTRY_POINT_GROUP as VERIFIERS

OURS = "dragoman"
ENGINES = "dragoman.engines"
_COLUMNS = ("kind", "name", "package", "version", "state")


def plugins(output: OutputOption = Form.TEXT) -> None:
    r"""List the adapters, transports, filter dialects, engines and verifiers of credentials that
    are installed.

    NAME is the scheme of an adapter or a transport, the URI of a filter dialect, or the name of an
    engine or a verifier. STATE says what keeps one from being used. The version of the adapter
    protocol is checked when an adapter is used.

    \b
    Examples:
      dragoman plugins
      dragoman plugins --output json | jq '.plugins[] | select(.state != "ok")'
    """
    found = [*_adapters(), *_transports(), *_dialects(), *_engines(), *_verifiers()]
    if output is Form.JSON:
        json_line({"adapter_api_version": API_VERSION, "plugins": found})
    else:
        line(f"Adapter protocol: version {API_VERSION}")
        rows = [[one[name] for name in _COLUMNS] for one in found]
        for text in table(_COLUMNS, rows):
            line(text)
    # The libraries of our own adapters are extras: that one is missing is no fault.
    if any(one["state"] != "ok" and one["package"] != OURS for one in found):
        raise typer.Exit(1)


def _adapters() -> Iterator[Mapping[str, str]]:
    for scheme in bundled_schemes():
        yield _record("adapter", scheme, None, _state(scheme))
    for point in sorted(entry_points(group=ADAPTERS), key=lambda each: each.name):
        yield _record("adapter", point.name, point, _state(point.name))


def _state(scheme: str) -> str:
    try:
        adapter_class(scheme)
    except Refused as exc:
        return exc.text
    return "ok"


def _transports() -> Iterator[Mapping[str, str]]:
    for scheme in OUR_TRANSPORTS:
        yield _record("transport", scheme, None, "ok")
    for point in sorted(entry_points(group=TRANSPORTS), key=lambda each: each.name):
        try:
            transport_class(point.name)
        except Refused as exc:
            yield _record("transport", point.name, point, exc.text)
        else:
            yield _record("transport", point.name, point, "ok")


def _dialects() -> Iterator[Mapping[str, str]]:
    for point in sorted(entry_points(group=FILTERS), key=lambda each: each.name):
        try:
            loaded: Any = point.load()
            names = [str(name) for name in dict(loaded)]
        except Exception as exc:  # Whatever a module of others does when it is imported.
            state = f"cannot be loaded: {type(exc).__name__}: {exc}"
            yield _record("filter", point.name, point, state)
        else:
            for name in names:
                yield _record("filter", name, point, "ok")


def _engines() -> Iterator[Mapping[str, str]]:
    for point in sorted(entry_points(group=ENGINES), key=lambda each: each.name):
        try:
            check_engine(point.name)
        except ValueError as error:
            yield _record("engine", point.name, point, str(error))
        else:
            yield _record("engine", point.name, point, "ok")


def _verifiers() -> Iterator[Mapping[str, str]]:
    for point in sorted(entry_points(group=VERIFIERS), key=lambda each: each.name):
        try:
            point.load()
        except Exception as exc:  # Whatever a module of others does when it is imported.
            state = f"cannot be loaded: {type(exc).__name__}: {exc}"
            yield _record("verifier", point.name, point, state)
        else:
            yield _record("verifier", point.name, point, "ok")


def _record(kind: str, name: str, point: EntryPoint | None, state: str) -> Mapping[str, str]:
    """One line; *point* None: of Dragoman itself."""
    package = version = "-"
    if point is None:
        package = OURS
        with suppress(PackageNotFoundError):  # It runs from a checkout.
            version = metadata.version(OURS)
    elif point.dist is not None:
        package, version = point.dist.name, point.dist.version
    return {"kind": kind, "name": name, "package": package, "version": version, "state": state}
