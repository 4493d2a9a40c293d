"""The four checks of a subscriber: the broker answers, it accepts the subscription, a first message
comes, and nothing is in the way between the broker and the subscriber's address.

The last one compares: messages that can be fetched, while none is sent to the address, say that the
broker cannot reach it. That is the firewall check of the Message Viewer of WS-Messenger.
"""

from dataclasses import dataclass
from enum import Enum

from gateway.client.errors import GatewayError

GRACE = 5.0
"""Seconds that a message may take longer to the address than to the mailbox. A gateway that cannot
connect says so to itself after 3."""


class CheckState(Enum):
    """What is known of a check."""

    OPEN = "open"
    PASSED = "passed"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Check:
    """A check, and what is known of it in a sentence."""

    name: str
    state: CheckState
    text: str

    def __str__(self) -> str:
        return f"{self.name}: {self.text}"


class DeliveryChecks:
    """The state of the checks of one subscription; it is told what happens, and does nothing.

    Args:
        broker: The broker's URL, as people are shown it.
        address: Where messages are sent to; empty where they are fetched.
        grace: Seconds from a fetched message until the address counts as silent.
    """

    def __init__(self, broker: str, address: str = "", *, grace: float = GRACE) -> None:
        self._broker = broker
        self._address = address
        self._grace = grace
        self._accepted = False
        self._sent = False
        """Whether a message came to the address, or came at all where messages are fetched."""
        self._fetched_at: float | None = None
        """When the first message was fetched for comparison."""
        self._error: GatewayError | None = None
        self._comparing = ""
        """How the comparison stands, in words."""

    def accepted(self) -> None:
        """Note that the broker accepted the subscription."""
        self._accepted, self._error = True, None

    def failed(self, error: GatewayError) -> None:
        """Note that there is no subscription, or none any more."""
        self._accepted, self._error = False, error

    def received(self) -> None:
        """Note a message that came as it was subscribed for."""
        self._sent = True

    def fetched(self, now: float) -> None:
        """Note a message that was fetched for comparison, at *now* in seconds of any clock."""
        if self._fetched_at is None:
            self._fetched_at = now

    def comparing(self) -> None:
        """Note that from now on messages are fetched, too."""
        self._comparing = "nothing is sent; looking whether something can be fetched"

    def not_compared(self, why: str) -> None:
        """Note that nothing can be fetched here for comparison."""
        self._comparing = f"nothing can be fetched to compare: {why}"

    @property
    def due(self) -> float | None:
        """When the address counts as silent; None while it does not depend on the time."""
        if self._sent or self._fetched_at is None:
            return None
        return self._fetched_at + self._grace

    def rows(self, now: float) -> tuple[Check, Check, Check, Check]:
        """The checks as they are at *now*."""
        return self._answers(), self._subscription(), self._first(), self._way(now)

    def _answers(self) -> Check:
        error = self._error
        if error is not None and error.status is None:
            return Check("broker", CheckState.FAILED, str(error))
        if self._accepted or error is not None:
            return Check("broker", CheckState.PASSED, f"{self._broker} answers")
        return Check("broker", CheckState.OPEN, f"asking {self._broker}")

    def _subscription(self) -> Check:
        if self._accepted:
            return Check("subscription", CheckState.PASSED, "accepted")
        if self._error is not None and self._error.status is not None:
            return Check("subscription", CheckState.FAILED, str(self._error))
        return Check("subscription", CheckState.OPEN, "not accepted yet")

    def _first(self) -> Check:
        if self._sent:
            return Check("first message", CheckState.PASSED, "seen")
        if self._fetched_at is not None:
            return Check("first message", CheckState.PASSED, "seen, but only where it was fetched")
        return Check("first message", CheckState.OPEN, "none yet")

    def _way(self, now: float) -> Check:
        if not self._address:
            return Check(
                "delivery", CheckState.PASSED, "messages are fetched: nothing is sent to us"
            )
        if self._sent:
            return Check("delivery", CheckState.PASSED, f"{self._address} is reached")
        if self._fetched_at is None:
            text = self._comparing or "nothing to compare yet"
            return Check("delivery", CheckState.OPEN, text)
        if now < self._fetched_at + self._grace:
            return Check(
                "delivery", CheckState.OPEN, "a message could be fetched; is it sent, too?"
            )
        return Check(
            "delivery",
            CheckState.FAILED,
            f"something is in the way: {self._broker} has messages, but does not reach "
            f"{self._address}; open the firewall for it, listen on another address, or fetch",
        )
