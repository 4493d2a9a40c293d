"""Events: the part of a message that filters see."""

from collections.abc import Callable, Mapping
from typing import NewType

from filters.topics.topics import DEFAULT_TOPIC, Topic

View = NewType("View", str)
"""The name of one rendering of an event as an XML document. Only ``PAYLOAD`` is known here;
whoever makes events may offer others (``mediation`` offers SOAP envelopes)."""

PAYLOAD = View("payload")
"""The payload as a document of its own, its root element the context node."""

ATTRIBUTES = View("attributes")
"""The attributes of the event, as JSON: an object of texts."""


class Event:
    """A message as filters see it.

    Args:
        payload: One XML element in UTF-8, with every namespace declared on it that it uses.
        topic: None means that the publisher named none: filters see the default topic.
        action: The action URI of the message, what makes it when a filter first asks, or None.
        properties: Typed properties of the message, by name.
        views: Makes a view other than ``PAYLOAD`` when a filter first asks for it.
    """

    __slots__ = ("_action", "_made", "_views", "properties", "topic")

    def __init__(
        self,
        payload: bytes,
        *,
        topic: Topic | None = None,
        action: str | Callable[[], str] | None = None,
        properties: Mapping[str, str] | None = None,
        views: Callable[[View], bytes] | None = None,
    ) -> None:
        self.topic = topic or DEFAULT_TOPIC
        self._action = action
        self.properties: Mapping[str, str] = properties or {}
        self._views = views
        self._made: dict[View, bytes] = {PAYLOAD: payload}

    @property
    def action(self) -> str | None:
        """The action URI, made once."""
        if self._action is not None and not isinstance(self._action, str):
            self._action = self._action()
        return self._action

    def view(self, view: View) -> bytes:
        """The document that *view* names, made once.

        Raises:
            LookupError: Nobody offers *view*.
        """
        made = self._made.get(view)
        if made is None:
            if self._views is None:
                raise LookupError(view)
            made = self._made[view] = self._views(view)
        return made
