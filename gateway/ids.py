"""Ids of messages. They must be unique, not secret: subscriptions get their keys elsewhere."""

import random

_random = random.Random()
_VARIANT = "89ab"


def message_urn() -> str:
    """A ``urn:uuid:`` of version 4 (RFC 9562, section 5.4).

    `uuid.uuid4` asks the system each time and gives up the interpreter lock for it; that costs
    more than all the rest of an answer.
    """
    digits = f"{_random.getrandbits(128):032x}"
    return (
        f"urn:uuid:{digits[:8]}-{digits[8:12]}-4{digits[13:16]}"
        f"-{_VARIANT[int(digits[16], 16) & 3]}{digits[17:20]}-{digits[20:]}"
    )
