"""What a subscriber says to get its notifications in a sequence: an ``RMAssertion`` (RM Policy
2005/02, WS-RM Policy 1.1) in its Subscribe, whose namespace tells the version.

It stands in ``wsnt:SubscriptionPolicy``, or in ``wse:Delivery`` or ``wse:Subscribe``, there also
within a ``wsp:Policy``. What it says besides is not looked at: each notification comes once and in
order, which is the most that WS-RM Policy has words for.
"""

from collections.abc import Iterable

from lxml import etree

from mediation import names
from mediation.reliable_messaging.versions import Rm

RM_ASSERTIONS = {f"{{{rm.rules.policy}}}RMAssertion": rm for rm in Rm}
"""The versions by the expanded name of the assertion."""
_POLICIES = frozenset(
    f"{{{namespace}}}Policy" for namespace in (names.POLICY_1_5, names.POLICY_2004_09)
)


def read_wanted_rm(parts: Iterable[etree._Element]) -> Rm | None:
    """The version of WS-ReliableMessaging that is asked for among *parts* of a Subscribe; the newer
    one where both are, None where none is."""
    found: set[Rm] = set()
    for part in parts:
        if part.tag in RM_ASSERTIONS:
            found.add(RM_ASSERTIONS[str(part.tag)])
        elif part.tag in _POLICIES:
            found.update(RM_ASSERTIONS[str(each.tag)] for each in part.iter(*RM_ASSERTIONS))
    return next((rm for rm in reversed(Rm) if rm in found), None)


def write_wanted_rm(rm: Rm) -> str:
    """Write the assertion that asks for sequences of *rm*; `read_wanted_rm` is the inverse."""
    return f'<wsrmp:RMAssertion xmlns:wsrmp="{rm.rules.policy}"/>'
