"""Where ``dragoman users``, ``keys`` and ``rights`` find and change what they list: in the file of
identities, or with ``--stored`` in a gateway, which keeps it in its store."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, Protocol, TypeVar

import typer

from filters import Refused
from gateway.cli.errors import CommandFailed
from gateway.cli.options import Form, connecting
from gateway.cli.output import json_line, line, note, table
from gateway.client import Administration, Record
from gateway.identities.file_editing import (
    add_key,
    add_rule,
    add_user,
    create_identities,
    remove_key,
    remove_rule,
    remove_user,
    rotate_key,
)
from gateway.identities.in_force import IdentitiesInForce
from gateway.security.identities import Identities, load_identities
from gateway.web.views.identities import key_views, rule_views, user_views

T = TypeVar("T")
FileOption = Annotated[
    Path | None,
    typer.Option(
        "--file",
        metavar="FILE",
        help="The file of identities. [that of the settings]",
    ),
]
StoredOption = Annotated[
    bool,
    typer.Option(
        "--stored",
        help="Ask the gateway, and keep what changes in its store: all its replicas go by it. It "
        "takes the key of somebody who may everything.",
    ),
]
TenantOption = Annotated[
    str | None,
    typer.Option("--tenant", metavar="NAME", help="The tenant of the user, of `[[tenants]]`."),
]
RIGHTS = "publish, subscribe, manage, operate, read or everything"


def print_rows(
    rows: Sequence[Record], columns: Sequence[str], output: Form, *, stored: bool
) -> None:
    """Print what a place lists: for programs an object a line, for people a table, which says where
    each row is kept, where that is not one file alone."""
    if output is Form.JSON:
        for row in rows:
            json_line(row)
        return
    if stored:
        problems = ["problem"] if any(row["problem"] for row in rows) else []
        columns = [*columns, "kept in", "kept by", *problems]
    cells = [[row[name.replace(" ", "_")] for name in columns] for row in rows]
    for text in table(columns, cells):
        line(text)


class IdentitiesPlace(Protocol):
    """Where users, keys and rules are. Each method raises CommandFailed, or GatewayError."""

    def users(self) -> list[Record]: ...

    def keep_user(self, name: str, wanted: Record) -> None:
        """Add a user, or give it what is *wanted*: ``password``, ``digest``, ``roles``,
        ``tenant``."""

    def remove_user(self, name: str) -> None: ...

    def keys(self) -> list[Record]: ...

    def add_key(
        self, user: str, may: Sequence[str], days: int | None, tenant: str | None
    ) -> str: ...

    def rotate_key(self, key_id: str, hours: int) -> str: ...

    def remove_key(self, key_id: str) -> None: ...

    def rules(self) -> list[Record]: ...

    def add_rule(self, wanted: Record) -> str:
        """Add a rule, and return its id."""

    def remove_rule(self, rule_id: str) -> None: ...


def place_of(
    context: typer.Context, file: Path | None, gateway: str, *, stored: bool
) -> IdentitiesPlace:
    """The place that options say.

    Raises:
        CommandFailed: There is none.
    """
    return in_gateway(context, file, gateway) if stored else InFile(file_of(file))


def in_gateway(context: typer.Context, file: Path | None, gateway: str) -> "InGateway":
    """The gateway that options say.

    Raises:
        CommandFailed: They say a file, too.
    """
    if file is not None:
        raise CommandFailed("--stored is of a gateway, and --file of a file: give one of them")
    return InGateway(gateway, context)


def file_of(given: Path | None) -> Path:
    """The file of identities.

    Raises:
        CommandFailed: None is named, and the settings have none.
    """
    if given is not None:
        return given
    from gateway.settings.settings import read_settings

    found = read_settings().identities
    if found is None:
        raise CommandFailed("there is no file of identities: name one with --file")
    return found


@contextmanager
def _said() -> Iterator[None]:
    """Say in one line what is wrong with the file."""
    try:
        yield
    except Refused as error:
        raise CommandFailed(error.text) from error


def read_file(path: Path) -> Identities:
    """What the file at *path* says.

    Raises:
        CommandFailed: It cannot be used.
    """
    with _said():
        return load_identities(path)


class InFile:
    """The file of identities."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def users(self) -> list[Record]:
        return [view.model_dump(mode="json") for view in user_views(self._read())]

    def keep_user(self, name: str, wanted: Record) -> None:
        path = self._made()
        with _said():
            add_user(
                path,
                name,
                wanted.get("password"),
                wanted.get("roles", ()),
                digest=wanted.get("digest", False),
                tenant=wanted.get("tenant"),
            )

    def remove_user(self, name: str) -> None:
        with _said():
            remove_user(self._path, name)

    def keys(self) -> list[Record]:
        return [view.model_dump(mode="json") for view in key_views(self._read())]

    def add_key(self, user: str, may: Sequence[str], days: int | None, tenant: str | None) -> str:
        expires = _in(days) if days is not None else None
        path = self._made()
        with _said():
            return add_key(path, user, may, expires, tenant=tenant)

    def rotate_key(self, key_id: str, hours: int) -> str:
        with _said():
            return rotate_key(self._path, key_id, _in(hours / 24))

    def remove_key(self, key_id: str) -> None:
        with _said():
            remove_key(self._path, key_id)

    def rules(self) -> list[Record]:
        return [view.model_dump(mode="json") for view in rule_views(self._read())]

    def add_rule(self, wanted: Record) -> str:
        path = self._made()
        with _said():
            return f"file-{add_rule(path, wanted)}"

    def remove_rule(self, rule_id: str) -> None:
        number = rule_id.removeprefix("file-")
        if not (number.isascii() and number.isdecimal()):
            raise CommandFailed(f"the file has no rule {rule_id}")
        with _said():
            remove_rule(self._path, int(number))

    def _read(self) -> IdentitiesInForce:
        found = read_file(self._path)
        return IdentitiesInForce(found, found)

    def _made(self) -> Path:
        """The file, to change it; one is made where there is none, with an administrator."""
        if not self._path.exists():
            try:
                with _said():
                    key = create_identities(self._path)
            except FileExistsError:  # A gateway that starts just now was first.
                return self._path
            note(f"Made {self._path}. The key of its administrator is not shown again: {key}")
        return self._path


