"""The request that made a subscription."""

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from gateway.web.subscribe_requests import ShownRequest
from gateway.web.views.documents import Part, part_of

_EXAMPLE: dict[str, JsonValue] = {
    "as_it_came": True,
    "path": "/soap",
    "body": {"text": "<s:Envelope>...</s:Envelope>", "bytes": 712, "whole": True},
    "why": None,
}


class SubscribeRequestView(BaseModel):
    """The request that made a subscription."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"example": _EXAMPLE})

    as_it_came: bool = Field(
        description="The body came so, but for what is masked; else our client would write it so "
        "of what is known of the subscription."
    )
    path: str
    body: Part | None
    why: str | None = Field(description="Why there is no body; null where there is one.")


def subscribe_request_view(shown: ShownRequest, limit: int) -> SubscribeRequestView:
    """The view of a request, with the first *limit* bytes of its body."""
    return SubscribeRequestView(
        as_it_came=shown.came,
        path=shown.path,
        body=None if shown.body is None else part_of(shown.body, limit),
        why=shown.why or None,
    )
