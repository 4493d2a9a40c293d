"""Who is told of the end of a subscription, and how."""

import pytest
from lxml import etree

from filters import EVERYTHING, Expression, Filter
from filters.dialects import JMS_SELECTOR, TOPIC_FULL, TOPIC_SIMPLE
from mediation.model.messages import Policy, Subscription
from mediation.model.versions import Version
from mediation.rendering import write_termination
from tests.rigs.mediation import NOW
from tests.rigs.mediation import subscription as subscribed

RL = "http://docs.oasis-open.org/wsrf/rl-2"
WSNT = "http://docs.oasis-open.org/wsn/b-2"
SCOPE = (("rl", RL), ("w", "urn:w"))
END = Expression("rl:ResourceTermination", TOPIC_SIMPLE, SCOPE)
BOTH = Expression("w:storms//. | rl:ResourceTermination", TOPIC_FULL, SCOPE)


def written(one: Subscription) -> etree._Element | None:
    message = write_termination(
        one, "Because < 1.", producer="urn:gateway", message_id="urn:m", now=NOW
    )
    return None if message is None else etree.fromstring(message[1])


@pytest.mark.parametrize(
    ("filter_", "told"),
    [
        pytest.param(Filter((END,)), True, id="the topic"),
        pytest.param(Filter((BOTH,)), True, id="among others"),
        pytest.param(Filter((Expression("rl:*", TOPIC_FULL, SCOPE),)), True, id="a pattern"),
        pytest.param(EVERYTHING, False, id="no topic"),
        pytest.param(Filter((Expression("a"),)), False, id="no topic expression"),
        pytest.param(Filter((Expression("w:storms", TOPIC_SIMPLE, SCOPE),)), False, id="another"),
        pytest.param(
            Filter((BOTH,), (Expression("/w:storm", namespaces=SCOPE),)), False, id="XPath"
        ),
        pytest.param(
            Filter((BOTH,), (Expression("/w:storm or /rl:*", namespaces=SCOPE),)), True, id="either"
        ),
        pytest.param(
            Filter((BOTH,), (Expression("a = 1", JMS_SELECTOR),)), False, id="a broker's selector"
        ),
    ],
)
def test_who_is_told(filter_: Filter, told: bool) -> None:
    one = subscribed(filter=filter_)
    assert (written(one) is not None) is told


def test_ws_eventing_has_a_message_of_its_own() -> None:
    assert written(subscribed(Version.WSE_2004_08, filter=Filter((END,)))) is None


@pytest.mark.parametrize("raw", [False, True])
def test_it_is_an_ordinary_notification(raw: bool) -> None:
    one = subscribed(filter=Filter((END,)), policy=Policy(raw=raw))
    root = written(one)
    assert root is not None
    [notice] = root.iter(f"{{{RL}}}TerminationNotification")
    time, reason = notice
    assert time.tag == f"{{{RL}}}TerminationTime" and (time.text or "").endswith("Z")
    assert reason.text == "Because < 1."
    topics = [topic.text for topic in root.iter(f"{{{WSNT}}}Topic")]
    assert len(topics) == (0 if raw else 1)
    wrapping = notice.getparent()
    assert wrapping is not None
    assert etree.QName(wrapping).localname == ("Body" if raw else "Message")
