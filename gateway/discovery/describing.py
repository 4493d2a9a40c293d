"""What a topic is searched by, and how an advertisement is kept."""

import hashlib
import json
from contextlib import suppress
from dataclasses import replace
from typing import Any

from filters.documents import parse_own
from filters.queries import Described, Value
from gateway.model.advertisements import AdvertisementRow
from gateway.model.moments import moment_of
from mediation.discovery import (
    AnyAdvertisement,
    CheckedAdvertisement,
    EncryptedAdvertisement,
    Synopsis,
    SynopsisType,
    TopicAdvertisement,
    selection_of,
    write,
)


def describe(topic: AnyAdvertisement, written: bytes | None = None) -> Described:
    """What queries about *topic* are evaluated over. XPath and XQuery get the advertisement, with
    its documents in it and without its signature. Of an encrypted one they get what is in the
    clear: which it is, whose, of which node, and until when.

    Args:
        written: The advertisement, where it has been read; of an encrypted one it is not asked for.
    """
    if isinstance(topic, EncryptedAdvertisement):
        clear = write(replace(topic, data=b""))
        return Described(topic.created, topic.expires, topic.creator.entity_id, documents=(clear,))
    descriptors = topic.descriptors
    properties: dict[str, Value] = {}
    for one in descriptors.properties:
        with suppress(ValueError):
            properties[one.name] = one.typed
    path = topic.synopsis.text if topic.synopsis.type is SynopsisType.PATH else None
    return Described(
        topic.created,
        topic.expires,
        topic.creator.entity_id,
        descriptors.paths,
        descriptors.texts,
        descriptors.keywords,
        properties,
        (write(topic) if written is None else written,),
        " ".join(
            word
            for document in descriptors.documents
            for text in parse_own(document).itertext()
            for word in str(text).split()
        ),
        path,
    )


def row_of(checked: CheckedAdvertisement, described: Described) -> AdvertisementRow:
    """What is kept of an advertisement.

    Raises:
        SynopsisRefused: Its synopsis does not have the UUID where a node puts it.
    """
    topic = checked.advertisement
    place = None
    if isinstance(topic, TopicAdvertisement):
        place = selection_of(topic.synopsis, topic.topic_id).topic
    return AdvertisementRow(
        str(topic.topic_id),
        topic.creator.entity_id,
        topic.node,
        topic.created.timestamp(),
        topic.expires.timestamp(),
        checked.issued.timestamp(),
        _claim(topic),
        None if place is None else str(place),
        write_described(described),
        checked.octets,
    )


def _claim(topic: AnyAdvertisement) -> bytes:
    """The digest of whose *topic* is, and of its synopsis, or what that is hidden in."""
    claim: list[Any] = [topic.creator.entity_id]
    if isinstance(topic, EncryptedAdvertisement):
        claim.append(topic.data.decode())
    else:
        claim += _synopsis(topic.synopsis)
    return hashlib.sha256(json.dumps(claim).encode()).digest()


def _synopsis(synopsis: Synopsis) -> list[Any]:
    return [
        synopsis.type.value,
        synopsis.text,
        synopsis.namespace,
        [[one.name, one.value, one.type.value] for one in synopsis.properties],
        None if synopsis.document is None else synopsis.document.decode(),
    ]


def write_described(described: Described) -> str:
    """Write what is searched of a topic as JSON, without what its row has besides."""
    return json.dumps(
        {
            "paths": described.paths,
            "texts": described.texts,
            "keywords": described.keywords,
            "properties": dict(described.properties),
            "documents": [document.decode() for document in described.documents],
            "document_text": described.document_text,
            "synopsis_path": described.synopsis_path,
        },
        ensure_ascii=False,
    )


def read_described(row: AdvertisementRow) -> Described:
    """What is searched of the topic of *row*."""
    value = json.loads(row.described)
    for name in ("paths", "texts", "keywords"):
        value[name] = tuple(value[name])
    value["documents"] = tuple(document.encode() for document in value["documents"])
    return Described(
        moment_of(row.created),
        moment_of(row.expires),
        row.creator,
        **value,
    )
