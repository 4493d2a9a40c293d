"""What a subscriber says to get its notifications in a sequence: an ``RMAssertion`` (RM Policy
2005/02, WS-RM Policy 1.1) in its Subscribe, whose namespace tells the version.

It stands in ``wsnt:SubscriptionPolicy``, or in ``wse:Delivery`` or ``wse:Subscribe``, there also
within a ``wsp:Policy``. What it says besides is not looked at: each notification comes once and in
order, which is the most that WS-RM Policy has words for.

In the same places ``Assurance`` (`mediation.names.DRAGOMAN_POLICY`) says in words how often a
subscriber wants an event: ``at-most-once``, ``at-least-once``, or ``exactly-once``, for which the
assertion is another name.
"""

from collections.abc import Iterable
from dataclasses import replace

from lxml import etree

from filters import Reason, quoted
from mediation import names
from mediation.model.delivery_modes import DeliveryAssurance, DeliveryMode, Mode
from mediation.model.errors import MediationError
from mediation.reliable_messaging.versions import Rm
from mediation.soap.envelopes import text_of
from mediation.soap.policy_assertions import assertions_in

RM_ASSERTIONS = {f"{{{rm.rules.policy}}}RMAssertion": rm for rm in Rm}
"""The versions by the expanded name of the assertion."""


def read_wanted_rm(parts: Iterable[etree._Element]) -> Rm | None:
    """The version of WS-ReliableMessaging that is asked for among *parts* of a Subscribe; the newer
    one where both are, None where none is."""
    found = {RM_ASSERTIONS[str(one.tag)] for one in assertions_in(parts, *RM_ASSERTIONS)}
    return next((rm for rm in reversed(Rm) if rm in found), None)


def write_wanted_rm(rm: Rm) -> str:
    """Write the assertion that asks for sequences of *rm*; `read_wanted_rm` is the inverse."""
    return f'<wsrmp:RMAssertion xmlns:wsrmp="{rm.rules.policy}"/>'


ASSURANCE = f"{{{names.DRAGOMAN_POLICY}}}Assurance"


def read_assurance(
    parts: Iterable[etree._Element], mode: DeliveryMode, *, sequences: bool = True
) -> DeliveryMode:
    """Read what `ASSURANCE` among *parts* of a Subscribe asks for: *mode* with it, and as it is
    where there is none.

    Args:
        sequences: The specification has deliveries in sequences.

    Raises:
        MediationError: ``POLICY_UNSUPPORTED``.
    """
    asked = list(map(text_of, assertions_in(parts, ASSURANCE)))
    if not asked:
        return mode
    if len(asked) > 1:
        raise _unsupported("Subscribe asks for several assurances.")
    try:
        wanted = DeliveryAssurance(asked[0])
    except ValueError:
        names_ = ", ".join(each.value for each in DeliveryAssurance)
        raise _unsupported(
            f"{quoted(asked[0])} is not a delivery assurance; use one of {names_}."
        ) from None
    return with_assurance(mode, wanted, sequences=sequences)


def with_assurance(
    mode: DeliveryMode, wanted: DeliveryAssurance, *, sequences: bool = True
) -> DeliveryMode:
    """*mode* with the assurance that is *wanted*.

    Raises:
        MediationError: ``POLICY_UNSUPPORTED``: it cannot have it.
    """
    if mode.assurance is wanted:
        return mode
    if mode.reliable:
        raise _unsupported(f"What comes in a sequence comes exactly once, not {wanted.value}.")
    if wanted is DeliveryAssurance.EXACTLY_ONCE:
        if not sequences:
            raise _unsupported(
                "Exactly once is for subscriptions in sequences, which this specification does not "
                "have: subscribe with WS-Notification 1.3 or WS-Eventing."
            )
        if mode != DeliveryMode():
            raise _unsupported("Sequences go with no option of WS-Management.")
        return DeliveryMode(reliable=Rm.V1_1.number)
    if mode.mode not in (Mode.PUSH, Mode.BATCH) or mode.retry_every is not None:
        raise _unsupported(
            "At most once goes with deliveries that are pushed, and neither acknowledged nor tried "
            "again."
        )
    return replace(mode, at_most_once=True)


def write_assurance(assurance: DeliveryAssurance) -> str:
    """Write what asks for *assurance*; `read_assurance` is the inverse."""
    namespace = names.DRAGOMAN_POLICY
    return f'<drg:Assurance xmlns:drg="{namespace}">{assurance.value}</drg:Assurance>'


def _unsupported(text: str) -> MediationError:
    return MediationError(Reason.POLICY_UNSUPPORTED, text)
