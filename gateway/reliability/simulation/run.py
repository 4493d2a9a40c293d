"""Runs of the simulator: `simulate`."""

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from random import Random

from gateway.reliability.back_channel import reply_to
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
from gateway.reliability.destination_worker import watch
from gateway.reliability.simulation import checks
from gateway.reliability.simulation.diagrams import Line, drawn
from gateway.reliability.simulation.disks import Crash, Disk, MemoryDisk, Row
from gateway.reliability.simulation.network import PATIENCE, Network
from gateway.reliability.simulation.nodes import (
    CLIENT,
    SERVICE,
    Client,
    Node,
    Service,
    is_faulty,
)
from gateway.reliability.simulation.scenarios import Exchange, Scenario
from gateway.reliability.simulation.timeline import Timeline
from gateway.reliability.simulation.turns import Turns
from gateway.reliability.storage import StorageUnavailable
from gateway.reliability.values import NoticeKind, Outgoing, Reply
from mediation.reliable_messaging import read_message
from mediation.soap.envelopes import http_headers

HORIZON = 8 * 3600.0
"""Simulated seconds after which everything has to be over: a sequence that is forgotten is found
after an hour, and its tombstone is kept for another."""
MOST_STEPS = 200_000
MOST_THREADS = 3
"""The most threads that stand still, between two transactions, while another one runs."""
MOST_CHANGES = 12
"""The store refuses one of the first changes of a transaction."""
PAGE = 256


