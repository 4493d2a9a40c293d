"""Synopses: a UUID put into a placeholder, and what a finished one has somebody subscribe to.

| type       | placeholder                | with the UUID                                     |
|------------|----------------------------|---------------------------------------------------|
| path       | ``A/{uuid}/B``, ``A``, ..  | ``A/u-UUID/B``, ``A/u-UUID``                      |
| integer    | anything                   | the UUID as a decimal number                      |
| tags       | ``a=1,b=2``                | ``a=1,b=2,uuid=UUID``                             |
| properties | properties                 | the property ``uuid``, then those                 |
| xml        | a document                 | ``tdn:TopicId`` as the first node in its root     |

The UUID is a node's: whoever could bring a UUID could claim the topic of somebody else, since UUIDs
of topics are public.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from uuid import UUID

from lxml import etree

from filters import Step, Topic, dialects
from filters.documents import parse_own
from mediation import names
from mediation.discovery.errors import SynopsisRefused
from mediation.discovery.values import MAX_TOKEN, Property, Synopsis, SynopsisType
from mediation.discovery.writing import canonical_document
from mediation.discovery.xml_fields import canonical, is_token, urn

MAX_LEVELS = 16
"""The most levels of a path, with the UUID's."""
MAX_SYNOPSIS = 16 * 2**10
"""The most bytes of a placeholder."""
TOKEN = "{uuid}"
"""The level for the UUID in the placeholder of a path."""
UUID_NAME = "uuid"
"""The tag, and the property, that holds the UUID."""
_TOPIC_ID = f"{{{names.TDN}}}TopicId"


def place_uuid(placeholder: Synopsis, topic_id: UUID) -> Synopsis:
    """Put *topic_id* into *placeholder*.

    Raises:
        SynopsisRefused: That cannot be: it is in the namespace of topic discovery, has two tokens
            or a UUID already, is too large, or not what its type says.
    """
    if _size(placeholder) > MAX_SYNOPSIS:
        raise SynopsisRefused(f"The synopsis is larger than {MAX_SYNOPSIS} bytes.")
    return _PLACERS[placeholder.type](placeholder, topic_id)


def check_placeholder(placeholder: Synopsis) -> None:
    """Check that a UUID can be put into *placeholder*.

    Raises:
        SynopsisRefused: As `place_uuid`.
    """
    place_uuid(placeholder, UUID(int=0))


def _size(synopsis: Synopsis) -> int:
    texts = [one.name + one.value for one in synopsis.properties]
    texts += [synopsis.text, synopsis.namespace or ""]
    return sum(len(text.encode()) for text in texts) + len(synopsis.document or b"")


def _path(synopsis: Synopsis, topic_id: UUID) -> Synopsis:
    if synopsis.namespace == names.TDN:
        raise SynopsisRefused("Topics in the namespace of topic discovery belong to nobody.")
    if synopsis.namespace is not None and (
        not synopsis.namespace or set(synopsis.namespace) & set("{} \t\r\n")
    ):
        raise SynopsisRefused("The namespace of the path is not a URI.")
    levels = synopsis.text.split("/") if synopsis.text else []
    if levels.count(TOKEN) > 1:
        raise SynopsisRefused(f"The path has {TOKEN} twice.")
    if TOKEN not in levels:
        levels.append(TOKEN)
    if len(levels) > MAX_LEVELS:
        raise SynopsisRefused(f"The path has more than {MAX_LEVELS} levels.")
    if not all(level == TOKEN or is_token(level) for level in levels):
        raise SynopsisRefused(
            f"A level of the path is not an NCName of at most {MAX_TOKEN} characters."
        )
    level = level_of(topic_id)
    return replace(synopsis, text="/".join(level if one == TOKEN else one for one in levels))


def level_of(topic_id: UUID) -> str:
    """Return a UUID as a level of a path: prefixed, because no NCName begins with a digit."""
    return f"u-{topic_id}"


def _integer(synopsis: Synopsis, topic_id: UUID) -> Synopsis:
    return replace(synopsis, text=str(topic_id.int))


def _tags(synopsis: Synopsis, topic_id: UUID) -> Synopsis:
    pairs = synopsis.text.split(",") if synopsis.text else []
    found = [pair.partition("=") for pair in pairs]
    if not all(sign and is_token(name) for name, sign, _ in found):
        raise SynopsisRefused("The tags are not a list like a=1,b=2.")
    _check_names([name for name, _, _ in found])
    return replace(synopsis, text=",".join([*pairs, f"{UUID_NAME}={topic_id}"]))


