"""Who guesses does not learn from the clock whether there is such a user."""

import base64
import statistics
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from gateway.identities.file_editing import add_user, create_identities
from mediation.names import WSSE
from tests.rigs.console_logins import FORM
from tests.rigs.envelopes import Answer, Speaker, fresh_id
from tests.rigs.gateways import Running, running

ROUNDS, USERS = 16, 4
SPEAKER = Speaker()


async def by_basic(run: Running, user: str, headers: dict[str, str]) -> Answer:
    pair = base64.b64encode(f"{user}:a guess".encode()).decode()
    return await run.request("GET", "/api/v1/topics", b"", authorization=f"Basic {pair}", **headers)


async def by_token(run: Running, user: str, headers: dict[str, str]) -> Answer:
    token = f"<w:Username>{user}</w:Username><w:Password>a guess</w:Password>"
    block = f"<w:Security xmlns:w='{WSSE}'><w:UsernameToken>{token}</w:UsernameToken></w:Security>"
    envelope = SPEAKER.envelope("<event/>", message_id=fresh_id(), headers=block)
    return await run.post(envelope, type=SPEAKER.type, **headers)


async def by_form(run: Running, user: str, headers: dict[str, str]) -> Answer:
    body = urlencode({"user": user, "secret": "a guess"}).encode()
    return await run.request("POST", "/console/login", body, **FORM, **headers)


DOORS: dict[str, Callable[[Running, str, dict[str, str]], Awaitable[Answer]]] = {
    "Basic": by_basic,
    "UsernameToken": by_token,
    "the console's form": by_form,
}


@pytest.mark.parametrize("guess", DOORS.values(), ids=DOORS.keys())
async def test_no_user_takes_as_long_as_a_wrong_password(
    tmp_path: Path, guess: Callable[[Running, str, dict[str, str]], Awaitable[Answer]]
) -> None:
    """Each guess is from an address of its own, and of a user who has not had ten, so that none is
    put off. They take turns, so that what else this machine does hits all alike."""
    file = tmp_path / "identities.toml"
    create_identities(file)
    for number in range(USERS):
        add_user(file, f"known-{number}", "not what is guessed", [])
        add_user(file, f"keyed-{number}", None, [])
    names: dict[str, Callable[[int], str]] = {
        "unknown": lambda turn: f"unknown-{turn}",
        "a wrong password": lambda turn: f"known-{turn % USERS}",
        "no password": lambda turn: f"keyed-{turn % USERS}",
    }
    took: dict[str, list[float]] = {kind: [] for kind in names}
    work: dict[str, list[float]] = {kind: [] for kind in names}
    said: set[tuple[int, Any]] = set()
    async with running(tmp_path / "data", identities=file, trusted_proxies=["127.0.0.1"]) as run:
        for turn in range(ROUNDS):
            for number, (kind, name) in enumerate(names.items()):
                headers = {
                    "x_forwarded_for": f"192.0.{number}.{turn + 1}",
                    "x_forwarded_proto": "https",
                }
                began, worked = time.perf_counter(), time.process_time()
                answer = await guess(run, name(turn), headers)
                work[kind].append(time.process_time() - worked)
                took[kind].append(time.perf_counter() - began)
                said.add((answer.status, b"user or the password is wrong" in answer.body))
    assert len(said) == 1 and all(wrong for _, wrong in said), said
    times = [statistics.median(one) for one in took.values()]
    quarters = [statistics.quantiles(one, n=4) for one in took.values()]
    spread = max(upper - lower for lower, _, upper in quarters)
    assert max(times) - min(times) <= max(0.01, spread), took
    # The processor's time shows it on a busy machine, too: a password takes ten times all else.
    works = [statistics.median(one) for one in work.values()]
    assert min(works) > max(works) / 2, work
