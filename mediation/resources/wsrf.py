"""WS-ResourceProperties and WS-ResourceLifetime: reading and querying properties (changing them is
refused), scheduled and immediate termination. WS-Notification is built on them, each version on
another."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from lxml import etree

from filters import Expression, Reason, dialects
from mediation import names
from mediation.filtering import dialect_of, write_expression
from mediation.model.errors import MediationError
from mediation.model.expiry import NEVER, Expiry, format_seconds, parse_expiry
from mediation.model.requests import (
    Arrival,
    Context,
    Destroy,
    GetProperties,
    ModifyProperties,
    Operation,
    Properties,
    QueryProperties,
    QueryResult,
    Request,
    Response,
    SetTerminationTime,
    TerminationTime,
)
from mediation.model.specification import Answer, Detail, Fault, Faults, Offer, RequestParts
from mediation.resources.base_faults import base_fault
from mediation.soap.envelopes import (
    elements,
    local_name,
    namespace_of,
    namespaces_of,
    text_of,
    xml_attribute,
    xml_text,
)

_MODIFYING = (
    Operation.SET_RESOURCE_PROPERTIES,
    Operation.INSERT_RESOURCE_PROPERTIES,
    Operation.UPDATE_RESOURCE_PROPERTIES,
    Operation.DELETE_RESOURCE_PROPERTIES,
)
_PROPERTIES = (
    Operation.GET_RESOURCE_PROPERTY,
    Operation.GET_MULTIPLE_RESOURCE_PROPERTIES,
    Operation.GET_RESOURCE_PROPERTY_DOCUMENT,
    Operation.QUERY_RESOURCE_PROPERTIES,
    *_MODIFYING,
    Operation.PUT_RESOURCE_PROPERTY_DOCUMENT,
)
_LIFETIME = {
    Operation.SET_TERMINATION_TIME: "ScheduledResourceTermination",
    Operation.DESTROY: "ImmediateResourceTermination",
}
"""The port types of their actions; those of properties are named after the operation."""
_NIL = (f"{{{names.XSI}}}nil", f"{{{names.XSD}}}nill")
"""The attribute that says nil; WS-Messenger's stub of SetTerminationTime writes the second."""
MAX_PROPERTIES = 64
"""Properties that one request may ask for."""


@dataclass(frozen=True, slots=True)
class WsrfNames:
    """The names of one version of WSRF, and what it leaves out.

    Attributes:
        resource: The namespace of ResourceUnknownFault; empty where *properties* and *lifetime*
            have one each.
        property_actions, lifetime_actions: The beginnings of actions.
        fault_action: Empty: that of WS-Addressing.
        base: The namespace of BaseFault.
        by_port_type: An action is its beginning, the port type and the message, ``DestroyRequest``;
            else its beginning and the element, ``Destroy``.
        without: Operations that it does not have.
        durations: SetTerminationTime takes a duration, too.
        invalid_change: The fault of a request that changes properties and cannot be read.
        changes_told: Faults of changes tell what was to be changed.
    """

    properties: str
    lifetime: str
    resource: str
    property_actions: str
    lifetime_actions: str
    fault_action: str
    base: str = names.WSRF_BF
    by_port_type: bool = True
    without: frozenset[Operation] = frozenset()
    durations: bool = True
    invalid_change: str = "InvalidModificationFault"
    changes_told: bool = True

    def action(self, operation: Operation, message: str) -> str:
        """The action of *message*, ``Request`` or ``Response``, of *operation*."""
        beginning = self.lifetime_actions if operation in _LIFETIME else self.property_actions
        if self.by_port_type:
            port_type = _LIFETIME.get(operation, operation.value)
            return f"{beginning}{port_type}/{operation.value}{message}"
        return f"{beginning}{operation.value}{message.removeprefix('Request')}"

    @property
    def operations(self) -> Mapping[Operation, str]:
        """Its operations, and the namespace of each."""
        return {
            operation: self.lifetime if operation in _LIFETIME else self.properties
            for operation in (*_PROPERTIES, *_LIFETIME)
            if operation not in self.without
        }


WSRF_1_2 = WsrfNames(
    names.WSRF_RP,
    names.WSRF_RL,
    names.WSRF_R,
    names.WSRF_RP_ACTIONS,
    names.WSRF_RL_ACTIONS,
    names.WSRF_FAULT_ACTION,
)


def _draft(properties: str, lifetime: str, base: str, actions: tuple[str, str]) -> WsrfNames:
    return WsrfNames(
        properties,
        lifetime,
        "",
        *actions,
        "",
        base=base,
        by_port_type=False,
        without=frozenset(
            {
                Operation.GET_RESOURCE_PROPERTY_DOCUMENT,
                Operation.INSERT_RESOURCE_PROPERTIES,
                Operation.UPDATE_RESOURCE_PROPERTIES,
                Operation.DELETE_RESOURCE_PROPERTIES,
                Operation.PUT_RESOURCE_PROPERTY_DOCUMENT,
            }
        ),
        durations=False,
        invalid_change="InvalidSetResourcePropertiesRequestContentFault",
        changes_told=False,
    )


