"""The file of what the gateway has set up in the broker, because STOMP cannot list it.

A queue of a virtual topic gets a copy of every message for as long as it exists, and a durable
subscription keeps what nobody takes. So leftovers of an earlier run have to be known, to be removed
or at least emptied.
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path

from adapters.broker.reconnecting import Lost

FILE = "stomp.json"
MAX_OCTETS = 2**20

Headers = dict[str, str]


class TopologyFile:
    """The SUBSCRIBE headers of all queues and durable subscriptions in the broker.

    Args:
        broker: Its URL, and the gateway's name there. What the file says of another is forgotten.
    """

    def __init__(self, folder: Path, broker: str) -> None:
        self._path = folder / FILE
        self._broker = broker
        self._known: list[Headers] | None = None

    def read(self) -> list[Headers]:
        """Read the headers that were written last.

        Raises:
            Lost: The file cannot be read.
        """
        if self._known is None:
            try:
                with self._path.open("rb") as file:
                    found = json.loads(file.read(MAX_OCTETS))
                mine = found["broker"] == self._broker
                self._known = [dict(one) for one in found["subscriptions"]] if mine else []
            except FileNotFoundError:
                self._known = []
            except (OSError, ValueError, TypeError, KeyError) as exc:
                raise Lost(f"{self._path} cannot be read: delete it, or mend it") from exc
        return self._known

    def write(self, subscriptions: list[Mapping[str, str]]) -> None:
        """Remember *subscriptions*, before they are made.

        Raises:
            Lost: The file cannot be written.
        """
        fresh = [dict(one) for one in subscriptions]
        if fresh == self._known:
            return
        text = json.dumps({"broker": self._broker, "subscriptions": fresh}, indent=1)
        draft = self._path.with_suffix(".new")
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with draft.open("w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            draft.replace(self._path)
        except OSError as exc:
            raise Lost(f"{self._path} cannot be written: {exc.strerror}") from exc
        self._known = fresh
