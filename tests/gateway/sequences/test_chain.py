"""From a program over the gateway to another program, each with its store: whichever of the three is
killed, nothing is lost, nothing comes twice, and all that a program sent comes in order."""

import asyncio
import random
import re
from pathlib import Path

import pytest
from sqlalchemy import select

from tests.gateway.sequences.test_kill import ENVIRONMENT
from tests.gateway.sequences.test_library import relay_to
from tests.rigs.envelopes import Speaker
from tests.rigs.ports import free_ports
from tests.rigs.processes import gateway_process
from tests.rigs.queued import Killed, names, opened, ordered, publisher, subscriber, taken
from tests.rigs.reliable_consumers import policy
from tests.rigs.waiting import until

SETTINGS = {**ENVIRONMENT, "DRAGOMAN_RETRY_DELAYS": ",".join(["0.2"] * 60)}
_NAME = re.compile(r"<order[^>]*>(\d+) (\d+)</order>")
END = 300.0


def place(name: str) -> tuple[int, int]:
    """The generation of the program that sent an event, and its number there."""
    found = _NAME.fullmatch(name)
    assert found is not None, name
    return int(found[1]), int(found[2])


async def kill_in_turn(folder: Path, kills: int, seed: int) -> int:
    """Kill the three in turn while events are on their way.

    Returns:
        How many events there were.
    """
    draw = random.Random(seed)
    here_url, there_url = (f"sqlite:///{folder / name}.db" for name in ("here", "there"))
    here, there = opened(here_url), opened(there_url)
    (port,) = free_ports(1)
    sink = Killed(subscriber, (there_url, port))
    sink.start()
    speaker, generation = Speaker(), 0
    async with gateway_process(folder / "data", SETTINGS) as gateway:
        # Its port changes with each start, but not its address for the program.
        server, url = await relay_to(gateway)
        body = speaker.wse_subscribe(f"http://127.0.0.1:{port}/orders")
        body = body.replace("</e:Delivery>", f"{policy()}</e:Delivery>")

        async def subscribed() -> bool:
            return (await gateway.ask(body)).status == 200  # Once the sink listens.

        await until(subscribed)
        source = Killed(publisher, (here_url, url, generation, 10**9))
        source.start()
        async with server:
            for number in range(kills):
                before = sum(names(there.engine, taken).values())

                def went_on(before: int = before) -> bool:
                    return sum(names(there.engine, taken).values()) > before

                await until(went_on, END)
                await asyncio.sleep(draw.random() * 0.3)  # The kill comes at any time.
                match number % 3:
                    case 0:
                        await gateway.kill()
                        await gateway.start()
                    case 1:
                        sink.kill()
                        sink.start()
                    case _:
                        source.kill()
                        generation += 1
                        source = Killed(publisher, (here_url, url, generation, 10**9))
                        source.start()
            source.kill()
            source = Killed(publisher, (here_url, url, generation + 1, 0))
            source.start()
            sent = names(here.engine, ordered)

            def is_over() -> bool:
                return sum(names(there.engine, taken).values()) >= len(sent)

            await until(is_over, END)
            await gateway.at_rest()
            source.kill()
        sink.kill()
    with there.engine.connect() as connection:
        rows = connection.execute(select(taken.c.name).order_by(taken.c.id)).scalars().all()
    here.close()
    there.close()
    places = [place(name) for name in rows]
    assert sorted(places) == sorted(map(place, sent)), "lost, or twice"
    for each in {generation for generation, _ in places}:
        numbers = [number for generation, number in places if generation == each]
        assert numbers == sorted(numbers), "out of order"
    return len(sent)


@pytest.mark.slow
async def test_six_kills(tmp_path: Path) -> None:
    assert await kill_in_turn(tmp_path, 6, seed=1)


@pytest.mark.release
@pytest.mark.parametrize("seed", range(5))
async def test_five_hundred_kills(tmp_path: Path, seed: int) -> None:
    await kill_in_turn(tmp_path, 100, seed)
