"""The directory (LDAP): the servers, who is at which of them, and which one is central.

::

    cn=central,BASE            seeAlso: the central server; description: the number of its election
    cn=s1,ou=servers,BASE      javaReferenceAddress: the reference of the server
    cn=alice,ou=people,BASE    seeAlso: her server
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from filters import Refused
from gateway.channels.directory import Directory, DirectoryFailed, DirectoryOptions
from mediation.grid_events import Port, port_of, port_reference

BASE = "ou=messenger,o=iu"
_OBJECT = "applicationProcess"
# As ldap3 calls them, which is imported where it is needed: gateway/channels/directory.py.
_ADD, _DELETE, _REPLACE = "MODIFY_ADD", "MODIFY_DELETE", "MODIFY_REPLACE"
_MISSING_VALUE, _MISSING_ENTRY, _EXISTS = 16, 32, 68
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Central:
    """Which server is central, and since which election."""

    server: str
    term: int


class Names:
    """The directory at a URL. To read it nobody has to be somebody."""

    def __init__(self, url: str, user: str | None = None, password: str = "") -> None:
        options = DirectoryOptions(url, start_tls=False, user=user, password=password)
        self._directory = Directory(options)

    async def prepare(self) -> None:
        """Make the entries below which all others are."""

        def work(connection: Any) -> None:
            for name in (BASE, f"ou=servers,{BASE}", f"ou=people,{BASE}"):
                connection.add(name, ["organizationalUnit"])
                _check(connection, _EXISTS)

        await self._do(work)

    async def bind(self, server: str, port: Port) -> None:
        """Have a server's entry say where it is."""
        await self._directory.bind(_server(server), port_reference(port))

    async def servers(self) -> dict[str, Port]:
        """All servers in the order of their names, whether they run or not."""
        found = await self._directory.tree(f"ou=servers,{BASE}")
        known = {
            _name(one.name): port_of(one.reference) for one in found if one.reference is not None
        }
        return dict(sorted(known.items()))

    async def place(self, person: str, server: str) -> None:
        """Have a person's entry say at which server they are."""
        name, at = f"cn={person},ou=people,{BASE}", _server(server)

        def work(connection: Any) -> None:
            connection.modify(name, {"seeAlso": [(_REPLACE, [at])]})
            if connection.result["result"] == _MISSING_ENTRY:
                connection.add(name, [_OBJECT], {"seeAlso": at})
            _check(connection)

        await self._do(work)

    async def server_of(self, person: str) -> Port | None:
        """The server at which a person is, or was when last heard of."""
        entry = await self._entry(f"cn={person},ou=people,{BASE}")
        if entry is None:
            return None
        reference = await self._directory.lookup(entry["seeAlso"][0])
        return None if reference is None else port_of(reference)

    async def central(self) -> Central | None:
        """Which server was elected last."""
        entry = await self._entry(f"cn=central,{BASE}")
        if entry is None:
            return None
        return Central(_name(entry["seeAlso"][0]), int(entry["description"][0]))

    async def elect(self, server: str, before: Central | None) -> bool:
        """Make *server* central, unless somebody else was made that since *before*.

        The directory carries out a change as a whole or not at all: of all that want to follow upon
        one election, it takes the first.
        """
        name, at, term = f"cn=central,{BASE}", _server(server), before.term if before else 0

        def work(connection: Any) -> bool:
            if before is None:
                values = {"seeAlso": at, "description": str(term + 1)}
                connection.add(name, [_OBJECT], values)
            else:
                changes = {
                    "description": [
                        (_DELETE, [str(term)]),
                        (_ADD, [str(term + 1)]),
                    ],
                    "seeAlso": [(_REPLACE, [at])],
                }
                connection.modify(name, changes)
            _check(connection, _EXISTS, _MISSING_VALUE)
            return bool(connection.result["result"] == 0)

        return await self._do(work)

    async def _entry(self, name: str) -> dict[str, list[str]] | None:
        def work(connection: Any) -> dict[str, list[str]] | None:
            wanted = ["seeAlso", "description"]
            connection.search(name, "(seeAlso=*)", "BASE", attributes=wanted)
            _check(connection, _MISSING_ENTRY)
            for one in connection.response or ():
                if one["type"] == "searchResEntry":
                    raw = one["raw_attributes"]
                    return {key: [value.decode() for value in raw[key]] for key in raw}
            return None

        return await self._do(work)

    async def _do(self, work: Callable[[Any], T]) -> T:
        """What *work* returns, given a connection, in a thread.

        Raises:
            DirectoryFailed: The directory is away, or does not do it.
        """

        def run() -> T:
            try:
                with self._directory.connected(lambda _: None) as connection:
                    return work(connection)
            except Refused:
                raise
            except Exception as error:  # What reads the answers of a directory raises all kinds.
                raise DirectoryFailed(f"the directory failed: {error}") from error

        return await asyncio.to_thread(run)


def _server(name: str) -> str:
    return f"cn={name},ou=servers,{BASE}"


def _name(distinguished: str) -> str:
    return distinguished.partition(",")[0].partition("=")[2]


def _check(connection: Any, *also: int) -> None:
    if connection.result["result"] not in (0, *also):
        raise DirectoryFailed(str(connection.result["description"]))
