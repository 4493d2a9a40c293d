"""What the scheduler does for several owners at a time."""

import asyncio
import time
from pathlib import Path

from adapters.tenant_admission import TenantAdmission
from gateway.delivery.attempt import Attempts
from gateway.delivery.destinations.breaker import FAILURES
from gateway.delivery.destinations.probation import Probation, ProbationLimits, Probations
from gateway.delivery.outbox import Outbox, PendingDelivery
from gateway.delivery.partition_share import everything
from gateway.delivery.pending import Message
from gateway.delivery.scheduler import SendScheduler
from gateway.delivery.timers import STALLED, TICK
from gateway.delivery.verdicts import Outcome, Verdict
from gateway.egress import Answer, Request, Target, Told
from tests.rigs.dispatching import engine, notification
from tests.rigs.waiting import until


class Posting:
    """A transport whose one lane answers when it is told to."""

    in_order = False

    def __init__(self) -> None:
        self.told: dict[str, list[Told]] = {}

    async def send(self, request: Request) -> Answer:
        raise AssertionError("everything is posted")

    async def close(self) -> None:
        """Nothing is open."""

    def lane(self, target: Target) -> "Posting":
        return self

    def post(self, request: Request, told: Told) -> "Posting":
        self.told.setdefault(request.target.path, []).append(told)
        return self

    def cancel(self) -> None:
        """There is nothing to give up."""

    def answer(self, path: str) -> None:
        for told in self.told.pop(path):
            told(Answer(202))


class Patient:
    """An owner of outboxes that keeps nothing."""

    patience = 1.0
    share = everything()

    def patience_for(self, tenant: str) -> float:
        return self.patience

    def next(self, outbox: Outbox) -> PendingDelivery | None:
        return None

    def completed(self, pending: PendingDelivery, outcome: Outcome) -> None:
        pending.outbox.finish(pending)

    def stalled(self, outbox: Outbox) -> None:
        """Nobody keeps it."""


class Giving(Patient):
    """Has one to send."""

    next_one: PendingDelivery | None = None

    def next(self, outbox: Outbox) -> PendingDelivery | None:
        pending, self.next_one = self.next_one, None
        return pending


async def test_owners_that_stop_at_the_same_time_wait_for_their_own(tmp_path: Path) -> None:
    async with engine(tmp_path) as e:
        transport, owners = Posting(), [Patient(), Patient()]
        scheduler = SendScheduler(Attempts(transport, producer=""))
        for number, owner in enumerate(owners):
            entry = await e.subscribe(f"soap.tcp://127.0.0.1/{number}")
            outbox = Outbox(entry, scheduler.destination(entry.target), owner)
            pending = PendingDelivery(Message(notification("1"), None), outbox, 1, 0.0)
            assert scheduler.start(pending)
        stopping = [asyncio.create_task(scheduler.stop(60.0, owner)) for owner in owners]
        await asyncio.sleep(0)
        for number, stop in enumerate(stopping):
            transport.answer(f"/{number}")
            await asyncio.wait_for(stop, 30.0)


async def test_what_is_not_sent_says_nothing_of_its_destination(tmp_path: Path) -> None:
    """It closes no breaker, is none's failure, and the next one may be the probe at once."""
    async with engine(tmp_path) as e:
        entry = await e.subscribe("soap.tcp://127.0.0.1/0")
        probations = Probations()
        attempts = Attempts(Posting(), producer="", may_get=lambda *_: False)
        scheduler = SendScheduler(attempts, probations=probations)
        destination = scheduler.destination(entry.target)
        destination.probation = probation = Probation(ProbationLimits())
        owner = Giving()
        outbox = Outbox(entry, destination, owner)
        now = asyncio.get_running_loop().time()
        for _ in range(FAILURES):
            destination.breaker.failed(now - 1000.0)
            probation.failed(now - 1000.0)
        owner.next_one = PendingDelivery(Message(notification("1"), None), outbox, 1, 0.0)
        scheduler.offer(outbox)
        assert destination.breaker.blocks(now) and probation.breaker.blocks(now)
        await until(lambda: scheduler.verdicts[Verdict.WITHDRAWN] == 1)
        for breaker in (destination.breaker, probation.breaker):
            assert breaker.open and not breaker.blocks(asyncio.get_running_loop().time())
        assert probation.attempts == 0


