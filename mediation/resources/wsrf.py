"""WS-ResourceProperties 1.2 and WS-ResourceLifetime 1.2, as far as subscriptions and the producer
are resources: reading properties, scheduled and immediate termination."""

from datetime import datetime

from lxml import etree

from filters import Reason
from mediation import names
from mediation.codec import Answer
from mediation.model.errors import MediationError
from mediation.model.expiry import NEVER, Expiry, format_seconds, parse_expiry
from mediation.model.requests import (
    Destroy,
    GetProperties,
    Operation,
    Properties,
    Request,
    Response,
    SetTerminationTime,
    TerminationTime,
)
from mediation.soap.envelopes import (
    elements,
    local_name,
    namespace_of,
    text_of,
)

RP, RL, WSNT = names.WSRF_RP, names.WSRF_RL, names.WSN_1_3
NAMESPACES = frozenset({RP, RL})

OPERATIONS = {
    f"{{{RP}}}GetResourceProperty": Operation.GET_RESOURCE_PROPERTY,
    f"{{{RP}}}GetMultipleResourceProperties": Operation.GET_MULTIPLE_RESOURCE_PROPERTIES,
    f"{{{RP}}}GetResourcePropertyDocument": Operation.GET_RESOURCE_PROPERTY_DOCUMENT,
    f"{{{RL}}}SetTerminationTime": Operation.SET_TERMINATION_TIME,
    f"{{{RL}}}Destroy": Operation.DESTROY,
}
ACTION_OF = {
    Operation.GET_RESOURCE_PROPERTY: names.WSRF_RP_ACTIONS + "GetResourceProperty/",
    Operation.GET_MULTIPLE_RESOURCE_PROPERTIES: names.WSRF_RP_ACTIONS
    + "GetMultipleResourceProperties/",
    Operation.GET_RESOURCE_PROPERTY_DOCUMENT: names.WSRF_RP_ACTIONS
    + "GetResourcePropertyDocument/",
    Operation.SET_TERMINATION_TIME: names.WSRF_RL_ACTIONS + "ScheduledResourceTermination/",
    Operation.DESTROY: names.WSRF_RL_ACTIONS + "ImmediateResourceTermination/",
}
ACTIONS = {f"{base}{operation.value}Request": operation for operation, base in ACTION_OF.items()}


def read(operation: Operation, element: etree._Element) -> Request:
    """Read a request.

    Raises:
        MediationError: as the specifications say.
    """
    match operation:
        case Operation.GET_RESOURCE_PROPERTY:
            return GetProperties((_qname(element),))
        case Operation.GET_MULTIPLE_RESOURCE_PROPERTIES:
            asked = [
                child for child in elements(element) if local_name(child) == "ResourceProperty"
            ]
            if not asked or len(asked) > 64:
                raise MediationError(
                    Reason.MESSAGE_INVALID, "The request names no resource property, or too many."
                )
            return GetProperties(tuple(map(_qname, asked)))
        case Operation.GET_RESOURCE_PROPERTY_DOCUMENT:
            return GetProperties(None)
        case Operation.SET_TERMINATION_TIME:
            return SetTerminationTime(_termination(element))
        case _:
            return Destroy()


def _qname(element: etree._Element) -> str:
    """The QName in an element's text, expanded by the namespaces in scope there."""
    text = text_of(element)
    prefix, colon, local = text.rpartition(":")
    uri = element.nsmap.get(prefix if colon else None)
    if not local or (colon and uri is None):
        raise MediationError(
            Reason.PROPERTY_UNKNOWN, "The name of the resource property is not a QName in scope."
        )
    return f"{{{uri}}}{local}" if uri else local


def _termination(element: etree._Element) -> Expiry:
    for child in elements(element):
        if namespace_of(child) != RL:
            continue
        if local_name(child) in ("RequestedTerminationTime", "RequestedLifetimeDuration"):
            if (child.get(f"{{{names.XSI}}}nil") or "").strip() in ("1", "true"):
                return NEVER
            return parse_expiry(text_of(child))
    raise MediationError(Reason.MESSAGE_INVALID, "SetTerminationTime requests no time.")


def write(response: Response, operation: Operation) -> Answer:
    """The answer to one of these operations."""
    action = f"{ACTION_OF[operation]}{operation.value}Response"
    namespace = RL if operation in (Operation.SET_TERMINATION_TIME, Operation.DESTROY) else RP
    match response:
        case Properties():
            inner = _write_properties(response)
        case TerminationTime(new, now):
            inner = write_time("rf:NewTerminationTime", new) + write_time("rf:CurrentTime", now)
        case _:
            inner = ""
    name = f"rf:{operation.value}Response"
    return Answer(action, f'<{name} xmlns:rf="{namespace}">{inner}</{name}>')


def write_time(name: str, moment: datetime | None, declaration: str = "") -> str:
    if moment is None:
        return f'<{name}{declaration} xmlns:xsi="{names.XSI}" xsi:nil="true"/>'
    return f"<{name}{declaration}>{format_seconds(moment)}</{name}>"


def _write_properties(response: Properties) -> str:
    if response.names is None:
        root = etree.QName(response.document)
        inner = b"".join(response.values.values()).decode()
        return f'<d:{root.localname} xmlns:d="{root.namespace}">{inner}</d:{root.localname}>'
    unknown = [name for name in response.names if name not in response.values]
    if unknown:
        raise MediationError(
            Reason.PROPERTY_UNKNOWN, "The resource has no such property.", names=tuple(unknown)
        )
    return b"".join(response.values[name] for name in response.names).decode()
