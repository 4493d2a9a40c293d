"""The shared corpus of real messages and filters, for the tests that want it.

*shared* is the fixture of that name, which skips aloud where there is no such folder.
"""

import gzip
import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from filters import Namespaces


def messages(shared: Path, family: str, *, every: int = 1) -> Iterator[bytes]:
    """Each *every*-th document of one family."""
    with gzip.open(shared / "corpus" / family / f"{family}.jsonl.gz", "rt", encoding="utf-8") as f:
        for line in islice(f, 0, None, every):
            yield json.loads(line)["xml"].encode()


def families(shared: Path) -> list[str]:
    return sorted(path.parent.name for path in (shared / "corpus").glob("*/*.jsonl.gz"))


def forwarding_filters(shared: Path) -> list[tuple[str, Namespaces]]:
    """The XPath filters of real Windows Event Forwarding subscriptions."""
    lines = (shared / "corpus" / "filters" / "wef.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    return [
        (row["xpath"], tuple(sorted(row["namespaces"].items()))) for row in rows if row["xpath"]
    ]
