"""Sources of the settings."""

import json
from collections.abc import AsyncIterator, Set
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from pydantic import ValidationError

from filters import Refused
from gateway.settings.tables import ConfiguredSource
from tests.rigs.cameras import PASSWORD, USER, Camera
from tests.rigs.gateways import Running, running
from tests.rigs.producers import Producers, producers
from tests.rigs.waiting import until

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def some() -> AsyncIterator[Producers]:
    async with producers() as those:
        yield those


async def live(gateway: Running, number: int, *, new: int, before: Set[str]) -> set[str]:
    """Wait until so many sources are live, *new* of them none of those *before*, and no others are
    there; their ids."""
    ids: set[str] = set()

    async def holds() -> bool:
        listed = json.loads((await gateway.api("GET", "/sources")).body)["sources"]
        ids.clear()
        ids.update(one["id"] for one in listed if one["added_by"] == "settings")
        right = len(ids) == number and len(ids - before) == new
        return right and all(one["state"] == "live" for one in listed)

    await until(holds)
    return ids


async def test_they_follow_the_settings(
    tmp_path: Path, some: Producers, monkeypatch: pytest.MonkeyPatch
) -> None:
    cameras = [some.put(lambda url: Camera(url, state=None)) for _ in range(3)]
    file = tmp_path / "password"
    file.write_text(f"{PASSWORD}\n", encoding="utf-8")
    monkeypatch.setenv("CAMERA_PASSWORD", PASSWORD)
    rows: list[dict[str, Any]] = [
        {"url": one.device, "profile": "onvif", "mode": "pull", "user": USER} for one in cameras
    ]
    rows[0]["password_file"] = file
    for row in rows[1:]:
        row["password_variable"] = "CAMERA_PASSWORD"
    async with running(data=tmp_path / "data", sources=rows) as gateway:
        first = await live(gateway, 3, new=3, before=frozenset())
    cameras[1].password = "another"
    pulls = cameras[1].count("PullMessages")
    monkeypatch.setenv("CAMERA_PASSWORD", "another")
    async with running(data=tmp_path / "data", sources=rows[:2]) as gateway:
        second = await live(gateway, 2, new=0, before=first)
        await cameras[2].asked("Unsubscribe")
        await cameras[1].asked("PullMessages", pulls + 1)
        assert not cameras[1].refused, "it pulls by the password of now"
    async with running(data=tmp_path / "data", sources=rows[:2]) as gateway:
        assert await live(gateway, 2, new=0, before=second) == second


async def test_a_password_that_is_not_there_is_told(tmp_path: Path) -> None:
    row = {"url": "http://10.0.0.17/", "user": "u", "password_file": tmp_path / "none"}
    with pytest.raises(
        Refused, match=r"the password of 'u' at .*none cannot be read \(No such file"
    ):
        async with running(data=tmp_path / "data", sources=[row]):
            pass


BEARER = {"kind": "bearer", "secret_file": "f"}
WRONG = [
    pytest.param({"user": "u"}, id="a user without a password"),
    pytest.param({"password_file": "p"}, id="a password of nobody"),
    pytest.param({"user": "u", "password_file": "p", "password_variable": "P"}, id="two"),
    pytest.param({"spec": "grid-events"}, id="what is not subscribed at so"),
    pytest.param({"password": "p"}, id="a password in the settings"),
    pytest.param({"credential": {"kind": "bearer", "token": "t"}}, id="a token in the settings"),
    pytest.param({"credential": BEARER}, id="a token that others read"),
    pytest.param(
        {"credential": {**BEARER, "allow_http": True}, "user": "u", "password_file": "p"},
        id="two credentials",
    ),
    pytest.param(
        {"credential": {**BEARER, "kind": "username-token", "user": "u"}, "profile": "onvif"},
        id="a token by our own clock for a camera",
    ),
    pytest.param({"client_certificate": "c"}, id="a certificate without TLS"),
    pytest.param({"client_key": "k", "url": "https://10.0.0.17/"}, id="a key without one"),
]


@pytest.mark.parametrize("row", WRONG)
async def test_what_makes_no_sense_is_refused(row: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        ConfiguredSource(**{"url": "http://10.0.0.17/", **row})
