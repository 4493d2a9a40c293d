"""Plain texts for errors of pydantic."""

from collections.abc import Mapping
from typing import Any

FALLBACK = "is not what belongs there"
"""For kinds of errors that have no row."""
WANTED: Mapping[str, str] = {
    "missing": "is missing",
    "extra_forbidden": "there is no such field",
    "none_required": "must be null",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "int_type": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_parsing_size": "must be a whole number of usual size",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
    "finite_number": "must be a finite number",
    "greater_than": "must be more than {gt}",
    "greater_than_equal": "must be {ge} or more",
    "less_than": "must be less than {lt}",
    "less_than_equal": "must be {le} or less",
    "string_type": "must be text",
    "string_unicode": "must be text in Unicode",
    "string_too_short": "must have {min_length} characters or more",
    "string_too_long": "must have {max_length} characters or fewer",
    "string_pattern_mismatch": "must match {pattern}",
    "list_type": "must be a list",
    "too_short": "must have {min_length} items or more",
    "too_long": "must have {max_length} items or fewer",
    "dict_type": "must be an object",
    "model_type": "must be an object",
    "model_attributes_type": "must be an object",
    "literal_error": "must be {expected}",
    "enum": "must be {expected}",
    "datetime_type": "must be a date and time",
    "datetime_parsing": "must be a date and time, such as 2026-01-31T12:00:00Z",
    "datetime_from_date_parsing": "must be a date and time, such as 2026-01-31T12:00:00Z",
    "timezone_aware": "must be a date and time with its offset, such as 2026-01-31T12:00:00Z",
    "path_type": "must be a path",
    "time_delta_type": "must be seconds, or a duration such as PT24H",
    "time_delta_parsing": "must be seconds, or a duration such as PT24H",
    "tuple_type": "must be a list",
}
"""Plain texts by the type of the error; ``{...}`` is of the error's context."""


def wanted(error: Mapping[str, Any]) -> str:
    """What the value that one *error* of a validation is about must be, or what is the matter with
    it; never what it is, which may be anything."""
    form = WANTED.get(error["type"])
    if form is None:
        return FALLBACK
    try:
        return form.format(**error.get("ctx", {}))
    except KeyError:  # pragma: no cover
        return FALLBACK
