"""Make a node from its settings: read and check its key and its certificates."""

import importlib.util
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

from filters import FilterError, Reason, Refused
from filters.extras import how_to_install
from filters.queries import Catalogue, XQueryWorker
from gateway.discovery.limits import NodeLimits
from gateway.discovery.node import Node
from gateway.discovery.policy import NodePolicy
from gateway.discovery.settings import DiscoverySettings, description_query
from gateway.model.advertisements import AdvertisementLimits
from mediation.discovery import (
    Anchors,
    Credentials,
    Role,
    SynopsisType,
    Trust,
    Verifier,
    read_anchors,
    read_credentials,
)

ROOM = 16 * 2**10
"""Bytes of the catalogue for each advertisement: one with documents of 1 KB weighs less."""
LEAST_ROOM = 2**30


class DiscoveryUnusable(Refused):
    """A node cannot be made from its settings; the text says which one is wrong."""

    def __init__(self, setting: str, why: str) -> None:
        super().__init__(Reason.MESSAGE_INVALID, f"discovery.{setting}: {why}")


def read_node_credentials(settings: DiscoverySettings, *, now: datetime) -> Credentials:
    """Read a node's key and certificate.

    Raises:
        DiscoveryUnusable: They cannot be read, or do not serve at *now*.
    """
    if importlib.util.find_spec("signxml") is None:
        why = f"a node signs with signxml: {how_to_install('discovery')}"
        raise DiscoveryUnusable("key", why)
    key, certificate = _read("key", settings.key), _read("certificate", settings.certificate)
    password = settings.key_password
    secret = None if password is None else password.get_secret_value().encode()
    try:
        own = read_credentials(key, certificate, secret)
    except ValueError as error:
        text = f"{settings.key} and {settings.certificate}: {error}"
        raise DiscoveryUnusable("key", text) from error
    since, until = own.certificate.not_valid_before_utc, own.certificate.not_valid_after_utc
    if now < since:
        why = f"{settings.certificate} is valid from {since:%Y-%m-%d} only; see the clock"
        raise DiscoveryUnusable("certificate", why)
    if until <= now:
        why = f"{settings.certificate} expired on {until:%Y-%m-%d}; renew it"
        raise DiscoveryUnusable("certificate", why)
    return own


def read_trust(settings: DiscoverySettings) -> Trust:
    """Read whose certificates a node trusts.

    Raises:
        DiscoveryUnusable: A file cannot be read, or both sets have something in common.
    """
    anchors = {}
    for role, authorities, fingerprints in (
        ("node", settings.node_authorities, settings.node_fingerprints),
        ("entity", settings.entity_authorities, settings.entity_fingerprints),
    ):
        known = Anchors()
        if authorities is not None:
            name = f"{role}_authorities"
            try:
                known = read_anchors(_read(name, authorities))
            except ValueError as error:
                raise DiscoveryUnusable(name, f"{authorities}: {error}") from error
        try:
            anchors[role] = replace(known, fingerprints=known.fingerprints | fingerprints)
        except ValueError as error:
            raise DiscoveryUnusable(f"{role}_fingerprints", str(error)) from error
    try:
        return Trust(anchors["node"], anchors["entity"], settings.refused)
    except ValueError as error:
        raise DiscoveryUnusable("node_authorities", str(error)) from error


def check_credentials(settings: DiscoverySettings, *, now: datetime) -> tuple[Credentials, Trust]:
    """Read all that a node needs, and check that it can be used.

    Raises:
        DiscoveryUnusable: It cannot.
    """
    own, trust = read_node_credentials(settings, now=now), read_trust(settings)
    if own.identifier(Role.NODE) in trust.refused:
        raise DiscoveryUnusable("refused", "has the node itself; take its identifier out")
    if not (trust.entities.authorities or trust.entities.fingerprints):
        raise DiscoveryUnusable("entity_authorities", "is missing: no entity would be trusted")
    return own, trust


def make_node(settings: DiscoverySettings) -> Node:
    """Make the node of *settings*.

    Raises:
        DiscoveryUnusable: It cannot be made.
    """
    own, trust = check_credentials(settings, now=datetime.now(UTC))
    # Imported when it is known that signxml is there.
    from mediation.discovery.signing import sign

    limits = settings_limits(settings)
    return Node(
        own,
        Verifier(trust),
        sign=sign,
        new_uuid=uuid4,
        policy=_policy(settings),
        limits=limits,
        xquery=_xquery() if settings.xquery else None,
        catalogue=make_catalogue(settings),
    )


def make_catalogue(settings: DiscoverySettings) -> Catalogue[str]:
    """Make room for all advertisements that are kept."""
    number = settings.advertisements
    return Catalogue(max_things=number, max_bytes=max(LEAST_ROOM, number * ROOM))


def settings_limits(settings: DiscoverySettings) -> NodeLimits:
    return NodeLimits(
        creations=settings.creations_per_minute,
        queries=float(settings.queries_per_second),
        query_time=settings.query_time,
        longest_life=settings.longest_life,
    )


def store_limits(settings: DiscoverySettings) -> AdvertisementLimits:
    """Return how many advertisements are kept."""
    return AdvertisementLimits(settings.advertisements, settings.advertisements_per_creator)


def _policy(settings: DiscoverySettings) -> NodePolicy:
    given = settings.policy
    return NodePolicy(
        given.credentials,
        given.realms,
        given.institutions,
        given.creators,
        given.provenance,
        frozenset(map(SynopsisType, given.synopsis_types)),
        None if given.description is None else description_query(given.description),
        given.shortest_query,
        given.most_results,
        given.answers_in_the_clear,
    )


def _xquery() -> XQueryWorker:
    try:
        return XQueryWorker()
    except FilterError as error:
        raise DiscoveryUnusable("xquery", error.text) from error


def _read(setting: str, path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise DiscoveryUnusable(setting, f"{path} cannot be read: {error.strerror}") from error
