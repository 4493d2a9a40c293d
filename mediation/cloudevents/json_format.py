"""Events and batches of them in JSON (JSON Event Format for CloudEvents 1.0.2).

Data that is JSON is carried as the text that it is: nothing in it is read and written anew.
"""

from base64 import b64decode, b64encode
from codecs import BOM_UTF8
from collections.abc import Iterable
from json.encoder import encode_basestring
from typing import Any

from filters import Reason, quoted
from mediation.cloudevents.events import (
    CloudEvent,
    check_attributes,
    is_json,
    is_text,
    json_object,
)
from mediation.model.errors import MediationError
from mediation.packaging.json_text import (
    Members,
    is_json_text,
    read_json,
    read_members,
    read_objects,
)


def read_event(octets: bytes) -> CloudEvent:
    """Read an event.

    Raises:
        MediationError: ``MESSAGE_INVALID``, ``TOO_LARGE``, ``TOO_COMPLEX``.
    """
    return _read(read_json(octets), _Texts(octets))


def read_batch(octets: bytes, most: int) -> tuple[CloudEvent, ...]:
    """Read a batch of *most* events at most; it may have none.

    Raises:
        MediationError: as `read_event`.
    """
    found = read_json(octets)
    if not isinstance(found, list):
        raise MediationError(Reason.MESSAGE_INVALID, "A batch is an array of events.")
    if len(found) > most:
        raise MediationError(Reason.TOO_LARGE, f"A batch has {most} events at most.")

    texts = _Texts(octets)
    return tuple([_read(one, texts, at) for at, one in enumerate(found)])


def write_event(event: CloudEvent) -> bytes:
    """Write an event. Data that its media type says to be JSON, and is not, is written as binary
    data, and so is text that is not UTF-8."""
    attributes = json_object(event.attributes)
    if event.data is None:
        return attributes.encode()
    return write_data(attributes, event.data, event.media_type)


def write_data(attributes: str, data: bytes, media_type: str | None) -> bytes:
    """Write an event with this object of JSON as its attributes, and these data, as `write_event`
    does."""
    return f"{attributes[:-1]},{_data_member(data, media_type)}}}".encode()


def write_batch(events: Iterable[CloudEvent]) -> bytes:
    """Write a batch."""
    return b"[" + b",".join(map(write_event, events)) + b"]"


class _Texts:
    """The texts of the members of events, which are looked for only where one of them is carried as
    it was written."""

    __slots__ = ("_found", "_octets")

    def __init__(self, octets: bytes) -> None:
        self._octets = octets
        self._found: list[Members | None] = []

    def of(self, at: int | None) -> Members | None:
        """The members of the event at this place of the batch, or of the only one."""
        if at is None:
            return read_members(self._octets)
        if not self._found:
            self._found = read_objects(self._octets) or []
        return self._found[at]


def _read(found: Any, texts: _Texts, at: int | None = None) -> CloudEvent:
    """Read an event from the value that a parser *found*."""
    if not isinstance(found, dict):
        raise MediationError(Reason.MESSAGE_INVALID, "An event is an object.")
    has_data, data, binary = (
        "data" in found,
        found.pop("data", None),
        found.pop("data_base64", None),
    )
    attributes = check_attributes(found)
    if binary is not None:
        if has_data:
            raise MediationError(Reason.MESSAGE_INVALID, "An event has `data` or `data_base64`.")
        return CloudEvent(attributes, _binary(binary))
    if not has_data:
        return CloudEvent(attributes)
    media_type = str(attributes.setdefault("datacontenttype", "application/json"))
    if is_json(media_type):
        members = texts.of(at)
        assert members is not None, "it is an object"
        return CloudEvent(attributes, members["data"].text.encode())
    return CloudEvent(attributes, _data(data, media_type))


def _data(value: object, media_type: str) -> bytes | None:
    if value is None:
        return None
    if not isinstance(value, str):
        raise MediationError(
            Reason.MESSAGE_INVALID, f"The data is {quoted(media_type)}, but no string."
        )
    try:
        return value.encode()
    except UnicodeEncodeError:
        raise MediationError(
            Reason.MESSAGE_INVALID, "The data has half a character (a lone surrogate)."
        ) from None


def _binary(text: object) -> bytes:
    try:
        if not isinstance(text, str):
            raise ValueError
        return b64decode(text, validate=True)
    except ValueError:
        raise MediationError(Reason.MESSAGE_INVALID, "`data_base64` is not base64.") from None


def is_evidently_json(data: bytes) -> bool:
    """Return whether *data* of which no media type is said is JSON: an object or an array."""
    return data.lstrip(b" \t\r\n")[:1] in (b"{", b"[") and is_json_text(data)


def _data_member(data: bytes, media_type: str | None) -> str:
    # For binary data no type means none, and not JSON (section 3.1.1); `data` without one is JSON.
    if media_type is None:
        if is_evidently_json(data):
            return f'"data":{data.removeprefix(BOM_UTF8).decode()}'
    elif is_json(media_type):
        if is_json_text(data):
            return f'"data":{data.removeprefix(BOM_UTF8).decode()}'
    elif is_text(media_type):
        try:
            return f'"data":{encode_basestring(data.decode())}'
        except UnicodeDecodeError:
            pass
    return f'"data_base64":"{b64encode(data).decode()}"'
