"""Addresses of every scheme: how each is read, and who may name it."""

from collections.abc import Callable, Mapping
from typing import Protocol

from gateway.egress.addresses import AddressRefused, Target, parse_target
from gateway.egress.policy import AddressPolicy


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

    def read(self, address: str) -> Target:
        """Read *address*.

        Raises:
            AddressRefused: It is no address, or of a scheme that is not spoken here.
        """
        if self._others:
            other = self._others.get(address.partition(":")[0].lower())
            if other is not None:
                return other.read(address)
        return parse_target(address)

    def check(self, target: Target, owner: str) -> None:
        """Judge *target*, which *owner* names.

        Raises:
            AddressRefused: It may not be sent to.
        """
        if target.scheme not in self._others:
            self._policy.check(target)
        elif target.scheme not in self._strangers and not self._trusts(owner):
            raise AddressRefused(target.url, allowed_by="strangers")