WSRF_2004_06 = _draft(
    names.WSRF_RP_2004_06,
    names.WSRF_RL_2004_06,
    names.WSRF_BF_2004_06,
    (names.WSRF_RP_2004_06_ACTIONS, names.WSRF_RL_2004_06_ACTIONS),
)
"""The drafts of June 2004, which Globus Toolkit 4 speaks; the actions are those of its WSDL."""
WSRF_IBM = _draft(
    names.WSRF_RP_IBM,
    names.WSRF_RL_IBM,
    names.WSRF_BF_IBM,
    (f"{names.WSRF_RP_IBM}/", f"{names.WSRF_RL_IBM}/"),
)
"""What came before them, of which WS-Messenger's clients have stubs."""


class ResourceRequests:
    """The requests of WSRF."""

    def __init__(self, version: WsrfNames) -> None:
        self._version = version
        self.namespaces = frozenset({version.properties, version.lifetime})
        self._namespaces = version.operations
        self.elements: Mapping[str, Operation] = {
            f"{{{namespace}}}{operation.value}": operation
            for operation, namespace in self._namespaces.items()
        }
        self.actions: Mapping[str, Operation] = {
            version.action(operation, "Request"): operation for operation in self._namespaces
        }

    def read(
        self, operation: Operation, element: etree._Element, context: Context, arrival: Arrival
    ) -> Request:
        match operation:
            case Operation.GET_RESOURCE_PROPERTY:
                return GetProperties((_qname(element),))
            case Operation.GET_MULTIPLE_RESOURCE_PROPERTIES:
                asked = [
                    child for child in elements(element) if local_name(child) == "ResourceProperty"
                ]
                if not asked or len(asked) > MAX_PROPERTIES:
                    raise MediationError(
                        Reason.MESSAGE_INVALID,
                        "The request names no resource property, or too many.",
                    )
                return GetProperties(tuple(map(_qname, asked)))
            case Operation.GET_RESOURCE_PROPERTY_DOCUMENT:
                return GetProperties(None)
            case Operation.QUERY_RESOURCE_PROPERTIES:
                return QueryProperties(_read_query(element))
            case Operation.PUT_RESOURCE_PROPERTY_DOCUMENT:
                return ModifyProperties(None)
            case _ if operation in _MODIFYING:
                return ModifyProperties(_modified(element))
            case Operation.SET_TERMINATION_TIME:
                return SetTerminationTime(self._termination(element))
            case _:
                return Destroy()

    def _termination(self, element: etree._Element) -> Expiry:
        for child in elements(element):
            if namespace_of(child) != self._version.lifetime:
                continue
            if local_name(child) in ("RequestedTerminationTime", "RequestedLifetimeDuration"):
                if any((child.get(nil) or "").strip() in ("1", "true") for nil in _NIL):
                    return NEVER
                return parse_expiry(text_of(child))
        raise MediationError(Reason.MESSAGE_INVALID, "SetTerminationTime requests no time.")

    def write(self, response: Response, context: Context) -> Answer:
        operation = context.operation or Operation.DESTROY
        match response:
            case Properties():
                inner = _write_properties(response)
            case QueryResult(content):
                inner = content
            case TerminationTime(new, now):
                inner = write_time("rf:NewTerminationTime", new)
                inner += write_time("rf:CurrentTime", now)
            case _:
                inner = ""
        name = f"rf:{operation.value}Response"
        namespace = self._namespaces[operation]
        return Answer(
            self._version.action(operation, "Response"),
            f'<{name} xmlns:rf="{namespace}">{inner}</{name}>',
        )


def _read_query(element: etree._Element) -> Expression:
    """Read the QueryExpression; without a dialect it is XPath 1.0."""
    for child in elements(element):
        if local_name(child) == "QueryExpression":
            dialect = dialect_of(child) or dialects.XPATH_1_0
            return Expression(text_of(child), dialect, namespaces_of(child))
    raise MediationError(Reason.QUERY_INVALID, "The request has no QueryExpression.")


def _modified(element: etree._Element) -> tuple[str, ...]:
    """The names of the properties that a request would change."""
    found = list[str]()
    for change in elements(element):
        if local_name(change) == "Delete":
            found.append(_expanded(change, (change.get("ResourceProperty") or "").strip()))
        else:
            found += (str(value.tag) for value in elements(change))
    if not found or len(found) > MAX_PROPERTIES:
        raise MediationError(
            Reason.MESSAGE_INVALID, "The request changes no resource property, or too many."
        )
    return tuple(dict.fromkeys(found))


