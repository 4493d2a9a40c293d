"""Sources of the settings: they are there while the settings have them."""

import asyncio
import contextlib
from collections.abc import Iterable
from dataclasses import replace

import structlog

from filters import Refused
from gateway.delivery import WorkSharing
from gateway.model.sources import Source, Wanted
from gateway.security.identify import OPERATOR
from gateway.security.resource_addresses import shown
from gateway.sources.new_sources import NewSource
from gateway.sources.sources import Entry, Sources, SourceUnknown
from gateway.store import StoreUnavailable

SETTINGS = "settings"
"""Who made them."""
ROUND = 5.0
"""Seconds after which it is looked again whether all are there that are to be."""
_log = structlog.get_logger("dragoman.sources")


class ConfiguredSources:
    """Adds and removes the sources of the settings.

    Args:
        wanted: What the settings have, each of it once.
    """

    def __init__(self, sources: Sources, sharing: WorkSharing, wanted: Iterable[NewSource]) -> None:
        self._sources = sources
        self._sharing = sharing
        self._wanted = tuple(replace(one, made_by=SETTINGS) for one in wanted)
        self._told: set[int] = set()

    async def run(self) -> None:
        """Have them there, and no others of theirs, for ever."""
        while True:
            try:
                if self._sharing.keeps_house:
                    await self._settle()
            except StoreUnavailable:
                pass  # It is done the next time.
            except Exception:
                _log.exception("sources.error")
            await asyncio.sleep(ROUND)

    async def _settle(self) -> None:
        """Add what is missing, and remove what is too many.

        Raises:
            StoreUnavailable
        """
        there = [entry for entry in self._sources.entries if _is_ours(entry)]
        missing = []
        for number, wanted in enumerate(self._wanted):
            found = next((one for one in there if self._is(one.source, wanted)), None)
            if found is None:
                missing.append((number, wanted))
            else:
                there.remove(found)
        for entry in there:
            with contextlib.suppress(SourceUnknown):
                await self._sources.want(entry.id, Wanted.REMOVED)
        for number, wanted in missing:
            await self._add(number, wanted)

    async def _add(self, number: int, wanted: NewSource) -> None:
        try:
            await self._sources.add(wanted, OPERATOR)
        except StoreUnavailable:
            raise
        except Refused as refused:
            if number not in self._told:
                self._told.add(number)
                _log.warning("source.refused", producer=shown(wanted.url), why=refused.text)

    def _is(self, source: Source, wanted: NewSource) -> bool:
        """Whether *source* is what is *wanted*, and is shown what it is to be shown."""
        try:
            made = self._sources.make(wanted, OPERATOR).source
        except Refused:
            return False  # It is told when it is added.
        credential = source.credential
        if credential is not None and credential.configured:
            credential = credential.keeping("")
        there = replace(source, credential=credential)
        return replace(made, id=source.id, created=source.created) == there


def _is_ours(entry: Entry) -> bool:
    source = entry.source
    ours = source.made_by == SETTINGS and source.channel is None
    return ours and entry.row.wanted is not Wanted.REMOVED
