"""Step "identify": who sends a message, where a UsernameToken of WS-Security in it says that.

A token counts more than what the connection says: the message may have come through others. It is
read before rights are asked for, and looked at only where there is a file of identities.
"""

import time
from dataclasses import replace
from functools import partial
from ipaddress import ip_address

from filters import DocumentLimits, Reason, Refused
from gateway.exchange import Inbound
from gateway.model.hosts import unmapped
from gateway.parsing import SMALL, Parsing
from gateway.security.authentication import Authentication
from gateway.security.identify import Identification, TransportFacts
from gateway.security.principals import Identity, Principal
from gateway.soap.replay_cache import ReplayCache
from mediation.soap.username_tokens import UsernameToken, read_username_token

OLDEST, NEWEST = 300.0, 60.0
"""Seconds that a token may be old, and that its sender's clock may be ahead."""


class TokenNotAccepted(Refused):
    """A token proves nothing. It is not said why: who guesses learns nothing of it."""

    def __init__(self, text: str = "The user or the password is wrong.") -> None:
        super().__init__(Reason.TOKEN_REFUSED, text)


class UsernameTokens:
    """Identifies senders by their tokens."""

    def __init__(
        self,
        identification: Identification,
        authentication: Authentication,
        used: ReplayCache,
        parsing: Parsing,
        limits: DocumentLimits,
    ) -> None:
        self._identification = identification
        self._authentication = authentication
        self._used = used
        self._parsing = parsing
        self._limits = limits

    async def identify(self, inbound: Inbound) -> Inbound:
        """Return *inbound* as a message of the user that its token proves; as it is without one.

        Raises:
            MediationError: ``TOKEN_INVALID``, ``TOKEN_UNSUPPORTED``.
            TokenNotAccepted: It proves nothing.
            Refused: ``RATE``: there were too many that prove nothing. ``UNAVAILABLE``.
        """
        token = await self._read(inbound)
        if token is None:
            return inbound
        # Before it is verified: the file may have another password of the user after that.
        user = self._authentication.identities.user_of_name.get(token.user)
        identity = await self._verify(token, inbound)
        facts = TransportFacts(inbound.principal.address)

        async def identify_again() -> Principal:
            """The token counts once: who has another password now, or other roles, is said by the
            file."""
            now = self._authentication.identities.user_of_name.get(token.user)
            if (
                now is None
                or user is None
                or (now.password, now.digest) != (user.password, user.digest)
            ):
                raise TokenNotAccepted
            again = replace(identity, roles=frozenset(now.roles), tenant=now.tenant)
            return self._identification.principal_of(again, facts)

        principal = self._identification.principal_of(identity, facts)
        return replace(inbound, principal=principal, identify_again=identify_again)

    async def _read(self, inbound: Inbound) -> UsernameToken | None:
        if len(inbound.octets) <= SMALL:
            return read_username_token(inbound.octets, self._limits)
        read = partial(read_username_token, inbound.octets, self._limits)
        sender = inbound.principal
        trusted = not sender.limits.quotas
        return await self._parsing.run_parser(
            len(inbound.octets), lambda _: read(), trusted=trusted, owner=sender.owner
        )

    async def _verify(self, token: UsernameToken, inbound: Inbound) -> Identity:
        address = inbound.principal.address
        if token.created:
            _check_age(token)
        try:
            if token.password is not None:
                _check_secret(inbound, address)
                identity = await self._authentication.of_password(
                    token.user, token.password, address
                )
            else:
                identity = self._authentication.of_digest(token.user, token.has_digest_of, address)
        except Refused as refused:
            if refused.reason is Reason.NOT_IDENTIFIED:
                raise TokenNotAccepted from refused
            raise
        if token.nonce and not await self._used.use(token.user, token.nonce):
            raise TokenNotAccepted("The token was used before.")
        return identity


def _check_age(token: UsernameToken) -> None:
    moment = token.moment
    age = time.time() - moment.timestamp() if moment is not None else 0.0
    if not -NEWEST <= age <= OLDEST:
        raise TokenNotAccepted(
            f"The token's clock is {abs(age):.0f} s {'behind' if age > 0 else 'ahead'}."
        )


def _check_secret(inbound: Inbound, address: str) -> None:
    """Refuse a password that others could have read on its way."""
    if inbound.base.startswith(("https:", "soap.tcps:")) or _is_here(address):
        return
    raise TokenNotAccepted("A password in the clear is taken over TLS alone; send its digest.")


def _is_here(address: str) -> bool:
    try:
        return unmapped(ip_address(address)).is_loopback
    except ValueError:
        return False
