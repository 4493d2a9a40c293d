"""Describe topics for searches, and make the rows in which advertisements are kept."""

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
    EventSigners,
    SignedTopicAdvertisement,
    Synopsis,
    SynopsisType,
    TopicAdvertisement,
    read_advertisement,
    read_as,
    selection_of,
    write,
)


def describe(topic: AnyAdvertisement, written: bytes | None = None) -> Described:
    """Return the description of *topic* that queries are evaluated over. XPath and XQuery get the
    advertisement, with its documents and without its signature; of an encrypted one, the part in
    the clear: id, creator, node and times.

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
    """Return the row that keeps an advertisement.

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


def signers_of(row: AdvertisementRow) -> EventSigners | None:
    """Return who has to sign the events of the topic of *row*, as far as one can read that."""
    if row.octets is None or b"EventSigners" not in row.octets:  # Most need not be read.
        return None
    signed = read_as(SignedTopicAdvertisement, row.octets).value
    topic = read_advertisement(signed.advertisement).value
    return None if isinstance(topic, EncryptedAdvertisement) else topic.descriptors.signers


def _claim(topic: AnyAdvertisement) -> bytes:
    """Return the digest of the creator of *topic* and of its synopsis, which may be encrypted. An
    advertisement with another digest is not the same topic."""
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
    """Write a description as JSON, without what the row has in columns of its own."""
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
    """Return the description of the topic of *row*."""
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
