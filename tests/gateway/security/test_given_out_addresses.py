"""Addresses that the gateway gives out: who was given one sends there without a right to publish,
and does nothing else by it."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import pytest_asyncio

from gateway.identities.file_editing import add_key, add_user, create_identities
from gateway.security.keys import new_key
from tests.rigs.cases import for_each
from tests.rigs.consumers import consumers
from tests.rigs.envelopes import Answer, Speaker, fresh_id, topic_expression
from tests.rigs.gateways import Running, running
from tests.rigs.producers import producers
from tests.rigs.waiting import until

pytestmark = pytest.mark.asyncio(loop_scope="module")
SPEAKER = Speaker()
WSN_BR = "http://docs.oasis-open.org/wsn/br-2"
RM = "http://docs.oasis-open.org/ws-rx/wsrm/200702"
MAY_PUBLISH = """
[[rights]]
who = ["user:mole"]
may = ["publish"]
topics = ["weather//."]
"""
REGISTER = f'<b:RegisterPublisher xmlns:b="{WSN_BR}"/>'
CREATE_SEQUENCE = (
    f'<r:CreateSequence xmlns:r="{RM}"><r:AcksTo>'
    '<a:Address xmlns:a="http://www.w3.org/2005/08/addressing">'
    "http://www.w3.org/2005/08/addressing/anonymous</a:Address></r:AcksTo></r:CreateSequence>"
)


@dataclass
class Guarded:
    """A gateway, its file of identities, and keys of its users by name."""

    run: Running
    file: Path
    keys: dict[str, str]

    async def ask(self, who: str, body: str, path: str = "/soap", *, to: str = "") -> Answer:
        """Send *body* as the user *who*; empty: as nobody."""
        shown = {"authorization": f"Bearer {self.keys[who]}"} if who else {}
        to = to or f"{self.run.url}{path}"
        envelope = SPEAKER.envelope(body, message_id=fresh_id(), to=to)
        return await self.run.post(envelope, path, type=SPEAKER.type, **shown)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def guarded(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Guarded]:
    folder = tmp_path_factory.mktemp("gateway")
    file = folder / "identities.toml"
    keys = {"administrator": create_identities(file)}
    for name in ("mole", "nobody"):
        add_user(file, name, None, [])
        keys[name] = add_key(file, name)
    file.write_text(file.read_text() + MAY_PUBLISH)
    async with running(folder / "data", identities=file, wsrm="offered") as run:
        yield Guarded(run, file, keys)


@for_each("kind", ["pullpoints", "mailboxes", "sources", "sequences", "MsgBox", "msgbox/clientid"])
@for_each("body", [REGISTER, CREATE_SEQUENCE], ids=["RegisterPublisher", "CreateSequence"])
@for_each("who", ["", "nobody"])
async def test_what_is_asked_there_needs_its_right(
    guarded: Guarded, kind: str, body: str, who: str
) -> None:
    """Whether the request or the message alone says the address, and whether there is one."""
    path = f"/{kind}/{new_key()}"
    for at, to in ((path, ""), ("/soap", f"{guarded.run.url}{path}")):
        answer = await guarded.ask(who, body, at, to=to)
        assert b"RegisterPublisherResponse" not in answer.body
        assert b"CreateSequenceResponse" not in answer.body
    made = {"publisher.registered", "sequence.created"}
    assert not made & {log["event"] for log in guarded.run.logs}


async def test_who_registered_publishes_by_its_rights_of_today(guarded: Guarded) -> None:
    """At the address of its source as anywhere: on what topic, it says itself."""
    run = guarded.run
    async with consumers() as there, producers() as those:
        url, producer = there.fresh(), those.add()
        for topic in ("weather", "tides"):
            body = SPEAKER.wsn_subscribe(url, filter=topic_expression(topic))
            assert (await guarded.ask("administrator", body)).status == 200
        register = (
            f'<b:RegisterPublisher xmlns:b="{WSN_BR}"><b:PublisherReference>'
            f"{SPEAKER.epr(producer.url)}</b:PublisherReference><b:Topic>weather</b:Topic>"
            "<b:Demand>true</b:Demand></b:RegisterPublisher>"
        )
        assert (await guarded.ask("mole", register)).status == 200
        await producer.asked("Subscribe")
        assert await producer.send("<w>1</w>", topic="weather") == 202
        assert (await there.next(url)).payload.text == "1"
        assert await producer.send("<w>2</w>", topic="tides") == 403
        assert await producer.send("<w>3</w>", topic=None) == 202  # It is on "weather".
        assert (await there.next(url)).payload.text == "3"
        guarded.file.write_text(guarded.file.read_text().replace(MAY_PUBLISH, ""))

        async def is_refused() -> bool:
            return await producer.send("<w>4</w>", topic="weather") == 403

        await until(is_refused)
        await run.quiet()
