"""The header Prefer, by the grammar of RFC 7240, section 2."""

import time

import pytest

from gateway.http.preferences import preferences_of
from gateway.soap.receipts import Receipts

TABLE = [
    ([], {}),
    (["receipt"], {"receipt": ""}),
    (["Receipt"], {"receipt": ""}),
    (["respond-async, wait=10"], {"respond-async": "", "wait": "10"}),
    (["respond-async", "wait=10"], {"respond-async": "", "wait": "10"}),
    (["respond-async,, ,receipt,"], {"respond-async": "", "receipt": ""}),
    (["\treceipt\t;\tx"], {"receipt": ""}),
    # Parameters are of their preference, and none by themselves.
    (["respond-async; receipt"], {"respond-async": ""}),
    (["respond-async;; receipt ; x=y, wait=1"], {"respond-async": "", "wait": "1"}),
    (["receipt; priority=5"], {"receipt": ""}),
    # A value may be quoted; one that is empty is none.
    (['receipt=""'], {"receipt": ""}),
    (['wait="1, receipt"'], {"wait": "1, receipt"}),
    (['wait="1; receipt", x'], {"wait": "1; receipt", "x": ""}),
    (['a="\\"", receipt'], {"a": '"', "receipt": ""}),
    (['a="\\\\", receipt'], {"a": "\\", "receipt": ""}),
    (['respond-async; x="a, receipt", wait = 2'], {"respond-async": "", "wait": "2"}),
    # The first one counts.
    (["receipt=no, receipt"], {"receipt": "no"}),
    (["return=minimal", "return=representation"], {"return": "minimal"}),
    # What is none ends its field, and no other.
    (['a, b="open, receipt'], {"a": ""}),
    (['a="open', "receipt"], {"receipt": ""}),
    (["wait=, receipt"], {}),
    (["a b, receipt"], {}),
    (["(receipt)"], {}),
]


def headers(fields: list[str]) -> list[tuple[bytes, bytes]]:
    return [(b"prefer", field.encode("latin-1")) for field in fields]


@pytest.mark.parametrize(("fields", "found"), TABLE)
def test_what_is_preferred(fields: list[str], found: dict[str, str]) -> None:
    assert preferences_of([(b"accept", b"receipt"), *headers(fields)]) == found
    assert Receipts.are_asked(headers(fields)) is (found.get("receipt") == "")


@pytest.mark.parametrize(
    "piece", [" ", "a", ",", ";", '"', '\\"', 'a="', "a=", "a,", 'a="\\', "\t;"]
)
def test_long_ones_take_little(piece: str) -> None:

    def seconds(length: int) -> float:
        fields = headers([piece * (length // len(piece)) + "\x00"])
        began = time.process_time()
        preferences_of(fields)
        return time.process_time() - began

    assert seconds(64_000) < 5  # A square of it would be minutes.
