"""Receipts of events fit into a field of HTTP, whatever the ids of the events are."""

from datetime import UTC, datetime

import pytest

from gateway.soap.receipts import MOST_IDS, named_ids
from mediation.receipts import sign_receipt, verify_receipt
from tests.rigs.signers import Signers

LARGEST_FIELD = 8190
"""What aiohttp and Apache read of one, as they come."""


@pytest.fixture(scope="module")
def signers(tmp_path_factory: pytest.TempPathFactory) -> Signers:
    return Signers.make(tmp_path_factory.mktemp("signers"), "gateway")


@pytest.mark.parametrize("id", ["a", "urn:uuid:" + 36 * "1", 1000 * "a", 300 * "ü", 200 * "\U0001f6a2",
                                1024 * '"', 100_000 * "a", ""])  # fmt: skip
def test_a_receipt_fits_into_a_field_of_http(id: str, signers: Signers) -> None:
    ids = [id] * 100
    signed = sign_receipt(
        signers.key("gateway"), b"sent", named_ids(ids), issuer="https://a", now=datetime.now(UTC)
    )
    assert len(signed) <= LARGEST_FIELD
    receipt = verify_receipt(signed.encode(), signers.trust)
    receipt.check_message(b"sent")
    assert list(receipt.messages) == ids[: len(receipt.messages)]


def test_short_ids_are_all_named() -> None:
    assert len(named_ids([str(number) for number in range(100)])) == MOST_IDS
    assert len(named_ids(["urn:uuid:" + 36 * "1"] * 100)) >= 30
    assert named_ids([]) == []
