"""Topics that are minimal forms of others: who subscribes to one gets the events of the full one."""

import pytest

from filters import Expression, asks_for_minimal, dialects, parse_expression
from filters.topics import IHE, MINIMAL_FORMS, parse_clark

FULL = parse_clark(f"{{{IHE}}}FullDocumentEntry")
MINIMAL = parse_clark(f"{{{IHE}}}MinimalDocumentEntry")
EXTENDED = parse_clark(f"{{{IHE}}}ExtendedFullDocumentEntry")


@pytest.mark.parametrize(
    ("text", "dialect", "minimal", "selects"),
    [
        ("ihe:MinimalDocumentEntry", dialects.TOPIC_SIMPLE, True, [FULL, MINIMAL]),
        ("ihe:MinimalDocumentEntry", dialects.TOPIC_CONCRETE, True, [FULL, MINIMAL]),
        (
            "ihe:MinimalDocumentEntry|ihe:ExtendedMinimalDocumentEntry", dialects.TOPIC_FULL, True,
            [FULL, MINIMAL, EXTENDED],
        ),
        ("ihe:FullDocumentEntry", dialects.TOPIC_SIMPLE, False, [FULL]),
        (
            "ihe:MinimalDocumentEntry|ihe:FullDocumentEntry", dialects.TOPIC_FULL, False,
            [FULL, MINIMAL],
        ),
        ("ihe:MinimalDocumentEntry|x", dialects.TOPIC_FULL, False, [MINIMAL]),
        ("ihe:MinimalDocumentEntry//.", dialects.TOPIC_FULL, False, [MINIMAL]),
        ("ihe:*", dialects.TOPIC_FULL, False, [FULL, MINIMAL, EXTENDED]),
        ("MinimalDocumentEntry", dialects.TOPIC_SIMPLE, False, []),
    ],
)  # fmt: skip
def test_a_minimal_form_alone_stands_for_the_full_one(
    text: str, dialect: str, minimal: bool, selects: list[object]
) -> None:
    expression = Expression(text, dialect)
    assert asks_for_minimal(expression) is minimal
    pattern = parse_expression(expression)
    assert [topic for topic in (FULL, MINIMAL, EXTENDED) if pattern.matches(topic)] == selects


def test_every_full_form_has_one_minimal_form() -> None:
    assert MINIMAL_FORMS[FULL] == MINIMAL
    assert len(set(MINIMAL_FORMS.values())) == len(MINIMAL_FORMS)
