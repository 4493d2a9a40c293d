"""The rooms that keep identities up to date, and the audit log."""

import asyncio
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import structlog

from gateway.identities.stored import StoredIdentities
from gateway.observing.samples import Sample, counter, counters, gauge
from gateway.rooms import Room, Work
from gateway.security.audit import Audit, AuditLog
from gateway.security.identify import OPERATOR, Identification
from gateway.store import Store

if TYPE_CHECKING:  # Its libraries take 0.1 s to import, which a gateway without identities saves.
    from gateway.identities.file import IdentitiesFile
    from gateway.security.identities import Identities

_log = structlog.get_logger("dragoman.security")


class AuditRoom(Room):
    """Writes the audit log.

    Args:
        path: The file of identities.
    """

    def __init__(self, audit: AuditLog, path: Path) -> None:
        self._audit = audit
        self._path = path

    def works_until_closed(self) -> Iterable[Work]:
        # Deliveries that end during the stop wait until their receipts are in the log.
        return (self._audit.run,)

    async def start(self) -> None:
        await asyncio.to_thread(self._audit.open)
        self._audit.note(OPERATOR, "started the gateway", str(self._path))

    async def close(self) -> None:
        self._audit.record_counts()
        self._audit.note(OPERATOR, "stopped the gateway")
        await asyncio.to_thread(self._audit.write)

    def metrics(self) -> Iterable[Sample]:
        audit = self._audit
        yield counter("audit_records", "Records written to the audit log.", audit.written)
        yield counter("audit_failures", "Times that the log could not be written.", audit.failures)


class IdentityRoom(Room):
    """Has the gateway go by the file of identities as it is now, and by what the store keeps beside
    it.

    Args:
        believed: PEM, whose authorities certify clients of TLS or signers.
        shared: Whether other gateways use the store.
    """

    def __init__(
        self,
        file: "IdentitiesFile",
        identification: Identification,
        audit: Audit,
        store: Store,
        believed: Sequence[Path],
        *,
        shared: bool,
    ) -> None:
        self._believed = believed
        self._file = file
        self._identification = identification
        self._audit = audit
        self.stored = StoredIdentities(store, file, self._use, shared=shared)

    def works(self) -> Iterable[Work]:
        return self._watch, self.stored.run

    async def _use(self, identities: "Identities") -> None:
        certificates = await asyncio.to_thread(self._identification.read_certificates, identities)
        self._identification.use(identities, certificates)

    async def _watch(self) -> None:
        await self._file.watch(self._follow_file)

    async def _follow_file(self) -> None:
        await self.stored.follow_file()
        self._audit.note(OPERATOR, "read the file of identities", str(self._file.path))

    async def start(self) -> None:
        await self.stored.learn()
        await asyncio.to_thread(self._warn)

    def _warn(self) -> None:
        """Tell the log of rules that trust a name that several authorities may write."""
        from gateway.security.certificate_proofs import trusted_by_name

        folder = self._file.path.parent
        rows, number = trusted_by_name(self._file.identities, folder, self._believed)
        if rows:
            _log.warning("identity.subject-of-any-authority", rows=rows[:20], authorities=number)

    def metrics(self) -> Iterable[Sample]:
        yield counters(
            "credentials_refused",
            "Credentials that proved nothing, by kind.",
            "kind",
            self._identification.failed,
        )
        unusable = len(self.stored.in_force.unusable)
        text = "Users, keys and rules of the store that do not go with the file of identities."
        yield gauge("identities_set_aside", text, unusable)
        tenants = self._identification.tenants
        if refused := tenants.refused():
            text = "Requests beyond a tenant's quotas, and deliveries beyond its backlog."
            yield counters("tenant_refused", text, "tenant", refused)
        if published := tenants.admitted("messages"):
            text = "Events published by a tenant's users."
            yield counters("tenant_published_messages", text, "tenant", published)
        if published := tenants.admitted("bytes"):
            text = "Bytes of events published by a tenant's users."
            yield counters("tenant_published_bytes", text, "tenant", published)