async def test_one_late_tick_tells_nothing_and_the_next_one_counts(tmp_path: Path) -> None:
    """Answers may lie in the sockets of a process that stalled; not for ever, if it goes on so."""
    async with engine(tmp_path) as e:
        entry = await e.subscribe("soap.tcp://127.0.0.1/0")
        transport, owner = Posting(), Patient()
        scheduler = SendScheduler(Attempts(transport, producer=""))
        owner.patience = TICK
        outbox = Outbox(entry, scheduler.destination(entry.target), owner)
        pending = PendingDelivery(Message(notification("1"), None), outbox, 1, 0.0)
        assert scheduler.start(pending)
        stalled = []
        for _ in range(2):
            time.sleep(TICK + 2 * STALLED)  # noqa: ASYNC251 - the event loop is to hang
            for _ in range(2):
                await asyncio.sleep(0)
            stalled.append(pending.stalled)
        assert stalled == [False, True]
        transport.answer("/0")


class Flooding(Patient):
    """An owner whose outboxes always have one message more."""

    scheduler: SendScheduler

    def next(self, outbox: Outbox) -> PendingDelivery | None:
        return PendingDelivery(Message(notification("1"), None), outbox, 1, 0.0)

    def completed(self, pending: PendingDelivery, outcome: Outcome) -> None:
        pending.outbox.finish(pending)
        self.scheduler.offer(pending.outbox)


async def test_a_tenant_that_floods_takes_no_more_than_its_share(tmp_path: Path) -> None:
    """Whatever it has to send: of the one slot that there is another tenant has half, where both
    send to the same host, too."""
    async with engine(tmp_path) as e:
        transport, owner = Posting(), Flooding()
        owner.scheduler = scheduler = SendScheduler(Attempts(transport, producer=""), slots=1)
        urls = {f"soap.tcp://127.0.0.{host}/acme": "tenant:acme:user:a" for host in range(1, 41)}
        for url, name in (*urls.items(), ("soap.tcp://127.0.0.1/quiet", "user:b")):
            entry = await e.subscribe(url)
            outbox = Outbox(entry, scheduler.destination(entry.target, name), owner)
            scheduler.offer(outbox)
        sent = []
        for _ in range(400):
            if not transport.told:  # A burst has ended: it goes on when others had their turn.
                await asyncio.sleep(0)
            [path] = transport.told
            sent.append(path)
            transport.answer(path)
        assert abs(sent.count("/quiet") - 200) <= 32
        waits = [len(run) for run in "".join(path[1] for path in sent).split("q")]
        assert max(waits) <= 32


async def test_attempts_wait_for_a_light_tenant_s_request_and_its_own_do_not(
    tmp_path: Path,
) -> None:
    async with engine(tmp_path) as e:
        transport, owner, admission = Posting(), Flooding(), TenantAdmission()
        scheduler = SendScheduler(Attempts(transport, producer=""), admission=admission)
        owner.scheduler = scheduler
        outboxes = {}
        for host, tenant in enumerate(("flood", "quiet"), 1):
            entry = await e.subscribe(f"soap.tcp://127.0.0.{host}/{tenant}")
            destination = scheduler.destination(entry.target, f"tenant:{tenant}:user:a")
            outboxes[tenant] = Outbox(entry, destination, owner)
        admission.use("flood", 100_000)
        async with admission.request("quiet", 100):
            scheduler.offer(outboxes["flood"])
            assert not transport.told
            scheduler.offer(outboxes["quiet"])
            assert set(transport.told) == {"/quiet"}
        await until(lambda: "/flood" in transport.told)
        for path in list(transport.told):  # What goes on waits for its answer no longer.
            transport.told.pop(path)
