"""One stranger who keeps too much is told so at each door; nobody else notices."""

import json
from pathlib import Path

import pytest

from gateway.store.owner_bytes import kept
from tests.rigs.consumers import consumers, hang
from tests.rigs.envelopes import S12, WSNT, Answer, Speaker
from tests.rigs.gateways import Running, running
from tests.rigs.waiting import until

SPEAKER = Speaker(S12)
MOST = 400_000
GREEDY, OTHER = "127.0.0.2", "127.0.0.3"


async def box_of(run: Running, source: str) -> tuple[int, str]:
    made = await run.request(
        "POST", "/mailboxes", b"{}", source=source, content_type="application/json"
    )
    return made.status, f"/mailboxes/{json.loads(made.body).get('key')}"


async def deposit(run: Running, box: str, source: str) -> Answer:
    return await run.ask(SPEAKER, f"<a>{'x' * 40_000}</a>", box, source=source)


@pytest.mark.slow
async def test_one_who_keeps_too_much(tmp_path: Path) -> None:
    settings = {"trusted": (), "owner_bytes": MOST, "drain": 0.5}
    async with running(tmp_path / "data", **settings) as run:
        boxes = [(await box_of(run, GREEDY))[1] for _ in range(4)]
        (_, other) = await box_of(run, OTHER)
        refused = None
        for number in range(40):
            answer = await deposit(run, boxes[number % 4], GREEDY)
            if answer.status != 202:
                refused = answer
                break
        assert refused is not None, "all of it was taken"
        assert b"Too much is kept for the owner" in refused.body
        assert refused.headers.get("retry-after")

        async def told() -> bool:
            return (await box_of(run, GREEDY))[0] == 403

        await until(told)
        answer = await run.ask(SPEAKER, f'<n:CreatePullPoint xmlns:n="{WSNT}"/>', source=GREEDY)
        assert answer.status >= 400 and b"Too many bytes are kept for you" in answer.body
        assert (await deposit(run, other, OTHER)).status == 202
        assert (await box_of(run, OTHER))[0] == 201
        for box in boxes:
            assert (await run.request("DELETE", box, source=GREEDY)).status == 204

        async def free_again() -> bool:
            return (await box_of(run, GREEDY))[0] == 201

        await until(free_again)


@pytest.mark.slow
async def test_what_waits_for_one_who_keeps_too_much(tmp_path: Path) -> None:
    """The oldest deliveries go to the dead letters, and the oldest of these go; the law holds."""
    settings = {"trusted": (), "owner_bytes": MOST, "drain": 0.5}
    async with consumers() as sinks, running(tmp_path / "data", **settings) as run:
        good = sinks.add()
        for _ in range(4):
            body = SPEAKER.wsn_subscribe(sinks.add(hang).url)
            await run.subscribe(SPEAKER, body, source=GREEDY)
        await run.subscribe(SPEAKER, SPEAKER.wsn_subscribe(good.url), source=OTHER)
        for _ in range(30):
            await run.publish(f"<a>{'x' * 20_000}</a>", speaker=SPEAKER, source=OTHER)
        await good.have(30)
        owner = f"anonymous:{GREEDY}"
        store = run.gateway.store

        async def holds_much() -> bool:
            return (await store.submit(kept))[owner] > 20_000

        async def bounded() -> bool:
            return 0 < (await store.submit(kept))[owner] <= MOST * 1.2

        await until(holds_much)
        await until(bounded)
        assert any(log["event"] == "deadletters.purged" for log in run.logs)
