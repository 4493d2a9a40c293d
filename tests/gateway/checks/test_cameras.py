"""What the doctor says of a camera."""

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import pytest
import pytest_asyncio

from gateway.checks.cameras import check_device, length_in_words
from gateway.checks.findings import Finding
from tests.rigs.cameras import PASSWORD, USER, Camera
from tests.rigs.producers import Producers, producers, status

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def some() -> AsyncIterator[Producers]:
    async with producers() as those:
        yield those


async def found(url: str, *login: str, **more: Any) -> list[Finding]:
    """What is found, without the event loop on which the camera is."""
    return await asyncio.to_thread(lambda: list(check_device(url, *login, **more)))


GOOD = ["ok clock", "ok event service", "ok password", "ok modes"]
LOGIN = (USER, PASSWORD)
CASES: list[Any] = [
    pytest.param({}, LOGIN, GOOD, "the user 'events'", id="all is well"),
    pytest.param({"takes": ()}, (), GOOD, "nobody in particular", id="no password wanted"),
    pytest.param(
        {"clock": -7380.0}, LOGIN, ["warn clock", *GOOD[1:]],
        "its clock is 2 h 3 min behind: a digest by our clock would be refused", id="behind",
    ),
    pytest.param(
        {"host": "192.168.1.88:8899"}, LOGIN, ["ok clock", "warn event service", *GOOD[2:]],
        "it says that it is at http://192.168.1.88:8899/", id="another host",
    ),
    pytest.param({}, (USER, "no"), ["ok clock", "FAIL password"], "it refused the user", id="wrong"),
    pytest.param({}, (), ["ok clock", "FAIL password"], "--password-file", id="no password"),
    pytest.param(
        {"takes": ("basic",)}, LOGIN, ["ok clock", "FAIL password"], "--allow-basic", id="Basic",
    ),
    pytest.param(
        {"events": False}, LOGIN, ["ok clock", "FAIL event service"], "it has no event service",
        id="no events",
    ),
    pytest.param(
        {"answers": {"GetSystemDateAndTime": status(404)}}, LOGIN, ["warn clock", *GOOD[1:]],
        "it does not say its time", id="no time",
    ),
    pytest.param(
        {"answers": {"GetEventProperties": status(500)}}, LOGIN,
        [*GOOD[:2], "warn password", GOOD[3]], "it could not be tried", id="no properties",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("odd", "login", "verdicts", "told"), CASES)
async def test_what_is_wrong_is_said_in_plain_words(
    some: Producers, odd: dict[str, Any], login: tuple[str, ...], verdicts: list[str], told: str
) -> None:
    camera = some.put(partial(Camera, **odd))
    findings = await found(camera.device, *login)
    assert [f"{one.verdict.value} {one.what}" for one in findings] == verdicts
    texts = " ".join(one.text for one in findings)
    assert told in texts.replace("the camera says", "it says") and PASSWORD not in texts
    assert not camera.held


async def test_a_camera_that_is_not_there_is_told(some: Producers) -> None:
    [finding] = await found("http://127.0.0.1:9/onvif/device_service")
    assert finding.what == "camera" and "does not answer" in finding.text


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0 s"), (59.6, "1 min"), (60, "1 min"), (7380, "2 h 3 min"), (7205, "2 h"),
        (86_400 * 3 + 3600, "3 d 1 h"), (1e8, "1157 d 9 h"),
    ],
)  # fmt: skip
async def test_a_length_is_told_in_two_units(seconds: float, words: str) -> None:
    assert length_in_words(seconds) == words


async def test_another_url_of_a_camera_is_told(some: Producers) -> None:
    refuse = {"GetServices": status(400), "GetCapabilities": status(400)}
    camera = some.put(partial(Camera, answers=refuse))
    findings = await found(camera.device, *LOGIN)
    assert findings[-1].text.startswith("the URL is not that of a device service: ")
