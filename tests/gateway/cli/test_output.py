"""Tables: as wide as a terminal, one line a row elsewhere."""

import io
import sys
from collections.abc import Sequence

import pytest

from gateway.cli.output import table
from gateway.cli.subscriptions import _ORDERS, Order

NAMES = ("id", "consumer", "waiting", "last error")
ROWS: Sequence[Sequence[object]] = [
    ("5b1f0c9a3e77", "http://10.0.4.7:20001/receiver/of/events", 41, None),
    (
        "90cc41d2ab05",
        "https://his.ward7:8443/x",
        3,
        "certificate of his.ward7 has expired [1] " * 4,
    ),
]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("width", [60, 80, 200])
def test_a_table_fits_the_terminal(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", Terminal())
    monkeypatch.setenv("COLUMNS", str(width))
    lines = table(NAMES, ROWS)
    assert max(map(len, lines)) <= width
    assert lines[0].split()[0] == "ID" and lines[1].startswith("5b1f0c9a3e77 ")
    whole = "".join("".join(lines).split())
    assert whole.count("[1]") == 4 and "41" in lines[1] and "\x1b" not in whole


def test_a_row_is_one_line_where_a_program_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    monkeypatch.setenv("COLUMNS", "40")
    assert len(table(NAMES, ROWS)) == 3


def test_what_needs_attention_comes_first() -> None:
    def one(id_: str, state: str, waiting: int) -> dict[str, object]:
        return {
            "id": id_, "state": state, "consumer": "http://a", "expires": None, "created": "",
            "counts": {"waiting": waiting, "dead": 0},
        }  # fmt: skip

    records = [one("a", "active", 0), one("b", "failing", 1), one("c", "active", 7)]
    records.append(one("d", "failing", 9))
    ids = [record["id"] for record in sorted(records, key=_ORDERS[Order.TROUBLE])]
    assert ids == ["d", "b", "c", "a"]
    for order in Order:
        assert len(sorted(records, key=_ORDERS[order])) == 4
