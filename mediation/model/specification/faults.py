"""Names that a specification has for faults."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from filters import Reason
from mediation.model.requests import Operation
from mediation.model.versions import Soap

MAX_NAMES = 32
"""Names that a fault lists at most: a request may hold thousands of unknown ones."""


class Code(Enum):
    """The side that is at fault; the values are the local names in SOAP 1.1 and 1.2."""

    SENDER = ("Client", "Sender")
    RECEIVER = ("Server", "Receiver")
    NOT_UNDERSTOOD = ("MustUnderstand", "MustUnderstand")
    VERSION_MISMATCH = ("VersionMismatch", "VersionMismatch")

    def name_in(self, soap: Soap) -> str:
        return self.value[0 if soap is Soap.V1_1 else 1]


class Detail(Enum):
    """The content of a fault's detail."""

    NONE = "none"
    URIS = "one element for each of the error's names that is a URI"
    QNAMES = "one element for each of the error's names, as a QName"
    TIMES = "the acceptable times"
    TEXTS = "one element for each of the error's names, as text, in any namespace"
    CHANGE = "that a change of a resource property failed, and nothing was changed"


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault of a specification: an *element* in the detail that extends the BaseFault of the
    namespace *base* (WS-Notification, WSRF), or a *subcode* (WS-Eventing, WS-Addressing)."""

    code: Code = Code.SENDER
    subcode: str = ""
    element: str = ""
    base: str = ""
    text: str = ""
    detail: Detail = Detail.NONE
    inner: str = ""
    """The local name of the detail's children, which have the fault's own namespace; of `TEXTS` the
    expanded name."""
    most: int = MAX_NAMES
    """Children of the detail at most."""
    otherwise: str = ""
    """The name that is listed where the error has none, but the schema wants one."""
    always: tuple[str, ...] = ()
    """Names that are listed before the error's own."""
    in_soap_1_1: bool = True
    """True if the detail is for SOAP 1.1, too."""
    prefix: str = "f"
    """The prefix of the subcode; some peers read it by its prefix."""
    action: str = ""
    """The action of the message; empty: that of WS-Addressing."""
    soap_action: bool = False
    """True if the action is that of SOAP's own faults, although there is a subcode."""
    status: int = 0
    """That of HTTP, where it is not the usual one."""
    instead: tuple[tuple[str, "Fault"], ...] = ()
    """Faults that take its place where the error has one of these names."""
    spelled: tuple[tuple[str, str], ...] = ()
    """Names that its text lists, and what the specification calls them."""


Faults = Mapping[tuple[Reason, Operation | None], Fault]
"""Faults by reason and operation; a row without an operation is for the others."""
