"""The numbers of seals, in blocks: which publications with a seal have been delivered.

A gateway takes a block at a time, and numbers seals from it. A block that has no row is done with:
all of it was delivered. So what is kept does not grow with what is published, but with the blocks
of which something was never delivered; of these, too, the oldest are given up.
"""

import time
from collections.abc import Mapping

from sqlalchemy import Connection, func, select

from gateway.store.schema import seal_blocks

LOCK = "seal-blocks"
SIZE = 1024
"""Numbers of one block."""
FULL = (1 << SIZE) - 1
MOST = 10_000
"""Blocks that are kept."""


def take(connection: Connection, *, most: int = MOST) -> int:
    """A block that nobody had: the numbers from `SIZE` times it on. Take the lock `LOCK`.

    It is no earlier than the time, so that a copy of the store that is put back gives none twice.
    """
    columns = seal_blocks.c
    newest = int(connection.execute(select(func.max(columns.block))).scalar() or 0)
    block = max(newest + 1, int(time.time()))
    connection.execute(seal_blocks.insert().values(block=block, delivered=_octets(0)))
    kept = select(columns.block).order_by(columns.block.desc()).offset(most - 1).limit(1)
    oldest = connection.execute(kept).scalar()
    if oldest is not None:
        connection.execute(seal_blocks.delete().where(columns.block < oldest))
    done = (columns.delivered == _octets(FULL)) & (columns.block < block)
    connection.execute(seal_blocks.delete().where(done))
    return block


def note(connection: Connection, delivered: Mapping[int, int]) -> None:
    """Note the delivered numbers of each block: a bit for each. Take the lock `LOCK`."""
    columns = seal_blocks.c
    newest = connection.execute(select(func.max(columns.block))).scalar()
    for block, bits in sorted(delivered.items()):
        there = columns.block == block
        known = connection.execute(select(columns.delivered).where(there)).scalar()
        if known is None:
            continue
        bits |= int.from_bytes(bytes(known), "big")
        if bits == FULL and block != newest:  # Its row says where the next ones begin.
            connection.execute(seal_blocks.delete().where(there))
        else:
            change = seal_blocks.update().where(there)
            connection.execute(change.values(delivered=_octets(bits)))


def load(connection: Connection) -> dict[int, int]:
    """Load the delivered numbers of each block that is not finished."""
    return {
        int(row.block): int.from_bytes(bytes(row.delivered), "big")
        for row in connection.execute(select(seal_blocks))
    }


def _octets(bits: int) -> bytes:
    return bits.to_bytes(SIZE // 8, "big")
