import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from filters import DEFAULT_TOPIC, Step, Topic, parse_clark, topic_text
from filters.topics import is_namespace

NAMESPACES = st.text(
    st.characters(exclude_characters="{}", exclude_categories=["Cs"]), min_size=1, max_size=8
)
STEPS = st.builds(
    Step, st.none() | NAMESPACES, st.text(st.sampled_from("ab%/{}:2F57BDé"), min_size=1, max_size=6)
)
TOPICS = st.builds(Topic, st.lists(STEPS, min_size=1, max_size=5).map(tuple))


@pytest.mark.parametrize(
    ("text", "topic"),
    [
        pytest.param("a", Topic((Step(None, "a"),)), id="ad hoc"),
        pytest.param(
            "{http://www.onvif.org/ver10/topics}RuleEngine/Cell/Motion",
            Topic(
                (
                    Step("http://www.onvif.org/ver10/topics", "RuleEngine"),
                    Step(None, "Cell"),
                    Step(None, "Motion"),
                )
            ),
            id="slashes in the namespace",
        ),
        pytest.param("{u}a/{v}b", Topic((Step("u", "a"), Step("v", "b"))), id="two namespaces"),
        pytest.param("%2Fa", Topic((Step(None, "/a"),)), id="a slash in a name"),
        pytest.param("wseTopic", DEFAULT_TOPIC, id="the default topic"),
    ],
)
def test_clark(text: str, topic: Topic) -> None:
    assert parse_clark(text) == topic
    assert str(topic) == text


@pytest.mark.parametrize("text", ["", "/a", "a/", "a//b", "{u}", "{}a", "{u", "{u}/a"])
def test_not_clark(text: str) -> None:
    with pytest.raises(ValueError, match="a topic's"):
        parse_clark(text)


@given(TOPICS)
def test_every_topic_can_be_read_back(topic: Topic) -> None:
    assert parse_clark(str(topic)) == topic


@given(st.lists(TOPICS, min_size=2, max_size=2, unique=True))
def test_no_two_topics_have_one_text(topics: list[Topic]) -> None:
    assert str(topics[0]) != str(topics[1])


def test_text_in_a_dialect() -> None:
    topic = Topic((Step("u", "a"), Step(None, "b"), Step("v", "c")))
    assert topic_text(topic, {"u": "p", "v": "q"}) == "p:a/b/q:c"
    assert topic_text(Topic((Step(None, "ihe:FullDocumentEntry"),)), {}) == "ihe:FullDocumentEntry"
    with pytest.raises(KeyError):
        topic_text(topic, {"u": "p"})


@given(TOPICS)
def test_a_topic_survives_pickling(topic: Topic) -> None:
    again = pickle.loads(pickle.dumps(topic))
    assert (again, str(again), hash(again)) == (topic, str(topic), hash(topic))


@given(TOPICS)
def test_equal_topics_have_one_hash(topic: Topic) -> None:
    again = Topic(tuple(Step(step.namespace, step.name) for step in topic.steps))
    assert again == topic and hash(again) == hash(topic)


@pytest.mark.parametrize("uri", ["urn:a", "http://[::1]:80/x#y", "a", "urn:%C3%A9"])
def test_namespaces_that_a_document_may_declare(uri: str) -> None:
    assert is_namespace(uri)


@pytest.mark.parametrize(
    "uri", ["", "a b", "urn:\u00e9", 'a"b', "a{b", "a<b", "%", "\ud800", "\0", "\n"]
)
def test_namespaces_that_no_document_may_declare(uri: str) -> None:
    assert not is_namespace(uri)
