"""Credentials of producers that rows of the settings have: of ``sources``, and of ``links``.

Nothing secret of them is in the store. A source has the name of its credential, and each gateway
reads the files of its own settings. A name counts for the URL of its row alone, so that whoever
writes into the store has no secret sent elsewhere.
"""

import asyncio
import json
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

import structlog

from filters import Reason, Refused
from gateway.egress import Shown
from gateway.egress.request_authentication import RequestAuthentication
from gateway.model.sources import CERTIFICATE, PASSWORD, Credential, Login
from gateway.security.file_watch import EVERY, FileWatch
from gateway.security.resource_addresses import shown
from gateway.security.secret_files import SecretFileUnusable
from gateway.security.tls import Names, client_context
from gateway.settings.tables import ConfiguredSource, LinkRow, ProducerRow

_NAMING = {
    *("url", "user", "password_file", "password_variable", "allow_basic", "negotiate"),
    *("credential", "client_certificate", "client_key", "ca"),
}
"""The settings of a row that its credential has its name of."""
_log = structlog.get_logger("dragoman.sources")


def credential_of(row: ProducerRow) -> Credential | None:
    """The credential of *row*, as the store has it: without a secret. None where it has none."""
    if not row.shows_something:
        return None
    kind, user = PASSWORD if row.user is not None else CERTIFICATE, row.user or ""
    if row.credential is not None:
        kind, user = row.credential.kind, getattr(row.credential, "user", "")
    return Credential.of_settings(
        _name_of(row), user, basic=row.allow_basic, negotiate=row.negotiate, kind=kind
    )


def login_of(setting: str, row: ProducerRow) -> Login | None:
    """The user and the password of *row* of *setting*, as they are now; None where it has none.

    Raises:
        Refused: The password cannot be read.
    """
    if row.user is None:
        return None
    return Login(row.user, _password(setting, row), row.allow_basic, row.negotiate)


def _name_of(row: ProducerRow) -> str:
    said = row.model_dump(mode="json", include=_NAMING, exclude_defaults=True)
    return sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()[:32]


@dataclass(frozen=True, slots=True)
class _Read:
    """What was read for a row."""

    password: str = field(repr=False)
    shown: Shown


class ConfiguredCredentials:
    """Reads them, and reads them again whenever their files change.

    Args:
        ca: Trusted where a row with a client certificate names no authority; the system's when
            None.

    Raises:
        Refused: A file or a variable of a row cannot be used.
    """

    def __init__(
        self,
        sources: Iterable[ConfiguredSource] = (),
        links: Iterable[LinkRow] = (),
        *,
        ca: Path | None = None,
    ) -> None:
        self._ca = ca
        rows: list[tuple[str, ProducerRow]] = [("sources", row) for row in sources]
        rows += [("links", row) for row in links]
        self._rows = {_name_of(row): (setting, row) for setting, row in rows if row.shows_something}
        files = {path for _, row in self._rows.values() for path in row.files()}
        self._watch = FileWatch(files)
        self._read: Mapping[str, _Read] = {
            name: _read(setting, row, ca) for name, (setting, row) in self._rows.items()
        }

    def password(self, name: str, url: str) -> str | None:
        """The password of the credential *name*, for the source at *url*; None where the settings
        have no such credential for it."""
        return self._of(name, url).password if self.has(name, url) else None

    def shown(self, name: str, url: str) -> Shown:
        """What the transport shows, of the same.

        Raises:
            Refused: The settings have no such credential for it.
        """
        return self._of(name, url).shown

    async def watch(
        self, renewed: Callable[[Collection[str]], object], every: float = EVERY
    ) -> None:
        """Read again what has changed, and tell the names of those by *renewed*. What cannot be
        used is logged, and what was read before stays."""
        while True:
            changed = await self._watch.changes(every)
            names = []
            for name, (setting, row) in self._rows.items():
                if changed.isdisjoint(row.files()):
                    continue
                try:
                    read = await asyncio.to_thread(_read, setting, row, self._ca)
                except Refused as unusable:
                    _log.error("source.credential-unusable", why=unusable.text)
                    continue
                self._read = {**self._read, name: read}
                names.append(name)
                _log.info("source.credential-read", producer=shown(row.url))
            renewed(names)

    def has(self, name: str, url: str) -> bool:
        """Return True if the settings have the credential *name* for the source at *url*."""
        found = self._rows.get(name)
        return found is not None and found[1].url == url

    def _of(self, name: str, url: str) -> _Read:
        if not self.has(name, url):
            text = "Its credential is one of the settings, and those of this gateway have it not."
            raise Refused(Reason.NOT_ALLOWED, text)
        return self._read[name]


def _read(setting: str, row: ProducerRow, ca: Path | None) -> _Read:
    begin = f"{setting}: {shown(row.url)}"
    authentication = tls = None
    if row.credential is not None:
        authentication = RequestAuthentication(
            row.credential,
            row.credential.read(f"{begin}: credential"),
            row=f"its row of [[{setting}]]",
            clears=False,
        )
    if row.client_certificate is not None or row.ca is not None:
        names = Names(*(f"{begin}: {name}" for name in ("client_certificate", "client_key", "ca")))
        tls = client_context(
            ca=row.ca or ca, certificate=row.client_certificate, key=row.client_key, names=names
        )
    return _Read(_password(setting, row), Shown(authentication, tls))


def _password(setting: str, row: ProducerRow) -> str:
    try:
        return row.password()
    except (SecretFileUnusable, KeyError) as error:
        why = error.text if isinstance(error, SecretFileUnusable) else f"{error} is not set"
        text = f"{setting}: the password of {row.user!r} at {shown(row.url)}: {why}."
        raise Refused(Reason.UNAVAILABLE, text) from None
