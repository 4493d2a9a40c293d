"""The two processes of a run: each has a disk, and an end of reliable messaging that is made anew
when it starts again."""

from collections.abc import Callable
from random import Random

from gateway.reliability.endpoint import Endpoint
from gateway.reliability.immediate_sending import send_at_once
from gateway.reliability.party import Channel, Party, anonymous
from gateway.reliability.records import OutgoingSequence
from gateway.reliability.simulation.disks import Disk
from gateway.reliability.simulation.scenarios import Scenario
from gateway.reliability.source import Message, SourceFull
from gateway.reliability.steps import Step
from gateway.reliability.storage import Transaction
from gateway.reliability.values import (
    Answer,
    Application,
    ApplicationFault,
    Delivered,
    Notice,
    Outgoing,
)
from mediation.model.messages import EndpointReference
from mediation.reliable_messaging import make_connection_address
from mediation.reliable_messaging.application import body_of
from mediation.soap.answers import PeerFault

CLIENT, SERVICE = "http://client.example/rm", "http://service.example/rm"
NAME = "orders"


class Node:
    """A process: what it does, and what it has on disk.

    Attributes:
        life: Changes when it ends, so that what it waited for in memory is known to be gone.
    """

    def __init__(
        self, name: str, address: str, disk: Disk, random: Random, owner: str, scenario: Scenario
    ) -> None:
        self.name = name
        self._scenario = scenario
        self.address = address
        self.disk = disk
        self.owner = owner
        self.random = random
        self.up = True
        self.life = 0
        self.wakes_at: float | None = None
        self.notices: list[Notice] = []
        self.given_up: list[str] = []
        self._ids = 0
        self.applications: dict[str, Application] = {}
        self.endpoint = self._endpoint()

    def _endpoint(self) -> Endpoint:
        return Endpoint(
            Party(
                self.disk.storage,
                self._new_id,
                self.random.random,
                address=self.address,
                policy=self._scenario.policy,
                tells_room=self._scenario.tells_room,
                nacks=self._scenario.nacks,
                applications=self.applications,
                given_up={NAME: self._give_up, "": self._give_up},
                notify=self.notices.append,
                pause=lambda seconds: None,  # The next transaction lets others run.
            )
        )

    def _new_id(self) -> str:
        self._ids += 1  # Never the same again, as random ones are.
        return f"urn:{self.name}:{self._ids}"

    def _give_up(self, tx: Transaction, sequence: OutgoingSequence) -> None:
        self.given_up.append(f"{sequence.key}: {sequence.failure}")
        # Messages that were never acknowledged may be lost: an application would see them here.
        for message in tx.outgoing.messages(sequence.key, 10_000):
            content = text_in(message.envelope)
            self.disk.add(tx, ("lost", sequence.key, message.number, content))

    def crash(self) -> None:
        """End the process: only the disk is left."""
        self.up = False
        self.life += 1
        self.wakes_at = None
        self.disk.restart()

    def start(self, now: float) -> None:
        """Start it again."""
        self.up = True
        self.endpoint = self._endpoint()
        self.endpoint.restart(now)


class Service:
    """The application of the service: it keeps what it gets, and may answer."""

    def __init__(self, node: Node, scenario: Scenario, say: Callable[[str, str], None]) -> None:
        self._node = node
        self._scenario = scenario
        self._say = say
        self._failures: dict[str, int] = {}
        node.applications[""] = self.take

    def take(self, tx: Transaction, delivered: Delivered) -> Answer | None:
        content = text_in(delivered.envelope)
        self._node.disk.add(tx, ("got", delivered.identifier, delivered.number, content))
        times = self._failures.get(content, 0)
        if times < failures(self._scenario, content):
            self._failures[content] = times + 1
            self._say(self._node.name, f"takes {content}, and fails")
            raise RuntimeError("it fails now and then")
        self._say(self._node.name, f"takes {content}")
        if not self._scenario.exchange.replies:
            return None
        if is_faulty(self._scenario, content):
            raise ApplicationFault(f"no {content}")
        return Answer("urn:example:Reply", f'<r xmlns="urn:example">{content}</r>'.encode())


