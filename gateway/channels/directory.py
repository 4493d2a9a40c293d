"""A directory (LDAP) in which channels are found by name.

ldap3 speaks; it waits, so each exchange is a thread's, with a deadline for every step of it and one
for the whole. Referrals are not followed, and nothing that an entry says is loaded or fetched.
"""

import asyncio
import contextlib
import socket
import ssl
import threading
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

from filters import Reason, Refused
from filters.extras import how_to_install
from gateway.channels.java_references import (
    ADDRESS,
    CLASS,
    CLASS_NAME,
    HOSTILE,
    OBJECT_CLASSES,
    read_attributes,
    write_attributes,
)
from gateway.security.secret_files import SecretFileUnusable, read_first_line
from gateway.security.tls import Names, client_context
from mediation.model.messages import EndpointReference

STRUCTURAL = "applicationProcess"
"""The structural class of entries that are made."""
STEP = 5.0
"""Seconds of each step: the connection, one answer."""
SECONDS = 20.0
"""Seconds of one exchange with the directory."""
MOST = 1000
"""Entries of a tree."""
_CHANNELS = f"(&(objectClass=javaNamingReference)({CLASS_NAME}={CLASS}))"
_NO_SUCH_OBJECT, _EXISTS, _SIZE_LIMIT = 32, 68, 4
T = TypeVar("T")


class DirectoryFailed(Refused):
    """The directory did not do what it was asked for."""

    def __init__(self, text: str) -> None:
        super().__init__(Reason.UNAVAILABLE, text)


@dataclass(frozen=True, slots=True)
class DirectoryOptions:
    """How a directory is reached.

    Attributes:
        url: ``ldap://`` or ``ldaps://``, with a host and perhaps a port.
        start_tls: Whether a connection of ``ldap://`` is made one of TLS before anything is said.
        ca: The authorities that the directory's certificate may be from; those of the system else.
        user: A distinguished name; without one everybody's rights have to do.
        password_file: The file whose first line is the password, in place of one.
    """

    url: str
    start_tls: bool = True
    ca: Path | None = None
    user: str | None = None
    password: str = field(default="", repr=False)
    password_file: Path | None = None


@dataclass(frozen=True, slots=True)
class Found:
    """An entry: its reference, or why it has none."""

    name: str
    reference: EndpointReference | None
    why_not: str = ""