def _properties(synopsis: Synopsis, topic_id: UUID) -> Synopsis:
    _check_names([one.name for one in synopsis.properties])
    return replace(synopsis, properties=(Property(UUID_NAME, str(topic_id)), *synopsis.properties))


def _check_names(found: list[str]) -> None:
    if UUID_NAME in found:
        raise SynopsisRefused(f"{UUID_NAME!r} is the node's to give.")
    if len(set(found)) < len(found):
        raise SynopsisRefused("A name stands twice in the synopsis.")


def _xml(synopsis: Synopsis, topic_id: UUID) -> Synopsis:
    try:
        root = parse_own(canonical_document(synopsis.document or b""))
    except etree.XMLSyntaxError:
        raise SynopsisRefused("The document of the synopsis is not XML.") from None
    if next(root.iter(_TOPIC_ID), None) is not None:
        raise SynopsisRefused("The document has a TopicId, which only the node adds: leave it out.")
    # A prefix of ours on the element alone: the document's own declarations stay as they are.
    added = etree.Element(_TOPIC_ID, nsmap={"tdn": names.TDN})
    added.text = urn(topic_id)
    added.tail, root.text = root.text, None
    root.insert(0, added)
    return replace(synopsis, document=canonical(root))


_PLACERS: Mapping[SynopsisType, Callable[[Synopsis, UUID], Synopsis]] = {
    SynopsisType.PATH: _path,
    SynopsisType.INTEGER: _integer,
    SynopsisType.TAGS: _tags,
    SynopsisType.PROPERTIES: _properties,
    SynopsisType.XML: _xml,
}


@dataclass(frozen=True, slots=True)
class Selection:
    """The subscription for a topic: a topic of the messaging system, or else a content filter.

    Attributes:
        dialect: The dialect of *expression*, a URI; None where there is a topic.
    """

    topic: Topic | None = None
    dialect: str | None = None
    expression: str = ""


def selection_of(synopsis: Synopsis, topic_id: UUID) -> Selection:
    """Return the subscription for the topic of a finished *synopsis*.

    Raises:
        SynopsisRefused: It does not have the UUID where a node puts it.
    """
    check_finished(synopsis, topic_id)
    match synopsis.type:
        case SynopsisType.PATH:
            first, *others = synopsis.text.split("/")
            steps = (Step(synopsis.namespace, first), *(Step(None, one) for one in others))
            return Selection(Topic(steps))
        case SynopsisType.INTEGER:
            return Selection(integer_topic(topic_id))
        case SynopsisType.TAGS | SynopsisType.PROPERTIES:
            # The UUID alone tells the topic from all others.
            return Selection(None, dialects.JMS_SELECTOR, f"{UUID_NAME} = '{topic_id}'")
        case SynopsisType.XML:
            named = f"local-name()='TopicId' and namespace-uri()='{names.TDN}'"
            text = f"boolean(//*[{named}][.='{urn(topic_id)}'])"
            return Selection(None, dialects.XPATH_1_0, text)


def integer_topic(topic_id: UUID) -> Topic:
    """The topic of a synopsis that is an integer: it follows from the UUID alone."""
    return Topic((Step(names.TDN, "Integer"), Step(None, f"i-{topic_id.int}")))


def check_finished(synopsis: Synopsis, topic_id: UUID) -> None:
    """Check that *synopsis* has *topic_id* where a node puts it, whatever its placeholder was.

    Raises:
        SynopsisRefused: It does not.
    """
    match synopsis.type:
        case SynopsisType.PATH:
            levels = synopsis.text.split("/")
            right = (
                levels.count(level_of(topic_id)) == 1
                and len(levels) <= MAX_LEVELS
                and all(map(is_token, levels))
                and synopsis.namespace != names.TDN
            )
        case SynopsisType.INTEGER:
            right = synopsis.text == str(topic_id.int)
        case SynopsisType.TAGS:
            right = [
                pair for pair in synopsis.text.split(",") if pair.startswith(f"{UUID_NAME}=")
            ] == [f"{UUID_NAME}={topic_id}"]
        case SynopsisType.PROPERTIES:
            right = [one for one in synopsis.properties if one.name == UUID_NAME] == [
                Property(UUID_NAME, str(topic_id))
            ]
        case SynopsisType.XML:
            root = parse_own(synopsis.document or b"<none/>")
            right = [one.text for one in root.iter(_TOPIC_ID)] == [urn(topic_id)]
    if not right:
        raise SynopsisRefused("The synopsis does not have the UUID of its topic.")