def _qname(element: etree._Element) -> str:
    """The QName in an element's text."""
    return _expanded(element, text_of(element))


def _expanded(element: etree._Element, text: str) -> str:
    """A QName, expanded by the namespaces in scope of *element*."""
    prefix, colon, local = text.rpartition(":")
    uri = element.nsmap.get(prefix if colon else None)
    if not local or (colon and uri is None):
        raise MediationError(
            Reason.PROPERTY_UNKNOWN, "The name of the resource property is not a QName in scope."
        )
    return f"{{{uri}}}{local}" if uri else local


def write_time(name: str, moment: datetime | None, declaration: str = "") -> str:
    """An element with a time; None is never, an element that is nil."""
    if moment is None:
        return f'<{name}{declaration} xmlns:xsi="{names.XSI}" xsi:nil="true"/>'
    return f"<{name}{declaration}>{format_seconds(moment)}</{name}>"


def lifetime_properties(
    end: datetime | None, now: datetime, namespace: str = names.WSRF_RL
) -> Mapping[str, bytes]:
    """The resource properties that WS-ResourceLifetime adds to a resource which ends at *end*; None
    is never."""
    declared = f' xmlns:rl="{namespace}"'
    times = {"CurrentTime": now, "TerminationTime": end}
    return {
        f"{{{namespace}}}{name}": write_time(f"rl:{name}", time, declared).encode()
        for name, time in times.items()
    }


def property_document(document: str, values: Mapping[str, bytes]) -> bytes:
    """The document of resource properties whose root has the expanded name *document*."""
    root = etree.QName(document)
    inner = b"".join(values.values()).decode()
    return f'<d:{root.localname} xmlns:d="{root.namespace}">{inner}</d:{root.localname}>'.encode()


def _write_properties(response: Properties) -> str:
    if response.names is None:
        return property_document(response.document, response.values).decode()
    unknown = [name for name in response.names if name not in response.values]
    if unknown:
        raise MediationError(
            Reason.PROPERTY_UNKNOWN, "The resource has no such property.", names=tuple(unknown)
        )
    return b"".join(response.values[name] for name in response.names).decode()


class ResourceClient:
    """Requests of WSRF as a client writes them."""

    def __init__(self, version: WsrfNames) -> None:
        self._version = version

    def get_property(self, name: str) -> RequestParts:
        """Write GetResourceProperty of *name*, in Clark notation."""
        uri, _, local = name[1:].partition("}")
        body = (
            f'<rp:GetResourceProperty xmlns:rp="{self._version.properties}"'
            f" xmlns:p={xml_attribute(uri)}>p:{xml_text(local)}</rp:GetResourceProperty>"
        )
        return RequestParts(self._action(Operation.GET_RESOURCE_PROPERTY), body)

    def query(self, expression: str, namespaces: Mapping[str, str]) -> RequestParts:
        """Write QueryResourceProperties with an expression of XPath 1.0."""
        uri = self._version.properties
        query = write_expression(
            uri, "rp:QueryExpression", expression, dialects.XPATH_1_0, namespaces
        )
        body = f'<rp:QueryResourceProperties xmlns:rp="{uri}">{query}</rp:QueryResourceProperties>'
        return RequestParts(self._action(Operation.QUERY_RESOURCE_PROPERTIES), body)

    def get_termination_time(self) -> RequestParts:
        """Write GetResourceProperty of the termination time."""
        return self.get_property(f"{{{self._version.lifetime}}}TerminationTime")

    def set_termination_time(self, expires: str | None) -> RequestParts:
        """Write SetTerminationTime to a dateTime, for a duration, or, with None, to never.

        Raises:
            MediationError: ``EXPIRY_INVALID``: the version takes no duration.
        """
        if expires is not None and expires.startswith("P") and not self._version.durations:
            raise MediationError(
                Reason.EXPIRY_INVALID, "The specification takes a dateTime, not a duration."
            )
        if expires is None:
            inner = f'<rl:RequestedTerminationTime xmlns:xsi="{names.XSI}" xsi:nil="true"/>'
        elif expires.startswith("P"):
            name = "rl:RequestedLifetimeDuration"
            inner = f"<{name}>{xml_text(expires)}</{name}>"
        else:
            name = "rl:RequestedTerminationTime"
            inner = f"<{name}>{xml_text(expires)}</{name}>"
        lifetime = self._version.lifetime
        body = f'<rl:SetTerminationTime xmlns:rl="{lifetime}">{inner}</rl:SetTerminationTime>'
        return RequestParts(self._action(Operation.SET_TERMINATION_TIME), body)

    def destroy(self) -> RequestParts:
        """Write Destroy."""
        body = f'<rl:Destroy xmlns:rl="{self._version.lifetime}"/>'
        return RequestParts(self._action(Operation.DESTROY), body)

    def _action(self, operation: Operation) -> str:
        return self._version.action(operation, "Request")


