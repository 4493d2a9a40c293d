"""The one place where a principal is made: of what a transport knows of the sender.

That is a network address today, so every principal is anonymous: a stranger, or trusted because of
the network that it is in. What a certificate of TLS or an HTTP header proves would be a further
argument of `Identification.identify`, and another kind of principal its result.

A transport identifies before the envelope is read, because the principal decides where the message
may be parsed, and who pays for it.
"""

from gateway.security.networks import Networks
from gateway.security.principals import Principal, address_of, anonymous

_REMEMBERED = 4096
"""Addresses whose principals are kept: each event of a publisher has the same."""


class Identification:
    """Tells who sends a request.

    Args:
        trusted: Networks whose peers are trusted.
    """

    def __init__(self, trusted: Networks | None = None) -> None:
        self._trusted = trusted or Networks()
        self._known: dict[str, Principal] = {}

    def identify(self, address: str, *, proxied: bool = False) -> Principal:
        """The principal at *address*; *proxied*: a proxy of ours dialled there, and anybody may
        stand behind it."""
        if proxied:
            return anonymous(address, trusted=False)
        principal = self._known.get(address)
        if principal is None:
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            principal = anonymous(address, trusted=address in self._trusted)
            self._known[address] = principal
        return principal

    def trusts_owner(self, owner: str) -> bool:
        """Whether *owner*, of a subscription or a mailbox, is a trusted principal."""
        return address_of(owner) in self._trusted
