"""Chains of X.509 certificates, from a signer's to that of an authority which is trusted: of
WS-Security, topic discovery and signed events.

These differ in what the certificates of signers and of authorities must say, and in the fault that
a chain is refused with. Which keys serve (`mediation.public_keys`), and what bounds the work that
whoever shows a chain causes, is the same for all.
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Generic, TypeVar

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.x509.verification import ExtensionPolicy, PolicyBuilder, Store, VerificationError

from mediation.certificates import UNREADABLE_CERTIFICATE, extension_of
from mediation.public_keys import USABLE_KEYS, is_usable_key

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

MOST_CHAINS = 4096
"""Chains that led to an authority, which are remembered; then all are forgotten."""


class ChainBuilder:
    """Builds chains that end with one of *authorities*.

    Args:
        signer, authority: What their certificates must say.
    """

    def __init__(
        self,
        authorities: Sequence[x509.Certificate],
        *,
        signer: ExtensionPolicy,
        authority: ExtensionPolicy,
    ) -> None:
        self._store = Store(list(authorities)) if authorities else None
        self._signer, self._authority = signer, authority

    def build(
        self, leaf: x509.Certificate, others: Sequence[x509.Certificate], now: datetime
    ) -> list[x509.Certificate]:
        """The certificates from that of a signer, *leaf*, to an authority's, by way of some of
        *others*, whose keys are checked (`check_keys`).

        Raises:
            ValueError: Two of *others* have one name.
            VerificationError: They lead to no authority, or one is not valid *now*.
        """
        if len({one.subject.public_bytes() for one in others}) < len(others):
            raise ValueError("two of its authorities have one name")  # All ways would be tried.
        if self._store is None:
            raise VerificationError("no authority is trusted")
        policy = PolicyBuilder().store(self._store).time(now)
        policy = policy.extension_policies(ee_policy=self._signer, ca_policy=self._authority)
        return policy.build_client_verifier().verify(leaf, list(others)).chain


def check_keys(certificates: Sequence[x509.Certificate]) -> None:
    """Check that each key is one that is computed with.

    Raises:
        ValueError: One is not.
    """
    if not all(is_usable_key(one.public_key()) for one in certificates):
        raise ValueError(f"a key is not {USABLE_KEYS}")


def is_valid(certificate: x509.Certificate, now: datetime) -> bool:
    return certificate.not_valid_before_utc <= now <= certificate.not_valid_after_utc


def is_authority(certificate: x509.Certificate) -> bool:
    """Return whether *certificate* says that it is one of an authority."""
    try:
        found = extension_of(certificate, x509.BasicConstraints)
    except ValueError:
        return False
    return found is not None and found.ca


@dataclass(frozen=True, slots=True)
class _Valid(Generic[V]):
    value: V
    begins: datetime
    ends: datetime


class ValidChains(Generic[K, V]):
    """What was learnt of chains, for as long as all of their certificates are valid: a signer signs
    many messages with the same. What strangers show leads to no authority, and is not kept.

    Args:
        next_due: Beyond which moment, after a given one, nothing may be kept that was learnt then,
            as a list of revoked certificates is due.
    """

    def __init__(
        self,
        most: int = MOST_CHAINS,
        next_due: Callable[[datetime], datetime | None] = lambda _: None,
    ) -> None:
        self._most = most
        self._next_due = next_due
        self._kept: dict[K, _Valid[V]] = {}

    def __len__(self) -> int:
        return len(self._kept)

    def learn(
        self, shown: K, now: datetime, check: Callable[[], tuple[V, Sequence[x509.Certificate]]]
    ) -> V:
        """What is known of the chain of the certificates *shown*; else what *check* returns of it,
        with the chain, is kept. Whatever it raises is not."""
        known = self._kept.get(shown)
        if known is not None and known.begins <= now <= known.ends:
            return known.value
        value, chain = check()
        if len(self._kept) >= self._most:
            self._kept.clear()
        ends = min(one.not_valid_after_utc for one in chain)
        due = self._next_due(now)
        self._kept[shown] = _Valid(
            value,
            max(one.not_valid_before_utc for one in chain),
            ends if due is None else min(ends, due),
        )
        return value


def has_issued(one: x509.Certificate, other: x509.Certificate) -> bool:
    """Return True if *one* certified *other*."""
    try:
        other.verify_directly_issued_by(one)
    except (InvalidSignature, *UNREADABLE_CERTIFICATE):
        return False
    return True
