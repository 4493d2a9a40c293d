"""Who may be reached by a relay: tokens, and the locations that they lead to.

Those of the settings, and those that operators make. Of a token no more than its hash is kept: who
reads the store, or the list, has none that opens a way.
"""

import hmac
import re
import secrets
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256

import structlog

from filters import Reason, Refused
from gateway.egress import AddressPolicy, AddressRefused, Target, parse_target
from gateway.egress.addresses import DEFAULT_PORTS
from gateway.model.channels import RelayRow
from gateway.security.keys import public_id
from gateway.security.quotas import QuotaExceeded
from gateway.security.resource_addresses import shown
from gateway.store import Store, StoreUnavailable
from gateway.store import relays as rows

SCHEMES = {scheme: DEFAULT_PORTS[scheme] for scheme in ("http", "https")}
"""Schemes of locations, and their ports: the others have no answers."""
MOST = 1000
FRESH = 2.0
"""Seconds for which tokens are believed to be as they were, where other gateways make some."""
TOKEN = re.compile(r"[A-Za-z0-9._~-]{16,128}")
_log = structlog.get_logger("dragoman.relay")


@dataclass(slots=True)
class Relay:
    """A relay: where it leads to, and how much is under way there."""

    row: RelayRow = field(repr=False)
    target: Target
    configured: bool = False
    under_way: int = 0

    @property
    def id(self) -> str:
        """The id that lists show."""
        return self.row.id


class RelayUnknown(Refused):
    """There is no such relay."""

    def __init__(self) -> None:
        super().__init__(Reason.RESOURCE_UNKNOWN, "There is no such relay.")


class RelayTokens:
    """All relays.

    Args:
        configured: Tokens of the settings, and their locations.
        store: What keeps those of operators; None: there are none.
        shared: Whether other gateways use it.

    Raises:
        Refused: Nothing may be sent to a location; the text says what would allow it.
    """

    def __init__(
        self,
        configured: Iterable[tuple[str, str]],
        policy: AddressPolicy,
        store: Store | None = None,
        *,
        shared: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._policy, self._store = policy, store
        self._shared, self._clock = shared, clock
        self._read_at = -FRESH
        self._relays: dict[str, Relay] = {}
        for token, location in configured:
            row = _row(token, location)
            self._relays[row.id] = Relay(row, self._checked(location), configured=True)

    async def start(self) -> None:
        """Load the relays of the store.

        Raises:
            StoreUnavailable: It cannot be read.
        """
        if self._store is not None:
            self._read(await self._store.submit(rows.load))

    async def all(self) -> list[Relay]:
        """All relays, in the order of their ids."""
        await self._refresh()
        return [self._relays[id_] for id_ in sorted(self._relays)]

    async def named(self, token: str) -> Relay | None:
        """The relay with *token*. All are compared, each in the same time whatever is equal."""
        await self._refresh()
        said, found = _digest(token), None
        for relay in self._relays.values():
            if hmac.compare_digest(relay.row.digest, said):
                found = relay
        return found

    async def add(self, location: str, token: str | None = None) -> tuple[Relay, str]:
        """Make a relay, with a new token where none is given; it is in the store on return, the
        token in the hands of the caller alone.

        Raises:
            Refused: Nothing may be sent there; the token is none, or somebody has it.
            QuotaExceeded: There are too many.
        """
        token = token or secrets.token_hex(16)
        if not TOKEN.fullmatch(token):
            text = "A token has 16 to 128 letters, digits or any of . _ ~ -"
            raise Refused(Reason.MESSAGE_INVALID, text)
        row = _row(token, location)
        relay = Relay(row, self._checked(location))
        await self._refresh()
        if self._store is None or row.id in self._relays:
            raise Refused(Reason.NOT_ALLOWED, "There is a relay with this token.")
        made = await self._store.submit(partial(rows.insert, relay=row, most=MOST))
        if made is None:  # Another gateway made it just now.
            raise Refused(Reason.NOT_ALLOWED, "There is a relay with this token.")
        if not made:
            raise QuotaExceeded(Reason.QUOTA, "There are too many relays.")
        self._relays[row.id] = relay
        _log.info("relay.added", relay=row.id, location=shown(location))
        return relay, token

    async def remove(self, id_: str) -> None:
        """Delete a relay: its token opens nothing from now on.

        Raises:
            Refused: There is none, or it is one of the settings.
        """
        await self._refresh()
        relay = self._relays.get(id_)
        if relay is None or self._store is None:
            raise RelayUnknown
        if relay.configured:
            text = "The relay is one of the settings: remove it there."
            raise Refused(Reason.NOT_ALLOWED, text)
        await self._store.submit(partial(rows.delete, id_=id_))
        self._relays.pop(id_, None)
        _log.info("relay.removed", relay=id_)

    async def _refresh(self) -> None:
        """Learn what other gateways have changed, from time to time."""
        now = self._clock()
        if self._store is None or not self._shared or now - self._read_at < FRESH:
            return
        self._read_at = now
        try:
            self._read(await self._store.submit(rows.load))
        except StoreUnavailable:
            _log.warning("relays.not-read")

    def _read(self, stored: Iterable[RelayRow]) -> None:
        there = {row.id: row for row in stored}
        for id_, relay in list(self._relays.items()):
            if not relay.configured and id_ not in there:
                del self._relays[id_]
        for id_, row in there.items():
            if id_ not in self._relays:
                try:
                    self._relays[id_] = Relay(row, self._checked(row.location))
                except Refused as refused:  # The policy is another one now.
                    _log.error("relay.unusable", relay=id_, why=refused.text)

    def _checked(self, location: str) -> Target:
        try:
            target = parse_target(location, default_ports=SCHEMES)
            self._policy.check_named(target, trusted=True)
        except AddressRefused as refused:
            advice = f"; {refused.allowed_by} can allow it" if refused.allowed_by else ""
            why = "" if refused.allowed_by else f": {refused.text}"
            text = f"relays: nothing may be sent to {location}{advice}{why}"
            raise Refused(refused.reason, text) from refused
        return target


def _row(token: str, location: str) -> RelayRow:
    return RelayRow(public_id(token), _digest(token), location)


def _digest(token: str) -> bytes:
    return sha256(token.encode(errors="replace")).digest()
