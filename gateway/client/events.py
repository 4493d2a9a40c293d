"""Subscribing and publishing in CloudEvents: `Client` of those who speak no SOAP."""

import base64
import json
import ssl
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias

from gateway.client.calling import TIMEOUT, Answer, Caller, Speaker, shown, stranger
from gateway.client.credentials import Credentials
from gateway.client.errors import GatewayError, UnsupportedOperation
from gateway.client.grid_events import GridClient
from gateway.client.messaging import (
    LEASE,
    SOURCE,
    Authorize,
    Client,
    Selector,
    Sign,
    Subscription,
    fresh_id,
    read_topic,
    signed_properties,
)
from mediation.cloudevents import STRUCTURED, event_of, read_attributes, write_event
from mediation.model.delivery_modes import DeliveryAssurance
from mediation.model.expiry import format_duration
from mediation.model.messages import EndpointReference, Notification
from mediation.model.versions import Spec, Version, Wsa
from mediation.packaging.data import xml_payload
from mediation.soap.body_elements import BodyContent, body_element
from mediation.specifications import SPECIFICATIONS


class EventClient(Speaker):
    """Speaks CloudEvents to one gateway; its methods are as those of `Client`."""

    _path = "/events"

    async def finish(self) -> None:
        """Return: what was published was answered."""

    async def publish(
        self,
        payload: BodyContent,
        *,
        topic: str | None = None,
        action: str | None = None,
        properties: Mapping[str, str] | None = None,
        to: str | None = None,
        producer: str | None = None,
        sign: Sign | None = None,
    ) -> str:
        """Publish one event; on return the gateway's message system holds it. Its id.

        Args:
            payload: One XML element: bytes or text of a document, or an element of lxml.
            topic: A name, a path, or Clark notation.
            action: The type; without one it is made from the payload's name.
            properties: Extension attributes, by name.
            to: The address of another endpoint than that of the client, a consumer's for one.
            producer: The address of the event's producer: its source.
            sign: Signs the event.

        Raises:
            GatewayError: It was not taken, or may not have been.
            Refused: *payload* is not one acceptable XML element (a `ValueError` with line and
                column where it is not well-formed), or an attribute none that an event
                may have.
        """
        notification = Notification(
            id=fresh_id(),
            source=SOURCE,
            payload=xml_payload(body_element(payload), None),
            time=datetime.now(UTC),
            topic=read_topic(topic),
            action=action,
            producer=None if producer is None else EndpointReference(producer, Wsa.V2005_08),
        )
        event = event_of(notification)
        properties = signed_properties(
            properties, sign, notification.payload, notification.id, topic
        )
        if properties:
            every = read_attributes([*event.attributes.items(), *properties.items()])
            event = replace(event, attributes=every)
        body = write_event(event)
        await self._call("POST", to or self._address, body, STRUCTURED)
        return notification.id

    async def subscribe(
        self,
        consumer: str,
        *,
        topic: str | None = None,
        xpath: str | None = None,
        namespaces: Mapping[str, str] | None = None,
        lease: timedelta = LEASE,
        reliable: bool = False,
        assurance: DeliveryAssurance | None = None,
        since: str | None = None,
        order_key: str | None = None,
        authorize: Authorize | None = None,
        exact: Mapping[str, str] | None = None,
        selector: Selector | None = None,
    ) -> Subscription:
        """Subscribe the consumer at an address, which gets the events one by one, structured.

        Args:
            exact: Attributes that an event must have, with their values.
            selector: The same, as the other specifications have it.
            authorize: For a protected topic.
            reliable: False: CloudEvents are sent in no sequence.
            assurance, since, order_key: As in `Client.subscribe`.
        """
        if reliable:
            raise UnsupportedOperation("CloudEvents are sent in no sequence")
        if isinstance(selector, str):
            raise UnsupportedOperation("CloudEvents have no message selectors: give attributes")
        exact = {**(exact or {}), **(selector or {})}
        config: dict[str, Any] = {"expires": format_duration(lease)}
        if assurance is not None:
            config["assurance"] = assurance.value
        if since is not None:
            config["since"] = since
        if order_key is not None:
            config["order_key"] = order_key
        if topic is not None:
            config["topic"] = topic
        if xpath is not None:
            config["xpath"] = xpath
        if namespaces and (topic is not None or xpath is not None):
            config["namespaces"] = dict(namespaces)
        url = f"{self._address}/subscriptions"
        wanted: dict[str, Any] = {"sink": consumer, "protocol": "HTTP", "config": config}
        if exact:
            wanted["filters"] = [{"exact": dict(exact)}]
        if authorize is not None:
            # Programs without protected topics do not import it.
            from mediation.discovery import json_digest

            digest = json_digest(json.dumps(wanted).encode())
            proof = authorize(request := fresh_id(), url, digest)
            config["tdn_authorization"] = base64.b64encode(proof.encode()).decode()
            config["tdn_request"] = request
        return self._read(await self._call_json("POST", url, wanted), url)

    async def renew(self, subscription: Subscription, lease: timedelta = LEASE) -> Subscription:
        """Move the end of a subscription's lease."""
        url = subscription.manager.address
        wanted = {"config": {"expires": format_duration(lease)}}
        return self._read(await self._call_json("PUT", url, wanted), url)

    async def status(self, subscription: Subscription) -> Subscription:
        """Ask for a subscription as it is now; it is an error where there is none any more."""
        url = subscription.manager.address
        return self._read(await self._call("GET", url), url)

    async def pause(self, subscription: Subscription) -> None:
        """Raise `UnsupportedOperation`: CloudEvents have no such request."""
        raise UnsupportedOperation("subscriptions to CloudEvents are not paused")

    async def resume(self, subscription: Subscription) -> None:
        """Raise `UnsupportedOperation`, as `pause` does."""
        raise UnsupportedOperation("subscriptions to CloudEvents are not resumed")

    async def unsubscribe(self, subscription: Subscription) -> None:
        """End a subscription."""
        await self._call("DELETE", subscription.manager.address)

    async def _call_json(self, method: str, url: str, value: object) -> Answer:
        return await self._call(method, url, json.dumps(value).encode(), "application/json")

    async def _call(
        self, method: str, url: str, body: bytes | None = None, type: str | None = None
    ) -> Answer:
        headers = {"Content-Type": type} if type is not None else None
        answer = await self._caller.call(method, url, body=body, headers=headers)
        if 200 <= answer.status < 300:
            return answer
        try:
            said = json.loads(answer.body)
            text, code = str(said["detail"]), str(said.get("reason", ""))
        except (ValueError, LookupError, TypeError, AttributeError):
            raise stranger(url, answer) from None
        raise GatewayError(f"{shown(url)} refused: {text}", status=answer.status, code=code)

    def _read(self, answer: Answer, url: str) -> Subscription:
        try:
            said = json.loads(answer.body)
            expires = said["config"].get("expires")
            manager = f"{self._address}/subscriptions/{said['id']}"
            until = None if expires is None else datetime.fromisoformat(expires)
        except (ValueError, LookupError, TypeError, AttributeError):
            raise stranger(url, answer) from None
        return Subscription(EndpointReference(manager, Wsa.V2005_08), until)


AnyClient: TypeAlias = Client | EventClient | GridClient
"""A client, whatever it speaks."""


def speaking(
    url: str,
    version: Version | Spec,
    *,
    timeout: float = TIMEOUT,
    tls: ssl.SSLContext | None = None,
    proxy: str | None = None,
    caller: Caller | None = None,
    credentials: Credentials | None = None,
) -> AnyClient:
    """The client that speaks *version* to the gateway, or to the endpoint, at *url*; *caller* sends
    its requests, instead of one with the other arguments, which are as `Client` takes them."""
    specification = SPECIFICATIONS[version.version if isinstance(version, Spec) else version]
    calling: dict[str, Any] = {
        "timeout": timeout, "tls": tls, "proxy": proxy, "credentials": credentials,
        "caller": caller,
    }  # fmt: skip
    if specification.calls:
        return GridClient(url, **calling)
    if specification.bodies is not None:
        return EventClient(url, **calling)
    return Client(url, version, **calling)
