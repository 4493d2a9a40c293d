"""What is published while a subscription reads the archive."""

from dataclasses import replace
from datetime import timedelta

from mediation.model.messages import CatchingUp
from tests.rigs.consumers import accept, consumers
from tests.rigs.dispatching import Engine, FakeDelivery, engine, notification


def publish(run: Engine, name: str, age: float = 0.0) -> None:
    event = notification(name)
    event = replace(event, time=event.time - timedelta(seconds=age))
    run.deliveries.append(FakeDelivery(event))
    run.dispatcher.accept(run.deliveries[-1], run.entries)


async def test_phases(store_url: str) -> None:
    """First it passes by, but for what its reader may have passed; then it waits; then it comes."""
    async with consumers() as sinks, engine(store_url) as run:
        consumer = sinks.add(accept)
        entry = await run.subscribe(consumer.url, catching_up=CatchingUp.ARCHIVE)
        publish(run, "1")
        publish(run, "2", age=60.0)
        publish(run, "3", age=-60.0)
        await run.at_rest(delivered=2)
        assert sorted(consumer.numbers) == ["2", "3"]
        policy = entry.subscription.policy
        for phase in (CatchingUp.SEAM, CatchingUp.DONE):
            policy = replace(policy, catching_up=phase)
            entry.subscription = replace(entry.subscription, policy=policy)
            (run.dispatcher.quiet if entry.silent else run.dispatcher.resume)(entry)
            if phase is CatchingUp.SEAM:
                publish(run, "4")
                await run.dispatcher.settled()
                assert all(delivery.settled for delivery in run.deliveries)
                await run.conservation_when(waiting=1)
        publish(run, "5")
        await run.at_rest(delivered=4)
        assert consumer.numbers[2:] == ["4", "5"]
