"""Parts of a transaction in memory, which are undone where they raise."""

from typing import Any

from gateway.reliability.stores.sequence_messages import SequenceMessagesDraft

_ABSENT = object()


class Part:
    """A part of a transaction, with the values to restore where it is undone."""

    def __init__(self) -> None:
        self._before: dict[tuple[int, Any], tuple[dict[Any, Any], Any, Any]] = {}

    def will_change(self, kept: dict[Any, Any], key: Any) -> None:
        """Note what *kept* has under *key* now, of which it may be given another one."""
        if (id(kept), key) not in self._before:
            value = kept.get(key, _ABSENT)
            before = value.copy() if isinstance(value, SequenceMessagesDraft) else value
            self._before[id(kept), key] = kept, key, before

    def undo(self) -> None:
        for kept, key, value in self._before.values():
            if value is _ABSENT:
                kept.pop(key, None)
            else:
                kept[key] = value

    def keep(self, inner: "Part") -> None:
        """Take what a part within this one would have undone."""
        for place, before in inner._before.items():
            self._before.setdefault(place, before)
