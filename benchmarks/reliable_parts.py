"""Measures what a queued transaction costs by part: processor time, without HTTP and threads.

Question: what does each step of a message take where those of 16 sequences are worked on together,
four of each: storing them on one side, looking, deciding what is sent; taking them on the other,
24 at a time, looking, giving them to a function that does nothing; reading the answers, taking
acknowledgements?

    .venv/bin/python -m benchmarks.reliable_parts [--rounds 60] [--postgresql URL]

One process, one thread. What a database takes in its own processes is not in it.
"""

import argparse
import gc
import tempfile
import time
from collections import defaultdict, deque
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from benchmarks.machine import describe, pin
from benchmarks.reliable import ACTION, BODY, POLICY, stores
from gateway.client.reliable import Receiver, ReliableClient
from gateway.reliability.batch_delivery import deliver_some
from gateway.reliability.batches import (
    AcknowledgementAnswer,
    ReceivedMessage,
    acknowledge_all,
    send_all_due,
)
from gateway.reliability.connection_answers import (
    ConnectionAnswer,
    acknowledgement_in,
    largest_of_each,
)
from gateway.reliability.endpoint import Endpoint
from gateway.reliability.source_worker import Work
from gateway.reliability.values import Outgoing, Reply

SEQUENCES, EACH, TAKEN = 16, 4, 24
URL = "http://127.0.0.1:9/orders"

T = TypeVar("T")


class Sides:
    """A client and a receiver, and what their parts took."""

    def __init__(self, here: str, there: str) -> None:
        self.client = ReliableClient(here, policy=POLICY)
        self.receiver = Receiver(there, policy=POLICY)
        self.receiver.service("/orders", lambda each: None)
        self.source: Endpoint = self.client._endpoint
        self.destination: Endpoint = self.receiver._workers.endpoint
        self.seconds: defaultdict[str, float] = defaultdict(float)

    def part(self, name: str, work: Callable[[], T]) -> T:
        started = time.thread_time()
        done = work()
        self.seconds[name] += time.thread_time() - started
        return done

    def round(self, each: int) -> int:
        """Send *each* messages in every sequence; how many arrived."""
        for _ in range(each):
            self.part("store", self._store)
        keys = self.part("look (client)", partial(self._look, self.source))[1]
        limits = dict.fromkeys(keys, 64)
        works = self.part("decide", partial(send_all_due, self.source.party, limits, time.time()))
        sent = [one for work in works.values() if isinstance(work, Work) for one in work.outgoing]
        replies: list[Reply | Exception] = []
        for start in range(0, len(sent), TAKEN):
            arrived = [
                ReceivedMessage(one.envelope, None, one.http_headers[0][1], "/orders")
                for one in sent[start : start + TAKEN]
            ]
            take = partial(self.destination.received_all, arrived, time.time())
            replies += self.part("take", take)
        waiting = deque(self.part("look (receiver)", partial(self._look, self.destination))[0])
        while waiting:
            give = partial(deliver_some, self.destination.party, waiting, time.time(), limit=256)
            self.part("give", partial(give, at_once=64))
        self._answer(sent, replies)
        return len(sent)

    def _store(self) -> None:
        pending = [
            self.client._messages.make(
                URL, BODY, action=ACTION, key=str(key), envelope=None, last=False
            )
            for key in range(SEQUENCES)
        ]
        assert not any(self.client._store_shared(pending))

    def _look(self, endpoint: Endpoint) -> tuple[list[str], list[str]]:
        now = time.time()
        with endpoint.party.storage.look() as look:
            all_due: Any = getattr(look, "all_due", None)
            if all_due is not None:
                invoker, outgoing, _ = all_due(now, 256)
                return invoker, outgoing
            return look.invoker_due(now, 256), look.outgoing_due(now, 256)

    def _answer(self, sent: list[Outgoing], replies: list[Reply | Exception]) -> None:
        answers: list[AcknowledgementAnswer] = []
        for outgoing, reply in zip(sent, replies, strict=True):
            assert isinstance(reply, Reply)
            if reply.answer is None:
                continue
            envelope = reply.answer.envelope
            came = ConnectionAnswer(outgoing, envelope, "application/soap+xml")
            answer = self.part("read answers", partial(acknowledgement_in, came))
            if answer is None:
                self.source.sent(outgoing, time.time(), delivered=True, answer=envelope)
            else:
                answers.append(answer)
        take = partial(acknowledge_all, self.source.party, largest_of_each(answers), time.time())
        self.part("acknowledge", take)

    def close(self) -> None:
        self.client.close()
        self.receiver.store.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--postgresql", help="URL of a server, whose user may create databases")
    options = parser.parse_args()
    pin(1)
    print(describe())
    for kind in ["memory", "sqlite", *(["postgresql"] * bool(options.postgresql))]:
        with (
            tempfile.TemporaryDirectory(dir=".", prefix=".benchmark-") as folder,
            stores(kind, folder, options.postgresql or "") as (here, there),
        ):
            sides = Sides(here, there)
            for _ in range(8):  # The sequences are there before the clock runs.
                sides.round(1)
            sides.seconds.clear()
            gc.collect()
            messages = sum(sides.round(EACH) for _ in range(options.rounds))
            assert messages == options.rounds * SEQUENCES * EACH
            sides.close()
        parts = {name: took / messages * 1e6 for name, took in sides.seconds.items()}
        shown = ", ".join(f"{name} {took:.0f}" for name, took in parts.items())
        print(f"{kind}, us a message: {shown}; in all {sum(parts.values()):.0f}")


if __name__ == "__main__":
    main()
