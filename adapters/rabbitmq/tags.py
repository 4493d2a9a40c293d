"""The delivery tags of one channel that are to be acknowledged: one frame for many, where possible.

delivered     1 2 3 4 5 6 7
settled       1 2 3   5   7      3 with all before it, 5, 7
"""


class Tags:
    """The tags of messages that were delivered and are not acknowledged. Tags grow."""

    def __init__(self) -> None:
        self._unsettled: dict[int, None] = {}
        self._settled: list[int] = []

    def deliver(self, tag: int) -> None:
        """Add the tag of a message that has come."""
        self._unsettled[tag] = None

    def settle(self, tag: int) -> None:
        """Note that the message with *tag* is settled."""
        self._settled.append(tag)

    @property
    def are_many(self) -> bool:
        """True if a quarter of the delivered messages is settled, so that the broker should send
        more."""
        return 4 * len(self._settled) >= len(self._unsettled)

    def take(self) -> tuple[int | None, list[int]]:
        """Return the tags to acknowledge now: one that stands for all up to it, and those that
        stand for themselves. None of them has been acknowledged before, because the broker would
        close the channel (``PRECONDITION_FAILED - unknown delivery tag``)."""
        settled, self._settled = self._settled, []
        unsettled = self._unsettled
        settled = [tag for tag in settled if unsettled.pop(tag, 0) is None]
        first = next(iter(unsettled), None)
        apart: list[int] = []
        if first is not None:
            apart = [tag for tag in settled if tag > first]
            settled = [tag for tag in settled if tag < first]
        return max(settled, default=None), apart
