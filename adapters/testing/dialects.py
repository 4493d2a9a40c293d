"""The contract of an adapter whose system evaluates filter dialects itself."""

from dataclasses import replace
from pathlib import Path

import pytest

from adapters.protocol import Delivery, Interest
from adapters.testing.contract import AdapterContract
from filters import Expression, Refused
from mediation.model.messages import Notification


class DialectContract(AdapterContract):
    """The tests of an adapter whose ``capabilities.dialects`` has any: all of `AdapterContract`,
    and these. Override `selecting` and `broken` too."""

    def selecting(self, dialect: str, value: str) -> Expression:
        """Make an expression in *dialect* that selects the messages whose property ``severity`` is
        *value*."""
        raise NotImplementedError

    def broken(self, dialect: str) -> Expression:
        """Make an expression in *dialect* that the system refuses."""
        raise NotImplementedError

    @pytest.fixture
    def selections(self, data: Path) -> list[Interest]:
        """Give one interest in each dialect; no other test has its value."""
        capabilities = self.make_adapter(data).capabilities
        dialects = capabilities.dialects
        assert dialects
        self._selecting = capabilities.selecting
        return [Interest(self.selecting(dialect, self.namespace)) for dialect in dialects]

    def graded(self, count: int) -> list[Notification]:
        """Make messages of which every other one is selected, the first too."""
        return [
            replace(one, properties={"severity": self.namespace if n % 2 == 0 else "calm"})
            for n, one in enumerate(self.notifications(count))
        ]

    def interest_of(self, delivery: Delivery) -> Interest | None:
        """Return the interest that *delivery* was yielded for; None: it was yielded for topics."""
        assert self._selecting is not None, "capabilities.dialects needs capabilities.selecting"
        return self._selecting(delivery)

    async def test_what_the_system_selects_is_yielded_for_its_interest(
        self, data: Path, selections: list[Interest]
    ) -> None:
        for selected in selections:
            sent = self.graded(3)
            async with self.running(data, self.interest("storm"), selected) as adapter:
                await adapter.publish(sent)
                taken = await self.inbox(adapter).take(5)
                ids = [(self.interest_of(one), one.notification.id) for one in taken]
                assert [id for interest, id in ids if interest is None] == [n.id for n in sent]
                assert [id for interest, id in ids if interest] == [sent[0].id, sent[2].id]
                assert {interest for interest, _ in ids} == {None, selected}

    async def test_what_the_system_selects_is_wanted_on_return(
        self, data: Path, selections: list[Interest]
    ) -> None:
        for selected in selections:
            async with self.running(data) as adapter:
                inbox = self.inbox(adapter)
                await adapter.want(selected)
                await adapter.want(selected)
                first, _, second = self.graded(3)
                await adapter.publish([first])
                (delivery,) = await inbox.take(1)
                assert (self.interest_of(delivery), delivery.notification) == (selected, first)
                await adapter.unwant(selected)  # This may lag.
                await adapter.publish([second])
                await adapter.want(self.interest("storm"))
                await adapter.publish([last := self.notification()])
                assert set(await inbox.until(last.id)) <= {first.id, second.id}

    async def test_what_the_system_selects_is_kept_until_it_is_settled(
        self, data: Path, selections: list[Interest]
    ) -> None:
        self.needs_durability()
        for selected in selections:
            sent = self.graded(5)
            async with self.running(data, selected) as adapter:
                await adapter.publish(sent)
                first, second = await self.inbox(adapter).take(2, settle=False)
                assert (first.notification, second.notification) == (sent[0], sent[2])
                second.settle()
            async with self.running(data, selected) as adapter:
                taken = await self.inbox(adapter).take(2, settle=False)
                assert [one.notification for one in taken] == [sent[0], sent[4]]
                assert [self.interest_of(one) for one in taken] == [selected] * 2

    async def test_what_the_system_selected_for_an_earlier_run_is_gone(
        self, data: Path, selections: list[Interest]
    ) -> None:
        for selected in selections:
            async with self.running(data, selected) as adapter:
                await adapter.publish(self.graded(1))
                await self.inbox(adapter).take(1, settle=False)
            async with self.running(data, self.interest("end")) as adapter:
                await adapter.publish([*self.graded(1), last := self.notification("end")])
                assert await self.inbox(adapter).until(last.id) == []
            async with self.running(data, selected) as adapter:
                (last,) = self.graded(1)
                await adapter.publish([last])
                assert await self.inbox(adapter).until(last.id) == []

    async def test_an_expression_that_the_system_refuses(
        self, data: Path, selections: list[Interest]
    ) -> None:
        for selected in selections:
            assert selected.expression is not None
            async with self.running(data) as adapter:
                with pytest.raises(Refused):
                    await adapter.want(Interest(self.broken(selected.expression.dialect)))
                await adapter.want(selected)
                await adapter.publish(sent := self.graded(1))
                assert (await self.inbox(adapter).take(1))[0].notification == sent[0]
