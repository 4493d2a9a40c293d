"""What is refused of a message, as WS-Security, section 12, tells it apart."""

from filters import Reason
from mediation.model.errors import MediationError


def invalid(why: str) -> MediationError:
    """The Security header is not what the specification says."""
    return MediationError(Reason.TOKEN_INVALID, f"The Security header cannot be used: {why}.")


def failed(why: str) -> MediationError:
    """The signature does not hold."""
    return MediationError(Reason.SIGNATURE_REFUSED, f"The signature is not accepted: {why}.")


def unsupported_algorithm(what: str) -> MediationError:
    return MediationError(Reason.ALGORITHM_UNSUPPORTED, f"This algorithm is not taken: {what}.")
