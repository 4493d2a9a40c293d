"""WS-MakeConnection 1.1, `SPECIFICATION`: a consumer that cannot be called fetches the messages
that wait for its address."""

from collections.abc import Mapping

from lxml import etree

from filters import Reason
from filters.documents import parse_document, parse_own
from mediation import names
from mediation.mailboxes.kept import action
from mediation.model.errors import MediationError
from mediation.model.requests import Arrival, Context, Operation, Request, Response, TakeFor, Taken
from mediation.model.specification import NOTHING, Answer, Code, Detail, Fault, Specification
from mediation.model.versions import Family, Soap, Version
from mediation.soap.envelopes import elements, read_envelope, soap_of, text_of
from mediation.soap.splicing import add_header_blocks

_ACTION = names.MAKE_CONNECTION_1_1 + "/MakeConnection"
_ELEMENT = f"{{{names.MAKE_CONNECTION_1_1}}}MakeConnection"
_ADDRESS = f"{{{names.MAKE_CONNECTION_1_1}}}Address"


class MakeConnectionRequests:
    """MakeConnection. Its answer is a message that waited, as it would have been sent to an address
    that can be called, or nothing (section 3.2)."""

    namespaces = frozenset({names.MAKE_CONNECTION_1_1})
    elements: Mapping[str, Operation] = {_ELEMENT: Operation.MAKE_CONNECTION}
    actions: Mapping[str, Operation] = {_ACTION: Operation.MAKE_CONNECTION}

    def read(
        self, operation: Operation, element: etree._Element, context: Context, arrival: Arrival
    ) -> Request:
        return TakeFor(_selected(element))

    def write(self, response: Response, context: Context) -> Answer:
        match response:
            case Taken((envelope,), more):
                return Answer(action(envelope) or "", envelope=with_pending(envelope, more))
            case _:
                return NOTHING


def is_make_connection(envelope: bytes) -> bool:
    """Return whether the body of an envelope is a MakeConnection, whatever its action is.

    Raises:
        Refused: It is not an envelope.
    """
    body = read_envelope(parse_document(envelope)).body
    return bool(body) and body[0].tag == _ELEMENT


def selected_address(envelope: bytes) -> str:
    """The address whose messages a MakeConnection asks for.

    Raises:
        MediationError: ``SELECTION_MISSING``, ``SELECTION_UNSUPPORTED``.
        Refused: It is not an envelope.
    """
    body = read_envelope(parse_document(envelope)).body
    return _selected(body[0] if body and body[0].tag == _ELEMENT else etree.Element(_ELEMENT))


def _selected(element: etree._Element) -> str:
    addresses = [child for child in elements(element) if child.tag == _ADDRESS]
    others = [child for child in elements(element) if child.tag != _ADDRESS]
    unknown = tuple(str(child.tag) for child in (*others, *addresses[1:]))
    if unknown:
        raise MediationError(
            Reason.SELECTION_UNSUPPORTED, "One wsmc:Address selects.", names=unknown
        )
    address = text_of(addresses[0]) if addresses else ""
    if not address:
        raise MediationError(Reason.SELECTION_MISSING, "wsmc:Address is missing.")
    return address


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


def with_pending(envelope: bytes, pending: bool) -> bytes:
    """Add a header block to *envelope* (UTF-8) that says whether more messages wait for the same
    selection (section 3.3). All else stays as it is, octet for octet: it may be signed."""
    block = b'<wsmc:MessagePending xmlns:wsmc="%b" pending="%b"/>' % (
        names.MAKE_CONNECTION_1_1.encode(),
        b"true" if pending else b"false",
    )
    return add_header_blocks(envelope, block)


def soap_in(envelope: bytes) -> Soap:
    """The SOAP version of an envelope that waited; the request for it may have another."""
    return soap_of(parse_own(envelope))
