"""The message boxes of WS-Messenger (2011) and XSUL (2004): requests and answers.

Their answers hold no white space between elements: WS-Messenger's client takes each child node of
``messages`` for an element.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from lxml import etree

from filters.documents import parse_own
from mediation import names
from mediation.mailboxes.kept import kept_signatures, payload_in
from mediation.model.messages import EndpointReference
from mediation.model.requests import (
    Arrival,
    Context,
    CreateMailbox,
    DestroyMailbox,
    MailboxMade,
    MailboxService,
    Operation,
    Request,
    Response,
    StoreMessage,
    Take,
    Taken,
)
from mediation.model.specification import NOTHING, Answer, Specification
from mediation.model.versions import Family, Version, Wsa
from mediation.soap.addressing import write_epr
from mediation.soap.envelopes import elements, local_name, namespace_of, text_of, xml_text

XSUL_MOST = 10
"""The most messages that XSUL hands over at a time."""
XSUL_WAIT = 5.0
"""Seconds that XSUL waits for a message where there is none."""
BOX_NAMES = frozenset({"MsgBoxId", "MsgBoxAddr"})
"""Local names of the elements that name a box: in requests, and as a reference property or
parameter of an endpoint reference. Each release of WS-Messenger had a namespace of its own for
them."""

_OPERATIONS = (
    Operation.CREATE_MESSAGE_BOX,
    Operation.STORE_MESSAGES,
    Operation.TAKE_MESSAGES,
    Operation.DESTROY_MESSAGE_BOX,
)


_NAMESPACES_2011 = frozenset({names.MESSAGE_BOX_2011, names.MESSAGE_BOX_2011_SLASH})
_NAMESPACES_2004 = frozenset({names.MESSAGE_BOX_2004})
_NAMESPACES = _NAMESPACES_2011 | _NAMESPACES_2004


def _named(namespaces: frozenset[str], form: str) -> Mapping[str, Operation]:
    return {
        form % (namespace, operation.value): operation
        for namespace in namespaces
        for operation in _OPERATIONS
    }


class Requests2011:
    """The requests of WS-Messenger's message box; it hands over what is in a body."""

    namespaces = _NAMESPACES_2011
    elements = _named(_NAMESPACES_2011, "{%s}%s")
    actions = _named(frozenset({names.MESSAGE_BOX_2011_SLASH}), "%s%s")

    def read(
        self, operation: Operation, element: etree._Element, context: Context, arrival: Arrival
    ) -> Request:
        # WS-Messenger's client destroys a box twice, and takes from one that is gone.
        if operation is Operation.TAKE_MESSAGES:
            return Take(lenient=True)
        return _read(operation, MailboxService.MESSAGE_BOX_2011)

    def write(self, response: Response, context: Context) -> Answer:
        match response:
            case MailboxMade(key):
                inner = f"<msgbox:MsgBoxId>{key}</msgbox:MsgBoxId>"
            case Taken(envelopes):
                messages = b"".join(map(payload_in, envelopes)).decode()
                inner = f"<msgbox:messages>{messages}</msgbox:messages>"
            case _:
                inner = "<msgbox:status>true</msgbox:status>"
        answer = _answer("msgbox", names.MESSAGE_BOX_2011_SLASH, inner, context)
        if isinstance(response, Taken):
            answer = replace(answer, headers=kept_signatures(response.envelopes, alone=True))
        return answer


class Requests2004:
    """The requests of XSUL's message box; it hands over whole envelopes, as text."""

    namespaces = _NAMESPACES_2004
    elements = _named(_NAMESPACES_2004, "{%s}%s")
    actions = _named(_NAMESPACES_2004, "%s%s")

    def read(
        self, operation: Operation, element: etree._Element, context: Context, arrival: Arrival
    ) -> Request:
        if operation is Operation.TAKE_MESSAGES:
            return Take(XSUL_MOST, XSUL_WAIT)
        return _read(operation, MailboxService.MESSAGE_BOX_2004)

    def write(self, response: Response, context: Context) -> Answer:
        match response:
            case MailboxMade(_, address):
                wsa = context.wsa or Wsa.V2005_08
                epr = write_epr(EndpointReference(address, wsa))
                inner = f"<mb:MsgBoxAddr>{epr}</mb:MsgBoxAddr>"
            case Taken(envelopes):
                inner = "".join(map(_as_string, envelopes))
            case _ if context.operation is Operation.DESTROY_MESSAGE_BOX:
                inner = ""
            case _:
                return NOTHING
        return _answer("mb", names.MESSAGE_BOX_2004, inner, context)


def _read(operation: Operation, service: MailboxService) -> Request:
    match operation:
        case Operation.CREATE_MESSAGE_BOX:
            return CreateMailbox(service)
        case Operation.DESTROY_MESSAGE_BOX:
            return DestroyMailbox(lenient=True)
        case _:
            return StoreMessage()


def _answer(prefix: str, namespace: str, inner: str, context: Context) -> Answer:
    operation = context.operation or Operation.STORE_MESSAGES
    name = f"{operation.value}Response"
    return Answer(
        f"{namespace}MsgBoxPT/{name}",
        f'<{prefix}:{name} xmlns:{prefix}="{namespace}">{inner}</{prefix}:{name}>',
    )


def _as_string(envelope: bytes) -> str:
    return f"<mb:messageAsString>{xml_text(envelope.decode())}</mb:messageAsString>"


SPECIFICATION_2011 = Specification(
    Version.MESSAGE_BOX_2011,
    Family.MAILBOX,
    "WS-Messenger's message box",
    requests=Requests2011(),
)
SPECIFICATION_2004 = Specification(
    Version.MESSAGE_BOX_2004,
    Family.MAILBOX,
    "XSUL's message box",
    requests=Requests2004(),
)


def box_named_in(element: etree._Element) -> str | None:
    """The name of the box in a request's element: an identifier, or the address of an endpoint
    reference."""
    for child in elements(element):
        if local_name(child) in BOX_NAMES and namespace_of(child) in _NAMESPACES:
            return _naming(child)
    return None


def boxes_named_by(references: Sequence[bytes]) -> Iterator[str]:
    """The names of boxes among the reference properties and parameters of an endpoint reference."""
    for reference in references:
        element = parse_own(reference)
        if local_name(element) in BOX_NAMES:
            yield _naming(element)


def _naming(element: etree._Element) -> str:
    for inner in element.iter(etree.Element):
        if local_name(inner) == "Address":
            return text_of(inner)
    return text_of(element)
