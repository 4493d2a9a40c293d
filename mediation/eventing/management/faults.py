"""The faults of WS-Management (DSP0226 1.2, section 14), for requests of any specification.

Their names, codes and reasons are those of openwsman (``wsman-faults.c``) and Wiseman, too; the
words of details those of Wiseman and OpenPegasus, for openwsman misspells some.
"""

from collections.abc import Mapping

from filters import Reason
from mediation import names
from mediation.model.errors import MediationError
from mediation.model.specification import Code, Detail, Fault


def _fault(name: str, text: str, code: Code = Code.SENDER) -> Fault:
    return Fault(
        code,
        f"{{{names.WSMAN}}}{name}",
        text=text,
        detail=Detail.URIS,
        inner="FaultDetail",
        most=1,
        action=names.WSMAN_FAULT_ACTION,
    )


FAULTS: Mapping[Reason, Fault] = {
    Reason.FEATURE_UNSUPPORTED: _fault(
        "UnsupportedFeature", "The specified feature is not supported."
    ),
    Reason.ENCODING_LIMIT: _fault(
        "EncodingLimit", "An internal encoding limit was exceeded in a request or would be violated"
        " if the message were processed.",
    ),
    Reason.SELECTORS_UNEXPECTED: _fault(
        "InvalidSelectors", "The Selectors for the resource are not valid."
    ),
    Reason.BOOKMARK_INVALID: _fault(
        "InvalidBookmark", "The bookmark supplied with the subscription is not valid."
    ),
    Reason.TIMED_OUT: _fault("TimedOut", "The operation has timed out.", Code.RECEIVER),
}  # fmt: skip
"""One row for each reason that WS-Management alone knows."""

_UNSUPPORTED = {
    "Heartbeats": "Heartbeats",
    "ConnectionRetry": "DeliveryRetries",
    "Bookmark": "Bookmarks",
    "SendBookmarks": "Bookmarks",
    "Auth": "AuthorizationMode",
    "OptionSet": "OptionSet",
    "FragmentTransfer": "FragmentLevelAccess",
    "Locale": "Locale",
}
"""The word for an element that is not offered in the detail of the fault."""


def unsupported(name: str, why: str = "is not offered") -> MediationError:
    """The refusal of the element *name* of WS-Management."""
    detail = _UNSUPPORTED.get(name)
    return MediationError(
        Reason.FEATURE_UNSUPPORTED,
        f"wsman:{name[:100]} {why}.",
        names=(names.WSMAN_FAULT_DETAIL + detail,) if detail else (),
    )


def refused(reason: Reason, text: str, detail: str) -> MediationError:
    """The refusal for *reason*, with a *detail* of the list in section 14."""
    return MediationError(reason, text, names=(names.WSMAN_FAULT_DETAIL + detail,))
