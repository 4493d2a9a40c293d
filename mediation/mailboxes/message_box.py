"""The message boxes of WS-Messenger (2011) and XSUL (2004): requests and answers.

Their answers hold no white space between elements: WS-Messenger's client takes each child node of
``messages`` for an element.
"""

from collections.abc import Iterator, Sequence

from lxml import etree

from filters.documents import parse_own
from mediation import names
from mediation.codec import NOTHING, Answer
from mediation.mailboxes.kept import body_child
from mediation.model.messages import EndpointReference
from mediation.model.requests import (
    Arrival,
    Context,
    CreateMailbox,
    DestroyMailbox,
    MailboxMade,
    Operation,
    Request,
    Response,
    StoreMessage,
    Take,
    Taken,
)
from mediation.model.versions import Version, Wsa
from mediation.soap.addressing import write_epr
from mediation.soap.envelopes import elements, local_name, namespace_of, text_of, xml_text

XSUL_MOST = 10
"""Messages that XSUL hands over at a time."""
XSUL_WAIT = 5.0
"""Seconds that XSUL waits for a message where there is none."""
BOX_NAMES = frozenset({"MsgBoxId", "MsgBoxAddr"})
"""Local names of what names a box: in requests, and as a reference property or parameter of an
endpoint reference. Each release of WS-Messenger had a namespace of its own for them."""

_OPERATIONS = (
    Operation.CREATE_MESSAGE_BOX,
    Operation.STORE_MESSAGES,
    Operation.TAKE_MESSAGES,
    Operation.DESTROY_MESSAGE_BOX,
)


class MessageBox2011:
    """The codec of `Version.MESSAGE_BOX_2011`: a message is the first child of its body."""

    version = Version.MESSAGE_BOX_2011
    namespaces = frozenset({names.MESSAGE_BOX_2011, names.MESSAGE_BOX_2011_SLASH})

    def operation(self, name: str) -> Operation | None:
        return _operation_2011.get(name)

    def action(self, action: str) -> Operation | None:
        return _action_2011.get(action)

    def read(
        self, operation: Operation, element: etree._Element, context: Context, arrival: Arrival
    ) -> Request:
        return Take() if operation is Operation.TAKE_MESSAGES else _read(operation)

    def write(self, response: Response, context: Context) -> Answer:
        match response:
            case MailboxMade(key):
                inner = f"<msgbox:MsgBoxId>{key}</msgbox:MsgBoxId>"
            case Taken(envelopes):
                messages = b"".join(map(body_child, envelopes)).decode()
                inner = f"<msgbox:messages>{messages}</msgbox:messages>"
            case _:
                inner = "<msgbox:status>true</msgbox:status>"
        return _answer("msgbox", names.MESSAGE_BOX_2011_SLASH, inner, context)


class MessageBox2004:
    """The codec of `Version.MESSAGE_BOX_2004`: a message is a whole envelope, as text."""

    version = Version.MESSAGE_BOX_2004
    namespaces = frozenset({names.MESSAGE_BOX_2004})

    def operation(self, name: str) -> Operation | None:
        return _operation_2004.get(name)

    def action(self, action: str) -> Operation | None:
        return _action_2004.get(action)

    def read(
        self, operation: Operation, element: etree._Element, context: Context, arrival: Arrival
    ) -> Request:
        if operation is Operation.TAKE_MESSAGES:
            return Take(XSUL_MOST, XSUL_WAIT)
        return _read(operation)

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


def _named(namespaces: frozenset[str], form: str) -> dict[str, Operation]:
    return {
        form % (namespace, operation.value): operation
        for namespace in namespaces
        for operation in _OPERATIONS
    }


_operation_2011 = _named(MessageBox2011.namespaces, "{%s}%s")
_operation_2004 = _named(MessageBox2004.namespaces, "{%s}%s")
_action_2011 = _named(frozenset({names.MESSAGE_BOX_2011_SLASH}), "%s%s")
_action_2004 = _named(MessageBox2004.namespaces, "%s%s")


def _read(operation: Operation) -> Request:
    match operation:
        case Operation.CREATE_MESSAGE_BOX:
            return CreateMailbox()
        case Operation.DESTROY_MESSAGE_BOX:
            return DestroyMailbox()
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


def box_named_in(element: etree._Element) -> str | None:
    """What names the box in a request's element: an identifier, or an endpoint reference's
    address."""
    for child in elements(element):
        if local_name(child) in BOX_NAMES and namespace_of(child) in _NAMESPACES:
            return _naming(child)
    return None


def boxes_named_by(references: Sequence[bytes]) -> Iterator[str]:
    """What names a box among the reference properties and parameters of an endpoint reference,
    each one element."""
    for reference in references:
        element = parse_own(reference)
        if local_name(element) in BOX_NAMES:
            yield _naming(element)


_NAMESPACES = MessageBox2011.namespaces | MessageBox2004.namespaces


def _naming(element: etree._Element) -> str:
    for inner in element.iter(etree.Element):
        if local_name(inner) == "Address":
            return text_of(inner)
    return text_of(element)
