"""The contract kit as a stranger uses it: it lets a sound adapter pass, and finds each defect."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow  # A process of pytest is started.

ROOT = Path(__file__).parents[2]
SECONDS = 120.0

SUITE = """
from dataclasses import replace

from adapters.memory import MemoryAdapter, MemoryDelivery
from adapters.testing import AdapterContract


class Contract(AdapterContract):
    __test__ = False
    deadline = 0.5
    adapter = MemoryAdapter

    def make_adapter(self, data):
        return self.adapter(prefetch=8)


class TestSound(Contract):
    __test__ = True


class Changing(MemoryAdapter):
    def change(self, notifications):
        return notifications

    async def publish(self, notifications):
        await super().publish(self.change(notifications))


class Reversing(Changing):
    def change(self, notifications):
        return notifications[::-1]


class Untyped(Changing):
    def change(self, notifications):
        return [replace(one, action=None) for one in notifications]


class Ascii(Changing):
    def change(self, notifications):
        return [
            replace(one, payload=one.payload.decode().encode("ascii", "replace"))
            for one in notifications
        ]


class Short(Changing):
    def change(self, notifications):
        return [replace(one, payload=one.payload[: 2**16]) for one in notifications]


class Doubling(Changing):
    def change(self, notifications):
        return [one for one in notifications for one in (one, replace(one, source="again"))]


class Everything(MemoryAdapter):
    async def start(self, interests):
        await super().start(interests)
        self._interests.cover = lambda topic: True


class Caseless(MemoryAdapter):
    async def start(self, interests):
        await super().start(interests)
        cover = self._interests.cover
        self._interests.cover = lambda topic: cover(topic) or any(
            str(one).lower() == str(topic).lower() for one in self._interests._named
        )


class Deaf(MemoryAdapter):
    async def want(self, interest):
        pass


class Sticky(MemoryAdapter):
    async def unwant(self, interest):
        pass


class Boundless(MemoryAdapter):
    async def deliveries(self):
        async for delivery in super().deliveries():
            self._unsettled = 0
            yield delivery


class Counting(MemoryDelivery):
    def settle(self):
        self._settled = False
        super().settle()


class Twice(MemoryAdapter):
    async def deliveries(self):
        async for delivery in super().deliveries():
            yield Counting(self, delivery.notification)


class Impatient(MemoryAdapter):
    async def deliveries(self):
        async for delivery in super().deliveries():
            yield delivery
            if not delivery._settled:
                yield delivery


class Endless(MemoryAdapter):
    async def close(self):
        pass


class Boastful(MemoryAdapter):
    def __init__(self, **settings):
        super().__init__(**settings)
        self.capabilities = replace(self.capabilities, durable=True)


for defect in (Reversing, Untyped, Ascii, Short, Doubling, Everything, Caseless, Deaf, Sticky,
               Boundless, Twice, Impatient, Endless, Boastful):
    name = f"Test{defect.__name__}"
    globals()[name] = type(name, (Contract,), {"adapter": defect, "__test__": True})


class TestForgetful(TestBoastful):
    durable = True
"""

FOUND = {
    "Reversing": "messages_keep_their_order",
    "Untyped": "a_message_arrives_as_it_was_published",
    "Ascii": "any_text_arrives[latin]",
    "Short": "a_large_message_arrives",
    "Doubling": "overlapping_interests_yield_once",
    "Everything": "only_what_is_wanted_is_yielded",
    "Caseless": "topics_are_told_apart[case]",
    "Deaf": "what_is_wanted_is_wanted_on_return",
    "Sticky": "what_is_not_wanted_any_more_stops",
    "Boundless": "no_more_than_the_prefetch_is_unsettled",
    "Twice": "settling_in_any_order_and_twice",
    "Impatient": "what_is_unsettled_comes_once",
    "Endless": "closing_is_quick_and_ends_the_deliveries",
    "Boastful": "it_says_what_it_is",
    "Forgetful": "what_is_not_settled_comes_again_in_order",
}
"""The defects of the suite, and the test that finds it."""


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What pytest says of the suite, in a project far from this one."""
    folder = tmp_path_factory.mktemp("stranger")
    (folder / "pytest.ini").write_text(
        "[pytest]\nasyncio_mode = auto\nasyncio_default_fixture_loop_scope = function\n"
    )
    (folder / "test_kit.py").write_text(SUITE)
    chosen = [f"test_kit.py::Test{defect}::test_{test}" for defect, test in FOUND.items()]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-v", "-p", "no:cacheprovider", *chosen,
         "test_kit.py::TestSound"],
        cwd=folder, env={**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "200"},
        capture_output=True, text=True, timeout=SECONDS, check=False,
    )  # fmt: skip
    return done.stdout


@pytest.mark.parametrize(("defect", "test"), FOUND.items())
def test_it_finds_a_defect(said: str, defect: str, test: str) -> None:
    assert f"::Test{defect}::test_{test} FAILED" in said


def test_it_lets_a_sound_adapter_pass(said: str) -> None:
    verdicts = re.findall(r"::TestSound::test_\S+.* (PASSED|SKIPPED|FAILED|ERROR)", said)
    assert len(verdicts) >= 33
    assert set(verdicts) == {"PASSED", "SKIPPED"}


def test_it_explains_what_it_found(said: str) -> None:
    assert re.search(r"^E +At index 0 diff: ", said, re.MULTILINE)
