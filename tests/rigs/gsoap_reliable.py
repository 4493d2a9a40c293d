"""A peer of reliable messaging made with gSOAP's plugin wsrm, compiled when the first test asks for
it, once for each version of the protocol.

What is compiled is under gSOAP's own licence: it stays in a temporary folder.
"""

import atexit
import contextlib
import functools
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from mediation.reliable_messaging import Rm
from tests.rigs.gsoap import needs_gsoap
from tests.rigs.waiting import wait_until

_HERE = Path(__file__).parents[1] / "foreign"
_GSOAP = Path("/usr/share/gsoap")
_HEADERS = {Rm.V1_0: "wsrm5.h", Rm.V1_1: "wsrm.h"}
_DEADLINE = 120.0


def needs_gsoap_reliable() -> None:
    """Skip the module that says this where there is no gSOAP, no compiler or no plugin."""
    needs_gsoap()
    if not (_GSOAP / "plugin" / "wsrmapi.c").exists():
        pytest.skip("needs gSOAP: its plugin wsrm is not installed", allow_module_level=True)


@functools.cache
def gsoap_reliable(rm: Rm) -> Path:
    """The program of gsoap_reliable.c, which speaks *rm*."""
    folder = Path(tempfile.mkdtemp(prefix="dragoman-gsoap-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    service = f'#import "{_HEADERS[rm]}"\n#import "gsoap_reliable.h"\n'
    (folder / "service.h").write_text(service)
    imports = f"-I{_GSOAP / 'import'}:{_GSOAP}:{_HERE}"
    _run(folder, "soapcpp2", "-c", "-a", "-x", "-w", "-L", imports, "service.h")
    plugin = _GSOAP / "plugin"
    # For 1.0 its header declares an operation otherwise than what it describes (2.8.124).
    wrong, right = (f"struct wsrm__TerminateSequence{kind}Type *res)" for kind in ("", "Response"))
    (folder / "wsrmapi.h").write_text((plugin / "wsrmapi.h").read_text().replace(wrong, right))
    shutil.copy(plugin / "wsrmapi.c", folder)
    flags = ["-std=gnu99", "-O1", "-DWITH_IPV6", "-DWITH_DOM", "-I.", f"-I{plugin}"]
    source = str(_HERE / "gsoap_reliable.c")
    _run(folder, "cc", *flags, "-Wall", "-Wextra", "-Werror", "-c", source, "-o", "peer.o")
    others = [plugin / "wsaapi.c", plugin / "threads.c", _GSOAP / "custom" / "duration.c"]
    sources = ["soapC.c", "soapClient.c", "soapServer.c", "wsrmapi.c", *map(str, others)]
    _run(folder, "cc", *flags, "-w", "peer.o", *sources, "-lgsoap", "-lpthread", "-o", "peer")
    return folder / "peer"


def _run(folder: Path, *words: str) -> None:
    done = subprocess.run(words, cwd=folder, capture_output=True, timeout=_DEADLINE, check=False)
    assert done.returncode == 0, done.stdout.decode() + done.stderr.decode()


class ReliablePeer:
    """A peer that runs.

    Attributes:
        lines: What it printed.
    """

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process
        self.lines: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line.strip())

    @property
    def got(self) -> list[str]:
        """The messages that it took."""
        return [line[4:] for line in self.lines if line.startswith("got ")]

    def port(self) -> int:
        """Where it listens."""
        wait_until(lambda: any(line.startswith("port ") for line in self.lines))
        return int(next(line for line in self.lines if line.startswith("port "))[5:])

    def ended(self) -> None:
        """End its input, and wait for its end, which must be a good one."""
        assert self.process.stdin is not None and self.process.stderr is not None
        self.process.stdin.close()
        code = self.process.wait(_DEADLINE)
        self._reader.join(_DEADLINE)
        assert code == 0, (code, self.process.stderr.read(), self.lines)


@contextlib.contextmanager
def running(rm: Rm, *words: str) -> Iterator[ReliablePeer]:
    """The peer, run with *words*; killed on the way out unless it has ended."""
    process = subprocess.Popen(
        [str(gsoap_reliable(rm)), *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    peer = ReliablePeer(process)
    try:
        yield peer
    finally:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stderr):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        peer._reader.join(_DEADLINE)
        assert process.stdout is not None
        process.stdout.close()
