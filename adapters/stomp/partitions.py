"""The partitions that this gateway holds, where several gateways share the work: one connection
each.

The client id of the connection is the partition's: while one gateway consumes it, the broker
refuses another. What is unsettled when the connection ends goes back into the queue, in order.
"""

from collections.abc import Awaitable, Callable
from functools import partial

from adapters.broker.outages import Outages
from adapters.broker.reconnecting import Reconnector
from adapters.stomp.connection import Connection
from adapters.stomp.consuming import Consuming


class PartitionConsumers:
    """Consumes the partitions that were taken.

    Args:
        open: Opens a connection with a client id, or raises `Lost`.
        name: Of the gateways that share the work.
    """

    def __init__(
        self,
        consuming: Consuming,
        open: Callable[[str], Awaitable[Connection]],
        name: str,
        outages: Outages,
    ) -> None:
        self._consuming = consuming
        self._open = open
        self._name = name
        self._outages = outages
        self._reconnectors: dict[int, Reconnector[Connection]] = {}

    def take(self, partition: int) -> None:
        """As `Sharing.take`."""
        if partition in self._reconnectors:
            return
        reconnector = self._reconnectors[partition] = Reconnector(
            self._outages,
            f"partition {partition}",
            partial(self._open, f"{self._name}.{partition}"),
            partial(self._consuming.serve_partition, partition),
        )
        reconnector.start()

    async def release(self, partition: int) -> None:
        """As `Sharing.release`."""
        reconnector = self._reconnectors.pop(partition, None)
        if reconnector is not None:
            await reconnector.close()

    async def close(self) -> None:
        """Release all."""
        for partition in list(self._reconnectors):
            await self.release(partition)
