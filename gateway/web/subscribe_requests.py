"""The request that made a subscription: as it came, where it is kept, else as our client would
write it."""

import json
from dataclasses import dataclass
from typing import Any

from filters import Refused
from filters.dialects import XPATH_1_0
from gateway.client.messaging import fresh_id
from gateway.delivery import Entry
from gateway.observing.masking import SECRETS, Mask
from gateway.observing.subscribe_requests import SubscribeRequests
from gateway.security.resource_addresses import shown
from gateway.web.recipients import without_keys
from mediation.client import SPECS, write_subscribe
from mediation.mailboxes.message_box import BOX_NAMES
from mediation.model.expiry import format_seconds
from mediation.model.messages import Subscription
from mediation.specifications import SPECIFICATIONS


@dataclass(frozen=True, slots=True)
class ShownRequest:
    """A request that made a subscription.

    Attributes:
        came: It is as it came; else our client would write it so.
        path: Where it came to, or would be sent to.
        body: Without keys, and masked; None where it cannot be written, or cannot be masked.
        why: Why there is no body; empty where there is one.
    """

    came: bool
    path: str
    body: bytes | None
    why: str = ""


def shown_request(entry: Entry, requests: SubscribeRequests, mask: Mask, base: str) -> ShownRequest:
    """The request that made the subscription of *entry*. It takes time for a large one.

    Args:
        base: The gateway's URL, without a slash at its end.
    """
    mask = mask.with_names((*SECRETS, *BOX_NAMES))  # These name a mailbox by its key alone.
    kept = requests.find(entry.id)
    if kept is not None:
        body = without_keys(mask.document(kept.envelope), entry)
        why = "" if body is not None else "it cannot be read, so that nothing in it can be masked"
        return ShownRequest(True, shown(kept.path), body, why)
    path = "/events/subscriptions" if _is_event(entry.subscription) else "/soap"
    try:
        written = _written(entry.subscription, f"{base}{path}")
    except (Refused, ValueError) as error:
        return ShownRequest(False, path, None, str(error))
    return ShownRequest(False, path, without_keys(mask.document(written), entry))


def _is_event(subscription: Subscription) -> bool:
    return SPECIFICATIONS[subscription.spec.version].bodies is not None


def _written(subscription: Subscription, to: str) -> bytes:
    """The Subscribe that our client would write.

    Raises:
        Refused: The specification cannot say it.
        ValueError: Our client cannot.
    """
    topic, dialect, xpath, namespaces = _filter(subscription)
    if _is_event(subscription):
        config: dict[str, Any] = {"topic": topic, "xpath": xpath, "namespaces": namespaces}
        sink = subscription.consumer.address
        said = {name: value for name, value in config.items() if value}
        return json.dumps({"sink": sink, "protocol": "HTTP", "config": said}).encode()
    if subscription.spec.version not in SPECS:
        raise ValueError(f"our client does not subscribe in {subscription.spec.version.value}")
    policy, expires = subscription.policy, subscription.lease.expires
    _, envelope = write_subscribe(
        subscription.spec,
        to=to,
        consumer=subscription.consumer,
        message_id=fresh_id(),
        topic=topic,
        topic_dialect=dialect,
        xpath=xpath,
        namespaces=namespaces,
        expires=None if expires is None else format_seconds(expires),
        end_to=subscription.end_to,
        raw=policy.raw,
        reliable=policy.delivery.reliable,
    )
    return envelope


def _filter(
    subscription: Subscription,
) -> tuple[str | None, str | None, str | None, dict[str, str]]:
    """The topic expression, its dialect, the XPath, and the prefixes of both.

    Raises:
        ValueError: There is more than one of each, or something else.
    """
    filter_ = subscription.filter
    contents = filter_.contents
    if len(filter_.topics) > 1 or len(contents) > 1 or filter_.others:
        raise ValueError("our client does not write filters of so many parts")
    if contents and contents[0].dialect != XPATH_1_0:
        raise ValueError(f"our client does not write filters in {contents[0].dialect}")
    namespaces: dict[str, str] = {}
    for one in filter_.expressions:
        namespaces |= dict(one.namespaces)
    topic = filter_.topics[0] if filter_.topics else None
    xpath = contents[0].text if contents else None
    if topic is None:
        return None, None, xpath, namespaces
    return topic.text, topic.dialect, xpath, namespaces
