"""Reads the forms of pages, and sends their readers on."""

from collections.abc import Mapping, Sequence
from urllib.parse import parse_qs

from fastapi import HTTPException, Request
from starlette.responses import RedirectResponse, Response

FORM_FIELDS = 1200
"""Of one form: a thousand ticked rows, and what else it has."""


async def read_form(request: Request) -> dict[str, list[str]]:
    """The fields of a form, each with all its values.

    Raises:
        HTTPException: 400: it cannot be read.
    """
    try:
        text = (await request.body()).decode()
        return parse_qs(text, max_num_fields=FORM_FIELDS, errors="strict")
    except ValueError:
        raise HTTPException(400, "The form cannot be read, or has too many fields.") from None


def first(form: Mapping[str, Sequence[str]], name: str) -> str:
    """The first value of a field; empty where it has none."""
    return form.get(name, [""])[0]


def redirect(address: str) -> Response:
    """Send the reader to another page."""
    return RedirectResponse(address, 303)
