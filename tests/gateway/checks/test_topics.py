"""What is said of the documents of topics."""

from pathlib import Path

import pytest

from gateway.checks.findings import Verdict
from gateway.checks.topics import check_topics
from gateway.settings.settings import Settings

DOCUMENT = (
    '<t:TopicNamespace xmlns:t="http://docs.oasis-open.org/wsn/t-1" targetNamespace="urn:w">'
    '<t:Topic name="storms"/></t:TopicNamespace>'
)


@pytest.mark.parametrize(
    ("text", "fixed", "verdict", "said"),
    [
        (DOCUMENT, False, Verdict.OK, "1 are declared; others may be added"),
        (DOCUMENT, True, Verdict.OK, "1 are declared; no others are"),
        ("<a/>", False, Verdict.FAIL, "line 1: its root element is not TopicNamespace"),
    ],
)
def test_a_document(tmp_path: Path, text: str, fixed: bool, verdict: Verdict, said: str) -> None:
    path = tmp_path / "topics.xml"
    path.write_text(text)
    [finding] = check_topics(Settings(topic_namespaces=(path,), fixed_topic_set=fixed))
    assert finding.verdict is verdict and said in finding.text


def test_none_are_no_finding() -> None:
    assert list(check_topics(Settings())) == []
