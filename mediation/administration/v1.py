"""Dragoman's management of subscriptions, version 1: `SPECIFICATION`. Whatever a subscriber speaks,
its subscription is listed here, and can be ended."""

from collections.abc import Mapping

from lxml import etree

from filters import Reason, parse_topics
from filters.dialects import TOPIC_CONCRETE
from mediation import names
from mediation.filtering import dialect_of
from mediation.mailboxes.kept import read_most
from mediation.model.errors import MediationError
from mediation.model.expiry import format_seconds
from mediation.model.requests import (
    Arrival,
    Context,
    DeleteSubscriptions,
    ListSubscriptions,
    Operation,
    Request,
    Response,
    SubscriptionEntry,
    SubscriptionsDeleted,
    SubscriptionSelection,
    SubscriptionsListed,
)
from mediation.model.specification import Answer, Offer, Service, Specification
from mediation.model.versions import Family, Soap, Version
from mediation.notification.properties import write_filter
from mediation.soap.envelopes import (
    attributes_of,
    elements,
    local_name,
    namespace_of,
    namespaces_of,
    text_of,
    xml_text,
)

NAMESPACE = names.DRAGOMAN_MANAGEMENT
MAX_NAMES = 1000
"""Ids and keys that one request may name."""
MAX_TEXT = 2048
"""Characters of a text in a request."""
_OPERATIONS = (Operation.LIST_SUBSCRIPTIONS, Operation.DELETE_SUBSCRIPTIONS)
_BOOLEANS = {"true": True, "1": True, "false": False, "0": False}
_PAGE = ("Selection", "MaximumNumber", "After")
_ONCE = {
    "ListSubscriptions": frozenset(_PAGE),
    "DeleteSubscriptions": frozenset({*_PAGE, "All"}),
    "Selection": frozenset({"Topic", "Consumer", "Specification", "Owner"}),
}
"""The children that an element has once at most."""
_OFTEN = {"DeleteSubscriptions": frozenset({"Id"}), "Selection": frozenset({"State"})}
_ATTRIBUTES = {
    "DeleteSubscriptions": frozenset({"dryRun"}),
    "Topic": frozenset({"Dialect"}),
}
"""The attributes that an element has; those of XML Schema's instances may stand on any."""


class AdministrationRequests:
    """ListSubscriptions and DeleteSubscriptions, and their answers."""

    namespaces = frozenset({NAMESPACE})
    elements: Mapping[str, Operation] = {
        f"{{{NAMESPACE}}}{operation.value}": operation for operation in _OPERATIONS
    }
    actions: Mapping[str, Operation] = {
        f"{NAMESPACE}/{operation.value}": operation for operation in _OPERATIONS
    }

    def read(
        self, operation: Operation, element: etree._Element, context: Context, arrival: Arrival
    ) -> Request:
        children, named = _children(element)
        most = read_most(named.get("MaximumNumber"))
        after = _text(named.get("After"))
        selected = named.get("Selection")
        if operation is Operation.LIST_SUBSCRIPTIONS:
            selection = SubscriptionSelection() if selected is None else _read_selection(selected)
            return ListSubscriptions(selection, most, after)
        chosen = tuple(_text(child) for child in children if local_name(child) == "Id")
        ways = bool(chosen) + (selected is not None) + ("All" in named)
        if ways != 1:
            raise MediationError(
                Reason.SELECTION_MISSING,
                "Say which subscriptions in one way: by Id, by a Selection, or with All.",
            )
        if len(chosen) > MAX_NAMES:
            raise MediationError(Reason.MESSAGE_INVALID, f"More than {MAX_NAMES} are named.")
        meant = None
        if not chosen:
            meant = SubscriptionSelection() if selected is None else _read_selection(selected)
            if selected is not None and meant == SubscriptionSelection():
                raise MediationError(
                    Reason.SELECTION_MISSING, "The Selection is empty: say All where you mean all."
                )
        dry = _BOOLEANS.get(element.get("dryRun", "false").strip())
        if dry is None:
            raise MediationError(Reason.MESSAGE_INVALID, "dryRun is not an xsd:boolean.")
        return DeleteSubscriptions(chosen, meant, most, after, dry)

    def write(self, response: Response, context: Context) -> Answer:
        operation = context.operation or Operation.LIST_SUBSCRIPTIONS
        inner = ""
        if isinstance(response, SubscriptionsListed):
            inner = "".join(map(_write_entry, response.entries))
        elif isinstance(response, SubscriptionsDeleted):
            inner = f"<m:Number>{len(response.ids)}</m:Number>"
            inner += "".join(f"<m:Id>{xml_text(id_)}</m:Id>" for id_ in response.ids)
        if isinstance(response, SubscriptionsListed | SubscriptionsDeleted) and response.next:
            inner += f"<m:Next>{xml_text(response.next)}</m:Next>"
        name = f"m:{operation.value}Response"
        return Answer(
            f"{NAMESPACE}/{operation.value}Response",
            f'<{name} xmlns:m="{NAMESPACE}">{inner}</{name}>',
        )