class Client:
    """The application of the client: it sends the messages of its list, one after the other."""

    def __init__(self, node: Node, scenario: Scenario, say: Callable[[str, str], None]) -> None:
        self._node = node
        self._scenario = scenario
        self._say = say
        self.channel = channel_of(scenario)
        # Replies come in the sequence that was offered, or in one that the service makes.
        node.applications[NAME] = node.applications[""] = self.take

    def send_next(self, now: float) -> tuple[bool, Outgoing | None]:
        """Send the next message of the list, or end the sequence after the last one.

        Returns:
            Whether there is more to do, and what goes at once.
        """
        with self._node.disk.storage.transaction() as tx:
            content, outgoing = self._send_next(tx, now)
        if content:
            self._say(self._node.name, f"stores {content}")
        return content is not None, outgoing

    def _send_next(self, tx: Transaction, now: float) -> tuple[str | None, Outgoing | None]:
        """The content that was sent, "" where there is no room, None where there is no more; and
        what goes at once."""
        rows = self._node.disk.rows()
        if any(row[0] == "ended" for row in rows):
            return None, None
        number = sum(row[0] == "sent" for row in rows) + 1
        scenario, endpoint = self._scenario, self._node.endpoint
        if number > scenario.messages:
            for place in range(scenario.names):
                endpoint.end(tx, now, scenario.name_of(place), self.channel)
            self._node.disk.add(tx, ("ended", "", number, ""))
            return None, None
        content = f"order {number}"
        message = Message(
            "urn:example:Order",
            f'<o xmlns="urn:example">{content}</o>'.encode(),
            wants_reply=scenario.exchange.replies,
            last=number == scenario.messages and scenario.says_last and scenario.names == 1,
        )
        outgoing, name = None, scenario.name_of(number)
        try:
            if scenario.together > 1:  # As the clients of programs do.
                step = Step(endpoint.party, tx, now)
                sent, outgoing = send_at_once(step, name, self.channel, message)
            else:
                sent = endpoint.send(tx, now, name, self.channel, message)
        except SourceFull:
            return "", None
        self._node.disk.add(tx, ("sent", sent.key, sent.number, content))
        if message.last:
            self._node.disk.add(tx, ("ended", "", number, ""))
        return content, outgoing

    def take(self, tx: Transaction, delivered: Delivered) -> None:
        """Take a reply, or the fault that is one."""
        fault = delivered.message.fault
        content = fault.reason if isinstance(fault, PeerFault) else text_in(delivered.envelope)
        self._node.disk.add(tx, ("got", delivered.identifier, delivered.number, content))
        self._say(self._node.name, f"takes the reply {content}")


def text_in(envelope: bytes) -> str:
    """The text in the body of a message of a run."""
    body = body_of(envelope)
    if not body:
        return ""
    if b"faultstring" in body or b"Reason" in body:
        return body[body.index(b"no order") :].split(b"<")[0].decode()
    return body[body.index(b">") + 1 :].split(b"<")[0].decode()


def channel_of(scenario: Scenario) -> Channel:
    """The way of the client to the service."""
    wire, exchange = scenario.wire, scenario.exchange
    acks_to = EndpointReference(CLIENT, wire.wsa)
    if exchange.anonymous:
        acks_to = anonymous(wire.wsa)
    elif exchange.fetched:
        address = make_connection_address("00000000-0000-0000-0000-000000000001")
        acks_to = EndpointReference(address, wire.wsa)
    target = EndpointReference(SERVICE, wire.wsa)
    return Channel(target, wire, acks_to, exchange.offers, NAME)


def is_faulty(scenario: Scenario, content: str) -> bool:
    """Return whether the service answers *content* with a fault."""
    return Random(f"faulty {scenario.seed} {content}").random() < scenario.faulty


def failures(scenario: Scenario, content: str) -> int:
    """How often the service fails before it takes *content*."""
    random = Random(f"failing {scenario.seed} {content}")
    return random.randint(1, 2) if random.random() < scenario.failing else 0
