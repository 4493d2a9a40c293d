"""The contract of an adapter: what the system will never take is refused, and stops no others."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

from adapters.protocol import Adapter, AdapterUnavailable, PublicationRefused
from adapters.testing.trials import RETRY, AdapterTrials
from mediation.model.messages import Notification

AROUND = 10
"""Messages before, and after, each that is refused."""


class RefusalContract(AdapterTrials):
    """The system refuses some messages for good."""

    async def test_what_is_refused_stops_no_others(self, data: Path) -> None:
        """Many publish at a time, and one of them what the system will never take."""
        bad_ones = self.needs_refusals()
        async with self.running(data, self.interest("storm")) as adapter:
            inbox = self.inbox(adapter)
            for bad in bad_ones:
                good, last = self.notifications(2 * AROUND), self.notification()
                publishing = [self.published(adapter, one) for one in good]
                publishing.insert(AROUND, self._only_it_is_refused(adapter, bad))
                await asyncio.gather(*publishing)
                await self.published(adapter, last)
                assert set(await inbox.until(last.id)) == {one.id for one in good}

    async def test_of_several_only_those_are_refused(self, data: Path) -> None:
        """The others of one publication arrive, in their order."""
        bad_ones = self.needs_refusals()
        async with self.running(data, self.interest("storm")) as adapter:
            inbox = self.inbox(adapter)
            for bad in bad_ones:
                good, last = self.notifications(2 * AROUND), self.notification()
                refused = await self.refused(adapter, [*good[:AROUND], bad, *good[AROUND:]])
                assert [each.notification for each in refused.refusals] == [bad]
                await self.published(adapter, last)
                ids = await inbox.until(last.id)
                assert list(dict.fromkeys(ids)) == [one.id for one in good]

    async def test_what_was_refused_is_known(self, data: Path) -> None:
        """Checked only if it remembers, which it need not: until somebody says that it is
        mended."""
        bad_ones = self.needs_refusals()
        async with self.running(data) as adapter:
            refusals = adapter.capabilities.refusals
            for bad in bad_ones:
                await self._only_it_is_refused(adapter, bad)
                if refusals is not None:
                    assert refusals.refusal_of(bad)
                    assert refusals.refusal_of(self.notification()) is None
                    refusals.forget(bad)
                    assert refusals.refusal_of(bad) is None

    async def _only_it_is_refused(self, adapter: Adapter, bad: Notification) -> None:
        refused = await self.refused(adapter, [bad])
        assert refused.words_for(bad)
        assert refused.words_for(self.notification()) is None

    async def refused(
        self, adapter: Adapter, notifications: Sequence[Notification]
    ) -> PublicationRefused:
        """Publish until it is refused for good, beside messages that the system takes."""
        async with asyncio.timeout(self.outage):
            while True:
                try:
                    await adapter.publish(notifications)
                except PublicationRefused as refused:
                    return refused
                except AdapterUnavailable:
                    await self.published(adapter, self.notification("elsewhere"))
                    await asyncio.sleep(RETRY)
                else:
                    raise AssertionError("the system took what it never takes")
