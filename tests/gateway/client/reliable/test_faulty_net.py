"""Whatever a network does to the connections of two programs, nothing is lost, nothing comes twice,
and all comes in order."""

import random
import threading
import time
from collections import defaultdict
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from gateway.client.reliable import Delivery, Policy, Receiver, ReliableClient
from tests.gateway.client.reliable.test_queued import ORDER
from tests.rigs.faulty_net import Fault, faulty_net
from tests.rigs.receivers import served
from tests.rigs.waiting import wait_until

POLICY = Policy(interval=0.3, ceiling=1.0, ack_after=0.05)
KEYS = 3
FAULTS = [fault for fault in Fault if fault is not Fault.NONE]


def play(folder: Path, rounds: int, period: float, seed: int) -> int:
    """Send while one fault follows another, each *rounds* times, for *period* seconds.

    Returns:
        How many messages there were.
    """
    draw = random.Random(seed)
    taken: dict[str, list[int]] = defaultdict(list)
    replies: list[str] = []
    receiver = Receiver(f"sqlite:///{folder / 'receiver.db'}", policy=POLICY, hold=1.0)

    def take(each: Delivery) -> bytes:
        key, _, number = each.body.decode()[3:-4].partition(" ")
        taken[key].append(int(number))
        return each.body

    receiver.service("/orders", take)
    client = ReliableClient(f"sqlite:///{folder / 'client.db'}", policy=POLICY, timeout=2.0)
    client.callbacks("confirm", on_message=lambda each: replies.append(each.body.decode()))
    ended = threading.Event()
    sent = [0] * KEYS

    def send(url: str) -> None:
        while not ended.wait(0.02):
            if client.waiting() > 100:
                continue
            for key in range(KEYS):
                body = f"<o>{key} {sent[key]}</o>".encode()
                asked = "confirm" if key else ""
                way = f"{url}/orders"
                if asked:
                    client.request(way, body, action=ORDER, key=str(key), callbacks=asked)
                else:
                    client.send(way, body, action=ORDER, key=str(key))
                sent[key] += 1

    with served(receiver) as server:
        parts = urlsplit(server)
        with faulty_net(parts.hostname or "", parts.port or 0) as net, client:
            sending = threading.Thread(target=send, args=(net.url,), daemon=True)
            sending.start()
            wait_until(lambda: taken)
            for fault in draw.sample(FAULTS * rounds, k=len(FAULTS) * rounds):
                before, net.fault = net.counts[fault], fault
                end = time.monotonic() + period
                wait_until(
                    lambda before=before, fault=fault, end=end: (  # type: ignore[misc]
                        time.monotonic() > end and net.counts[fault] > before
                    )
                )
            net.fault = Fault.NONE
            ended.set()
            sending.join(60)
            wait_until(lambda: not client.waiting(), 300.0)
            wait_until(lambda: len(replies) >= sum(sent[1:]), 300.0)
            assert set(net.counts) >= set(FAULTS)
    assert {key: taken[str(key)] for key in range(KEYS)} == {
        key: list(range(sent[key])) for key in range(KEYS)
    }
    asked = [f"<o>{key} {number}</o>" for key in range(1, KEYS) for number in range(sent[key])]
    assert sorted(replies) == sorted(asked)
    return sum(sent)


@pytest.mark.slow
def test_every_fault(tmp_path: Path) -> None:
    assert play(tmp_path, 1, 0.5, seed=1)


@pytest.mark.release
@pytest.mark.parametrize("seed", range(5))
def test_every_fault_again_and_again(tmp_path: Path, seed: int) -> None:
    assert play(tmp_path, 8, 2.0, seed)
