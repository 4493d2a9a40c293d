"""Requests and answers of a client of Dragoman's own management of subscriptions
(`mediation.administration`), which every gateway offers at its SOAP endpoint."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import quoteattr

from lxml import etree

from filters import parse_document
from mediation import names
from mediation.client.reading import read_answer
from mediation.model.versions import Soap
from mediation.soap.envelopes import elements, local_name, read_envelope, text_of, xml_text

MANAGEMENT_SOAP = Soap.V1_2
_CLARK = re.compile(r"\{([^{}]*)\}")
_ELEMENTS = {
    "topic": "Topic",
    "consumer": "Consumer",
    "spec": "Specification",
    "state": "State",
    "owner": "Owner",
}


@dataclass(frozen=True, slots=True)
class ListedSubscription:
    """A subscription as the management lists it: its facts by the names of their elements."""

    facts: Mapping[str, str]
    topics: tuple[str, ...]
    contents: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ManagedPage:
    """A page of an answer; ``next`` is what to go on behind, None at the end."""

    subscriptions: tuple[ListedSubscription, ...]
    ids: tuple[str, ...]
    next: str | None


def write_list_subscriptions(
    selected: Mapping[str, str], *, after: str = "", most: int = 1000
) -> tuple[str, bytes]:
    """The action and the envelope of a ListSubscriptions for the subscriptions *selected* by
    ``topic`` (Clark notation), ``consumer``, ``spec``, ``state`` and ``owner``."""
    selection = _selection(selected) if selected else ""
    return _envelope("ListSubscriptions", f"{selection}{_page(after, most)}")


def write_delete_subscriptions(
    selected: Mapping[str, str],
    ids: Sequence[str] = (),
    *,
    dry_run: bool = False,
    after: str = "",
    most: int = 1000,
) -> tuple[str, bytes]:
    """The action and the envelope of a DeleteSubscriptions: of *ids*, of those *selected*, or of
    all where neither says anything."""
    chosen = "".join(f"<m:Id>{xml_text(one)}</m:Id>" for one in ids)
    chosen = chosen or (_selection(selected) if selected else "<m:All/>")
    page = "" if ids else _page(after, most)
    dry = ' dryRun="true"' if dry_run else ""
    return _envelope("DeleteSubscriptions", f"{chosen}{page}", dry)


def read_managed(octets: bytes) -> ManagedPage:
    """Read the answer to either.

    Raises:
        AnsweredFault: It is a fault.
        Refused: It is not such an answer.
    """
    read_answer(octets)
    body = read_envelope(parse_document(octets)).body
    answer = body[0] if len(body) else etree.Element("nothing")
    children = elements(answer)
    following = next((text_of(one) for one in children if local_name(one) == "Next"), None)
    return ManagedPage(
        tuple(_entry(one) for one in children if local_name(one) == "Subscription"),
        tuple(text_of(one) for one in children if local_name(one) == "Id"),
        following,
    )


def _entry(element: etree._Element) -> ListedSubscription:
    facts = {local_name(one): text_of(one) for one in elements(element) if not elements(one)}
    return ListedSubscription(
        facts,
        tuple(_texts(element, "TopicExpression")),
        tuple(_texts(element, "MessageContent")),
    )


def _texts(element: etree._Element, name: str) -> Iterator[str]:
    return (text_of(one) for one in element.iter(etree.Element) if local_name(one) == name)


def _envelope(operation: str, inner: str, attributes: str = "") -> tuple[str, bytes]:
    namespace = names.DRAGOMAN_MANAGEMENT
    body = f'<m:{operation} xmlns:m="{namespace}"{attributes}>{inner}</m:{operation}>'
    envelope = f'<s:Envelope xmlns:s="{MANAGEMENT_SOAP.value}"><s:Body>{body}</s:Body></s:Envelope>'
    return f"{namespace}/{operation}", envelope.encode()


def _page(after: str, most: int) -> str:
    behind = f"<m:After>{xml_text(after)}</m:After>" if after else ""
    return f"<m:MaximumNumber>{most}</m:MaximumNumber>{behind}"


def _selection(selected: Mapping[str, str]) -> str:
    parts = []
    for name, value in selected.items():
        element, declared = _ELEMENTS[name], ""
        if name == "topic":
            value, declared = _topic(value)
        parts.append(f"<m:{element}{declared}>{xml_text(value)}</m:{element}>")
    return f"<m:Selection>{''.join(parts)}</m:Selection>"


def _topic(text: str) -> tuple[str, str]:
    """A topic in Clark notation as a path with prefixes, and their declarations."""
    namespaces = list(dict.fromkeys(_CLARK.findall(text)))
    declared = "".join(
        f" xmlns:t{number}={quoteattr(uri)}" for number, uri in enumerate(namespaces) if uri
    )

    def prefix(found: re.Match[str]) -> str:
        return f"t{namespaces.index(found[1])}:" if found[1] else ""

    return _CLARK.sub(prefix, text), declared
