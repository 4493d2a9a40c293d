"""The clients, one for each specification; which one is taken decides what is spoken."""

from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias, Unpack

from dragoman.client.base import Calling, Client, event_of, polled, unsupported
from dragoman.client.subscriptions import Subscription
from dragoman.events import Event

if TYPE_CHECKING:
    from gateway.client.events import AnyClient
    from gateway.client.messaging import Client as SoapClient
    from gateway.client.ws_management import ManagementClient
    from mediation.model.versions import Spec

SoapVersion: TypeAlias = Literal["1.1", "1.2"]
Addressing: TypeAlias = Literal["2003/03", "2004/03", "2004/08", "2005/08"]


class _SoapClient(Client):
    """A client that speaks SOAP."""

    _family: ClassVar[str]

    def __init__(
        self,
        url: str,
        version: str,
        soap: SoapVersion | None,
        addressing: Addressing | None,
        calling: Calling,
    ) -> None:
        self._version = f"{self._family}-{version.replace('/', '-')}"
        self._soap = soap
        self._addressing = addressing
        super().__init__(url, **calling)

    def _speaking(self) -> "AnyClient":
        from gateway.client.messaging import spec_of
        from mediation.model.versions import Soap, Version, Wsa

        spec = spec_of(Version(self._version))
        if self._soap is not None:
            spec = replace(spec, form=Soap[f"V{self._soap.replace('.', '_')}"])
        if self._addressing is not None:
            spec = replace(spec, wsa=Wsa[f"V{self._addressing.replace('/', '_')}"])
        self._in_soap = self._made(spec)
        return self._in_soap

    def _made(self, spec: "Spec") -> "SoapClient":
        from gateway.client.messaging import Client as SoapClient

        return SoapClient(self._url, spec, **self._calling)


class WseClient(_SoapClient):
    """Speaks WS-Eventing; arguments as `Client`, and these.

    Args:
        version: 2004/08, which DPWS and WS-Management have, too, or 2011/03.
        soap: The version of SOAP; the usual one, when None.
        addressing: The version of WS-Addressing, likewise; DPWS 1.1 has 2005/08.
    """

    _family = "wse"

    def __init__(
        self,
        url: str,
        *,
        version: Literal["2004/08", "2011/03"] = "2004/08",
        soap: SoapVersion | None = None,
        addressing: Addressing | None = None,
        **calling: Unpack[Calling],
    ) -> None:
        super().__init__(url, version, soap, addressing, calling)


class WsnClient(_SoapClient):
    """Speaks WS-Notification; arguments as `Client`, and these. What is subscribed to without a
    consumer is kept in a pull point (CreatePullPoint), which version 1.3 alone has.

    Args:
        version: 1.3, the standard of OASIS; 1.2 of Globus Toolkit 4; 1.0 of WS-Messenger.
        soap: The version of SOAP; the usual one, when None.
        addressing: The version of WS-Addressing, likewise.
    """

    _family = "wsn"

    def __init__(
        self,
        url: str,
        *,
        version: Literal["1.3", "1.2", "1.0"] = "1.3",
        soap: SoapVersion | None = None,
        addressing: Addressing | None = None,
        **calling: Unpack[Calling],
    ) -> None:
        super().__init__(url, version, soap, addressing, calling)

    async def _subscribe_to_pull(self, wanted: dict[str, Any]) -> Subscription:
        return await self._subscribe_kept_at(await self._in_soap.create_pull_point(), wanted)

    async def _remove(self, pull_point: str) -> None:
        await self._in_soap.destroy_pull_point(pull_point)

    async def _pull(self, subscription: Subscription, most: int, wait: timedelta) -> list[Event]:
        take = partial(self._in_soap.pull, subscription.pull_point, most=most)
        return await polled(take, wait, self._signers)


class DsubClient(WsnClient):
    """Speaks IHE's Document Metadata Subscription, WS-Notification 1.3 with queries as filters;
    arguments as `Client`. Topics are forms of a notification,
    ``{urn:ihe:iti:dsub:2009}FullDocumentEntry`` for one. A selector is the parameters of a query
    with their values, ``{"$XDSDocumentEntryPatientId": "P1^^^&1.2.3&ISO"}``: a value is one alone,
    or several, ``('history^^classes','summary^^classes')``. Or it is the text of an AdhocQuery."""

    def __init__(self, url: str, **calling: Unpack[Calling]) -> None:
        super().__init__(url, **calling)

    def _made(self, spec: "Spec") -> "SoapClient":
        from gateway.client.document_metadata import DocumentClient

        return DocumentClient(self._url, spec, **self._calling)


