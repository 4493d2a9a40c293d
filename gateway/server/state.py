"""Whether the gateway runs."""

import asyncio


class RunState:
    """The state of the gateway, for all parts that ask.

    Attributes:
        ready: It has started, and has not stopped.
        draining: It takes nothing new: a stop is coming.
        failed: Set when something without which nothing is delivered has ended: the process should
            end, too.
    """

    def __init__(self) -> None:
        self.ready = False
        self.draining = False
        self.failed = asyncio.Event()

    def is_draining(self) -> bool:
        return self.draining
