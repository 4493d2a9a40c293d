"""The topic that the path of a request names."""

import contextlib
from functools import lru_cache

from filters import KNOWN_PREFIXES, Reason, Refused, Topic, parse_clark, parse_topics, quoted
from filters.dialects import TOPIC_IBM_SIMPLE
from filters.topics import Step, is_namespace
from gateway.security.resource_addresses import MESSENGER_TOPIC_PATHS, TOPIC_PATHS

MAX_TOPIC_NAME = 4096
"""Characters of the name in a path."""
UNDECODED = "\ufffd"
"""The character that the server puts in place of octets in a path that are not UTF-8."""


def topic_of_path(path: str) -> Topic | None:
    """The topic that ``/soap/topic/<name>`` names: a path in the ad hoc namespace, or Clark
    notation; decoded once already. Below WS-Messenger's addresses it is one name, as its dialect
    reads it.

    Raises:
        Refused: ``TOPIC_INVALID``.
    """
    before, name = _parted(path)
    if not name:
        return None
    if before == TOPIC_PATHS[0]:
        return topic_named(name)
    if len(name) > MAX_TOPIC_NAME:
        raise _no_topic()
    return _messenger_topic(name)


def names_every_topic(path: str) -> bool:
    """Whether a Subscribe at *path*, below WS-Messenger's addresses, is to every topic."""
    before, name = _parted(path)
    return before in MESSENGER_TOPIC_PATHS and name == ">"


def _parted(path: str) -> tuple[str | None, str]:
    """What of *path* stands before the name of a topic, and the name; None and nothing where it
    names none."""
    before = next(filter(path.startswith, TOPIC_PATHS), None)
    return before, path.removeprefix(before).strip() if before is not None else ""


def topic_named(name: str) -> Topic:
    """The topic of a name in a URL: a path in the ad hoc namespace, or Clark notation; decoded once
    already.

    Raises:
        Refused: ``TOPIC_INVALID``.
    """
    if len(name) > MAX_TOPIC_NAME:
        raise _no_topic()
    return _topic_named(name)


@lru_cache(maxsize=256)
def _topic_named(name: str) -> Topic:
    steps: tuple[Step, ...] = ()
    with contextlib.suppress(ValueError):
        if "{" in name:
            steps = parse_clark(name).steps
        else:
            steps = tuple(map(_step_named, name.split("/")))
    if not 0 < len(steps) <= 64 or not all(map(_is_name, steps)) or UNDECODED in name:
        raise _no_topic()
    for step in steps:
        if step.namespace and not is_namespace(step.namespace):
            raise Refused(
                Reason.TOPIC_INVALID,
                f"{quoted(step.namespace)}, the namespace of the topic in the URL, is not a URI.",
            )
    return Topic(steps)


@lru_cache(maxsize=256)
def _messenger_topic(name: str) -> Topic:
    topics = parse_topics(name, TOPIC_IBM_SIMPLE, ())
    if not topics or not all(map(_is_name, topics[0].steps)) or UNDECODED in name:
        raise _no_topic()
    return topics[0]


def _step_named(text: str) -> Step:
    """One step of a path. Its prefix, if it has one, must be generally known, for a URL declares
    none."""
    prefix, colon, name = text.partition(":")
    if not colon:
        return Step(None, text)
    if prefix not in KNOWN_PREFIXES:
        raise Refused(
            Reason.TOPIC_INVALID,
            f"The prefix {quoted(prefix)} of the topic in the URL is not known.",
        )
    return Step(KNOWN_PREFIXES[prefix], name)


def _no_topic() -> Refused:
    return Refused(Reason.TOPIC_INVALID, "The URL does not name a topic.")


def _is_name(step: Step) -> bool:
    return bool(step.name) and step.name.isprintable() and (step.namespace or "").isprintable()