class Directory:
    """The entries of channels in a directory.

    Raises:
        Refused: The library is missing, or the URL is none of a directory.
    """

    def __init__(
        self, options: DirectoryOptions, *, step: float = STEP, seconds: float = SECONDS
    ) -> None:
        _ldap3()
        parts = urlsplit(options.url)
        if parts.scheme not in ("ldap", "ldaps") or not parts.hostname:
            raise Refused(Reason.MESSAGE_INVALID, "A directory is ldap:// or ldaps:// and a host.")
        self._options = options
        self._host, self._secure = parts.hostname, parts.scheme == "ldaps"
        self._port = parts.port or (636 if self._secure else 389)
        self._step, self._seconds = step, seconds
        self._tls: ssl.SSLContext | None = None
        if self._secure or options.start_tls:
            names = Names("directory.certificate", "directory.key", "directory.ca")
            self._tls = client_context(ca=options.ca, names=names)

    async def bind(self, name: str, reference: EndpointReference) -> bool:
        """Make the entry *name* of *reference*, or have it say so; whether it is a new one.

        Raises:
            DirectoryFailed: It is not known to be there; the text says why.
        """
        attributes = write_attributes(reference)

        def work(connection: Any) -> bool:
            replace = _ldap3().MODIFY_REPLACE
            changes = {key: [(replace, values)] for key, values in attributes.items()}
            connection.modify(name, changes)
            if connection.result["result"] != _NO_SUCH_OBJECT:
                _check(connection, name)
                return False
            connection.add(name, [STRUCTURAL, *OBJECT_CLASSES], attributes)
            if connection.result["result"] == _EXISTS:  # Somebody was faster.
                connection.modify(name, changes)
                _check(connection, name)
                return False
            _check(connection, name)
            return True

        return await self._run(work)

    async def lookup(self, name: str) -> EndpointReference | None:
        """The reference of the entry *name*; None where there is none.

        Raises:
            Refused: It cannot be read; the text says why.
        """
        found = await self._search(name, "BASE", 1)
        if not found:
            return None
        (entry,) = found
        if entry.reference is None:
            raise Refused(Reason.EPR_INVALID, f"{name}: {entry.why_not}")
        return entry.reference

    async def tree(self, base: str) -> list[Found]:
        """The channels at and below the entry *base*, those that may not be read with the reason.

        Raises:
            DirectoryFailed: They are not known.
        """
        return await self._search(base, "SUBTREE", MOST)

    async def children(self, name: str) -> list[Found]:
        """The children of the channel *name*: those of the same name one level lower, by name.

        Raises:
            Refused: They are not known, or *name* is not a channel name.
        """
        found = [one for one in await self.tree(container_of(name)) if is_child(one.name, name)]
        return sorted(found, key=lambda one: one.name.lower())

    async def _search(self, base: str, scope: str, most: int) -> list[Found]:
        def work(connection: Any) -> list[Found]:
            # Of what is hostile it is enough to know that it is there.
            connection.search(
                base,
                _CHANNELS,
                search_scope=scope,
                attributes=[CLASS_NAME, ADDRESS],
                size_limit=most,
                time_limit=max(1, round(self._step)),
            )
            if connection.result["result"] == _NO_SUCH_OBJECT:
                return []
            if connection.result["result"] != _SIZE_LIMIT:
                _check(connection, base)
            entries = _entries(connection)[:most]
            any_of = "".join(f"({name}=*)" for name in HOSTILE)
            connection.search(
                base,
                f"(&{_CHANNELS}(|{any_of}))",
                search_scope=scope,
                attributes=["1.1"],
                size_limit=most,
                time_limit=max(1, round(self._step)),
            )
            if connection.result["result"] not in (_NO_SUCH_OBJECT, _SIZE_LIMIT):
                _check(connection, base)
            hostile = {str(entry["dn"]).lower() for entry in _entries(connection)}
            return [_found(entry, hostile) for entry in entries]

        return await self._run(work)

    async def _run(self, work: Callable[[Any], T]) -> T:
        """What *work* returns, given a connection, in a thread that ends when nobody waits."""
        exchange = _Exchange(self, work)
        try:
            async with asyncio.timeout(self._seconds):
                return await asyncio.to_thread(exchange.run)
        except TimeoutError:
            raise DirectoryFailed(f"{self._host}: no answer in time") from None
        finally:
            exchange.abort()

    @contextlib.contextmanager
    def connected(self, known: Callable[[Any], None]) -> Iterator[Any]:
        """A connection; *known* is told of it before it is opened.

        Raises:
            DirectoryFailed: There is none.
        """
        ldap3, options = _ldap3(), self._options
        secured, password = None, options.password
        if options.password_file is not None:
            try:
                password = read_first_line(options.password_file)
            except SecretFileUnusable as unusable:
                raise DirectoryFailed(f"directory.password_file: {unusable.text}") from None
        if self._tls is not None:
            secured = ldap3.Tls(validate=ssl.CERT_REQUIRED)
            # Python's own check of names, and nothing left open where it fails.
            secured.wrap_socket = partial(_secure, self._tls, self._host)
        server = ldap3.Server(
            self._host,
            self._port,
            use_ssl=self._secure,
            tls=secured,
            get_info=ldap3.NONE,
            connect_timeout=self._step,
        )
        connection = ldap3.Connection(
            server,
            user=options.user,
            password=password or None,
            authentication=ldap3.SIMPLE if options.user else ldap3.ANONYMOUS,
            auto_bind=ldap3.AUTO_BIND_NONE,
            auto_referrals=False,
            check_names=False,
            receive_timeout=max(1, round(self._step)),  # It takes whole seconds alone.
        )
        known(connection)
        try:
            connection.open(read_server_info=False)
            if options.start_tls and not self._secure and not connection.start_tls(False):
                raise DirectoryFailed(f"{self._host}: it speaks no TLS")
            if not connection.bind(read_server_info=False):
                raise DirectoryFailed(f"{self._host}: it does not know the user")
            yield connection
        finally:
            with contextlib.suppress(Exception):
                connection.unbind()
            if isinstance(connection.socket, socket.socket):
                connection.socket.close()


