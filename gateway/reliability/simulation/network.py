"""The network of a run: a message, or the answer to it, may be lost, come twice, late, or in
another order; for some time none comes through."""

from random import Random

from gateway.reliability.simulation.scenarios import Scenario

PATIENCE = 30.0
"""Seconds that the opener of a connection waits for the answer."""


class Network:
    """Draws what happens to each request and each answer."""

    def __init__(self, scenario: Scenario, random: Random) -> None:
        self._scenario = scenario
        self._random = random

    def travel(self, now: float) -> float | None:
        """Draw the seconds that a message takes to the other side; None: it is lost."""
        scenario, random = self._scenario, self._random
        if now >= scenario.calm_at:
            return random.uniform(0.005, 0.05)
        if any(start <= now < end for start, end in scenario.partitions):
            return None
        if random.random() < scenario.loss:
            return None
        if random.random() < scenario.delay:
            return random.uniform(0.05, 10.0)
        return random.uniform(0.005, 0.05)

    def again(self, now: float) -> float | None:
        """Draw the seconds after which a second copy of a message comes; None: there is none."""
        scenario, random = self._scenario, self._random
        if now >= scenario.calm_at or random.random() >= scenario.doubling:
            return None
        return random.choice((0.02, 1.0, 5.0, 60.0, 200.0)) * random.uniform(0.5, 1.5)
