"""Who makes room where places are few, and all are taken.

A fixed part for each would leave places empty that somebody needs, or be none where many come. So
whoever has the most makes room for whoever has less:

    parties   the tenants; and in the default tenant, where nobody answers for others, each owner
    owners    of the party that has the most
"""

from collections import Counter
from collections.abc import Mapping

from gateway.security.principals import tenant_of


def who_makes_room(numbers: Mapping[str, int], asking: str) -> str:
    """Return which owner loses a place, or is given none where that is *asking*.

    Args:
        numbers: How many places each owner has, with the one that *asking* wants.
        asking: Who does not get it where nobody has more: else two would drive out each other.
    """
    parties: Counter[str] = Counter()
    for owner, number in numbers.items():
        parties[_party(owner)] += number
    own = _party(asking)
    party = max(parties, key=lambda each: (parties[each], each == own))
    owners = (owner for owner in numbers if _party(owner) == party)
    return max(owners, key=lambda owner: (numbers[owner], owner == asking))


def _party(owner: str) -> str:
    tenant = tenant_of(owner)
    return f"tenant {tenant}" if tenant else owner
