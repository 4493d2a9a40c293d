"""TopicNamespace documents, and the topics that they allow (WS-Topics 1.3)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from filters import EVERYTHING, Expression, Filter, Reason, Refused, Step, Topic, parse_clark
from filters.dialects import TOPIC_FULL, TOPIC_SIMPLE
from mediation.notification.topic_namespaces import (
    TopicNamespace,
    TopicNamespaces,
    read_topic_namespace,
    read_topic_namespaces,
)

T1 = "http://docs.oasis-open.org/wsn/t-1"
WEATHER = """<wstop:TopicNamespace xmlns:wstop="http://docs.oasis-open.org/wsn/t-1"
    name="Weather" targetNamespace="urn:weather" final="true">
  <wstop:Topic name="storms" messageTypes="w:Warning" xmlns:w="urn:payload">
    <wstop:MessagePattern Dialect="urn:x">//a</wstop:MessagePattern>
    <wstop:Topic name="tropical"/>
    <wstop:Topic name="snow" final="true"><wstop:Topic name="heavy"/></wstop:Topic>
  </wstop:Topic>
  <wstop:Topic name="local" parent="o:places/here" xmlns:o="urn:other"/>
</wstop:TopicNamespace>"""


def read(*documents: str, fixed: bool = False) -> TopicNamespaces:
    return read_topic_namespaces(
        ((f"{number}.xml", each.encode()) for number, each in enumerate(documents)), fixed=fixed
    )


def test_topics_of_a_document() -> None:
    read_one = read_topic_namespace(WEATHER.encode())
    assert (read_one.uri, read_one.final) == ("urn:weather", True)
    assert [(str(topic), final) for topic, final in read_one.topics.items()] == [
        ("{urn:weather}storms", False),
        ("{urn:weather}storms/tropical", False),
        ("{urn:weather}storms/snow", True),
        ("{urn:weather}storms/snow/heavy", False),
        ("{urn:other}places/here/{urn:weather}local", False),
    ]


@pytest.mark.parametrize(
    ("topic", "allowed", "when_fixed"),
    [
        ("{urn:weather}storms", True, True),
        ("{urn:weather}storms/snow/heavy", True, True),
        ("{urn:weather}storms/dust", True, False),
        ("{urn:weather}storms/dust/red", True, False),
        ("{urn:weather}storms/snow/light", False, False),
        ("{urn:weather}storms/snow/heavy/wet", True, False),
        ("{urn:weather}calm", False, False),
        ("{urn:weather}calm/sea", False, False),
        ("{urn:other}places/here/{urn:weather}local/shore", True, False),
        ("{urn:other}places/{urn:weather}else", False, False),
        ("{urn:other}places", True, False),
        ("calm", True, False),
    ],
)
def test_what_is_allowed(topic: str, allowed: bool, when_fixed: bool) -> None:
    assert read(WEATHER).allows(parse_clark(topic)) is allowed
    assert read(WEATHER, fixed=True).allows(parse_clark(topic)) is when_fixed


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ("<a", "0.xml: "),
        ("<a/>", f"0.xml: line 1: its root element is not TopicNamespace of {T1}"),
        (f'<TopicNamespace xmlns="{T1}"/>', "has no targetNamespace"),
        (WEATHER.replace('name="snow"', 'name="a b"'), '"a b" is not the name of a topic'),
        (
            WEATHER.replace('name="snow"', 'name="tropical"'),
            "line 6: the topic {urn:weather}storms",
        ),
        (WEATHER.replace('final="true"', 'final="yes"', 1), 'line 2: final is "yes"'),
        (WEATHER.replace("o:places", "x:places"), 'the parent "x:places/here" is not a topic'),
        (WEATHER.replace('name="tropical"', 'name="b" parent="a"'), "has a parent"),
    ],
)
def test_what_is_wrong_with_a_document(document: str, said: str) -> None:
    with pytest.raises(Refused) as refused:
        read(document)
    assert said in refused.value.text and refused.value.text.startswith("0.xml: ")


def test_a_namespace_is_said_once() -> None:
    with pytest.raises(Refused, match="urn:weather is there twice"):
        read(WEATHER, WEATHER)


@pytest.mark.parametrize(
    ("text", "dialect", "refused"),
    [
        ("w:storms", TOPIC_SIMPLE, False),
        ("w:calm", TOPIC_SIMPLE, True),
        ("w:calm | w:storms", TOPIC_FULL, False),
        ("w:calm | w:still", TOPIC_FULL, True),
        ("w:*//.", TOPIC_FULL, False),
        ("w:calm//.", TOPIC_FULL, False),
    ],
)
def test_filters(text: str, dialect: str, refused: bool) -> None:
    filter_ = Filter((Expression(text, dialect, (("w", "urn:weather"),)),))
    namespaces = read(WEATHER)
    namespaces.check_filter(EVERYTHING)
    if not refused:
        namespaces.check_filter(filter_)
        return
    with pytest.raises(Refused) as caught:
        namespaces.check_filter(filter_)
    assert caught.value.reason is Reason.TOPIC_UNSUPPORTED


TOPICS = st.lists(
    st.builds(Step, st.sampled_from([None, "urn:a", "urn:b"]), st.sampled_from("xy")),
    min_size=1,
    max_size=3,
).map(lambda steps: Topic(tuple(steps)))


@given(st.dictionaries(TOPICS, st.booleans(), max_size=6), st.booleans(), TOPICS)
def test_finality_only_takes_away(topics: dict[Topic, bool], final: bool, topic: Topic) -> None:
    """What a document has is allowed; what is final allows no more than what is not."""
    one = TopicNamespaces([TopicNamespace("urn:a", topics, final)])
    open_ = TopicNamespaces([TopicNamespace("urn:a", dict.fromkeys(topics, False))])
    assert open_.allows(topic)
    assert all(map(one.allows, topics))
    if TopicNamespaces([TopicNamespace("urn:a", topics, final)], fixed=True).allows(topic):
        assert one.allows(topic)