class _Exchange:
    """Work with a connection, in a thread, that can be cut off from outside of it."""

    def __init__(self, directory: Directory, work: Callable[[Any], Any]) -> None:
        self._directory = directory
        self._work = work
        self._lock = threading.Lock()
        self._connection: Any = None
        self._aborted = False

    def run(self) -> Any:
        """Do the work.

        Raises:
            Refused: Something failed; the text says what.
        """
        try:
            with self._directory.connected(self._known) as connection:
                return self._work(connection)
        except Refused:
            raise
        except Exception as error:  # What reads the answers of a directory raises all kinds.
            text = " ".join(str(error).split())[:200] or type(error).__name__
            raise DirectoryFailed(f"the directory failed: {text}") from error

    def _known(self, connection: Any) -> None:
        with self._lock:
            self._connection = connection
            if self._aborted:
                raise DirectoryFailed("given up")

    def abort(self) -> None:
        """Have the thread end soon: whatever it waits for on its socket breaks off."""
        with self._lock:
            self._aborted = True
            sock = getattr(self._connection, "socket", None)
        if isinstance(sock, socket.socket):
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)


def _secure(tls: ssl.SSLContext, host: str, connection: Any, do_handshake: bool = True) -> None:
    connection.socket = tls.wrap_socket(connection.socket, server_hostname=host)


def parent_of(name: str) -> str | None:
    """The entry of the parent of a channel: that of the same name one level higher. None where
    there is no higher level.

    Raises:
        Refused: *name* is not a distinguished name of two parts at least.
    """
    rdns = _levels(name)
    return None if len(rdns) == 2 else ",".join((rdns[0], *rdns[2:]))


def container_of(name: str) -> str:
    """The entry that the channel *name* is in, and that its children are below.

    Raises:
        Refused: *name* is not a distinguished name of two parts at least.
    """
    return ",".join(_levels(name)[1:])


def is_child(name: str, above: str) -> bool:
    """Whether *name* is a child of the channel *above*: of the same name, one level lower."""
    try:
        return [one.lower() for one in _levels(parent_of(name) or "")] == [
            one.lower() for one in _levels(above)
        ]
    except Refused:
        return False


def _levels(name: str) -> list[str]:
    """The parts of a distinguished name, the lowest first.

    Raises:
        Refused: It is none of two parts at least.
    """
    try:
        parts = _ldap3().utils.dn.parse_dn(name, escape=True, strip=True)
    except Refused:
        raise
    except Exception as error:
        raise Refused(Reason.MESSAGE_INVALID, f"{name!r} is not a distinguished name.") from error
    levels: list[list[str]] = [[]]
    for attribute, value, separator in parts:
        levels[-1].append(f"{attribute}={value}")
        if separator != "+":
            levels.append([])
    rdns = ["+".join(level) for level in levels if level]
    if len(rdns) < 2:
        raise Refused(Reason.MESSAGE_INVALID, f"{name!r} is in no organisation.")
    return rdns


def _ldap3() -> Any:
    try:
        with warnings.catch_warnings():
            # ldap3 2.9.1 imports old names of pyasn1, which says so since 0.6.
            warnings.simplefilter("ignore", DeprecationWarning)
            import ldap3
            import ldap3.utils.dn
    except ImportError as error:
        text = f"The library of directories is missing: {how_to_install('ldap')}"
        raise Refused(Reason.INTERNAL, text) from error
    return ldap3


def _check(connection: Any, name: str) -> None:
    result = connection.result
    if result["result"] != 0:
        said = " ".join(str(result.get("message") or "").split())[:200]
        raise DirectoryFailed(f"{name}: {result['description']}{': ' if said else ''}{said}")


def _entries(connection: Any) -> list[dict[str, Any]]:
    return [one for one in connection.response or () if one.get("type") == "searchResEntry"]


def _found(entry: dict[str, Any], hostile: set[str]) -> Found:
    name = str(entry["dn"])
    if name.lower() in hostile:
        return Found(name, None, "it would have objects or code loaded, which nobody may follow")
    try:
        return Found(name, read_attributes(entry["raw_attributes"]))
    except Refused as refused:
        return Found(name, None, refused.text)
