"""Hosts that an operator has listed."""

from collections.abc import Iterable
from ipaddress import ip_address, ip_network


class Hosts:
    """Networks, addresses, names, all names below one (``*.plant.example.org``), or all (``*``).

    A network holds hosts that are written as addresses; no name is looked up.

    Raises:
        ValueError: A network is none.
    """

    def __init__(self, listed: Iterable[str] = ()) -> None:
        self._networks = []
        self._names: set[str] = set()
        for one in listed:
            try:
                self._networks.append(ip_network(one, strict=False))
            except ValueError:
                if "/" in one:
                    raise
                self._names.add(one.lower())

    def __contains__(self, host: str) -> bool:
        """Whether *host*, as a `Target` spells it, is listed."""
        if "*" in self._names or host in self._names:
            return True
        if self._networks:
            try:
                address = ip_address(host)
            except ValueError:
                pass
            else:
                return any(address in network for network in self._networks)
        labels = host.split(".") if self._names else []
        return any(f"*.{'.'.join(labels[n:])}" in self._names for n in range(1, len(labels)))
