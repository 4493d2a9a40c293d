"""Masks of fields that operators do not see."""

import json

import pytest

from gateway.observing.masking import Mask

MASK = Mask(["ssn", "Name"])


@pytest.mark.parametrize(
    ("document", "shown"),
    [
        (b"<a><ssn>1</ssn>tail</a>", b"<a><ssn>***</ssn>tail</a>"),
        (b'<p:SSN xmlns:p="urn:p"><p:x>1</p:x>2</p:SSN>', b'<p:SSN xmlns:p="urn:p">***</p:SSN>'),
        (b"<a><ssn><ssn>1</ssn>2</ssn></a>", b"<a><ssn>***</ssn></a>"),
        (b'<a name="n" other="o"/>', b'<a name="***" other="o"/>'),
        (b"<a><!--c--><b>1</b></a>", b"<a><!--c--><b>1</b></a>"),
        (b"no document", None),
        (b"<a>", None),
        (b'{"a": NaN}', None),
    ],
)
def test_documents(document: bytes, shown: bytes | None) -> None:
    assert MASK.document(document) == shown
    assert Mask().document(document) == document


def test_json() -> None:
    said = b' {"ssn": {"x": 1}, "a": [{"NAME": "n", "b": 2}], "c": "ssn"}'
    found = MASK.document(said)
    assert found is not None
    assert json.loads(found) == {"ssn": "***", "a": [{"NAME": "***", "b": 2}], "c": "ssn"}


def test_header_fields() -> None:
    assert MASK.header("ssn", "1") == MASK.header("Authorization", "Basic x") == "***"
    assert Mask().header("authorization", "Basic x") == "***"
    assert MASK.header("content-type", "text/xml") == "text/xml"
