"""What an idle subscription costs.

Question: how many octets of resident memory does a subscription take beyond its filter's own? All
of them have one filter, which is one entry, however many have it.

    .venv/bin/python -m benchmarks.memory [--subscriptions 20000]
"""

import argparse

import uvloop

from benchmarks.fanout import connect, subscribe
from benchmarks.machine import describe, pin
from benchmarks.rig import gateway
from gateway.client.signals import end_as_by_interrupt
from mediation.model.versions import Version


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--subscriptions", type=int, default=20_000)
    options = parser.parse_args()
    pin(1)
    print(describe())
    for version in (Version.WSE_2004_08, Version.WSN_1_3):
        with gateway() as running:
            poster = await connect(running)
            await subscribe(poster, version, [50_001 + n for n in range(1000)])
            before = running.rss()
            ports = [51_024 + n % 9_000 for n in range(options.subscriptions)]
            await subscribe(poster, version, ports)
            each = (running.rss() - before) / options.subscriptions
            poster.close()
        print(f"{version.value}: {each:,.0f} octets a subscription, over {options.subscriptions:,}")


if __name__ == "__main__":
    end_as_by_interrupt()
    uvloop.run(main())
