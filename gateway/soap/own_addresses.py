"""The addresses of this gateway for which messages may be signed (``wsa:To``)."""

from collections.abc import Iterable
from urllib.parse import urlsplit

from gateway.model.hosts import comparable_host, origin_of


class OwnAddresses:
    """Tells whether a message was signed for this gateway: else whoever has one that was signed for
    another gateway, which believes the same signers, could send it here.

    Args:
        listed: URLs at which the gateway is reached, and names of its own (``urn:``). With a path,
            as several gateways have at one proxy, they are those below it.
        hosts: Further names of it (the setting ``hosts``), with the schemes and ports of *listed*.
    """

    def __init__(self, listed: Iterable[str], hosts: Iterable[str] = ()) -> None:
        every = frozenset(listed)
        self._names = every
        origins = [(origin, _path_of(one)) for one in every if (origin := origin_of(one))]
        self._bases = {
            ((scheme, name, port), path)
            for (scheme, host, port), path in origins
            for name in (host, *map(comparable_host, hosts))
        }

    def are_meant(self, to: str | None, path: str) -> bool:
        """Return True if a message that was sent to *path* was signed for this, or for no address.

        Args:
            path: Empty where the transport has none, as SOAP.TCP.
        """
        if to is None:
            return True
        origin = origin_of(to)
        if origin is None:
            return to in self._names
        meant = urlsplit(to).path
        # A proxy in front of the gateway may have taken off the beginning of the path.
        return meant.endswith(path) and any(
            origin == own and f"{meant}/".startswith(f"{base}/") for own, base in self._bases
        )


def _path_of(url: str) -> str:
    return urlsplit(url).path.rstrip("/")
