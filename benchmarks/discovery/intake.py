"""Question: how many advertisements a second does a node take on one core, each published to it
over HTTP, kept by the broker, checked with both signatures, kept in the store and found from then
on; beside the check alone, and the bare cryptography of it (two SHA-256, two RSA-2048)?

Who publishes waits for the node: at most *AHEAD* advertisements are on their way.
"""

import asyncio
import hashlib
import os
import time
import urllib.request
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime
from uuid import uuid4

from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.hashes import SHA256

from benchmarks.discovery.setting import make_advertisement, node, store, wind
from benchmarks.rig import Poster, Running
from mediation.client import SPECS, write_publish
from mediation.discovery import (
    TOPICS,
    SignedTopicAdvertisement,
    SynopsisType,
    check_advertisement,
    read_as,
)
from mediation.model.versions import Version
from tests.rigs.discovery_keys import parties

AIM = 1000
"""Advertisements a second."""
AHEAD = 400
CONNECTIONS = 16
LOOK = 0.1
"""Seconds between two looks at what the node has done."""
END = 60.0
"""Seconds for the node to do what has come."""
_PUBLISHER = SPECS[Version.WSE_2004_08]


def make(number: int) -> list[bytes]:
    """Advertisements of different topics of one creator."""
    parties()  # Made before there are other processes, which inherit them.
    share = range(0, number, 500)
    cores = set(range(os.cpu_count() or 1))
    with ProcessPoolExecutor(
        len(cores), initializer=os.sched_setaffinity, initargs=(0, cores)
    ) as pool:
        made = pool.map(_some, share, (min(500, number - first) for first in share))
        return [one for some in made for one in some]


def _some(first: int, number: int) -> list[bytes]:
    return [
        make_advertisement(wind(first + one), SynopsisType.PATH, uuid4()) for one in range(number)
    ]


def alone(advertisements: Sequence[bytes]) -> tuple[float, float]:
    """Advertisements a second of processor time: checked, and the cryptography of that alone."""
    verifier, now = parties().verifier(), datetime.now(UTC)
    began = time.process_time()
    for octets in advertisements:
        check_advertisement(octets, verifier, now=now)
    checked = len(advertisements) / (time.process_time() - began)

    work = []
    for octets in advertisements[:100]:
        outer = read_as(SignedTopicAdvertisement, octets)
        inner = read_as(object, outer.value.advertisement)  # type: ignore[type-var]
        for received, owner in ((outer, parties().producer), (inner, parties().node)):
            key, signature = owner.certificate.public_key(), received.signature
            assert signature is not None
            assert isinstance(key, RSAPublicKey)
            work.append((received.signed, signature.value, signature.signed_info, key))
    rounds = max(1, len(advertisements) // 100)
    began = time.process_time()
    for _ in range(rounds):
        for signed, value, info, key in work:
            hashlib.sha256(signed).digest()
            key.verify(value, info, PKCS1v15(), SHA256())
    bare = rounds * len(work) / 2 / (time.process_time() - began)
    return checked, bare


def measure(running: Running, advertisements: Sequence[bytes]) -> tuple[float, float, int]:
    """Advertisements a second of the clock, milliseconds of the gateway's processor time for each,
    and how many the node did not keep."""
    envelopes = [
        write_publish(
            _PUBLISHER,
            to=f"{running.url}/soap",
            payload=octets,
            message_id=f"urn:uuid:{uuid4()}",
            topic=str(TOPICS),
        )[1]
        for octets in advertisements
    ]
    return asyncio.run(_publish(running, envelopes))


async def _publish(running: Running, envelopes: Sequence[bytes]) -> tuple[float, float, int]:
    host, port = running.url.removeprefix("http://").split(":")
    posters = [await Poster.connect(host, int(port), "/soap") for _ in range(CONNECTIONS)]
    before, _ = _outcomes(running)
    done, sent, left = 0, 0, iter(envelopes)
    free = asyncio.Condition()

    async def post(poster: Poster) -> None:
        nonlocal sent
        for envelope in left:
            async with free:
                while sent - done >= AHEAD:
                    await free.wait()
                sent += 1
            status, body = await poster.post(envelope)
            if status != 202:
                raise SystemExit(f"an advertisement was refused: {status} {body[:300]!r}")

    async def look() -> None:
        nonlocal done
        while done < len(envelopes):
            await asyncio.sleep(LOOK)
            found, _ = await asyncio.to_thread(_outcomes, running)
            async with free:
                done = found - before
                free.notify_all()

    began, cpu = time.perf_counter(), running.cpu()
    async with asyncio.timeout(END + len(envelopes) / 100), asyncio.TaskGroup() as group:
        group.create_task(look())
        for poster in posters:
            group.create_task(post(poster))
    took, used = time.perf_counter() - began, running.cpu() - cpu
    for poster in posters:
        poster.close()
    lost = _outcomes(running)[1]
    return len(envelopes) / took, used * 1000 / len(envelopes), lost


def _outcomes(running: Running) -> tuple[int, int]:
    """How many messages the node is done with, and how many it did not keep."""
    done = lost = 0
    with urllib.request.urlopen(f"{running.url}/metrics", timeout=10) as answer:
        for line in answer.read().decode().splitlines():
            if line.startswith("dragoman_discovery_messages_total{"):
                value = int(float(line.split()[-1]))
                done += value
                lost += 0 if '"advertisement-new"' in line else value
    return done, lost


def report(number: int, kinds: Sequence[str], rounds: int, folder: str) -> None:
    """Measure, and print the figures."""
    advertisements = make(number)
    octets = sum(map(len, advertisements)) / number
    checked, bare = alone(advertisements[:2000])
    print(f"\n{number:,} advertisements of {octets:,.0f} bytes, RSA-2048")
    print(f"bare cryptography: {bare:,.0f} a second; checked: {checked:,.0f} a second of one core")
    for kind in kinds:
        for _ in range(rounds):
            with store(kind) as url, node(folder=folder, url=url) as running:
                rate, used, lost = measure(running, advertisements)
            print(
                f"{kind}: {rate:,.0f} a second, {used:.2f} ms of the gateway's processor time each "
                f"({1000 / used:,.0f} a second of one core); {lost} were not kept; "
                f"the aim is {AIM:,}"
            )
