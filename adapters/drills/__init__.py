"""Drills: a messaging system in use, tried for the guarantees that it really gives.

`drill` runs them. They need no pytest, and touch nothing of others in the system; the contract of
an adapter is `adapters.testing`.
"""

from adapters.drills.drill import Drill, Wishes, trials_of
from adapters.drills.inbox import Inbox
from adapters.drills.workbench import Promise, Result

__all__ = ["Drill", "Inbox", "Promise", "Result", "Wishes", "trials_of"]
