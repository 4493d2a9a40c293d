"""A transport of Dragoman's: ``folder:storms`` is the folder ``storms`` below a root that the
operator chose, and each message a file in it."""

import asyncio
import re
from hashlib import sha256
from pathlib import Path

from gateway.egress import (
    AddressRefused,
    Answer,
    FailureKind,
    Request,
    SendFailed,
    Target,
    TransportSetup,
)

_ADDRESS = re.compile(r"folder:([a-z0-9][a-z0-9-]{0,62})")
"""No path, hence nothing outside the root."""


class FolderTransport:
    """Writes messages into folders, which have to be there."""

    api_version = 1

    def __init__(self, root: Path) -> None:
        self._root = root

    @classmethod
    def from_setup(cls, setup: TransportSetup) -> "FolderTransport":
        """Make the transport of the setting ``root``."""
        unknown = setup.settings.keys() - {"root"}
        if unknown or "root" not in setup.settings:
            raise ValueError("it has one setting, root, the folder with the folders of consumers")
        root = Path(setup.settings["root"])
        if not root.is_dir():
            raise ValueError(f"root: {root} is not a folder")
        return cls(root)

    def target(self, address: str) -> Target:
        """Read *address*; the folder's name stands for the host, so each has failures of its own.

        Raises:
            AddressRefused: It is no name of a folder.
        """
        match = _ADDRESS.fullmatch(address)
        if match is None:
            raise AddressRefused(address)
        return Target("folder", match[1], 1, "/", address)

    async def send(self, request: Request) -> Answer:
        """Write the envelope to a file, whole or not at all.

        Raises:
            SendFailed: It cannot be written now.
        """
        try:
            return await asyncio.to_thread(self._write, request)
        except OSError as error:
            why = error.strerror or "it cannot be written"
            raise SendFailed(FailureKind.CONNECT, why, connecting=True) from error

    def _write(self, request: Request) -> Answer:
        folder = self._root / request.target.host
        if not folder.is_dir():
            return Answer(410)  # Gone: the subscription ends.
        # A message that is sent again has the same id, and overwrites itself.
        name = sha256((request.message_id or "").encode() or request.body).hexdigest()[:32]
        unfinished = folder / f".{name}"
        unfinished.write_bytes(request.body)
        unfinished.rename(folder / f"{name}.xml")
        return Answer(202, dropped=len(request.attachments))

    async def close(self) -> None:
        """Nothing is kept open."""
