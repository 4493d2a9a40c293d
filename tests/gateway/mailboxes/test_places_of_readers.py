"""Places of readers that wait: who makes room where all are taken."""

import asyncio
import contextlib
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from filters import Refused
from gateway.mailboxes import waiting as waiting_module
from gateway.mailboxes.waiting import WaitingReaders

OWNERS = st.sampled_from(["user:a", "user:b", "tenant:acme:user:a", "tenant:acme:user:b"])


@given(st.lists(OWNERS, max_size=60))
def test_whoever_has_the_most_makes_room(owners: list[str]) -> None:
    """No party of three is refused, or sent away, that has no more than a third of the places."""

    async def play() -> None:
        readers, asked = WaitingReaders(), Counter[str]()
        waiting: list[tuple[str, str, asyncio.Future[None]]] = []
        for number, owner in enumerate(owners):
            party = "acme" if owner.startswith("tenant") else owner
            asked[party] += 1
            with contextlib.suppress(Refused):
                waiting.append((party, owner, readers.add(f"box-{number % 3}", owner)))
            assert len(readers) <= 12
            stay = Counter(party for party, _, each in waiting if not each.done())
            for each, number_asked in asked.items():
                assert stay[each] >= min(number_asked, 4)
        for number, (_, owner, waiter) in enumerate(waiting):
            readers.remove(f"box-{number % 3}", owner, waiter)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(waiting_module, "WAITING", 12)
        asyncio.run(play())
