"""The reserve of a disk: more than the logs ahead of the databases grow to, whatever its size."""

import pytest

from gateway.store.disk_reserve import reserve_of

MIB = 2**20


@pytest.mark.parametrize(
    ("disk", "reserve"),
    [(8, 4), (24, 12), (32, 16), (100, 16), (128, 16), (256, 32), (512, 64), (10**6, 64)],
)
def test_the_reserve_of_a_disk(disk: int, reserve: int) -> None:
    assert reserve_of(disk * MIB) == reserve * MIB
