"""The page on which a subscription is tried: composed in any dialect, sent, and shown."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated

from fastapi import APIRouter, Depends, HTTPException, Request
from starlette.responses import Response

from gateway.client.calling import base_url
from gateway.client.errors import GatewayError
from gateway.routes import Dependency
from gateway.web.api.sources import lease_seconds
from gateway.web.console.administration import ask
from gateway.web.console.forms import first, read_form
from gateway.web.console.page_routes import Given, PageRoute
from gateway.web.console.trial.subscribing import (
    MODES,
    SubscribeOutcome,
    SubscribeTrial,
    subscribe,
)
from gateway.web.console.viewer.calls import TransportChoice
from gateway.web.console.viewer.pages import check_xpath, read_namespaces
from gateway.web.console.viewer.references import HeldReferences
from gateway.web.console.viewer.versions import SPOKEN, read_version
from gateway.web.csrf import refuse_other_origins

LONGEST = timedelta(days=1)
"""The longest lease that a trial asks for: who forgets it is not kept at the broker for ever."""


@dataclass(frozen=True, slots=True)
class SubscribeTrials:
    """The parts that the page works with; *here* is a URL of this gateway."""

    transports: TransportChoice
    references: HeldReferences
    here: str


router = APIRouter(
    prefix="/console/try/subscription", include_in_schema=False, route_class=PageRoute
)
SUBSCRIBE_TRIALS = Dependency[SubscribeTrials]()
Parts = Annotated[SubscribeTrials, Depends(SUBSCRIBE_TRIALS)]


@router.get("")
async def form(console: Given, trials: Parts) -> Response:
    """The form, with an example in it."""
    given = {
        "url": trials.here,
        "spec": SPOKEN[0].value,
        "consumer": "http://127.0.0.1:9000/",
        "topic": "storms//.",
        "lease": "PT10M",
    }
    return await _page(console, given)


@router.post("", dependencies=[Depends(refuse_other_origins)])
async def send(request: Request, console: Given, trials: Parts) -> Response:
    """Subscribe as the form says, and show what was sent and answered."""
    fields = await read_form(request)
    given = {name: first(fields, name) for name in fields}
    try:
        trial = read_trial(fields)
    except GatewayError as error:
        return await _page(console, given, said=str(error), status=422)
    outcome = await subscribe(trial, trials.transports, trials.references)
    subscription = await _here(request, outcome)
    return await _page(console, given, outcome=outcome, subscription=subscription)


async def _here(request: Request, outcome: SubscribeOutcome) -> str:
    """The id of the subscription, where it is one of this gateway."""
    id_ = outcome.held.subscription_id if outcome.held is not None else ""
    return id_ if id_ and (await ask(request, "GET", f"/subscriptions/{id_}")).succeeded else ""


async def _page(
    console: Given,
    given: Mapping[str, str],
    *,
    said: str = "",
    outcome: SubscribeOutcome | None = None,
    subscription: str = "",
    status: int = 200,
) -> Response:
    return await console.rendering.page(
        "try_subscription.html",
        status,
        versions=[one.value for one in SPOKEN],
        modes=MODES,
        given=given,
        said=said,
        outcome=outcome,
        subscription=subscription,
        here="try",
    )


def read_trial(fields: Mapping[str, Sequence[str]]) -> SubscribeTrial:
    """Read a form.

    Raises:
        GatewayError: A field of it cannot be read.
    """
    url, xpath, mode = (first(fields, name).strip() for name in ("url", "xpath", "mode"))
    base_url(url.partition("?")[0])
    namespaces = read_namespaces(first(fields, "ns"))
    if xpath:
        check_xpath(xpath, namespaces)
    if mode not in MODES:
        raise GatewayError(f"{mode!r} is not a delivery mode that can be tried here")
    return SubscribeTrial(
        url,
        read_version(first(fields, "spec")),
        first(fields, "consumer").strip(),
        first(fields, "topic").strip() or None,
        xpath or None,
        namespaces,
        _lease(first(fields, "lease").strip()),
        mode,
    )


def _lease(text: str) -> timedelta:
    """The lease that *text* asks for, in seconds or as a duration.

    Raises:
        GatewayError: It is neither, or too long.
    """
    try:
        seconds = lease_seconds(float(text) if text.replace(".", "", 1).isdigit() else text)
    except HTTPException as error:
        raise GatewayError(str(error.detail)) from error
    if not 0 < seconds <= LONGEST.total_seconds():
        raise GatewayError("lease: a trial asks for a day at most")
    return timedelta(seconds=seconds)
