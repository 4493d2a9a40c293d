"""Filters of which the messaging system evaluates a part itself, in a dialect of its own."""

from collections.abc import Collection
from dataclasses import replace

from adapters.protocol import Interest
from filters import Expression, Filter, FilterError, Reason


def split_delegated(filter: Filter, dialects: Collection[str]) -> tuple[Interest | None, Filter]:
    """Split *filter* into the interest in its expression that is in one of *dialects*, and the
    rest.

    Raises:
        FilterError: ``FILTER_COSTLY``: it has several such expressions.
    """
    theirs = [each for each in filter.contents + filter.others if _dialect(each) in dialects]
    if not theirs:
        return None, filter
    if len(theirs) > 1:
        raise FilterError(
            Reason.FILTER_COSTLY,
            "only one expression of a filter may be in a dialect of the messaging system",
        )
    rest = replace(
        filter,
        contents=tuple(each for each in filter.contents if each not in theirs),
        others=tuple(each for each in filter.others if each not in theirs),
    )
    return Interest(Expression(theirs[0].text.strip(), _dialect(theirs[0]))), rest


def _dialect(expression: Expression) -> str:
    return expression.dialect.strip()
