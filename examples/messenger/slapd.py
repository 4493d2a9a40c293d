"""A directory for the example alone: OpenLDAP's slapd, with Java's schema (RFC 2713)."""

import asyncio
import contextlib
import secrets
import shutil
import socket
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

USER = "cn=messenger,o=iu"
SECONDS = 30.0
_SCHEMAS = Path("/etc/ldap/schema")
_CONFIGURATION = """include {schemas}/core.schema
include {schemas}/cosine.schema
include {schemas}/java.schema
modulepath /usr/lib/ldap
moduleload back_mdb
database mdb
maxsize 10485760
suffix "o=iu"
directory {folder}
rootdn "{user}"
rootpw "{password}"
access to * by * read
"""
_TOP = b"dn: o=iu\nobjectClass: organization\no: iu\n"


@dataclass(frozen=True, slots=True)
class Running:
    """A directory that runs, and the password of `USER`."""

    url: str
    password: str = field(repr=False)


@contextlib.asynccontextmanager
async def directory(folder: Path) -> AsyncIterator[Running]:
    """A directory in *folder*, on a free port, as long as the context.

    Raises:
        SystemExit: It is not installed.
    """
    path = "/usr/sbin:/usr/bin:/usr/local/libexec:/usr/local/sbin"
    programs = [shutil.which(name, path=path) for name in ("slapd", "slapadd")]
    if None in programs or not (_SCHEMAS / "java.schema").exists():
        raise SystemExit("The example needs a directory (LDAP). On Debian: apt-get install slapd")
    slapd, slapadd = map(str, programs)
    with socket.create_server(("127.0.0.1", 0)) as chosen:
        url = f"ldap://127.0.0.1:{chosen.getsockname()[1]}"
    password, data, file = secrets.token_urlsafe(), folder / "directory", folder / "slapd.conf"
    data.mkdir()
    text = _CONFIGURATION.format(schemas=_SCHEMAS, folder=data, user=USER, password=password)
    file.touch(mode=0o600)
    file.write_text(text)
    loading = await asyncio.create_subprocess_exec(
        slapadd, "-q", "-f", str(file), stdin=asyncio.subprocess.PIPE
    )
    await asyncio.wait_for(loading.communicate(_TOP), SECONDS)
    server = await asyncio.create_subprocess_exec(
        slapd, "-d", "0", "-f", str(file), "-h", f"{url}/", start_new_session=True
    )
    try:
        await asyncio.wait_for(_listens(server, url), SECONDS)
        yield Running(url, password)
    finally:
        with contextlib.suppress(ProcessLookupError):
            server.terminate()
        await server.wait()


async def _listens(server: asyncio.subprocess.Process, url: str) -> None:
    host, port = url.removeprefix("ldap://").split(":")
    while True:
        if server.returncode is not None:
            raise SystemExit("The directory did not start.")
        with contextlib.suppress(OSError):
            _, writer = await asyncio.open_connection(host, int(port))
            writer.close()
            return
        await asyncio.sleep(0.05)
