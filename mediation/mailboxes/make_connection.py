"""WS-MakeConnection 1.1, `SPECIFICATION`: a consumer that cannot be called fetches the messages
that wait for its address."""

from collections.abc import Mapping

from lxml import etree

from filters import Reason
from filters.documents import parse_own
from mediation import names
from mediation.mailboxes.kept import action
from mediation.model.requests import Arrival, Context, Operation, Request, Response, TakeFor, Taken
from mediation.model.specification import NOTHING, Answer, Code, Detail, Fault, Specification
from mediation.model.versions import Family, Soap, Version
from mediation.soap.envelopes import soap_of
from mediation.soap.make_connection import (
    MAKE_CONNECTION,
    MAKE_CONNECTION_ACTION,
    read_selection,
    with_pending,
)


class MakeConnectionRequests:
    """MakeConnection. Its answer is a message that waited, as it would have been sent to an address
    that can be called, or nothing (section 3.2)."""

    namespaces = frozenset({names.MAKE_CONNECTION_1_1})
    elements: Mapping[str, Operation] = {MAKE_CONNECTION: Operation.MAKE_CONNECTION}
    actions: Mapping[str, Operation] = {MAKE_CONNECTION_ACTION: Operation.MAKE_CONNECTION}

    def read(
        self, operation: Operation, element: etree._Element, context: Context, arrival: Arrival
    ) -> Request:
        return TakeFor(read_selection(element).address)

    def write(self, response: Response, context: Context) -> Answer:
        match response:
            case Taken((envelope,), more):
                return Answer(action(envelope) or "", envelope=with_pending(envelope, more))
            case _:
                return NOTHING


def _fault(name: str, text: str) -> Fault:
    return Fault(
        Code.RECEIVER,
        f"{{{names.MAKE_CONNECTION_1_1}}}{name}",
        text=text,
        detail=Detail.QNAMES,
        inner="UnsupportedElement",
        action=f"{names.MAKE_CONNECTION_1_1}/fault",
    )


SPECIFICATION = Specification(
    Version.MAKE_CONNECTION_1_1,
    Family.MAILBOX,
    "WS-MakeConnection 1.1",
    requests=MakeConnectionRequests(),
    faults={
        # Section 4.
        (Reason.SELECTION_MISSING, None): _fault(
            "MissingSelection",
            "The MakeConnection element did not contain any selection criteria.",
        ),
        (Reason.SELECTION_UNSUPPORTED, None): _fault(
            "UnsupportedSelection",
            "The extension element used in the message selection is not supported by the "
            "MakeConnection receiver.",
        ),
    },
)


def soap_in(envelope: bytes) -> Soap:
    """The SOAP version of an envelope that waited; the request for it may have another."""
    return soap_of(parse_own(envelope))
