"""The room that sends the audit log to a repository."""

from collections.abc import Iterable
from functools import partial
from pathlib import Path

from gateway.atna.messages import Site
from gateway.atna.sender import AuditSender
from gateway.atna.settings import AtnaSettings
from gateway.observing.samples import Sample
from gateway.rooms import Room, Work
from gateway.security.tls import Names, client_context


class AtnaRoom(Room):
    """Sends the audit log at *path*, of the gateway that is asked at *base*.

    Raises:
        TlsError: A file that the settings name cannot be used.
    """

    def __init__(self, settings: AtnaSettings, path: Path, base: str) -> None:
        tls = partial(
            client_context,
            ca=settings.ca,
            certificate=settings.certificate,
            key=settings.key,
            names=Names("atna.certificate", "atna.key", "atna.ca"),
        )
        tls()
        site = Site(settings.source, settings.site, f"{base}/soap")
        self._sender = AuditSender(path, settings.host, settings.port, tls, site)

    def works(self) -> Iterable[Work]:
        return (self._sender.run,)

    def metrics(self) -> Iterable[Sample]:
        return self._sender.samples()
