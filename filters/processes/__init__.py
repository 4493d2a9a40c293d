"""Processes of ours that work for another one, and can be ended at any time."""

from filters.processes.killable import Broken, Killable, NotStarted

__all__ = ["Broken", "Killable", "NotStarted"]
