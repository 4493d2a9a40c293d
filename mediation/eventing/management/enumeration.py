"""Pull and Release of WS-Enumeration 2004/09, by which a sink fetches its events (DSP0226 1.2,
section 10.2.9.5). The other operations of WS-Enumeration are not offered."""

from collections.abc import Mapping, Sequence

from lxml import etree

from filters import Reason
from mediation import names, profiles
from mediation.eventing.management.deliveries import PASSED
from mediation.eventing.management.faults import refused
from mediation.eventing.management.values import parse_number, read_seconds
from mediation.mailboxes.kept import MAX_MOST, kept_signatures, read_kept
from mediation.model.errors import MediationError
from mediation.model.requests import (
    Arrival,
    Context,
    Operation,
    Request,
    Response,
    Take,
    Taken,
    Unsubscribe,
)
from mediation.model.specification import Answer, Code, Fault, Faults
from mediation.model.versions import Wsa
from mediation.soap.contents import body_content
from mediation.soap.envelopes import (
    Envelope,
    elements,
    local_name,
    namespace_of,
    octets_of,
    text_of,
    xml_attribute,
)
from mediation.soap.expiry import EXPIRES

CONTEXT = f"{{{names.WSEN}}}EnumerationContext"
WAIT = 30.0
"""Seconds that a Pull waits for an event where it says nothing of that."""
LONGEST_WAIT = 300.0
_BOOKMARK = f"{{{names.WSMAN}}}Bookmark"
_SAID = {"MessageID": "id", "Action": "action"}
_ADDRESSING = frozenset(wsa.value for wsa in Wsa)
_AFTER = "?after="
"""What stands in a context between the key and the lease, where contexts follow each other."""
_LONGEST_LEASE = 64
_ENVELOPE = 2048
"""Octets of the envelope around the events, about."""


class PullRequests:
    """Pull, and Release, which ends the subscription."""

    namespaces = frozenset({names.WSEN})
    elements: Mapping[str, Operation] = {
        f"{{{names.WSEN}}}{operation.value}": operation
        for operation in (Operation.PULL, Operation.RELEASE)
    }
    actions: Mapping[str, Operation] = {}

    def read(
        self, operation: Operation, element: etree._Element, context: Context, arrival: Arrival
    ) -> Request:
        if element.find(CONTEXT) is None:
            raise MediationError(Reason.MESSAGE_INVALID, "EnumerationContext is missing.")
        return _read_pull(element, context) if operation is Operation.PULL else Unsubscribe()

    def write(self, response: Response, context: Context) -> Answer:
        if not isinstance(response, Taken):
            return Answer(f"{names.WSEN}/ReleaseResponse")
        kept = list(map(read_kept, response.envelopes))
        items = [body_content(one) if one.body else b"" for one in kept]
        if response.octets is not None and sum(map(len, items)) > response.octets:
            raise refused(
                Reason.ENCODING_LIMIT,
                "The next event is larger than the answer may be.",
                "MaxEnvelopeSizeExceeded",
            )
        following = enumeration_context(response.key, response.lease or None)
        body = (
            f'<wsen:PullResponse xmlns:wsen="{names.WSEN}">{following}'
            f"<wsen:Items>{b''.join(items).decode()}</wsen:Items></wsen:PullResponse>"
        )
        headers = _headers(kept) + kept_signatures(response.envelopes, alone=True)
        return Answer(f"{names.WSEN}/PullResponse", body, headers=headers)


def _headers(kept: Sequence[Envelope]) -> str:
    """The header blocks of an answer: the bookmark of its last event, where bookmarks are wanted,
    and what another gateway of ours wants to know of each event."""
    if not kept:
        return ""
    marks = [octets_of(one).decode() for one in kept[-1].headers if one.tag == _BOOKMARK]
    told = "".join(map(_told, kept))
    return f'{"".join(marks)}<d:pulled xmlns:d="{names.DRAGOMAN_DATA}">{told}</d:pulled>'


def _told(kept: Envelope) -> str:
    """Return what else is to be said of an event: its id, its action, its topic, when its life is
    over, and the gateways that it has passed."""
    said: dict[str, str] = {}
    topic = ""
    for block in kept.headers:
        name = local_name(block)
        if block.tag == PASSED:
            said |= {key: str(block.get(key) or "") for key in ("hops", "origin", "via")}
        elif block.tag == EXPIRES:
            said["expires"] = text_of(block)
        elif name in _SAID and namespace_of(block) in _ADDRESSING:
            said[_SAID[name]] = text_of(block)
        elif name == "Topic" and namespace_of(block) in profiles.TOPIC_HEADERS:
            topic = octets_of(block).decode()
    attributes = "".join(f" {key}={xml_attribute(value)}" for key, value in said.items() if value)
    return f"<d:event{attributes}>{topic}</d:event>"


def enumeration_context(key: str, after: str | None = None) -> str:
    """The element that names the events of the subscription with *key*; the prefix ``wsen`` is
    declared on it. *after*: those behind what was handed over under this lease; None: those that
    were not handed over."""
    behind = "" if after is None else f"{_AFTER}{after}"
    return (
        f'<wsen:EnumerationContext xmlns:wsen="{names.WSEN}">urn:uuid:{key}{behind}'
        "</wsen:EnumerationContext>"
    )


def _read_pull(element: etree._Element, context: Context) -> Take:
    """Read Pull: at most so many events and octets, and how long to wait for the first, within what
    the headers of WS-Management allow."""
    most, waits, sizes = None, [LONGEST_WAIT], []
    for child in elements(element):
        if namespace_of(child) != names.WSEN:
            continue
        match local_name(child):
            case "MaxTime":
                waits.append(read_seconds(child))
            case "MaxElements":
                most = min(parse_number(text_of(child), "MaxElements"), MAX_MOST)
            case "MaxCharacters":
                sizes.append(parse_number(text_of(child), "MaxCharacters"))
    managed = context.managed
    if managed is not None and managed.timeout is not None:
        waits.append(managed.timeout)
    if managed is not None and managed.max_envelope_size is not None:
        sizes.append(managed.max_envelope_size - _ENVELOPE)
    wait = min(waits) if len(waits) > 1 else WAIT
    named = element.find(CONTEXT)
    _, marked, after = ("" if named is None else text_of(named)).partition(_AFTER)
    return Take(
        most or 1,
        wait,
        octets=min(sizes, default=None),
        insists=True,
        after=after[:_LONGEST_LEASE] if marked else None,
    )


_INVALID_CONTEXT = Fault(
    Code.RECEIVER,
    f"{{{names.WSEN}}}InvalidEnumerationContext",
    text="The supplied enumeration context is invalid.",
    prefix="wsen",
    action=f"{names.WSEN}/fault",
)
PULL_FAULTS: Faults = {
    (Reason.MAILBOX_UNKNOWN, None): _INVALID_CONTEXT,
    (Reason.SUBSCRIPTION_UNKNOWN, None): _INVALID_CONTEXT,
}
"""The faults of WS-Enumeration 2004/09, section 4."""