_UNKNOWN = (Reason.SUBSCRIPTION_UNKNOWN, Reason.MAILBOX_UNKNOWN, Reason.RESOURCE_UNKNOWN)


def resource_faults(version: WsrfNames) -> Faults:
    """The faults of WSRF: of resources, and of requests to them."""
    told = Detail.CHANGE if version.changes_told else Detail.NONE

    def fault(name: str, namespace: str = version.properties, told: Detail = Detail.NONE) -> Fault:
        action, base = version.fault_action, version.base
        return base_fault(namespace, name, action=action, base=base, detail=told)

    unknown = {
        (reason, None if version.resource else operation): fault(
            "ResourceUnknownFault", version.resource or namespace
        )
        for reason in _UNKNOWN
        for operation, namespace in version.operations.items()
    }
    invalid_query = fault("InvalidQueryExpressionFault")
    invalid_change = fault(version.invalid_change, told=told)
    faults: dict[tuple[Reason, Operation | None], Fault] = {
        **unknown,
        **{(Reason.MESSAGE_INVALID, operation): invalid_change for operation in _MODIFYING},
        (Reason.PROPERTY_READ_ONLY, None): fault("UnableToModifyResourcePropertyFault", told=told),
        (Reason.PROPERTY_READ_ONLY, Operation.PUT_RESOURCE_PROPERTY_DOCUMENT): fault(
            "UnableToPutResourcePropertyDocumentFault", told=told
        ),
        (Reason.QUERY_DIALECT, None): fault("UnknownQueryExpressionDialectFault"),
        (Reason.QUERY_INVALID, None): invalid_query,
        (Reason.FILTER_INVALID, Operation.QUERY_RESOURCE_PROPERTIES): invalid_query,
        (Reason.FILTER_COSTLY, Operation.QUERY_RESOURCE_PROPERTIES): invalid_query,
        (Reason.QUERY_FAILED, None): fault("QueryEvaluationErrorFault"),
        (Reason.PROPERTY_UNKNOWN, None): fault("InvalidResourcePropertyQNameFault"),
        (Reason.EXPIRY_INVALID, Operation.SET_TERMINATION_TIME): fault(
            "UnableToSetTerminationTimeFault", version.lifetime
        ),
        (Reason.EXPIRY_TOO_LONG, Operation.SET_TERMINATION_TIME): fault(
            "TerminationTimeChangeRejectedFault", version.lifetime
        ),
    }
    return {key: fault for key, fault in faults.items() if key[1] not in version.without}


def resource_offers(version: WsrfNames, suffix: str = "") -> tuple[Offer, ...]:
    """The operations of WSRF as rpw-2 and rlw-2 declare them, in port types whose names end in
    *suffix*."""

    def faults(namespace: str, *others: str) -> tuple[str, ...]:
        unknown = f"{{{version.resource or namespace}}}ResourceUnknownFault"
        return (unknown, *(f"{{{namespace}}}{other}" for other in others))

    rp, rl, invalid_name = version.properties, version.lifetime, "InvalidResourcePropertyQNameFault"
    modifying = faults(
        rp, invalid_name, version.invalid_change, "UnableToModifyResourcePropertyFault"
    )
    declared = {
        Operation.GET_RESOURCE_PROPERTY: faults(rp, invalid_name),
        Operation.GET_MULTIPLE_RESOURCE_PROPERTIES: faults(rp, invalid_name),
        Operation.GET_RESOURCE_PROPERTY_DOCUMENT: faults(rp),
        Operation.QUERY_RESOURCE_PROPERTIES: faults(
            rp,
            invalid_name,
            "UnknownQueryExpressionDialectFault",
            "InvalidQueryExpressionFault",
            "QueryEvaluationErrorFault",
        ),
        **dict.fromkeys(_MODIFYING, modifying),
        Operation.PUT_RESOURCE_PROPERTY_DOCUMENT: faults(
            rp, "UnableToPutResourcePropertyDocumentFault"
        ),
        Operation.SET_TERMINATION_TIME: faults(
            rl, "UnableToSetTerminationTimeFault", "TerminationTimeChangeRejectedFault"
        ),
        Operation.DESTROY: faults(rl),
    }
    return tuple(
        Offer(
            f"Resource{'Lifetime' if operation in _LIFETIME else 'Properties'}{suffix}",
            operation,
            namespace,
            version.action(operation, "Request"),
            version.action(operation, "Response"),
            faults=declared[operation],
        )
        for operation, namespace in version.operations.items()
    )
