"""WS-ReliableMessaging 1.0 (2005/02) and 1.1, whose namespace 1.2 keeps: the values of its
messages, and the state machines of a sequence.

Public are the names below, and the module `machines`.
"""

from mediation.reliable_messaging.ranges import NO_NUMBERS, Ranges
from mediation.reliable_messaging.versions import IncompleteBehaviour, Rm

__all__ = ["NO_NUMBERS", "IncompleteBehaviour", "Ranges", "Rm"]
