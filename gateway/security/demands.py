"""What must be signed or encrypted by WS-Security: the rights and paths of ``[ws_security]``.

A message in SOAP may be; whatever is asked in another form cannot, so where something is demanded
it is refused. Whoever authorises a sender asks here, too (`gateway.security.authorise`).
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Self

from filters import Reason, Refused
from gateway.security.resource_addresses import ResourceAddress, resource_at
from gateway.security.rights import Right


def canonical_path(resource: ResourceAddress) -> str:
    """Return the one path that all addresses of *resource* stand for: without the path of a proxy,
    its key in lower case."""
    return f"{resource.kind.value}{resource.key or ''}"


def _paths_of(path: str) -> frozenset[str]:
    """*path* as it stands, and that of the resource that it names, whatever its spelling."""
    resource = resource_at(path)
    return frozenset({path} if resource is None else {path, canonical_path(resource)})


@dataclass(frozen=True, slots=True)
class Demand:
    """Rights, and endpoints with what is below them, for which messages must be secured."""

    rights: frozenset[str] = frozenset()
    paths: frozenset[str] = frozenset()

    @classmethod
    def of(cls, words: Collection[str]) -> Self:
        """Read rights, and paths, which begin with a slash."""
        rights = frozenset(one for one in words if not one.startswith("/"))
        paths = (at for one in words if one.startswith("/") for at in _paths_of(one))
        return cls(rights, frozenset(at.rstrip("/") for at in paths))

    def covers(
        self, path: str, rights: Iterable[Right], resource: ResourceAddress | None = None
    ) -> bool:
        """Return True if it is for what needs one of *rights*, for the endpoint at *path*, or for
        *resource*, which the message alone may name."""
        if any(right.value in self.rights for right in rights):
            return True
        if not self.paths:
            return False
        paths = set(_paths_of(path))
        if resource is not None:
            paths.add(canonical_path(resource))
        return any(at == one or at.startswith(f"{one}/") for at in paths for one in self.paths)


@dataclass(frozen=True, slots=True)
class Demands:
    """What must be signed, and what encrypted."""

    signed: Demand = Demand()
    encrypted: Demand = Demand()

    @classmethod
    def of(cls, signed: Iterable[str], encrypted: Iterable[str]) -> Self:
        """Read the settings ``required`` and ``encrypted``."""
        return cls(Demand.of(tuple(signed)), Demand.of(tuple(encrypted)))

    def lacking(
        self,
        path: str,
        rights: Iterable[Right],
        resource: ResourceAddress | None = None,
        *,
        signed: bool = False,
        encrypted: bool = False,
    ) -> str:
        """What a request that needs one of *rights* must be, and is not: signed, or encrypted; else
        empty."""
        if not signed and self.signed.covers(path, rights, resource):
            return "signed"
        if not encrypted and self.encrypted.covers(path, rights, resource):
            return "encrypted"
        return ""

    def check_plain(self, path: str, *rights: Right) -> None:
        """Refuse what is asked for by one of *rights* at *path* in another form than SOAP, where it
        must be signed or encrypted: only messages in SOAP can be.

        Raises:
            Refused: ``NOT_ALLOWED``.
        """
        lacking = self.lacking(path, rights)
        if lacking:
            text = f"This must be asked for by a message in SOAP that is {lacking}."
            raise Refused(Reason.NOT_ALLOWED, text)


NO_DEMANDS = Demands()
