"""Lists of hosts, as an operator writes them in the settings."""

from collections.abc import Iterable
from ipaddress import ip_address

from gateway.model.hosts import IPAddress, IPNetwork, is_number, read_networks, unmapped


class HostList:
    """Networks (``10.1.0.0/16``), addresses, names, all names below one (``*.plant.example.org``),
    or every host (``*``).

    A name is compared as it is written: none is looked up.

    Raises:
        ValueError: A network cannot be read, or a name is a number, which is nobody's.
    """

    def __init__(self, listed: Iterable[str] = ()) -> None:
        self._networks: list[IPNetwork] = []
        self._names: set[str] = set()
        for one in listed:
            try:
                self._networks.append(read_networks(one.strip("[]")))
            except ValueError:
                if "/" in one:
                    raise
                if is_number(one):  # It would be compared with names, and never fit.
                    text = f"{one!r} is no address: write four decimal numbers"
                    raise ValueError(text) from None
                self._names.add(one.lower().rstrip("."))

    def __contains__(self, host: str) -> bool:
        """Whether *host*, as a `Target` spells it, is listed: an address, or a name."""
        if "*" in self._names or self.has_name(host):
            return True
        if not self._networks:
            return False
        try:
            address = ip_address(host)
        except ValueError:
            return False
        return self.has_address(address)

    def has_name(self, name: str) -> bool:
        """Whether *name* is listed, or a name above it with all that are below."""
        if not self._names:
            return False
        if name in self._names:
            return True
        labels = name.split(".")
        return any(f"*.{'.'.join(labels[n:])}" in self._names for n in range(1, len(labels)))

    def has_address(self, address: IPAddress) -> bool:
        """Whether *address* is listed, or a network that it is in."""
        address = unmapped(address)
        return any(address in network for network in self._networks)
