"""Channels of a gateway in front of real brokers: the name of a channel travels with its events."""

import uuid
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.gateway.channels.test_channels import LAB, event, listens, publishes, types
from tests.rigs.activemq import activemq, needs_activemq
from tests.rigs.brokers import needs_rabbitmq, rabbitmq
from tests.rigs.consumers import Consumers
from tests.rigs.gateways import running

pytestmark = pytest.mark.slow


@pytest.fixture
async def consumers() -> AsyncIterator[Consumers]:
    async with Consumers() as made:
        yield made


async def each_is_a_place(folder: Path, consumers: Consumers, adapter: str) -> None:
    async with running(folder, adapter=adapter, channels=({"name": "lab"},)) as run:
        main, lab = consumers.at("/main"), consumers.at("/lab")
        await listens(run, main, "/soap")
        await listens(run, lab, LAB)
        for path, name in (("/soap", "main"), (LAB, "lab")):
            await publishes(run, event("same", 7), path)
            await publishes(run, event(f"of.{name}"), path)
        for heard, name in ((main, "main"), (lab, "lab")):
            await heard.have(2)
            assert types(heard) == [f"of.{name}", "same"]


async def test_behind_rabbitmq(tmp_path: Path, consumers: Consumers) -> None:
    needs_rabbitmq()
    name = f"channels-{uuid.uuid4().hex[:8]}"
    await each_is_a_place(tmp_path, consumers, f"{rabbitmq().url}?name={name}&exchange={name}")


async def test_behind_activemq(tmp_path: Path, consumers: Consumers) -> None:
    needs_activemq()
    name = f"channels-{uuid.uuid4().hex[:8]}"
    await each_is_a_place(tmp_path, consumers, f"{activemq().url}?name={name}&root={name}")
