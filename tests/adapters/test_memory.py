from pathlib import Path

import pytest

from adapters import AdapterError, AdapterUnavailable, load
from adapters.memory import MAX_OCTETS, MemoryAdapter
from adapters.testing import AdapterContract


class TestMemory(AdapterContract):
    def make_adapter(self, data: Path) -> MemoryAdapter:
        return MemoryAdapter()

    async def test_a_repeated_id_is_not_delivered_again(self, data: Path) -> None:
        first, last = self.notifications(2)
        async with self.running(data, self.interest("storm")) as adapter:
            await adapter.publish([first, first])
            await adapter.publish([first, last])
            assert await self.inbox(adapter).until(last.id) == [first.id]

    async def test_memory_is_bounded(self, data: Path) -> None:
        payload = f"<a>{'x' * (MAX_OCTETS // 4)}</a>"
        async with self.running(data, self.interest("storm")) as adapter:
            for _ in range(3):
                await adapter.publish([self.notification(payload=payload)])
            with pytest.raises(AdapterUnavailable):
                await adapter.publish([self.notification(payload=payload)])
            await self.inbox(adapter).take(1)
            await adapter.publish([self.notification(payload=payload)])


def test_settings(tmp_path: Path) -> None:
    adapter = load("memory:?prefetch=3", data=tmp_path, settings={"prefetch": "4"})
    assert adapter.capabilities.prefetch == 3
    assert not adapter.capabilities.durable
    with pytest.raises(AdapterError, match="did you mean 'prefetch'"):
        load("memory:?prefech=3", data=tmp_path, settings={})
