"""Subscriptions to CloudEvents at a source, in JSON (CloudEvents Subscriptions API 0.1), as far as
`dragoman.client.CloudEventsClient` asks for them."""

import json
from datetime import datetime
from typing import Any

from dragoman.source.subscriptions import Answer, Subscriptions
from filters import Expression, Filter, Reason, Refused
from filters.dialects import XPATH_1_0
from mediation.filtering import spoken_topic
from mediation.model.expiry import UNSPECIFIED, Expiry, parse_expiry
from mediation.model.messages import EndpointReference, Subscription
from mediation.model.requests import Subscribe
from mediation.model.versions import EventForm, Spec, Version, Wsa

PATH = "/events/subscriptions"
_JSON = (("Content-Type", "application/json"),)
_STATUS = {Reason.SUBSCRIPTION_UNKNOWN: 404}


def answer(
    subscriptions: Subscriptions, method: str, path: str, body: bytes, base: str, now: datetime
) -> Answer:
    """Answer a request to `PATH`, or to what is below it."""
    try:
        return _carry_out(subscriptions, method, path, body, base, now)
    except Refused as refused:
        said = {"detail": refused.text, "reason": refused.reason.value}
        return _written(_STATUS.get(refused.reason, 400), said)


def _carry_out(
    subscriptions: Subscriptions, method: str, path: str, body: bytes, base: str, now: datetime
) -> Answer:
    key = path.removeprefix(PATH).strip("/")
    if method == "POST" and not key:
        wanted = _subscribe(_object(body))
        spec = Spec(Version.CLOUDEVENTS, EventForm.STRUCTURED, None)
        return _written(201, _shown(subscriptions.subscribe(wanted, spec, base, now)))
    one = subscriptions.find((key,), now)
    match method:
        case "GET":
            return _written(200, _shown(one.subscription))
        case "PUT":
            config = _object(body).get("config") or {}
            return _written(200, _shown(subscriptions.renew(one, _expiry(config), now)))
        case "DELETE":
            subscriptions.discard(one)
            return Answer(204, (), b"", one)
    return _written(405, {"detail": "Method Not Allowed"})


def _subscribe(wanted: dict[str, Any]) -> Subscribe:
    config = wanted.get("config") or {}
    topic, xpath = config.get("topic"), config.get("xpath")
    namespaces = config.get("namespaces") or {}
    if not isinstance(wanted.get("sink"), str) or not isinstance(namespaces, dict):
        raise Refused(Reason.MESSAGE_INVALID, "A subscription has a sink, and its namespaces.")
    if set(wanted) & {"types", "source", "filters"} or wanted.get("protocolsettings"):
        raise Refused(Reason.FILTER_DIALECT, "This source has filters by topic and XPath alone.")
    contents = (Expression(str(xpath), XPATH_1_0, tuple(namespaces.items())),) if xpath else ()
    return Subscribe(
        EndpointReference(wanted["sink"], Wsa.V2005_08),
        filter=Filter((spoken_topic(str(topic), namespaces),) if topic else (), contents),
        expires=_expiry(config),
    )


def _expiry(config: dict[str, Any]) -> Expiry:
    said = config.get("expires")
    if said is None:
        return UNSPECIFIED
    return parse_expiry(f"PT{said:.3f}S" if isinstance(said, (int, float)) else str(said))


def _object(body: bytes) -> dict[str, Any]:
    try:
        value = json.loads(body or b"{}")
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise Refused(Reason.MESSAGE_INVALID, "The request is not a JSON object.")
    return value


def _shown(subscription: Subscription) -> dict[str, Any]:
    expires = subscription.lease.expires
    return {
        "id": subscription.key,
        "sink": subscription.consumer.address,
        "protocol": "HTTP",
        "config": {} if expires is None else {"expires": expires.isoformat()},
    }


def _written(status: int, value: dict[str, Any]) -> Answer:
    return Answer(status, _JSON, json.dumps(value).encode())
