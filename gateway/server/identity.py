"""The room that keeps identities up to date."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from gateway.observing.samples import Sample, counters
from gateway.rooms import Room, Work
from gateway.security.identify import Identification

if TYPE_CHECKING:
    from gateway.security.identities_file import IdentitiesFile


class IdentityRoom(Room):
    """Reads the file of identities again when it changes."""

    def __init__(self, file: "IdentitiesFile", identification: Identification) -> None:
        self._file = file
        self._identification = identification

    def works(self) -> Iterable[Work]:
        return (self._watch,)

    async def _watch(self) -> None:
        await self._file.watch(self._identification.use)

    def metrics(self) -> Iterable[Sample]:
        yield counters(
            "credentials_refused",
            "Credentials that proved nothing, by kind.",
            "kind",
            self._identification.failed,
        )
