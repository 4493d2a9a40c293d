"""A subscription as the program that made it has it."""

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gateway.client.messaging import Subscription as Granted


@dataclass(slots=True)
class Subscription:
    """A subscription that was granted to a client; its methods `renew`, `pull` and so on take it.

    Attributes:
        granted: As it was answered, or as the last `renew` or `status` says.
        pull_point: The address that its events are kept at, to be pulled; empty where they are
            sent to a consumer.
    """

    granted: "Granted"
    pull_point: str = ""

    @property
    def expires(self) -> datetime | None:
        """When it ends unless it is renewed, with a time zone; None: never."""
        return self.granted.expires

    @property
    def address(self) -> str:
        """The URL of its manager."""
        return self.granted.manager_at[1]