@dataclass(frozen=True, slots=True)
class Connection:
    """A connection on which a message came.

    Attributes:
        life: The life of its opener; -1: nobody waits for an answer.
    """

    sender: Node
    life: int
    receiver: Node
    outgoing: Outgoing


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a run.

    Attributes:
        broken: The promise that was broken, or None.
    """

    scenario: Scenario
    broken: str | None
    lines: list[Line] = field(default_factory=list, repr=False)
    messages: int = 0

    @property
    def diagram(self) -> str:
        """The run as people draw it."""
        return f"{self.scenario}\n{drawn(self.lines)}\n{self.broken or 'nothing is broken'}"


def simulate(
    scenario: Scenario, make_disk: Callable[[str], Disk] = lambda name: MemoryDisk()
) -> Outcome:
    """Run *scenario*.

    Args:
        make_disk: Makes the disk of the client, and that of the service.
    """
    world = World(scenario, make_disk)
    broken = None
    try:
        world.run()
        world.check()
    except AssertionError as error:
        broken = f"{type(error).__name__}: {error}"
    except Exception as error:
        broken = f"{type(error).__name__}: {error} (at {world.timeline.now:.3f} s)"
    finally:
        world.close()
    return Outcome(scenario, broken, world.lines, world.sent)


class World:
    """A client, a service, and the network between them."""

    def __init__(self, scenario: Scenario, make_disk: Callable[[str], Disk]) -> None:
        self.scenario = scenario
        self.timeline = Timeline()
        self.random = Random(f"run {scenario.seed}")
        self.network = Network(scenario, self.random)
        self.lines: list[Line] = []
        self.sent = 0
        self.witness = checks.Witness()
        self._paused = 0
        self.client = self._node("client", CLIENT, make_disk, "a client")
        self.service = self._node("service", SERVICE, make_disk, "a service")
        self.clients = Client(self.client, scenario, self.say)
        Service(self.service, scenario, self.say)
        for node in (self.client, self.service):
            node.disk.fate = self.fate
            node.disk.pause = partial(self.pause, node)
        most = scenario.together
        self.arrivals: dict[str, Turns[Connection]] = {
            node.name: Turns(self.timeline, self.random, most, partial(self.take_all, node))
            for node in (self.client, self.service)
        }
        self.acknowledgements: dict[str, Turns[tuple[int, AcknowledgementAnswer]]] = {
            node.name: Turns(self.timeline, self.random, most, partial(self.told_all, node))
            for node in (self.client, self.service)
        }

    def _node(self, name: str, address: str, make_disk: Callable[[str], Disk], owner: str) -> Node:
        return Node(name, address, make_disk(name), self.random, owner, self.scenario)

    # The run.

    def run(self) -> None:
        """Let everything happen until nothing is left to do."""
        self.timeline.at(0.0, lambda: self.attempt(self.client, self.send_next))
        for _ in range(MOST_STEPS):
            if self.timeline.now > HORIZON or not self.timeline.step():
                return
        raise checks.Broken("there is no end to it")

    def check(self) -> None:
        """Check what has to be true at the end."""
        scenario = self.scenario
        for node in (self.client, self.service):
            if node.given_up and not scenario.harsh:
                raise checks.Broken(f"{node.name} gave up {node.given_up[0]}")
            failed = [each.text for each in node.notices if each.kind is NoticeKind.FAILED]
            if failed:
                raise checks.Broken(f"{node.name} failed: {failed[0]}")
        sent = [row[3] for row in self._rows(self.client, "sent")]
        if len(sent) != scenario.messages or len(set(sent)) != len(sent):
            raise checks.Broken(f"the client stored {len(sent)} of {scenario.messages} messages")
        got, replies = self._rows(self.service, "got"), self._rows(self.client, "got")
        in_order = scenario.exchange is not Exchange.ANONYMOUS_WITHOUT_OFFER
        checks.check_rows(got, "the service")
        checks.check_rows(replies, "the client", in_order=in_order)
        faulty = {each for each in sent if is_faulty(scenario, each)}
        wanted = set(sent) - faulty if scenario.exchange.replies else set(sent)
        lost = {row[3] for row in self._rows(self.client, "lost")}
        checks.check_same(wanted, got, "the service", lost)
        answers = wanted | {f"no {each}" for each in faulty}
        unanswered = NoticeKind.UNANSWERED in (each.kind for each in self.service.notices)
        if self.client.given_up or self.service.given_up or (scenario.harsh and unanswered):
            # There is no reply without its request, nor in a sequence that was given up before, or
            # that the client has ended, whose time was over.
            lost |= answers
        if scenario.exchange.replies:
            checks.check_same(answers, replies, "the client", lost)
        elif replies:
            raise checks.Broken("the client got replies that nobody sent")
        for node in (self.client, self.service):
            checks.check_empty(node.disk, node.name)

    def _rows(self, node: Node, event: str) -> list[Row]:
        return [row for row in node.disk.rows() if row[0] == event]

    def close(self) -> None:
        """Let go of the disks."""
        for node in (self.client, self.service):
            node.disk.close()

    # Faults.

    def fate(self) -> str:
        """Draw what happens to the next transaction."""
        scenario, random = self.scenario, self.random
        if self.timeline.now >= scenario.calm_at:
            return ""
        if scenario.crash and random.random() < scenario.crash:
            return random.choice(("crash before", "crash after"))
        if scenario.unavailable and random.random() < scenario.unavailable:
            return random.choice(("unavailable", "conflict", "doubt before", "doubt after"))
        if scenario.torn and random.random() < scenario.torn:
            return f"torn {random.randint(1, MOST_CHANGES)}"
        return ""

    def pause(self, node: Node) -> None:
        """Let others do something between two transactions of a thread of *node*."""
        scenario, life = self.scenario, node.life
        if self._paused >= MOST_THREADS or not scenario.interleaving:
            return
        if self.random.random() >= scenario.interleaving:
            return
        self._paused += 1
        try:
            self.timeline.step(within=1.0)
        finally:
            self._paused -= 1
        if node.life != life:
            raise Crash("crash before")

    def attempt(self, node: Node, what: Callable[[], None]) -> bool:
        """Let a process do something; False where that ended it, or its store refused."""
        if not node.up:
            return False
        life = node.life
        try:
            what()
        except Crash as crash:
            if node.life == life:  # Else another thread of it ended it.
                self.crash(node, str(crash))
            return False
        except StorageUnavailable as error:
            self.refused(node, error)
            return False
        self.plan(node)
        return True

    def refused(self, node: Node, error: Exception) -> None:
        """Let a process go on later, whose store refused."""
        if not isinstance(error, StorageUnavailable):
            try:
                raise error
            finally:
                del error
        self.say(node.name, f"its store: {error}")
        self.wake(node, self.timeline.now + 0.5)

    def crash(self, node: Node, why: str) -> None:
        """End a process, and start it again later."""
        self.say(node.name, f"*** {why} the commit ***")
        node.crash()
        down = self.random.choice((0.1, 2.0, 20.0)) * self.random.uniform(0.5, 1.5)
        self.timeline.at(self.timeline.now + down, lambda: self.start(node))

    def start(self, node: Node) -> None:
        """Start a process again; what goes wrong with that is tried again."""
        self.say(node.name, "*** starts again ***")
        node.up = True
        started = self.attempt(node, lambda: node.start(self.timeline.now))
        if not started and node.up:
            node.up = False
            self.timeline.at(self.timeline.now + 1.0, lambda: self.start(node))
        elif started and node is self.client:
            self.timeline.at(self.timeline.now + 0.1, lambda: self.attempt(node, self.send_next))

    # Events.

    def send_next(self) -> None:
        """Let the client send its next message, and plan the one after it."""
        life = self.client.life
        more = True
        try:
            more, outgoing = self.clients.send_next(self.timeline.now)
            if outgoing is not None:
                self.post(self.client, outgoing)
        finally:
            if more:
                pause = self.random.expovariate(1 / self.scenario.pace)
                self.timeline.at(self.timeline.now + pause, lambda: self.send_if(life))

    def send_if(self, life: int) -> None:
        if self.client.life == life:
            self.attempt(self.client, self.send_next)

    def plan(self, node: Node) -> None:
        """Let the workers of *node* run when something is due."""
        due = node.endpoint.next_due()
        if due is not None:
            self.wake(node, max(due, self.timeline.now) + self.random.uniform(0, 0.02))

    def wake(self, node: Node, time: float) -> None:
        """Let the workers of *node* run at *time*."""
        if node.wakes_at is not None and node.wakes_at <= time:
            return
        node.wakes_at = time
        life = node.life

        def work() -> None:
            if node.life == life and node.wakes_at == time:
                node.wakes_at = None
                self.attempt(node, lambda: self.work(node))

        self.timeline.at(time, work)

    def work(self, node: Node) -> None:
        """Do what is due."""
        if self.scenario.together > 1:
            self.work_together(node)
            return
        for outgoing in node.endpoint.due(self.timeline.now):
            self.post(node, outgoing)

    def work_together(self, node: Node) -> None:
        """Do what is due, several things in one transaction, as a program's workers do."""
        now, party = self.timeline.now, node.endpoint.party
        with party.storage.look() as look:
            waiting = deque(look.invoker_due(now, PAGE))
        while waiting:
            limit = self.random.randint(1, self.scenario.together)
            self.say_refused(node, deliver_some(party, waiting, now, limit=limit, at_once=limit))
        with party.storage.look() as look:
            outgoing, incoming = look.outgoing_due(now, PAGE), look.incoming_due(now, PAGE)
        works = send_all_due(party, dict.fromkeys(outgoing, PAGE), now)
        for work in works.values():
            if not isinstance(work, Exception):
                for each in work.outgoing:
                    self.post(node, each)
        self.say_refused(node, {key: w for key, w in works.items() if isinstance(w, Exception)})
        for identifier in incoming:
            for each in watch(party, identifier, now):
                self.post(node, each)

    def say_refused(self, node: Node, failures: Mapping[str, Exception | None]) -> None:
        """Take what ended the work of some sequences; that of others is done."""
        for error in failures.values():
            if error is not None:
                self.refused(node, error)

    # Messages on the network.

    def post(self, sender: Node, outgoing: Outgoing) -> None:
        """Send something on a connection of its own."""
        self.check_said(sender, outgoing)
        receiver = self.service if sender is self.client else self.client
        if outgoing.to.address != receiver.address:
            raise checks.Broken(f"{sender.name} sends to {outgoing.to.address}")
        now, life = self.timeline.now, sender.life
        travel = self.network.travel(now)
        again = self.network.again(now)
        self.across(sender, outgoing, travel)
        if travel is None:
            self.timeline.at(now + PATIENCE, lambda: self.told(sender, life, outgoing, None, False))
            return
        self.timeline.at(now + travel, lambda: self.arrive(sender, life, receiver, outgoing))
        if again is not None:
            self.timeline.at(
                now + travel + again, lambda: self.arrive(sender, -1, receiver, outgoing)
            )

    def arrive(self, sender: Node, life: int, receiver: Node, outgoing: Outgoing) -> None:
        """Let the other side take something; a copy (*life* -1) has no connection to answer on."""
        if self.scenario.together > 1:
            self.arrivals[receiver.name].add(Connection(sender, life, receiver, outgoing))
            return
        reply: list[Reply] = []

        def take() -> None:
            reply.append(
                receiver.endpoint.received(
                    outgoing.envelope,
                    self.timeline.now,
                    owner=sender.owner,
                    content_type=http_headers(outgoing.wire.soap, outgoing.action)[0][1],
                )
            )
            for other in reply[0].outgoing:
                self.post(receiver, other)

        if not self.attempt(receiver, take) or not reply:
            self.back(sender, life, outgoing, None, False)
            return
        self.replied(Connection(sender, life, receiver, outgoing), reply[0])

    def take_all(self, receiver: Node, came: list[Connection]) -> None:
        """Let a side take all that came in a turn."""
        replies: list[Reply | Exception] = []

        def take() -> None:
            arrived = [
                ReceivedMessage(
                    each.outgoing.envelope,
                    each.sender.owner,
                    http_headers(each.outgoing.wire.soap, each.outgoing.action)[0][1],
                )
                for each in came
            ]
            replies.extend(receiver.endpoint.received_all(arrived, self.timeline.now))
            for reply in replies:
                if isinstance(reply, Exception):
                    self.refused(receiver, reply)
                else:
                    for other in reply.outgoing:
                        self.post(receiver, other)

        taken = self.attempt(receiver, take)
        for at, each in enumerate(came):
            reply = replies[at] if taken else None
            if isinstance(reply, Reply):
                self.replied(each, reply)
            else:
                self.back(each.sender, each.life, each.outgoing, None, False)

    def replied(self, on: Connection, reply: Reply) -> None:
        """Answer a connection now, or hold it open for the application's reply."""
        sender, life, receiver, outgoing = on.sender, on.life, on.receiver, on.outgoing
        if reply.awaited is not None and self.random.random() < 0.5:
            later = receiver.life
            self.timeline.at(
                self.timeline.now + 1.0,
                lambda: self.hold(sender, life, receiver, later, outgoing, reply),
            )
            return
        self.answer(sender, life, receiver, outgoing, reply.answer)

    def hold(
        self,
        sender: Node,
        life: int,
        receiver: Node,
        later: int,
        outgoing: Outgoing,
        reply: Reply,
    ) -> None:
        """Answer a connection that was held open for the application's reply."""
        found: list[Outgoing | None] = [reply.answer]
        awaited = reply.awaited
        assert awaited is not None
        if receiver.life != later or not self.attempt(
            receiver,
            lambda: found.append(reply_to(receiver.endpoint.party, awaited, self.timeline.now)),
        ):
            self.back(sender, life, outgoing, None, False)
            return
        self.answer(sender, life, receiver, outgoing, found[-1] or found[0])

    def answer(
        self, sender: Node, life: int, receiver: Node, outgoing: Outgoing, said: Outgoing | None
    ) -> None:
        """Send an answer back on the connection."""
        if life == -1:
            return
        if said is not None:
            self.check_said(receiver, said)
        travel = self.network.travel(self.timeline.now)
        if said is not None:
            self.across(receiver, said, travel, "on the connection")
        self.back(sender, life, outgoing, said, travel is not None, travel or PATIENCE)

    def back(
        self,
        sender: Node,
        life: int,
        outgoing: Outgoing,
        said: Outgoing | None,
        delivered: bool,
        travel: float = 0.02,
    ) -> None:
        if life != -1:
            self.timeline.at(
                self.timeline.now + travel,
                lambda: self.told(sender, life, outgoing, said, delivered),
            )

    def told(
        self,
        sender: Node,
        life: int,
        outgoing: Outgoing,
        said: Outgoing | None,
        delivered: bool,
    ) -> None:
        """Tell the opener of a connection the outcome."""
        if sender.life != life or not sender.up:
            return
        if self.scenario.together > 1 and said is not None and delivered:
            acknowledged = acknowledgement_in(ConnectionAnswer(outgoing, said.envelope, ""))
            if acknowledged is not None:
                self.acknowledgements[sender.name].add((life, acknowledged))
                return

        def take() -> None:
            reply = sender.endpoint.sent(
                outgoing,
                self.timeline.now,
                delivered=delivered,
                answer=said.envelope if said is not None and delivered else None,
                owner="a service" if sender is self.client else "a client",
            )
            if reply.unreliable is not None:
                raise checks.Broken("a reply that nobody wants")
            for other in reply.outgoing:
                self.post(sender, other)

        self.attempt(sender, take)

    def told_all(self, sender: Node, came: list[tuple[int, AcknowledgementAnswer]]) -> None:
        """Tell a side of the acknowledgements that came in a turn."""

        def take() -> None:
            answers = largest_of_each(each for life, each in came if life == sender.life)
            for reply in acknowledge_all(sender.endpoint.party, answers, self.timeline.now):
                if isinstance(reply, Exception):
                    self.refused(sender, reply)
                else:
                    for other in reply.outgoing:
                        self.post(sender, other)

        self.attempt(sender, take)

    # The record of the run.

    def say(self, name: str, text: str) -> None:
        """Note what a side does alone."""
        self.lines.append(Line(self.timeline.now, name, text))

    def across(
        self, sender: Node, outgoing: Outgoing, travel: float | None, note: str = ""
    ) -> None:
        """Note a message."""
        self.sent += 1
        slow = f"arrives at {self.timeline.now + travel:.3f}" if travel and travel > 1 else ""
        self.lines.append(
            Line(
                self.timeline.now,
                sender.name,
                outgoing.label,
                across=True,
                lost=travel is None,
                note=", ".join(each for each in (note, slow) if each),
            )
        )

    def check_said(self, sender: Node, outgoing: Outgoing) -> None:
        """Check a promise before it is on the wire."""
        told = b"AcknowledgementRange" in outgoing.envelope
        if told or outgoing.label == "CreateSequenceResponse":
            self.witness.check_said(read_message(outgoing.envelope), sender.disk.storage)
