"""A sensor: publishes how busy this machine is, from calls that are prepared once.

Usage: sensor.py GATEWAY SOURCE [SECONDS BETWEEN]
"""

import asyncio
import sys
import time

from sensing import NAMESPACE, NetworkEvent, Processor, memory_used, network

from gateway.client import GatewayError
from gateway.client.grid_events import MachineUtilizationEvent, Publisher, prepared

RESOURCES = "http://www.extreme.indiana.edu/soap/events/resdat"


async def sense(gateway: str, source: str, seconds: float) -> None:
    same = {"source": source, "message": "", "handback": None, "seq_no": 0}
    machine = prepared(
        MachineUtilizationEvent, event_namespace=f"{RESOURCES}#MachineUtilizationEvent",
        event_type="resdata.machine.utilization", **same,
    )  # fmt: skip
    net = prepared(
        NetworkEvent, event_namespace=NAMESPACE, event_type="resdata.network.octets", **same
    )
    processor = Processor()
    async with Publisher(gateway) as publisher:
        while True:
            await asyncio.sleep(seconds)
            now = time.time_ns() // 1_000_000
            received, sent = network()
            load = {"cpuUtilization": processor.look(), "memoryUsed": memory_used()}
            octets = {"octetsReceived": received, "octetsSent": sent}
            try:
                await publisher.fill(machine, {"timestamp": now, **load})
                await publisher.fill(net, {"timestamp": now, **octets})
            except GatewayError as error:
                print(f"{source}: {error}", file=sys.stderr)  # The next one may arrive.


if __name__ == "__main__":
    between = float(sys.argv[3]) if len(sys.argv) > 3 else 1.0
    asyncio.run(sense(sys.argv[1], sys.argv[2], between))
