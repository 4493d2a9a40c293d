"""``/events/consents``: where consumers of CloudEvents agree by a callback."""

from typing import Annotated

from fastapi import APIRouter, Depends, Header, HTTPException, Request
from pydantic import BaseModel

from gateway.routes import Dependency
from gateway.security.keys import public_id
from gateway.subscriptions.consents import PATH
from gateway.subscriptions.webhooks import WebHooks
from gateway.web.dependencies import Asked, route_of

Text = Annotated[str | None, Header(max_length=256)]
router = APIRouter(prefix=PATH, tags=["CloudEvents"])
WEB_HOOKS = Dependency[WebHooks]()
Given = Annotated[WebHooks, Depends(WEB_HOOKS)]


class Agreed(BaseModel):
    detail: str


@router.get("/{key}", name="agree_by_a_link")
@router.post("/{key}")
async def agree(
    key: str,
    request: Request,
    web_hooks: Given,
    asking: Asked,
    webhook_allowed_rate: Text = None,
    webhook_allowed_origin: Text = None,
) -> Agreed:
    """Agree to get events (`WebHook-Request-Callback`), `WebHook-Allowed-Rate` a minute at most."""
    if not web_hooks.agree(key.lower(), webhook_allowed_rate, webhook_allowed_origin):
        raise HTTPException(404, "There is nothing to agree to, or it was too long ago.")
    sender = asking.of_connection(request)
    asking.audit.note(sender, route_of(request), f"consents {public_id(key.lower())}")
    return Agreed(detail="Agreed. The subscription can be made now, within a day.")
