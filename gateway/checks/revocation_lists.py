"""Lists of revoked certificates, in the files of authorities: whether the next one is due."""

from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from filters import Refused
from gateway.checks.findings import Finding, fail, ok, warn
from gateway.security.identities import load_identities
from gateway.settings.settings import Settings
from mediation.revocation_lists import RevocationList, read_revocations

SOON, PART = timedelta(days=3), 4
"""How long before the next list is due it should be there: but no more than a part of the time for
which one counts, which may be a day."""
WHAT = "revoked certificates"


def check_revocation_lists(settings: Settings) -> Iterator[Finding]:
    """Check the lists in all files of authorities. A file that cannot be read is told of where it
    is used."""
    now = datetime.now(UTC)
    for name, path in dict.fromkeys(_files(settings)):
        try:
            lists = read_revocations(path.read_bytes()).lists
        except OSError:
            continue
        except ValueError as error:
            yield fail(WHAT, f"{name}: {path} cannot be used: {error}; correct it")
            continue
        yield from (_judge(f"{name}: {path}", one, now) for one in lists)


def _judge(where: str, one: RevocationList, now: datetime) -> Finding:
    text = f"{where}: the list of {one.issuer}"
    if one.ends is None:
        return ok(WHAT, f"{text} has {len(one.numbers)}")
    due = f"{one.ends:%Y-%m-%d %H:%M} UTC"
    put = "put the new list there"
    if one.is_due(now):
        text = f"{text} was to be replaced by {due}: no certificate of it counts"
        return fail(WHAT, f"{text}; {put}")
    if one.ends - now < min(SOON, (one.ends - one.begins) / PART):
        text = f"{text} counts until {due}, and from then on no certificate of it does"
        return warn(WHAT, f"{text}; {put}")
    return ok(WHAT, f"{text} has {len(one.numbers)}, and counts until {due}")


def _files(settings: Settings) -> Iterator[tuple[str, Path]]:
    """The files of authorities, by the settings that name them."""
    if settings.tls_client_ca is not None:
        yield "tls_client_ca", settings.tls_client_ca
    if settings.ws_security.signers is not None:
        yield "ws_security.signers", settings.ws_security.signers
    for row in settings.signed_topics:
        yield "signed_topics.signers", row.signers
    if settings.discovery_node and (node := settings.discovery) is not None:
        for name in ("node_authorities", "entity_authorities"):
            if (path := getattr(node, name)) is not None:
                yield f"discovery.{name}", path
    if settings.identities is not None:
        with suppress(Refused):  # That is told of where it is used.
            for authority in load_identities(settings.identities).authorities:
                path = settings.identities.parent / authority.file
                yield f"authorities: {authority.name}", path
