"""The contract of an adapter: what is wanted is yielded, and nothing else."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from adapters.protocol import (
    Interest,
)
from adapters.testing.trials import AdapterTrials
from filters import Expression, Refused, Step, Topic
from filters.dialects import TOPIC_FULL


class InterestContract(AdapterTrials):
    """The contract of interests: what is wanted is yielded, and nothing else."""

    async def test_only_what_is_wanted_is_yielded(self, data: Path) -> None:
        wanted, other, last = map(self.notification, ("storm", "calm", "storm"))
        async with self.running(data, self.interest("storm")) as adapter:
            await adapter.publish([other, wanted, other, last])
            assert await self.inbox(adapter).until(last.id) == [wanted.id]

    async def test_wildcards(self, data: Path) -> None:
        wanted = ("storm/sea", "storm/sea/north", "storm/land")
        sent = {path: self.notification(path) for path in ("storm", *wanted, "calm/sea")}
        last = [self.notification(path) for path in (*wanted, "end")]
        interests = (self.interest("storm/*"), self.interest("*/*/north"), self.interest("end"))
        async with self.running(data, *interests) as adapter:
            await adapter.publish([*sent.values(), *last])
            yielded = await self.inbox(adapter).until(*(end.id for end in last))
            self.assert_yielded(yielded, [sent[path].id for path in wanted])

    @pytest.mark.parametrize(
        ("wanted", "other"),
        [
            pytest.param("storm/sea", "storm.sea", id="a dot in a name"),
            pytest.param("storm.sea", "storm/sea", id="dots between names"),
            pytest.param("storm_x002E_sea", "storm.sea", id="what looks like an escape"),
            pytest.param("Storm", "storm", id="case"),
            pytest.param("storm/sea", "storm", id="a parent"),
            pytest.param("storm", "storm/sea", id="a child"),
            pytest.param("嵐", "岚", id="other scripts"),
            pytest.param("/".join(["storm"] * 60), "/".join(["storm"] * 61), id="long"),
            pytest.param("s" * 300, "s" * 299 + "t", id="a long name"),
        ],
    )
    async def test_topics_are_told_apart(self, data: Path, wanted: str, other: str) -> None:
        sent, last = self.notification(wanted), self.notification(wanted)
        async with self.running(data, self.interest(wanted)) as adapter:
            await adapter.publish([self.notification(other), sent, last])
            assert await self.inbox(adapter).until(last.id) == [sent.id]

    async def test_a_step_in_a_namespace_of_its_own(self, data: Path) -> None:
        root, sea = self.topic("storm").steps[0], Step("urn:sea", "sea")
        sent, last = (
            replace(self.notification(), topic=Topic((root, sea, Step(None, "north"))))
            for _ in range(2)
        )
        scope = (("t", self.namespace), ("s", "urn:sea"))
        interest = Interest(Expression("t:storm/s:sea//.", TOPIC_FULL, scope))
        async with self.running(data, interest) as adapter:
            await adapter.publish([self.notification("storm/sea/north"), sent, last])
            assert await self.inbox(adapter).until(last.id) == [sent.id]

    async def test_descendants(self, data: Path) -> None:
        wanted = ("storm", "storm/sea", "storm/sea/north", "calm/sea/north", "calm/a/b/c/north")
        other = ("rain", "rain/storm", "calm", "calm/north/sea", "north")
        interests = (self.interest("storm//."), self.interest("calm//north"))
        sent = [
            self.notification(path) for pair in zip(wanted, other, strict=True) for path in pair
        ]
        last = [self.notification(path) for path in wanted]
        async with self.running(data, *interests) as adapter:
            await adapter.publish([*sent, *last])
            yielded = await self.inbox(adapter).until(*(end.id for end in last))
            self.assert_yielded(yielded, [notification.id for notification in sent[::2]])

    async def test_many_interests(self, data: Path) -> None:
        paths = [f"storm/n{number}" for number in range(200)]
        sent = [self.notification(path) for path in (*paths, "storm/calm")]
        last = [self.notification(path) for path in paths]
        async with self.running(data, *map(self.interest, paths[:150])) as adapter:
            async with asyncio.TaskGroup() as group:
                for path in paths[150:]:
                    group.create_task(adapter.want(self.interest(path)))
            inbox = self.inbox(adapter)
            await adapter.publish([*sent, *last])
            yielded = await inbox.until(*(end.id for end in last))
            self.assert_yielded(yielded, [notification.id for notification in sent[:-1]])

    async def test_overlapping_interests_yield_once(self, data: Path) -> None:
        interests = ("storm", "storm//.", "*", "storm|calm")
        paths = ("storm", "storm/sea", "calm")
        sent, last = (list(map(self.notification, paths)) for _ in range(2))
        async with self.running(data, *map(self.interest, interests)) as adapter:
            await adapter.publish([*sent, *last])
            yielded = await self.inbox(adapter).until(*(end.id for end in last))
            self.assert_yielded(yielded, [notification.id for notification in sent])

    async def test_what_is_wanted_is_wanted_on_return(self, data: Path) -> None:
        async with self.running(data) as adapter:
            inbox = self.inbox(adapter)
            for path in ("storm", "calm", "rain/sea"):
                await adapter.want(self.interest(path))
                sent = self.notification(path)
                await adapter.publish([sent])
                assert (await inbox.take(1))[0].notification == sent

    async def test_wanting_twice_is_wanting_once(self, data: Path) -> None:
        first, last = self.notifications(2)
        async with self.running(data, self.interest("storm")) as adapter:
            await adapter.want(self.interest("storm"))
            await adapter.publish([first, last])
            assert await self.inbox(adapter).until(last.id) == [first.id]

    async def test_other_interests_stay_when_one_goes(self, data: Path) -> None:
        storm, calm = self.notification("storm"), self.notification("calm")
        async with self.running(data, self.interest("storm"), self.interest("*")) as adapter:
            await adapter.unwant(self.interest("storm"))
            await adapter.unwant(self.interest("never"))
            last = self.notification("storm")
            await adapter.publish([storm, calm, last])
            assert await self.inbox(adapter).until(calm.id, last.id) == [storm.id]

    async def test_what_is_not_wanted_any_more_stops(self, data: Path) -> None:
        async with self.running(data, self.interest("storm"), self.interest("calm")) as adapter:
            inbox = self.inbox(adapter)
            await adapter.unwant(self.interest("storm"))
            async with asyncio.timeout(self.deadline):  # unwant may lag.
                while True:
                    storm, calm = self.notification("storm"), self.notification("calm")
                    await adapter.publish([storm, calm])
                    if await inbox.until(calm.id) == []:
                        break
                    await asyncio.sleep(0.01)

    async def test_an_interest_that_nobody_can_evaluate_is_refused(self, data: Path) -> None:
        async with self.running(data) as adapter:
            with pytest.raises(Refused):
                await adapter.want(Interest(Expression("x", "urn:dragoman:no-such-dialect")))
