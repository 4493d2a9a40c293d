"""Topics as elements, of which those that come again and again are remembered."""

from contextlib import suppress

import pytest
from lxml import etree

from filters import Refused, dialects
from mediation.names import WSN_1_3, WSN_IBM
from mediation.notification.topics import _kept_topics, read_topics


@pytest.mark.parametrize(
    "topic",
    [
        f'<w:Topic xmlns:w="urn:w" Dialect="urn:d" note="{"x" * 5000}">storms</w:Topic>',
        f'<w:Topic xmlns:w="urn:w">{"x" * 3000}|{"y" * 3000}</w:Topic>',
        '<w:Topic xmlns:w="urn:w" '
        + " ".join(f'xmlns:p{n}="urn:{n}:{"x" * 40}"' for n in range(100))
        + ">p0:storms</w:Topic>",
    ],
    ids=["an attribute", "a text", "namespaces"],
)
def test_a_large_topic_element_is_not_remembered(topic: str) -> None:
    before = _kept_topics.cache_info()
    with suppress(Refused):
        read_topics(etree.fromstring(topic))
    assert _kept_topics.cache_info() == before


def test_what_is_remembered_of_a_topic_is_all_that_decides() -> None:
    def topics(scope: str, attributes: str, text: str, uri: str = WSN_1_3) -> tuple[str, ...]:
        written = f'<a {scope}><w:Topic xmlns:w="{uri}" {attributes}>{text}</w:Topic></a>'
        return tuple(map(str, read_topics(etree.fromstring(written)[0])))

    for _ in range(2):
        assert topics('xmlns:p="urn:a"', "", "p:b") == ("{urn:a}b",)
        assert topics('xmlns:p="urn:c"', "", "p:b") == ("{urn:c}b",)
        assert topics('xmlns:p="urn:c"', "", "p:b", WSN_IBM) == ("b",)
        assert topics('xmlns:p="urn:c"', "", "b|c") == ("b", "c")
        assert topics('xmlns:p="urn:c"', f'Dialect="{dialects.TOPIC_IBM_SIMPLE}"', "p:b") == ("b",)
