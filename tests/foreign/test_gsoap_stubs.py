"""gSOAP's wsdl2h and soapcpp2: typed C clients, made of the descriptions that the gateway gives of
itself. What they generate is under gSOAP's own licence: it stays in a temporary folder."""

import asyncio
import shutil
from asyncio.subprocess import PIPE
from pathlib import Path

import pytest

from tests.rigs.consumers import Consumers
from tests.rigs.gateways import Running
from tests.rigs.gsoap import needs_gsoap
from tests.rigs.waiting import DEADLINE

needs_gsoap()
if shutil.which("wsdl2h") is None:
    pytest.skip("needs gSOAP: wsdl2h is not installed (gsoap)", allow_module_level=True)

pytestmark = pytest.mark.asyncio(loop_scope="module")

HERE = Path(__file__).parent
IMPORTS = "/usr/share/gsoap/import"
TYPES = Path("/usr/share/gsoap/WS/typemap.dat")
PREFIXES = "wse = <http://schemas.xmlsoap.org/ws/2004/08/eventing>\n"


async def run(folder: Path, *words: str) -> str:
    """Run a program to its end, which must be a good one; what it said."""
    process = await asyncio.create_subprocess_exec(*words, cwd=folder, stdout=PIPE, stderr=PIPE)
    async with asyncio.timeout(6 * DEADLINE):
        out, err = await process.communicate()
    assert process.returncode == 0, f"{words}: {out.decode()}{err.decode()}"
    return out.decode()


async def client(gateway: Running, service: str, folder: Path) -> str:
    """The program ``gsoap_stubs_<service>.c`` on stubs of the description of *service*."""
    types = folder / "typemap.dat"
    types.write_text(TYPES.read_text() + PREFIXES)
    url = f"{gateway.url}/soap?wsdl={service}"
    await run(folder, "wsdl2h", "-c", f"-t{types}", "-o", "svc.h", url)
    await run(folder, "soapcpp2", "-c", "-C", "-L", "-x", "-w", "-psoap", f"-I{IMPORTS}", "svc.h")
    [nsmap] = folder.glob("*.nsmap")
    nsmap.rename(folder / "svc.nsmap")
    flags = ["-std=gnu99", "-O0", "-DWITH_IPV6", "-DWITH_DOM", "-I."]
    source = str(HERE / f"gsoap_stubs_{service}.c")
    await run(folder, "cc", *flags, "-Wall", "-Wextra", "-Werror", "-c", source, "-o", "main.o")
    generated = ["soapC.c", "soapClient.c"]
    await run(folder, "cc", *flags, "-w", "main.o", *generated, "-lgsoap", "-o", "client")
    return str(folder / "client")


async def test_ws_notification(gateway: Running, consumer: Consumers, tmp_path: Path) -> None:
    program, url = await client(gateway, "wsn", tmp_path), consumer.fresh()
    said = await run(tmp_path, program, f"{gateway.url}/soap", url)
    assert said.splitlines() == [
        "Subscribe 3600",
        "Notify",
        "Renew 7200",
        "GetMessages 1 1",
        "DestroyPullPoint",
        "Unsubscribe",
        "ResourceUnknownFault 1",
    ]
    assert (await consumer.next(url)).payload.text == "gsoap"


async def test_ws_eventing(gateway: Running, consumer: Consumers, tmp_path: Path) -> None:
    program, url = await client(gateway, "wse", tmp_path), consumer.fresh()
    process = await asyncio.create_subprocess_exec(
        program, f"{gateway.url}/soap", url, stdin=PIPE, stdout=PIPE, stderr=PIPE
    )
    try:
        assert process.stdout is not None
        async with asyncio.timeout(2 * DEADLINE):
            lines = [(await process.stdout.readline()).decode() for _ in range(3)]
            assert lines[:2] == ["Subscribe PT1H\n", "Renew PT2H\n"]
            assert lines[2] in ("GetStatus PT2H\n", "GetStatus PT1H\n")
            await gateway.publish("<w:storm xmlns:w='urn:weather'>now</w:storm>")
            assert (await consumer.next(url)).payload.text == "now"
            out, err = await process.communicate(b"\n")
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode == 0, err.decode()
    assert out.decode() == "Unsubscribe\nfault 1\n"


@pytest.mark.parametrize("service", ["ws-messenger", "wsn10", "msgbox", "wsman"])
async def test_descriptions_of_their_own_compile(
    gateway: Running, service: str, tmp_path: Path
) -> None:
    types = tmp_path / "typemap.dat"
    types.write_text(TYPES.read_text() + PREFIXES)
    url = f"{gateway.url}/soap?wsdl={service}"
    await run(tmp_path, "wsdl2h", "-c", f"-t{types}", "-o", "svc.h", url)
    stubs = ("-c", "-C", "-L", "-x", "-w", "-psoap", f"-I{IMPORTS}", "svc.h")
    await run(tmp_path, "soapcpp2", *stubs)
    flags = ("-std=gnu99", "-O0", "-DWITH_DOM", "-I.", "-w", "-c")
    await run(tmp_path, "cc", *flags, "soapC.c", "soapClient.c")
