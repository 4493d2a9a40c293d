"""Roles that tokens said their users have: what a user subscribed to is delivered by them when the
token itself is gone.

They count until the user shows a token that was issued later, until they have not been shown for as
many days as the row of the issuer says (``roles_days``), and while that row is there.
"""

import time
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import replace

from gateway.model.token_roles import TokenRoles

MOST = 100_000
"""Users whose roles are remembered; those not shown the longest go."""
AGAIN = 3600.0
"""Seconds after which it is kept that the same roles were shown again."""


class RolesOfTokens:
    """The roles by the newest token that each user showed, by the users' names in the store."""

    def __init__(self) -> None:
        self._of: OrderedDict[str, TokenRoles] = OrderedDict()
        self._changed: dict[str, TokenRoles] = {}
        self._taken: dict[str, TokenRoles] = {}
        """Changes that are being kept."""

    def show(
        self, owner: str, issuer: str, roles: frozenset[str], days: int, issued: float = 0.0
    ) -> bool:
        """Note that a token of *issuer*, *issued* in POSIX seconds, said *roles* of *owner*.
        Returns whether these are others than before. What a token says that is older than one that
        was shown before is not noted: it would bring back roles that were taken away since."""
        now = time.time()
        until, issued = now + days * 86400.0, min(issued, now)
        former = self._of.get(owner)
        if former is None and not roles:
            return False
        if former is not None and former.issuer == issuer and issued < former.issued:
            return False
        same = former is not None and (former.issuer, former.roles) == (issuer, roles)
        if former is not None and same and abs(until - former.until) < AGAIN:
            if issued > former.issued:
                self._of[owner] = replace(former, issued=issued)
            return False
        self._put(shown := TokenRoles(owner, issuer, roles, until, issued))
        self._changed[owner] = shown
        return not same

    def find(self, owner: str) -> TokenRoles | None:
        """What *owner* showed last; None where that is nothing, or too long ago."""
        found = self._of.get(owner)
        return found if found is not None and found.until > time.time() else None

    def is_unsaved(self, owner: str) -> bool:
        """Return True if what *owner* showed last is not in the store yet, also where that is being
        written for another request."""
        return owner in self._changed or owner in self._taken

    def take_changes(self) -> list[TokenRoles]:
        """What has changed since the last call; it goes to `note_kept` or to `put_back` then."""
        changed, self._changed = self._changed, {}
        self._taken |= changed
        return list(changed.values())

    def note_kept(self, changes: Iterable[TokenRoles]) -> None:
        """Note that the store has *changes*."""
        for one in changes:
            if self._taken.get(one.owner) is one:
                del self._taken[one.owner]

    def put_back(self, changes: Iterable[TokenRoles]) -> None:
        """Take back *changes* that could not be kept."""
        for one in changes:
            if self._taken.get(one.owner) is one:  # Else it has changed again since.
                del self._taken[one.owner]
                self._changed.setdefault(one.owner, one)

    def learn(self, kept: Iterable[TokenRoles]) -> list[str]:
        """Know what the store has, but for what it does not know yet; the users of whom it says
        something else than was known. The store has what was shown last, however long that
        counts."""
        changed = []
        for one in kept:
            former = self._of.get(one.owner)
            if former == one or one.owner in self._changed or one.owner in self._taken:
                continue
            if former is not None and former.issuer == one.issuer and one.issued < former.issued:
                continue
            self._put(one)
            if former is None or (former.issuer, former.roles) != (one.issuer, one.roles):
                changed.append(one.owner)
        return changed

    def forget_old(self) -> list[str]:
        """Forget what was shown too long ago; the users of whom that was."""
        now = time.time()
        gone = [owner for owner, shown in self._of.items() if shown.until <= now]
        for owner in gone:
            del self._of[owner]
        return gone

    def _put(self, shown: TokenRoles) -> None:
        self._of[shown.owner] = shown
        self._of.move_to_end(shown.owner)
        if len(self._of) > MOST:
            self._of.popitem(last=False)