class WsManagementClient(_SoapClient):
    """Speaks the events of WS-Management, WS-Eventing 2004/08 with delivery modes; arguments as
    `Client`, and these. What is subscribed to without a consumer waits at the source (mode Pull).

    Args:
        acknowledged: Each event is sent until the consumer has acknowledged it (PushWithAck).
        resource: The URI of what is subscribed to; of a gateway any will do.
        soap: The version of SOAP; 1.2, when None.
    """

    _family = "wse"

    def __init__(
        self,
        url: str,
        *,
        acknowledged: bool = False,
        resource: str | None = None,
        soap: SoapVersion | None = None,
        **calling: Unpack[Calling],
    ) -> None:
        self._acknowledged, self._resource = acknowledged, resource
        super().__init__(url, "2004/08", soap, None, calling)

    def _made(self, spec: "Spec") -> "ManagementClient":
        from gateway.client.ws_management import RESOURCE, ManagementClient

        self._managing = ManagementClient(
            self._url, spec, acknowledged=self._acknowledged,
            resource=self._resource or RESOURCE, **self._calling,
        )  # fmt: skip
        return self._managing

    async def _subscribe_to_pull(self, wanted: dict[str, Any]) -> Subscription:
        granted = await self._managing.subscribe_in_context(**wanted)
        return Subscription(granted, granted.manager_at[1])

    async def _pull(self, subscription: Subscription, most: int, wait: timedelta) -> list[Event]:
        subscription.granted, taken = await self._managing.pull_next(
            subscription.granted, most=most, wait=wait
        )
        from mediation.client import Received

        received = (
            Received(one.topic, one.payload, one.action, one.id, properties=one.properties)
            for one in taken
        )
        return [event_of(one, self._signers) for one in received]


class WsMessengerClient(Client):
    """Speaks as WS-Messenger's clients do (Apache Airavata): WS-Eventing 2004/08 with its own
    topics, which are compared as a whole; arguments as `Client`. What is subscribed to without a
    consumer is kept in a message box, which gives all that it has at once, payloads alone.
    Subscriptions are paused in its WS-Notification, ``WsnClient(url, version="1.0")``."""

    def _speaking(self) -> "AnyClient":
        from gateway.client.ws_messenger import MessengerClient

        self._messenger = MessengerClient(self._url, **self._calling)
        return self._messenger

    async def _subscribe_to_pull(self, wanted: dict[str, Any]) -> Subscription:
        return await self._subscribe_kept_at(await self._messenger.create_box(), wanted)

    async def _pull(self, subscription: Subscription, most: int, wait: timedelta) -> list[Event]:
        take = partial(self._messenger.take, subscription.pull_point)
        return await polled(take, wait, self._signers)

    async def _remove(self, pull_point: str) -> None:
        await self._messenger.destroy_box(pull_point)


class OnvifClient(_SoapClient):
    """Speaks the event service of ONVIF, where subscriptions are pull points: `subscribe` takes no
    consumer, and the topic is in ONVIF's dialect; arguments as `Client`."""

    _family = "wsn"

    def __init__(self, url: str, **calling: Unpack[Calling]) -> None:
        super().__init__(url, "1.3", None, None, calling)

    async def _subscribe_to_pull(self, wanted: dict[str, Any]) -> Subscription:
        if wanted["xpath"] is not None or wanted["selector"] is not None:
            raise unsupported("pull points of ONVIF are made with a topic alone")
        granted = await self._in_soap.subscribe_to_pull(
            topic=wanted["topic"], lease=wanted["lease"]
        )
        return Subscription(granted, granted.manager_at[1])

    async def _pull(self, subscription: Subscription, most: int, wait: timedelta) -> list[Event]:
        address = subscription.pull_point
        taken = await self._in_soap.pull(address, most=most, wait=wait)
        return [event_of(one, self._signers) for one in taken]


class CloudEventsClient(Client):
    """Speaks CloudEvents 1.0 over HTTP; arguments as `Client`. Properties are extension attributes,
    whose names are lower-case letters and digits, and the action is the type."""

    _version = "cloudevents"

    async def _subscribe_to_pull(self, wanted: dict[str, Any]) -> Subscription:
        raise unsupported("CloudEvents are sent to a consumer, not kept: name one")


class GridEventsClient(Client):
    """Speaks Grid SOAP Events; arguments as `Client`. What is published is the message of an event,
    which a broker of Dragoman takes out of it for consumers of other specifications."""

    def _speaking(self) -> "AnyClient":
        from gateway.client.grid_events import GridClient

        return GridClient(self._url, says_made=True, **self._calling)