def _text(element: etree._Element | None) -> str:
    text = text_of(element) if element is not None else ""
    if len(text) > MAX_TEXT:
        raise MediationError(Reason.MESSAGE_INVALID, "A text in the request is too long.")
    return text


def _children(
    element: etree._Element,
) -> tuple[list[etree._Element], dict[str, etree._Element]]:
    """The children of *element*, and those that it has once, by their names. Whatever else stands
    there is refused: what is overlooked in a selection selects more than was meant.

    Raises:
        MediationError: ``MESSAGE_INVALID``: something is not of the schema, or stands there twice.
    """
    name = local_name(element)
    once, often = _ONCE.get(name, frozenset()), _OFTEN.get(name, frozenset())
    children = elements(element)
    named: dict[str, etree._Element] = {}
    _check_attributes(element)
    for child in children:
        kind = local_name(child)
        if namespace_of(child) != NAMESPACE or kind not in once | often:
            offered = ", ".join(sorted(once | often))
            raise MediationError(
                Reason.MESSAGE_INVALID,
                f"{name} has an element that is unknown there; it may have {offered}.",
                value=str(child.tag)[:100],
            )
        if kind in named:
            raise MediationError(Reason.MESSAGE_INVALID, f"{name} has more than one {kind}.")
        if kind in once:
            named[kind] = child
        _check_attributes(child)
    return children, named


def _check_attributes(element: etree._Element) -> None:
    name = local_name(element)
    known = _ATTRIBUTES.get(name, frozenset())
    for attribute, _ in attributes_of(element):
        if attribute not in known and not attribute.startswith(f"{{{names.XSI}}}"):
            raise MediationError(
                Reason.MESSAGE_INVALID,
                f"{name} has an attribute that is unknown there.",
                value=attribute[:100],
            )


def _read_selection(element: etree._Element) -> SubscriptionSelection:
    children, named = _children(element)
    for child in children:
        if not _text(child):
            raise MediationError(
                Reason.MESSAGE_INVALID, f"{local_name(child)} is empty in the Selection."
            )
    topic = None
    if (written := named.get("Topic")) is not None:
        dialect = dialect_of(written) or TOPIC_CONCRETE
        topics = parse_topics(text_of(written), dialect, namespaces_of(written))
        if len(topics) != 1:
            raise MediationError(Reason.TOPICS_SEVERAL, "A Selection names one topic.")
        topic = topics[0]
    states = (_text(child) for child in children if local_name(child) == "State")
    return SubscriptionSelection(
        topic,
        _text(named.get("Consumer")) or None,
        _text(named.get("Specification")) or None,
        frozenset(states),
        _text(named.get("Owner")) or None,
    )


def _write_entry(entry: SubscriptionEntry) -> str:
    subscription = entry.subscription
    lease, policy, spec = subscription.lease, subscription.policy, subscription.spec
    form = spec.form
    soap = form.name[1:].replace("_", ".") if isinstance(form, Soap) else None
    parts = [
        ("Id", subscription.id),
        ("Owner", subscription.owner),
        ("Specification", spec.version.value),
        ("Soap", soap),
        ("Consumer", entry.consumer),
        ("EndTo", entry.end_to),
        ("Created", format_seconds(lease.created)),
        ("Expires", format_seconds(lease.expires) if lease.expires else None),
        ("State", entry.state),
        ("Paused", "true" if policy.paused else "false"),
        ("Matched", str(entry.matched)),
        ("Delivered", str(entry.delivered)),
        ("Waiting", str(entry.waiting)),
        ("Dead", str(entry.dead)),
        ("LastError", entry.last_error),
    ]
    inner = "".join(
        f"<m:{name}>{xml_text(text)}</m:{name}>" for name, text in parts if text is not None
    )
    return f"<m:Subscription>{inner}{write_filter(subscription.filter)}</m:Subscription>"


def _offer(operation: Operation) -> Offer:
    action = f"{NAMESPACE}/{operation.value}"
    return Offer("SubscriptionManagement", operation, NAMESPACE, action, f"{action}Response")


SPECIFICATION = Specification(
    Version.ADMINISTRATION_1,
    Family.ADMINISTRATION,
    "Dragoman's management of subscriptions",
    requests=AdministrationRequests(),
    services=(
        Service(
            "management",
            "SubscriptionManagement",
            ("addressing-2005-08", "bf-2", "t-1", "b-2", "management-1"),
            tuple(map(_offer, _OPERATIONS)),
            {},
        ),
    ),
)
