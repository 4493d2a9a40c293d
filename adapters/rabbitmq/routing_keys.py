"""The routing keys of events, by a file as WS-Messenger (Apache Airavata 0.11) has it.

Its ``amqp-routing-keys.xml`` has this form::

    <routingKeys>
      <event name="workflowTerminated">
        <key name="primaryKey">
          <segment name="serviceID">notificationSource/@serviceID</segment>
        </key>
      </event>
    </routingKeys>

The key is the name of the event, and the text at the path of each segment behind a dot; no text is
an empty one. Beyond the original, an attribute ``namespace`` of any of the elements tells the
namespace of the names in the paths below it; empty: they have none.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from lxml import etree

from adapters.protocol import AdapterError
from filters import Reason, Refused, parse_document
from filters.documents import parse_own

WORKFLOW_TRACKING = "http://airavata.apache.org/schemas/wft/2011/08"
"""The namespace of all steps and attributes, where the file names no other."""
MAX_FILE = 2**20
MAX_STEPS = 32
_ROOT = re.compile(rb"<(?:[^\s:/>]+:)?([^\s:/>]+)")
"""The start of an event, whose local name decides whether it is copied at all."""
_NAME = re.compile(r"[^\W\d][\w.-]*")


@dataclass(frozen=True, slots=True)
class _Segment:
    """A path from the event's root: names of elements, and perhaps of an attribute at its end."""

    steps: tuple[str, ...]
    attribute: str | None

    def text_in(self, root: etree._Element) -> str:
        """The text at the first place that has the path; else an empty one."""
        found: list[etree._Element] = [root]
        for step in self.steps:
            found = [child for each in found for child in each.iterchildren(step)]
        for each in found:
            if self.attribute is None:
                return (each.text or "") + "".join(child.tail or "" for child in each)
            value = each.get(self.attribute)
            if value is not None:
                return str(value)
        return ""


class RoutingKeys:
    """The keys of each kind of event.

    Args:
        every_event: Events that the file does not name are copied too, with their name as the key.
    """

    def __init__(
        self,
        keys: Mapping[str, tuple[tuple[_Segment, ...], ...]],
        *,
        every_event: bool = False,
    ) -> None:
        self._keys = keys
        self._every_event = every_event

    def takes(self, payload: bytes) -> bool:
        """Return whether *payload*, one element, is an event that is copied."""
        return self._every_event or _name_of(payload) in self._keys

    def keys_of(self, payload: bytes) -> tuple[str, ...]:
        """The routing keys of an event that is copied."""
        name = _name_of(payload)
        keys = self._keys.get(name)
        if keys is None:
            return (name,)
        if not any(keys):
            return (name,) * len(keys)
        root = parse_own(payload)
        return tuple(
            ".".join((name, *(segment.text_in(root) for segment in segments))) for segments in keys
        )


def read_routing_keys(content: bytes | None, *, every_event: bool = False) -> RoutingKeys:
    """Read the content of the file; None: there is no file.

    Raises:
        AdapterError: It is not as described.
    """
    if content is None:
        return RoutingKeys({}, every_event=every_event)
    if len(content) > MAX_FILE:
        raise _wrong("the file is longer than a mebibyte")
    try:
        root = parse_document(content)
    except Refused as exc:
        raise _wrong(exc.text) from exc
    if etree.QName(root).localname != "routingKeys":
        raise _wrong("its root element is not routingKeys")
    keys: dict[str, tuple[tuple[_Segment, ...], ...]] = {}
    for event, name in _named(root, "event"):
        keys[name] = tuple(
            tuple(_segment(segment) for segment, _ in _named(key, "segment"))
            for key, _ in _named(event, "key")
        )
    return RoutingKeys(keys, every_event=every_event)


def _named(parent: etree._Element, kind: str) -> list[tuple[etree._Element, str]]:
    """The children of a kind by their names; the first of each name, and none without one."""
    found: dict[str, etree._Element] = {}
    for child in parent.iterchildren(etree.Element):
        name = (child.get("name") or "").strip()
        if etree.QName(child).localname == kind and name:
            found.setdefault(name, child)
    return [(child, name) for name, child in found.items()]


def _segment(element: etree._Element) -> _Segment:
    text = (element.text or "").strip()
    path, at, attribute = text.partition("@")
    steps = [step for step in path.split("/") if step]
    names = [*steps, attribute] if at else steps
    if not names or len(names) > MAX_STEPS or not all(map(_NAME.fullmatch, names)):
        raise _wrong(f"{text[:100]!r} is not a path such as notificationSource/@serviceID")
    namespace = _namespace(element)
    prefix = f"{{{namespace}}}" if namespace else ""
    return _Segment(
        tuple(f"{prefix}{step}" for step in steps), f"{prefix}{attribute}" if at else None
    )


def _namespace(element: etree._Element) -> str:
    for each in (element, *element.iterancestors()):
        value = each.get("namespace")
        if value is not None:
            return str(value).strip()
    return WORKFLOW_TRACKING


def _name_of(payload: bytes) -> str:
    match = _ROOT.match(payload)
    return match[1].decode(errors="replace") if match else ""


def _wrong(text: str) -> AdapterError:
    return AdapterError(Reason.INTERNAL, f"the routing keys cannot be read: {text}")
