"""Wsman Shell Command Line (wsl, Dell's client of WS-Management in shell and curl) at a gateway:
Identify, and the faults of what the gateway has not. It has no events."""

import asyncio
import os
import shutil
from asyncio.subprocess import DEVNULL, PIPE
from pathlib import Path

import pytest
from lxml import etree

from mediation.model.versions import Wsa
from tests.rigs.envelopes import S12
from tests.rigs.gateways import Running
from tests.rigs.waiting import DEADLINE

pytestmark = pytest.mark.asyncio(loop_scope="module")
RESOURCE = "http://example.org/wsman/alarms"


@pytest.fixture(autouse=True)
def _installed() -> None:
    missing = [name for name in ("wslid", "uuidgen") if shutil.which(name) is None]
    if missing:
        pytest.skip(f"needs wsl: {', '.join(missing)} not installed (wsl, uuid-runtime)")


async def asked(gateway: Running, folder: Path, *command: str) -> etree._ElementTree:
    """What a command of the package was answered, which it leaves in *folder*."""
    process = await asyncio.create_subprocess_exec(
        *command, cwd=folder, stdin=DEVNULL, stdout=PIPE, stderr=PIPE,
        env={
            **os.environ, "HOME": str(folder), "WSENDPOINT": gateway.url.removeprefix("http://"),
            "WSNOSSL": "true", "WSUSER": "nobody", "WSPASS": "nothing", "KEEPHISTORY": "0",
        },
    )  # fmt: skip
    try:
        async with asyncio.timeout(3 * DEADLINE):
            out, err = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    answer = folder / "response.xml"
    assert answer.exists() and answer.stat().st_size, (out + err).decode()
    return etree.parse(answer)


async def test_identify(gateway: Running, tmp_path: Path) -> None:
    answer = await asked(gateway, tmp_path, "wslid", "check")
    assert answer.findtext(".//{*}ProductVendor") == "Dragoman"
    assert (
        answer.findtext(".//{*}ProtocolVersion") == "http://schemas.dmtf.org/wbem/wsman/1/wsman.xsd"
    )


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("wslenum", "WS-Enumeration is not offered beyond Pull and Release."),
        ("wslget", "there are no resources here."),
    ],
)
async def test_what_is_not_offered(
    gateway: Running, tmp_path: Path, command: str, why: str
) -> None:
    """The fault is one that it reads, and relates to its message id, which is no URI."""
    answer = await asked(gateway, tmp_path, command, RESOURCE)
    assert answer.findtext(f".//{{{S12.value}}}Subcode/{{*}}Value") == "wsa:ActionNotSupported"
    assert why in (answer.findtext(f".//{{{S12.value}}}Text") or "")
    sent = etree.parse(tmp_path / "request-1.xml")
    message_id = sent.findtext(f".//{{{Wsa.V2004_08.value}}}MessageID")
    assert message_id and ":" not in message_id
    assert answer.findtext(f".//{{{Wsa.V2004_08.value}}}RelatesTo") == message_id
