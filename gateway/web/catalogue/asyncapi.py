"""Topics as a document of AsyncAPI 3.0.0 (https://www.asyncapi.com/docs/reference/specification/v3.0.0).

The application that it describes is the gateway, which sends what is published on a topic to those
who subscribed. What AsyncAPI has no word for is in extensions, ``x-dragoman-...``.
"""

import re
from collections.abc import Mapping
from datetime import datetime
from importlib.metadata import version
from typing import Any
from urllib.parse import urlsplit

from gateway.web.catalogue.known_topics import KnownTopic, Owner, Page
from mediation.discovery import Schema, SchemaType, read_json_schema

ASYNCAPI = "3.0.0"


def asyncapi_document(page: Page, base: str) -> Mapping[str, Any]:
    """Describe the topics of *page* at the gateway whose URL is *base*."""
    url = urlsplit(base)
    document: dict[str, Any] = {
        "asyncapi": ASYNCAPI,
        "info": {
            "title": "Topics at Dragoman",
            "version": version("dragoman"),
            "description": "What can be subscribed to here, by WS-Eventing, WS-Notification or "
            "CloudEvents. Topics with an owner are advertised: their node and their owner have "
            "signed whose they are, and until when.",
        },
        "defaultContentType": "application/xml",
        "servers": {
            "gateway": {
                "host": url.netloc,
                "pathname": f"{url.path}/soap",
                "protocol": url.scheme,
                "description": "Takes requests to subscribe, in SOAP.",
            }
        },
        "channels": {topic.id: _channel(topic) for topic in page.topics},
        "operations": {
            f"notify-{topic.id}": {
                "action": "send",
                "channel": {"$ref": f"#/channels/{topic.id}"},
                "summary": "The gateway notifies those who subscribed.",
            }
            for topic in page.topics
        },
        "components": {
            "messages": {
                "notification": {
                    "name": "notification",
                    "title": "An event",
                    "contentType": "application/xml",
                    "payload": {},
                }
            }
        },
    }
    if page.next is not None:
        document["x-dragoman-next"] = page.next
    return document


def _channel(topic: KnownTopic) -> dict[str, Any]:
    channel: dict[str, Any] = {
        "address": topic.topic,
        "title": title_of(topic),
        "servers": [{"$ref": "#/servers/gateway"}],
        "messages": {
            "notification": {"$ref": "#/components/messages/notification"}
            if topic.schema is None
            else _message(topic.schema)
        },
        "x-dragoman-origin": topic.origin.value,
    }
    if topic.texts:
        channel["description"] = "\n\n".join(topic.texts)
    if topic.keywords:
        channel["tags"] = [{"name": word} for word in dict.fromkeys(topic.keywords)]
    more: dict[str, Any] = {
        "owner": None if topic.owner is None else _owner(topic.owner),
        "node": topic.node,
        "created": _text(topic.created),
        "expires": _text(topic.expires),
        "synopsis": topic.synopsis,
        "mark": topic.mark,
        "paths": list(topic.paths),
        "encrypted": topic.encrypted,
        "signed-by": None if topic.signers is None else topic.signers.value,
    }
    channel.update({f"x-dragoman-{name}": value for name, value in more.items() if value})
    return channel


def _message(schema: Schema) -> dict[str, Any]:
    """The event of a topic whose owner says what it looks like."""
    return {
        "name": "notification",
        "title": "An event",
        "contentType": content_type_of(schema),
        "payload": payload_schema(schema),
    }


def payload_schema(schema: Schema) -> dict[str, Any]:
    """A Multi Format Schema Object. AsyncAPI names drafts of JSON Schema to 07; later ones are
    named alike, and XML Schema by its media type, as it lets them be."""
    if schema.type is SchemaType.XSD:
        return {"schemaFormat": schema.type.value, "schema": schema.text}
    found = read_json_schema(schema)
    return {"schemaFormat": f"{schema.type.value};version={draft_of(found)}", "schema": found}


def draft_of(schema: Mapping[str, Any]) -> str:
    """The draft in which a JSON Schema is written, such as ``draft-07``; that where it does not
    say."""
    said = _DRAFT.fullmatch(str(schema.get("$schema", "")))
    return "draft-07" if said is None else f"draft-{said[1]}"


_DRAFT = re.compile(r"https?://json-schema\.org/draft[-/]([0-9][0-9-]{1,9})/schema#?")


def content_type_of(schema: Schema) -> str:
    """The media type of the events."""
    return "application/xml" if schema.type is SchemaType.XSD else "application/json"


def title_of(topic: KnownTopic) -> str:
    """What people call a topic."""
    return next(iter(topic.paths), None) or topic.topic or topic.id


def _owner(owner: Owner) -> dict[str, str]:
    said = {"id": owner.id, "name": owner.name, "institution": owner.institution}
    return {name: value for name, value in said.items() if value}


def _text(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat()
