"""Certificates that owners showed: when one is revoked, nothing more is delivered by it of what its
owner subscribed to, until that shows another."""

import time
from collections import OrderedDict
from collections.abc import Iterable

from gateway.model.shown_certificates import ShownCertificate

MOST = 100_000
"""Owners whose certificates are remembered; those not shown the longest go."""
AGAIN = 3600.0
"""Seconds after which it is kept that the same certificate was shown again."""


class ShownCertificates:
    """The certificate that each owner showed last, by the owners' names in the store."""

    def __init__(self) -> None:
        self._of: OrderedDict[str, ShownCertificate] = OrderedDict()
        self._changed: dict[str, ShownCertificate] = {}

    def show(self, owner: str, numbers: str) -> bool:
        """Note that *owner* showed the certificate with *numbers*, which counts. Returns whether
        the one before was revoked."""
        now, former = time.time(), self._of.get(owner)
        if (
            former is not None
            and former.numbers == numbers
            and not former.revoked
            and now - former.shown < AGAIN
        ):
            return False
        self._change(ShownCertificate(owner, numbers, now))
        return former is not None and former.revoked

    def is_revoked(self, owner: str) -> bool:
        """Return whether what *owner* showed last is revoked."""
        found = self._of.get(owner)
        return found is not None and found.revoked

    def counting(self) -> list[ShownCertificate]:
        """Those that are not revoked, as far as is known."""
        return [one for one in self._of.values() if not one.revoked]

    def withdraw(self, revoked: Iterable[ShownCertificate]) -> list[str]:
        """Note that these are *revoked*; the owners who have shown no other since."""
        gone = [one for one in revoked if self._of.get(one.owner) is one]
        for one in gone:
            self._change(one.withdrawn())
        return [one.owner for one in gone]

    def take_changes(self) -> list[ShownCertificate]:
        """What has changed since the last call; it goes to `put_back` if it could not be kept."""
        changed, self._changed = self._changed, {}
        return list(changed.values())

    def put_back(self, changes: Iterable[ShownCertificate]) -> None:
        """Take back *changes* that could not be kept."""
        for one in changes:
            self._changed.setdefault(one.owner, one)

    def learn(self, kept: Iterable[ShownCertificate]) -> list[str]:
        """Know what the store has, but for what it does not know yet; the owners of whom it says
        something else than was known."""
        changed = []
        for one in kept:
            former = self._of.get(one.owner)
            if former == one or one.owner in self._changed:
                continue
            if former is not None and (one.shown, one.revoked) < (former.shown, former.revoked):
                continue
            self._put(one)
            if former is None or former.revoked != one.revoked:
                changed.append(one.owner)
        return changed

    def _change(self, one: ShownCertificate) -> None:
        self._put(one)
        self._changed[one.owner] = one

    def _put(self, one: ShownCertificate) -> None:
        self._of[one.owner] = one
        self._of.move_to_end(one.owner)
        if len(self._of) > MOST:
            self._of.popitem(last=False)