def _in(days: float) -> datetime:
    return (datetime.now(UTC) + timedelta(days=days)).replace(microsecond=0)


class InGateway:
    """What a gateway goes by: its file and its store, of which this changes the store."""

    def __init__(self, url: str, context: typer.Context) -> None:
        self._url = url
        self._context = context

    def users(self) -> list[Record]:
        return self._all(Administration.users)

    def keep_user(self, name: str, wanted: Record) -> None:
        self._ask(lambda gateway: gateway.keep_user({"name": name, **wanted}))

    def remove_user(self, name: str) -> None:
        self._ask(lambda gateway: gateway.remove_user(name))

    def keys(self) -> list[Record]:
        return self._all(Administration.keys)

    def add_key(self, user: str, may: Sequence[str], days: int | None, tenant: str | None) -> str:
        wanted: Record = {"user": user, "may": list(may) or None, "days": days, "tenant": tenant}
        return str(self._ask(lambda gateway: gateway.add_key(wanted))["key"])

    def rotate_key(self, key_id: str, hours: int) -> str:
        return str(self._ask(lambda gateway: gateway.rotate_key(key_id, hours))["key"])

    def remove_key(self, key_id: str) -> None:
        self._ask(lambda gateway: gateway.remove_key(key_id))

    def rules(self) -> list[Record]:
        return self._all(Administration.rules)

    def add_rule(self, wanted: Record) -> str:
        return str(self._ask(lambda gateway: gateway.add_rule(wanted))["id"])

    def remove_rule(self, rule_id: str) -> None:
        self._ask(lambda gateway: gateway.remove_rule(rule_id))

    def check_right(self, asked: Mapping[str, Any]) -> Record:
        """Whether somebody may do something."""
        return self._ask(lambda gateway: gateway.check_right(**asked))

    def _all(self, listed: Callable[[Administration], AsyncIterator[Record]]) -> list[Record]:
        async def collect(gateway: Administration) -> list[Record]:
            return [record async for record in listed(gateway)]

        return self._ask(collect)

    def _ask(self, ask: Callable[[Administration], Awaitable[T]]) -> T:
        async def run() -> T:
            async with Administration(self._url, **connecting(self._context)) as administration:
                return await ask(administration)

        return asyncio.run(run())
