"""The roles of the header blocks of an envelope, as far as their names tell.

The messages of a peer have the same blocks in the same order, again and again; so a layout is
worked out once for a sequence of names, and kept for as many sequences as there are kinds of peers.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from mediation import names, profiles
from mediation.model.versions import Wsa
from mediation.soap.envelopes import UNDERSTOOD

KEPT = 256
KEPT_BLOCKS, KEPT_CHARACTERS = 32, 4096
"""The number of layouts that are kept, and the most blocks and characters of names of each."""

WSA_BY_NAMESPACE = {wsa.value: wsa for wsa in Wsa}
_PREFERENCE = (Wsa.V2005_08, Wsa.V2004_08, Wsa.V2004_03, Wsa.V2003_03)
_SINGLE = frozenset({"To", "Action", "MessageID", "ReplyTo", "FaultTo", "From"})


@dataclass(frozen=True, slots=True)
class Layout:
    """Numbers are places among the header blocks.

    Attributes:
        wsa: The version of the addressing headers: where versions are mixed, the one that has
            ``Action``.
        addressing: The first header of each local name in that version. ``Action`` may be in the
            namespace of no version of WS-Addressing: openwsman sends ``wsman:Action`` in push mode.
        repeated: An addressing header that stands twice, and may not.
        draft: There are headers of a draft of WS-Addressing.
        topic: The block that names the topic of events.
        identifiers: Blocks that may name a subscription, or a message box.
        strange: Blocks that nobody here understands.
    """

    wsa: Wsa | None
    namespaces: frozenset[str]
    addressing: Mapping[str, int]
    repeated: str | None
    draft: bool
    topic: int | None
    identifiers: tuple[int, ...]
    strange: tuple[int, ...]


def layout_of(blocks: tuple[str, ...]) -> Layout:
    """The layout of header blocks with these expanded names."""
    if len(blocks) > KEPT_BLOCKS or sum(map(len, blocks)) > KEPT_CHARACTERS:
        return _layout_of(blocks)
    return _kept(blocks)


def _layout_of(blocks: tuple[str, ...]) -> Layout:
    split = [(name[1:].rpartition("}")[0], name.rpartition("}")[2]) for name in blocks]
    namespaces = frozenset(namespace for namespace, _ in split)
    wsa = _wsa_of(split)
    addressing, repeated = _addressing(split, wsa)
    topics = (
        place
        for place, (namespace, name) in enumerate(split)
        if name == "Topic" and namespace in profiles.TOPIC_HEADERS
    )
    identifiers = tuple(
        place for place, (_, name) in enumerate(split) if name in profiles.IDENTIFIERS
    )
    strange = tuple(
        place
        for place, (namespace, _) in enumerate(split)
        if namespace not in UNDERSTOOD and place not in identifiers
    )
    return Layout(
        wsa,
        namespaces,
        addressing,
        repeated,
        not names.WSA_DRAFTS.isdisjoint(namespaces),
        next(topics, None),
        identifiers,
        strange,
    )


_kept = lru_cache(KEPT)(_layout_of)


def _wsa_of(blocks: list[tuple[str, str]]) -> Wsa | None:
    present: dict[Wsa, bool] = {}
    for namespace, name in blocks:
        wsa = WSA_BY_NAMESPACE.get(namespace)
        if wsa is not None:
            present[wsa] = present.get(wsa, False) or name == "Action"
    if len(present) < 2:
        return next(iter(present), None)
    return min(present, key=lambda wsa: (not present[wsa], _PREFERENCE.index(wsa)))


def _addressing(
    blocks: list[tuple[str, str]], wsa: Wsa | None
) -> tuple[Mapping[str, int], str | None]:
    """Find the first header of each name, and one that stands twice."""
    found: dict[str, int] = {}
    other_action = None
    repeated = None
    for place, (namespace, name) in enumerate(blocks):
        if wsa is not None and namespace == wsa.value:
            if name in found and name in _SINGLE:
                repeated = repeated or name
            found.setdefault(name, place)
        elif name == "Action" and namespace not in WSA_BY_NAMESPACE:
            other_action = place
    if other_action is not None:
        found.setdefault("Action", other_action)
    return found, repeated
