"""Where messages are parsed: on the event loop, or in threads, in turn by who sent them."""

from gateway.parsing.fair_queue import OF_ONE, WAITING, Busy, FairQueue
from gateway.parsing.learnt_names import LEARNT, LEARNT_OF_ONE
from gateway.parsing.parsing import LARGE, SMALL, Parsing
from gateway.parsing.threads import DOCUMENTS, OCTETS, ParsingThreads, RenewedThread

__all__ = [
    "DOCUMENTS",
    "LARGE",
    "LEARNT",
    "LEARNT_OF_ONE",
    "OCTETS",
    "OF_ONE",
    "SMALL",
    "WAITING",
    "Busy",
    "FairQueue",
    "Parsing",
    "ParsingThreads",
    "RenewedThread",
]
