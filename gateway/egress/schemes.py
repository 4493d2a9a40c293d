"""Addresses of every scheme: how each is read, and who may name it."""

import re
from collections.abc import Callable, Mapping
from typing import Protocol

from gateway.egress.addresses import (
    DEFAULT_PORTS,
    MAX_ADDRESS_OCTETS,
    AddressRefused,
    Target,
    parse_target,
)
from gateway.egress.policy import AddressPolicy

LONGEST = 30
"""Characters of a scheme that is named to who sent it."""
_SCHEME = re.compile(rf"[A-Za-z][A-Za-z0-9+.-]{{0,{LONGEST - 1}}}:")


class AddressReader(Protocol):
    """Reads the addresses of one scheme."""

    def read(self, address: str) -> Target:
        """Read *address*.

        Raises:
            AddressRefused: It is none that may be sent to.
        """


class Schemes:
    """The schemes that consumers' addresses may have.

    Args:
        policy: Judges the addresses of our own schemes, which name hosts of the network.
        others: The schemes beside these.
        strangers: Those of them that peers who are not trusted may name.
        trusts: Whether an owner of subscriptions is trusted.
    """

    def __init__(
        self,
        policy: AddressPolicy,
        others: Mapping[str, AddressReader] | None = None,
        *,
        strangers: frozenset[str] = frozenset(),
        trusts: Callable[[str], bool] = lambda _: False,
    ) -> None:
        self._policy = policy
        self._others = dict(others or {})
        self._strangers = strangers
        self._trusts = trusts

    def read(self, address: str, owner: str | None = None) -> Target:
        """Read *address*, which *owner* names.

        Raises:
            AddressRefused: It is no address, or of a scheme that is not spoken here.
        """
        scheme = address[: LONGEST + 1].partition(":")[0].lower()
        other = self._others.get(scheme)
        if other is not None:
            return other.read(address)
        if scheme not in DEFAULT_PORTS and _SCHEME.match(address):
            spoken = ", ".join(self._spoken(owner))
            text = f"Addresses with the scheme {scheme} are not sent to, but those with {spoken}."
            raise AddressRefused(address[:MAX_ADDRESS_OCTETS], text=text)
        return parse_target(address)

    def _spoken(self, owner: str | None) -> list[str]:
        """The schemes that *owner* may name."""
        all_open = owner is not None and self._trusts(owner)
        others = (one for one in self._others if all_open or one in self._strangers)
        return [*filter(self._policy.allows_scheme, DEFAULT_PORTS), *others]

    def check(self, target: Target, owner: str) -> None:
        """Judge *target*, which *owner* names.

        Raises:
            AddressRefused: It may not be sent to.
        """
        if target.scheme not in self._others:
            self._policy.check_named(target, trusted=self._trusts(owner))
        elif target.scheme not in self._strangers and not self._trusts(owner):
            raise AddressRefused(target.url, allowed_by="strangers")
