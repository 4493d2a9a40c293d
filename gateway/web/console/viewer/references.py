"""References of subscriptions at any broker that this gateway holds: of those that viewers and
trials made there, and those that an operator gave. Bounded, and in memory."""

import secrets
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

from filters import Refused, parse_document
from gateway.client import Client
from gateway.client.calling import SCHEMES, endpoint_url
from gateway.client.errors import GatewayError
from gateway.client.messaging import LEASE, Subscription
from gateway.security.keys import public_id
from gateway.security.resource_addresses import key_in
from gateway.web.console.viewer.calls import TransportChoice, client_at
from mediation.client import SPECS
from mediation.model.messages import EndpointReference
from mediation.model.versions import Version, Wsa
from mediation.soap.addressing import read_epr

LARGEST = 16 * 2**10
"""Characters of a reference that is read."""
MOST = 200
"""References that are held; those that came first are forgotten."""


@dataclass(slots=True)
class HeldReference:
    """The reference of a subscription.

    Attributes:
        url: The broker's, as somebody wrote it.
        made_by: What made the subscription here, for people.
        viewer: The id of the viewer that it is of; empty: of none.
        paused: Whether it was paused from here.
    """

    id: str
    url: str
    version: Version
    subscription: Subscription
    topic: str
    made_by: str
    viewer: str = ""
    paused: bool = False

    @property
    def subscription_id(self) -> str:
        """What a Dragoman calls the subscription in its lists; empty for another broker's."""
        manager = self.subscription.manager
        key = key_in(manager.address)
        for parameter in manager.parameters:
            key = key or key_in(parameter.decode("utf-8", "replace"))
        return public_id(key) if key else ""


class HeldReferences:
    """The references, the latest first."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._held: OrderedDict[str, HeldReference] = OrderedDict()

    def hold(
        self,
        url: str,
        version: Version,
        subscription: Subscription,
        *,
        topic: str = "",
        made_by: str,
        viewer: str = "",
    ) -> HeldReference:
        """Hold the reference of *subscription* at the broker at *url*."""
        id_ = secrets.token_urlsafe(9)
        held = HeldReference(id_, url, version, subscription, topic, made_by, viewer)
        self._held[id_] = held
        while len(self._held) > self._most:
            self._held.popitem(last=False)
        return held

    def drop(self, id: str) -> None:
        """Forget a reference; its subscription goes on."""
        self._held.pop(id, None)

    def find(self, id: str) -> HeldReference | None:
        """The reference of an id."""
        return self._held.get(id)

    def of_subscription(self, url: str, subscription: str) -> HeldReference | None:
        """The reference of the subscription that the broker at *url* lists with this id."""
        named = (one for one in self.at(url) if one.subscription_id == subscription)
        return next(named, None)

    def at(self, url: str) -> Sequence[HeldReference]:
        """Those at the broker at *url*; all, where it is empty."""
        wanted = url.rstrip("/")
        return [one for one in reversed(self._held.values()) if wanted in ("", one.url.rstrip("/"))]


def read_reference(text: str, version: Version) -> EndpointReference:
    """The reference that somebody wrote: an address alone, or an element of a reference as a broker
    answered it.

    Raises:
        GatewayError: It is neither.
    """
    text = text.strip()
    if len(text) > LARGEST:
        raise GatewayError(f"the reference has more than {LARGEST // 1024} KiB")
    spec = SPECS.get(version)
    if not text.startswith("<"):
        if not text or any(one.isspace() for one in text):
            raise GatewayError("the reference is an address, or an element with one")
        return EndpointReference(text, (spec and spec.wsa) or Wsa.V2005_08)
    try:
        return read_epr(parse_document(text.encode()), forged="refuse")
    except Refused as refused:
        raise GatewayError(f"the reference cannot be read: {refused.text}") from refused


async def manage(action: str, held: HeldReference, transports: TransportChoice) -> None:
    """Pause, resume, renew or end (``end``) the subscription of a reference, in its dialect.

    Raises:
        GatewayError: The broker refuses or does not answer, or the dialect has no such operation.
    """
    async with client_at(held.url, held.version, transports, patient=True) as client:
        try:
            if action == "renew":
                held.subscription = await client.renew(held.subscription, LEASE)
            elif action == "end":
                await client.unsubscribe(held.subscription)
            elif not isinstance(client, Client):
                raise GatewayError(f"{held.version.value} has nothing that pauses or resumes")
            else:
                await (client.pause if action == "pause" else client.resume)(held.subscription)
                held.paused = action == "pause"
        except Refused as refused:  # What the specification does not have.
            raise GatewayError(f"{held.version.value}: {refused.text}") from refused


def given_subscription(url: str, reference: EndpointReference) -> Subscription:
    """The subscription of a *reference* that an operator gave, at the broker at *url*."""
    return Subscription(reference, None, endpoint_url(url, SCHEMES))
