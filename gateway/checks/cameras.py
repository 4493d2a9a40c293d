"""Checks of a camera of ONVIF: what keeps it from being a source of the gateway."""

import asyncio
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from urllib.parse import urlsplit

from gateway.checks.findings import Finding, fail, ok, warn
from gateway.egress import AddressPolicy, Dialer, HttpTransport
from gateway.model.sources import Credential, Source
from gateway.parsing import Parsing
from gateway.sources.authentication import Authentication
from gateway.sources.devices import Devices, FoundService
from gateway.sources.requester import (
    NotAuthorized,
    ProducerRefused,
    ProducerUnreachable,
    Requester,
)
from gateway.sources.requests import spoken
from mediation.model.versions import Version
from mediation.profiles import PRODUCERS

SECONDS = 5.0
"""Of each question to the camera."""
EXACT = 5.0
"""Seconds that the time in a UsernameToken may be wrong at every camera."""
PROFILE = "onvif"


def check_device(
    url: str, user: str | None = None, password: str = "", *, allow_basic: bool = False
) -> Iterator[Finding]:
    """Ask the camera whose device service is at *url*; nothing is changed there."""
    credential = None if user is None else Credential(user, password, allow_basic)
    spec = spoken(Version.WSN_1_3, PRODUCERS[PROFILE])
    source = Source("doctor", "operator", url, spec, profile=PROFILE, credential=credential)
    yield from asyncio.run(_findings(source))


async def _findings(source: Source) -> list[Finding]:
    host = urlsplit(source.url).hostname or ""
    policy = AddressPolicy(allow=[host], loopback=True)
    transport = HttpTransport(Dialer(policy))
    parsing = Parsing()
    # What is sealed in the credential is the password itself: there is no store.
    authentication = Authentication(lambda password: password)
    requester = Requester(transport, policy, parsing, authentication, seconds=SECONDS)
    found: list[Finding] = []
    try:
        async with aclosing(_ask(source, requester)) as findings:
            async for one in findings:
                found.append(one)
    except NotAuthorized as refused:
        found.append(fail("password", str(refused)))
    except ProducerRefused as refused:
        found.append(fail("event service", str(refused)))
    except ProducerUnreachable as unreachable:
        found.append(fail("camera", f"{host} does not answer: {unreachable}"))
    finally:
        await transport.close()
    return found


async def _ask(source: Source, requester: Requester) -> AsyncGenerator[Finding, None]:
    yield _judge_clock(await requester.clock_of(source))
    devices = Devices(requester)
    found = await devices.event_service(source)
    yield _judge_service(source, found)
    try:
        await devices.log_in(source, found)
    except NotAuthorized:
        raise
    except ProducerRefused as refused:
        yield warn("password", f"it could not be tried: {refused}")
    else:
        credential = source.credential
        whom = "nobody in particular" if credential is None else f"the user {credential.user!r}"
        yield ok("password", f"the camera answers to {whom}")
    yield _judge_modes(found)


def _judge_clock(ahead: float | None) -> Finding:
    if ahead is None:
        text = "it does not say its time: see that its clock is right, or digests are refused"
        return warn("clock", text)
    if abs(ahead) <= EXACT:
        return ok("clock", "its clock is right")
    way = "ahead" if ahead > 0 else "behind"
    return warn(
        "clock",
        f"its clock is {length_in_words(abs(ahead))} {way}: a digest by our clock would be "
        "refused, so the gateway uses the camera's; events have its time: give it a time server",
    )


def length_in_words(seconds: float) -> str:
    """A length of time in its two largest units, such as ``2 h 3 min``."""
    left = round(seconds)
    words: list[str] = []
    for unit, size in (("d", 86_400), ("h", 3600), ("min", 60), ("s", 1)):
        number, left = divmod(left, size)
        if number or words:
            words.append(f"{number} {unit}" if number else "")
    return " ".join(filter(None, words[:2])) or "0 s"


def _judge_service(source: Source, found: FoundService) -> Finding:
    said = found.service.address
    if urlsplit(said).hostname in (urlsplit(source.url).hostname, None):
        return ok("event service", found.url)
    text = f"the camera says that it is at {said}; it is asked at {found.url}, where it was found"
    return warn("event service", text)


def _judge_modes(found: FoundService) -> Finding:
    match found.service.pull_points:
        case True:
            return ok("modes", "pull and push: take --mode pull, which needs no way back to here")
        case False:
            return warn("modes", "push alone: the camera must reach the gateway, see public_url")
        case None:
            return ok("modes", "it does not say which: try --mode pull first")
