"""Has pytest make its temporary folders in memory, where there is much of it.

Half of a gateway's time in a test is its store's, which waits for the disk before it answers: on
``/dev/shm``, 289 tests of gateways took 20.3 s of processor time instead of 23.9, and 60 % of the
time. No test cuts the power. `make nightly` stays on the disk; ``PYTEST_DEBUG_TEMPROOT`` names
another place.
"""

import os
import re
from pathlib import Path

MEMORY = Path("/dev/shm")
NEEDED = 8 * 2**30
"""Bytes that must be free there, and of the machine's memory."""
PLACE = "PYTEST_DEBUG_TEMPROOT"
"""The variable by which pytest is told the place."""


def choose(memory: Path = MEMORY, needed: int = NEEDED) -> None:
    """Set the place, unless it is set."""
    if PLACE not in os.environ and _has_room(memory, needed):
        os.environ[PLACE] = str(memory)


def _has_room(folder: Path, needed: int) -> bool:
    facts = Path("/proc/meminfo")
    if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK) or not facts.is_file():
        return False
    place = os.statvfs(folder)
    available = re.search(r"^MemAvailable: +(\d+) kB$", facts.read_text(), re.MULTILINE)
    return (
        place.f_bavail * place.f_frsize >= needed
        and not place.f_flag & os.ST_NOEXEC  # Tests compile programs, and run them.
        and available is not None
        and int(available[1]) * 1024 >= needed
    )
