"""The room that keeps identities up to date."""

import asyncio
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import structlog

from gateway.observing.samples import Sample, counter, counters
from gateway.rooms import Room, Work
from gateway.security.identify import OPERATOR, Identification

if TYPE_CHECKING:
    from gateway.security.audit import AuditLog
    from gateway.security.identities import Identities
    from gateway.security.identities_file import IdentitiesFile


_log = structlog.get_logger("dragoman.security")


class IdentityRoom(Room):
    """Reads the file of identities again when it changes, and writes the audit log.

    Args:
        believed: PEM, whose authorities certify clients of TLS or signers.
    """

    def __init__(
        self,
        file: "IdentitiesFile",
        identification: Identification,
        audit: "AuditLog",
        believed: Sequence[Path],
    ) -> None:
        self._believed = believed
        self._file = file
        self._identification = identification
        self._audit = audit

    def works(self) -> Iterable[Work]:
        return (self._watch,)

    def works_until_closed(self) -> Iterable[Work]:
        # Deliveries that end during the stop wait until their receipts are in the log.
        return (self._audit.run,)

    async def _watch(self) -> None:
        await self._file.watch(self._use)

    def _use(self, identities: "Identities") -> None:
        self._identification.use(identities)
        self._audit.note(OPERATOR, "read the file of identities", str(self._file.path))

    async def start(self) -> None:
        await asyncio.to_thread(self._audit.open)
        await asyncio.to_thread(self._warn)
        self._audit.note(OPERATOR, "started the gateway", str(self._file.path))

    def _warn(self) -> None:
        """Tell the log of rules that trust a name that several authorities may write."""
        from gateway.security.certificate_proofs import trusted_by_name

        folder = self._file.path.parent
        rows, number = trusted_by_name(self._file.identities, folder, self._believed)
        if rows:
            _log.warning("identity.subject-of-any-authority", rows=rows[:20], authorities=number)

    async def close(self) -> None:
        self._audit.record_counts()
        self._audit.note(OPERATOR, "stopped the gateway")
        await asyncio.to_thread(self._audit.write)

    def metrics(self) -> Iterable[Sample]:
        yield counters(
            "credentials_refused",
            "Credentials that proved nothing, by kind.",
            "kind",
            self._identification.failed,
        )
        if refused := self._identification.tenants.refused():
            yield counters(
                "tenant_refused", "Requests beyond a tenant's quotas.", "tenant", refused
            )
        tenants = self._identification.tenants
        if published := tenants.admitted("messages"):
            text = "Events published by a tenant's users."
            yield counters("tenant_published_messages", text, "tenant", published)
        if published := tenants.admitted("bytes"):
            text = "Bytes of events published by a tenant's users."
            yield counters("tenant_published_bytes", text, "tenant", published)
        audit = self._audit
        yield counter("audit_records", "Records written to the audit log.", audit.written)
        yield counter("audit_failures", "Times that the log could not be written.", audit.failures)
