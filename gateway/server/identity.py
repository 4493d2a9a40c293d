"""The room that keeps identities up to date."""

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING

from gateway.observing.samples import Sample, counter, counters
from gateway.rooms import Room, Work
from gateway.security.identify import OPERATOR, Identification

if TYPE_CHECKING:
    from gateway.security.audit import AuditLog
    from gateway.security.identities import Identities
    from gateway.security.identities_file import IdentitiesFile


class IdentityRoom(Room):
    """Reads the file of identities again when it changes, and writes the audit log."""

    def __init__(
        self, file: "IdentitiesFile", identification: Identification, audit: "AuditLog"
    ) -> None:
        self._file = file
        self._identification = identification
        self._audit = audit

    def works(self) -> Iterable[Work]:
        return self._watch, self._audit.run

    async def _watch(self) -> None:
        await self._file.watch(self._use)

    def _use(self, identities: "Identities") -> None:
        self._identification.use(identities)
        self._audit.note(OPERATOR, "read the file of identities", str(self._file.path))

    async def start(self) -> None:
        await asyncio.to_thread(self._audit.open)
        self._audit.note(OPERATOR, "started the gateway", str(self._file.path))

    async def close(self) -> None:
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
        audit = self._audit
        yield counter("audit_records", "Records written to the audit log.", audit.written)
        yield counter("audit_failures", "Times that the log could not be written.", audit.failures)
