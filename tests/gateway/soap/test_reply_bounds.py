"""Answers that go to addresses of a peer's choice: how many, how much, to whom, and for whom."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from gateway.delivery.destinations.probation import Probations
from gateway.egress import Target, parse_target
from gateway.identities.file_editing import add_key, add_user, create_identities
from gateway.soap.reply_bounds import (
    PLACES_OF_ONE,
    PLACES_OF_TENANT,
    REPLIED_AT_ONCE,
    REPLIES_AT_A_TIME,
    ReplyBounds,
)
from tests.rigs.consumers import Behaviour, accept, consumers, hang, status
from tests.rigs.envelopes import WSE, Answer, Speaker, fresh_id
from tests.rigs.gateways import Running, running
from tests.rigs.waiting import until

SPEAKER = Speaker()
UNKNOWN = f'<e:GetStatus xmlns:e="{WSE}"/>'
RULES = """
[[rights]]
who = ["user:mole", "user:ship"]
may = ["subscribe", "manage"]
"""
ASKED = 40


def fault_to(address: str) -> str:
    return f"<wsa:FaultTo><wsa:Address>{address}</wsa:Address></wsa:FaultTo>"


class Named:
    """A gateway where nobody is trusted, and users."""

    def __init__(self, run: Running, keys: dict[str, str]) -> None:
        self.run, self.keys = run, keys

    async def ask(self, who: str, headers: str, body: str = UNKNOWN) -> Answer:
        octets = SPEAKER.envelope(body, message_id=fresh_id(), headers=headers)
        key = {"authorization": f"Bearer {self.keys[who]}"}
        return await self.run.post(octets, type=SPEAKER.type, **key)


@asynccontextmanager
async def named(folder: Path) -> AsyncIterator[Named]:
    file = folder / "identities.toml"
    create_identities(file)
    keys = {}
    for name in ("mole", "ship", "nobody"):
        add_user(file, name, None, [])
        keys[name] = add_key(file, name)
    file.write_text(file.read_text() + RULES)
    settings = {"identities": file, "trusted": (), "egress_allow": ["127.0.0.1"]}
    async with running(folder / "data", **settings) as run:
        yield Named(run, keys)


@pytest.mark.parametrize(
    ("who", "behaviour", "most", "least"),
    [
        ("mole", status(404), 6, 1), ("mole", hang, 6, 1), ("mole", accept, ASKED, ASKED),
        ("nobody", accept, 0, 0),
    ],
    ids=["refuses", "says nothing", "accepts", "of who has no right"],
)  # fmt: skip
async def test_a_host_gets_what_it_accepts(
    tmp_path: Path, who: str, behaviour: Behaviour, most: int, least: int
) -> None:
    """All others are told on the connection, and nobody is refused for want of places."""
    async with consumers() as sinks, named(tmp_path) as gateway:
        victim = sinks.add(behaviour)
        answers = []
        for _ in range(ASKED):
            answers.append(await gateway.ask(who, fault_to(victim.url)))
            if behaviour is accept and who == "mole":  # Of what is under way it has eight.
                await until(lambda: victim.count == len(answers))
        elsewhere = [one for one in answers if one.status == 202]
        assert least <= len(elsewhere) <= most
        assert {one.status for one in answers} <= {202, 400, 403}
        assert all(one.fault.code for one in answers if one.status != 202)
        await until(lambda: victim.count == len(elsewhere))


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(SPEAKER.wse_subscribe("http://127.0.0.1:1/"), id="not allowed"),
        pytest.param(SPEAKER.wse_subscribe("http://127.0.0.1:1/", expires="bad"), id="not read"),
        pytest.param(UNKNOWN, id="of nothing"),
    ],
)
async def test_who_has_no_right_has_nothing_sent(tmp_path: Path, body: str) -> None:
    async with consumers() as sinks, named(tmp_path) as gateway:
        victim = sinks.add()
        answer = await gateway.ask("nobody", fault_to(victim.url), body)
        assert answer.status >= 400 and answer.body
        await gateway.run.quiet()
        assert victim.count == 0


def at(host: str) -> Target:
    return parse_target(f"http://{host}/")


@pytest.mark.parametrize(
    ("answers", "granted"),
    [
        ([("user:a", f"{n}.example") for n in range(100)], PLACES_OF_ONE),
        ([(f"user:{n}", "one.example") for n in range(100)], PLACES_OF_ONE),
        ([(f"tenant:acme:user:{n}", f"{n}.example") for n in range(100)], PLACES_OF_TENANT),
        ([(f"user:{n}", f"{n}.example") for n in range(100)], REPLIES_AT_A_TIME),
        ([(None, "one.example")] * 100, REPLIES_AT_A_TIME),
    ],
    ids=["one owner", "one host", "one tenant", "many", "trusted"],
)
async def test_places(answers: list[tuple[str | None, str]], granted: int) -> None:
    """Who has its share takes none of others; what is over is free again."""
    bounds = ReplyBounds(Probations(exempt=lambda _: True))
    for _ in range(2):
        begun = []
        for owner, host in answers:
            if bounds.may_send(at(host), 100, owner):
                bounds.begin(at(host), owner)
                begun.append((at(host), owner))
        assert len(begun) == granted
        left = REPLIES_AT_A_TIME - granted
        assert bounds.may_send(at("other.example"), 100, "tenant:zeta:user:b") is (left > 0)
        for target, owner in begun:
            bounds.end(target, owner)


async def test_bytes() -> None:
    """Of an owner, and to a host; of who has a name, too."""
    for change in (False, True):
        bounds = ReplyBounds(Probations(exempt=lambda _: True))
        sent = 0
        while bounds.may_send(
            at(f"{sent}.example" if change else "one.example"),
            100_000,
            "user:a" if change else f"user:{sent}",
        ):
            sent += 1
        assert sent == int(REPLIED_AT_ONCE // 100_000)


async def test_many_names_of_one_victim() -> None:
    """They count as its address; once that has accepted an answer, it gets more."""
    bounds = ReplyBounds(Probations())
    admitted = []
    for n in range(20):
        gate, reached = bounds.gate(at(f"{n}.example"), "user:a")
        assert gate is not None
        admitted.append(gate("192.0.2.1"))
        assert reached == {"192.0.2.1"}
    assert sum(admitted) == 6
    bounds.answered({"192.0.2.1"}, accepted=True)
    gate, _ = bounds.gate(at("20.example"), "user:a")
    assert gate is not None and gate("192.0.2.1")
    bounds.answered({"192.0.2.1"}, accepted=False)
    assert not gate("192.0.2.1")
