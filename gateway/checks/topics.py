"""The documents of topics, and of types of events, that the settings name."""

from collections.abc import Iterator

from filters import Refused
from gateway.checks.findings import Finding, fail, ok
from gateway.publishing.event_type_files import read_event_types
from gateway.publishing.topic_files import read_namespaces
from gateway.settings.settings import Settings


def check_topics(settings: Settings) -> Iterator[Finding]:
    """Read the files of ``topic_namespaces``; nothing is said where there are none."""
    if not settings.topic_namespaces:
        return
    try:
        found = read_namespaces(settings.topic_namespaces, fixed=settings.fixed_topic_set)
    except Refused as refused:
        yield fail("topics", f"{refused.text}; correct the file, or the setting")
        return
    others = "no others are" if found.fixed else "others may be added"
    yield ok("topics", f"{len(found.topics)} are declared; {others}")


def check_event_types(settings: Settings) -> Iterator[Finding]:
    """Read the schemas of own types of Grid SOAP Events; nothing is said where there are none."""
    if settings.grid_events.schemas is None:
        return
    try:
        found = read_event_types(settings.grid_events.schemas)
    except Refused as refused:
        yield fail("event types", f"{refused.text}; correct the file, or the setting")
        return
    count = sum(len(schema.types) for schema in found.schemas)
    yield ok("event types", f"{count} are declared, in {len(found.schemas)} schemas")
