"""A real LDAP server for tests (OpenLDAP's slapd, of Debian), with Java's schema."""

import contextlib
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.rigs.ports import free_ports
from tests.rigs.waiting import wait_until

START = 30.0
STOP = 10.0
ADMIN, PASSWORD = "cn=admin,o=iu", "of the test"
_SCHEMAS = Path("/etc/ldap/schema")
_CONFIGURATION = """include {schemas}/core.schema
include {schemas}/cosine.schema
include {schemas}/java.schema
modulepath /usr/lib/ldap
moduleload back_mdb
pidfile {folder}/pid
{tls}
database mdb
maxsize 10485760
suffix "o=iu"
directory {folder}/data
rootdn "{admin}"
rootpw "{password}"
access to * by * read
"""
_TLS = "TLSCertificateFile {certificate}\nTLSCertificateKeyFile {key}\nTLSCACertificateFile {ca}"
TREE = """dn: o=iu
objectClass: organization
o: iu

dn: ou=cs,o=iu
objectClass: organizationalUnit
ou: cs

dn: ou=extreme,ou=cs,o=iu
objectClass: organizationalUnit
ou: extreme
"""


def needs_slapd() -> None:
    """Skip who says this, in one line, where there is no slapd."""
    if _program() is None or not (_SCHEMAS / "java.schema").exists():
        pytest.skip("needs an LDAP server: it is not installed (slapd)", allow_module_level=True)


def _program() -> str | None:
    return shutil.which("slapd", path="/usr/sbin:/usr/bin:/usr/local/sbin:/usr/local/libexec")


class Slapd:
    """A server with three levels, whose port stays the same from start to start."""

    def __init__(self, folder: Path, tls: str) -> None:
        self._folder = folder
        (folder / "data").mkdir()
        (self.port, self.secure_port) = free_ports(2)
        self._secure = bool(tls)
        self._configuration = folder / "slapd.conf"
        text = _CONFIGURATION.format(
            schemas=_SCHEMAS, folder=folder, admin=ADMIN, password=PASSWORD, tls=tls
        )
        self._configuration.write_text(text)
        self.load(TREE)
        self._server: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"ldap://127.0.0.1:{self.port}"

    def load(self, ldif: str) -> None:
        """Add entries, while it does not run."""
        program = shutil.which("slapadd", path="/usr/sbin:/usr/bin") or "slapadd"
        done = subprocess.run(
            [program, "-q", "-f", str(self._configuration)],
            input=ldif.encode(), capture_output=True, timeout=START, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr.decode()

    def start(self) -> None:
        """Start it, and wait until it listens."""
        urls = f"{self.url}/"
        if self._secure:
            urls += f" ldaps://127.0.0.1:{self.secure_port}/"
        program = _program()
        assert program is not None
        with (self._folder / "output.log").open("ab") as log:
            self._server = subprocess.Popen(
                [
                    "setpriv", "--pdeathsig", "KILL", program, "-d", "0",
                    "-f", str(self._configuration), "-h", urls,
                ],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip
        wait_until(self._listens, START, says=(self._folder / "output.log").read_text)

    def _listens(self) -> bool:
        import socket

        with contextlib.suppress(OSError):
            socket.create_connection(("127.0.0.1", self.port), 2).close()
            return True
        return False

    def stop(self) -> None:
        """Stop it; what is in it stays."""
        if self._server is not None:
            self._server.terminate()
            try:
                self._server.wait(STOP)
            except subprocess.TimeoutExpired:
                self._server.kill()
                self._server.wait(STOP)
            self._server = None


@contextlib.contextmanager
def slapd(
    ldif: str = "", *, tls: tuple[Path, Path, Path] | None = None, started: bool = True
) -> Iterator[Slapd]:
    """A server with *ldif* in it, too; *tls*: its certificate, its key, and the authority's."""
    folder = Path(tempfile.mkdtemp(prefix="dragoman-slapd-"))
    server = None
    try:
        said = ""
        if tls is not None:
            said = _TLS.format(certificate=tls[0], key=tls[1], ca=tls[2])
        server = Slapd(folder, said)
        if ldif:
            server.load(ldif)
        if started:
            server.start()
        yield server
    finally:
        if server is not None:
            server.stop()
        shutil.rmtree(folder, ignore_errors=True)
