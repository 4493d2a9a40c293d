"""What clients of all specifications do: publish, subscribe, renew, pull, listen."""

import asyncio
import ssl
from collections.abc import Mapping
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Self, TypeAlias, TypedDict, Unpack

from dragoman.client.listening import Listening
from dragoman.client.subscriptions import Subscription
from dragoman.events import Event, to_xml

if TYPE_CHECKING:
    from lxml import etree

    from dragoman.signing import Signer, TrustedSigners
    from gateway.client.errors import UnsupportedOperation
    from gateway.client.events import AnyClient
    from gateway.client.pulling import PulledMailbox
    from mediation.client import Received

Credentials: TypeAlias = tuple[str, str] | str
"""A name and its password (HTTP's Basic), or a token (Bearer)."""
LEASE = timedelta(minutes=10)
_POLLED = 0.2
"""Seconds between two requests to a pull point that does not wait."""


class Calling(TypedDict, total=False):
    """How requests are sent, as `Client` takes it."""

    credentials: Credentials | None
    tls: ssl.SSLContext | None
    proxy: str | None
    timeout: float
    signers: "TrustedSigners | None"


class Client:
    """Speaks one specification to an endpoint: a broker, a producer, or, to publish, a consumer.

    It is an asynchronous context manager, which holds its connections; a program needs one for all
    that it sends, from any number of tasks. Its subclasses are the specifications.

    Args:
        url: Of the endpoint, used as it is; of a broker of Dragoman ``http://host:8080`` is enough,
            and ``soap.tcp://host:8081`` is SOAP.TCP.
        credentials: Said to *url*'s host alone: a name and its password, or a token.
        tls: For ``https``; what the system trusts, when None.
        proxy: The HTTP proxy to go through, ``http://[user:password@]host:port``.
        timeout: Seconds for one exchange.
        signers: Whose signatures of events are believed: `Event.signed_by` says whose it is.

    Raises:
        GatewayError: From here and from all methods: it was refused, or there was no answer. The
            text says why in one line; ``is_final`` whether trying again is in vain.
    """

    _version: str

    def __init__(self, url: str, **calling: Unpack[Calling]) -> None:
        self._url = url
        self._calling = sending(calling)
        self._signers = calling.get("signers")
        self._client = self._speaking()
        self._listenings: set[Listening] = set()
        self._mailboxes: dict[str, PulledMailbox] = {}

    def _speaking(self) -> "AnyClient":
        """What speaks for this client."""
        from gateway.client.events import speaking
        from mediation.model.versions import Version

        return speaking(self._url, Version(self._version), **self._calling)

    async def __aenter__(self) -> Self:
        await self._client.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> None:
        async with AsyncExitStack() as stack:
            stack.push_async_exit(self._client)
            for mailbox in self._mailboxes.values():
                stack.push_async_callback(mailbox.close)
            for listening in self._listenings:
                stack.push_async_callback(listening.close)

    async def publish(
        self,
        event: "bytes | str | etree._Element | object",
        *,
        topic: str | None = None,
        to: str | None = None,
        producer: str | None = None,
        properties: Mapping[str, str] | None = None,
        action: str | None = None,
        sign: "Signer | None" = None,
    ) -> str:
        """Publish one event; on return a broker has it safely, or a consumer has taken it. Its id.

        Args:
            event: One XML element: bytes or text of a document, an element of lxml, or an object
                of a dataclass (`dragoman.events.to_xml`).
            topic: A name, a path (``storms/coast``), or Clark notation (``{urn:weather}storms``).
            to: The URL of another endpoint than the client's: of a consumer, for one.
            producer: The URL that the event is said to come from.
            properties: What filters over properties see, by name.
            action: The URI of its kind; by default made from the element's name.
            sign: Who signs it (`dragoman.signing`); name the topic here then, not in a URL.

        Raises:
            ValueError: *event* is not one well-formed element.
            TypeError: *event* is something else.
        """
        payload: Any = event if is_xml(event) else to_xml(event)
        return await self._client.publish(
            payload, topic=topic, to=to, producer=producer, properties=properties, action=action,
            sign=sign,
        )  # fmt: skip

    async def subscribe(
        self,
        consumer: str | None = None,
        *,
        topic: str | None = None,
        xpath: str | None = None,
        namespaces: Mapping[str, str] | None = None,
        selector: str | Mapping[str, str] | None = None,
        lease: timedelta = LEASE,
    ) -> Subscription:
        """Subscribe a consumer, or, without one, have events kept until `pull` takes them.

        Args:
            consumer: The URL that events are sent to.
            topic: A topic expression, such as ``storms//.`` for all below; None: every topic.
            xpath: XPath 1.0 that must hold of the payload.
            namespaces: The prefixes in *topic* and *xpath*, with their namespaces.
            selector: Properties that an event must have, with their values; or the text of a
                message selector of JMS, where the broker evaluates them. It goes with no *xpath*.
            lease: How long it is to live unless it is renewed; what was granted may differ.

        Raises:
            UnsupportedOperation: The specification has no such filter.
        """
        wanted = _wanted(topic, xpath, namespaces, selector, lease)
        if consumer is None:
            return await self._subscribe_to_pull(wanted)
        return Subscription(await self._client.subscribe(consumer, **wanted))

    async def renew(self, subscription: Subscription, lease: timedelta = LEASE) -> None:
        """Move the end of a subscription: `Subscription.expires` has it."""
        subscription.granted = await self._client.renew(subscription.granted, lease)

    async def status(self, subscription: Subscription) -> None:
        """Ask until when a subscription lives: `Subscription.expires` has it.

        Raises:
            GatewayError: It is not there any more.
            UnsupportedOperation: The specification has no such request.
        """
        subscription.granted = await self._client.status(subscription.granted)

    async def pause(self, subscription: Subscription) -> None:
        """Have no events until `resume`; those in between are lost, or kept, as the broker is set.

        Raises:
            UnsupportedOperation: The specification has no such request; WS-Notification has.
        """
        await self._client.pause(subscription.granted)

    async def resume(self, subscription: Subscription) -> None:
        """End what `pause` began.

        Raises:
            UnsupportedOperation: As `pause`.
        """
        await self._client.resume(subscription.granted)

    async def unsubscribe(self, subscription: Subscription) -> None:
        """End a subscription, and what is kept for it."""
        await self._client.unsubscribe(subscription.granted)
        await self._forget(subscription)

    async def pull(
        self,
        subscription: Subscription,
        *,
        most: int = 10,
        wait: timedelta = timedelta(seconds=10),
    ) -> list[Event]:
        """Take events that were kept for a subscription without a consumer.

        At a broker of Dragoman those of the last call are acknowledged with the next: what a
        program took and died with comes again.

        Args:
            most: Events that are wanted at once, at least 1.
            wait: How long to wait for the first; the list is empty after it.

        Raises:
            UnsupportedOperation: The subscription has a consumer.
        """
        if not subscription.pull_point:
            raise unsupported("events of a subscription with a consumer are sent to it, not pulled")
        mailbox = self._mailboxes.get(subscription.pull_point)
        if mailbox is not None:
            taken = await mailbox.receive(most, wait.total_seconds())
            received = [one for message in taken for one in message.notifications]
            return [event_of(one, self._signers) for one in received]
        return await self._pull(subscription, most, wait)

    def listen(
        self,
        *,
        topic: str | None = None,
        xpath: str | None = None,
        namespaces: Mapping[str, str] | None = None,
        selector: str | Mapping[str, str] | None = None,
        lease: timedelta = LEASE,
        pull: bool = False,
        host: str | None = None,
        port: int = 0,
    ) -> Listening:
        """Subscribe, and get events as they come, until the program stops: the subscription is
        renewed meanwhile, and ended by the end of ``async with``, or of the client.

        ::

            async for event in client.listen(topic="storms"):
                print(event.payload)

            async with client.listen(topic="storms") as events:
                await client.publish("<speed>120</speed>", topic="storms")
                print(await anext(events))

        Args:
            topic, xpath, namespaces, selector, lease: As in `subscribe`.
            pull: Fetch the events; without it a small server of the program is sent them.
            host: The address that server listens on; by default the one that *url* sees.
            port: Its port; 0 chooses one.
        """
        wanted = _wanted(topic, xpath, namespaces, selector, lease)
        return Listening(self, wanted, pull=pull, host=host, port=port)

    async def _subscribe_to_pull(self, wanted: dict[str, Any]) -> Subscription:
        """Subscribe what events are kept in: here a mailbox of Dragoman."""
        from gateway.client.pulling import PulledMailbox

        calling: dict[str, Any] = {**self._calling}
        calling.pop("timeout", None)
        mailbox = await PulledMailbox(self._url, **calling).__aenter__()
        self._mailboxes[mailbox.address] = mailbox
        return await self._subscribe_kept_at(mailbox.address, wanted)

    async def _subscribe_kept_at(self, pull_point: str, wanted: dict[str, Any]) -> Subscription:
        """Subscribe *pull_point*, which was made for this; it goes where that is refused."""
        from gateway.client.errors import GatewayError

        try:
            return Subscription(await self._client.subscribe(pull_point, **wanted), pull_point)
        except GatewayError:
            with suppress(GatewayError):
                await self._remove(pull_point)
            raise

    async def _forget(self, subscription: Subscription) -> None:
        """Remove what is kept for a subscription that was ended."""
        if subscription.pull_point:
            await self._remove(subscription.pull_point)

    async def _remove(self, pull_point: str) -> None:
        """Remove a pull point that was made for a subscription. One that the subscription itself
        made ends with it."""
        mailbox = self._mailboxes.pop(pull_point, None)
        if mailbox is not None:
            await mailbox.close()

    async def _pull(self, subscription: Subscription, most: int, wait: timedelta) -> list[Event]:
        """Pull from what is not a mailbox of Dragoman."""
        raise NotImplementedError


def _wanted(
    topic: str | None,
    xpath: str | None,
    namespaces: Mapping[str, str] | None,
    selector: str | Mapping[str, str] | None,
    lease: timedelta,
) -> dict[str, Any]:
    """The arguments of a subscription for `gateway.client`."""
    return {
        "topic": topic, "xpath": xpath, "namespaces": namespaces, "selector": selector,
        "lease": lease,
    }  # fmt: skip


def sending(calling: Calling) -> dict[str, Any]:
    """How requests are sent, in the words of `gateway.client`."""
    given: dict[str, Any] = {**calling}
    given.pop("signers", None)
    match calling.get("credentials"):
        case str() as token:
            from gateway.client.credentials import Credentials as Sent

            given["credentials"] = Sent.of_key(token)
        case (user, password):
            from gateway.client.credentials import Credentials as Sent

            given["credentials"] = Sent.of_password(user, password)
    return given


async def polled(
    take: Any, wait: timedelta, signers: "TrustedSigners | None" = None
) -> list[Event]:
    """Call *take* until it has notifications, or the time to *wait* is over."""
    until = asyncio.get_running_loop().time() + wait.total_seconds()
    while True:
        taken = await take()
        if taken or asyncio.get_running_loop().time() >= until:
            return [event_of(one, signers) for one in taken]
        await asyncio.sleep(_POLLED)


def event_of(received: "Received", signers: "TrustedSigners | None" = None) -> Event:
    """The event that was received, and who signed it, where *signers* are to be told."""
    topic = None if received.topic is None else str(received.topic)
    event = Event(
        received.payload,
        topic,
        received.action,
        received.message_id,
        received.properties,
        received.subscription,
        received.media_type,
    )
    if signers is None:
        return event
    from dragoman.signing import SignatureInvalid

    try:
        found = signers.verify_content(
            event.signature,
            event.payload,
            received.topic,
            now=datetime.now(UTC),
            media_type=event.media_type,
        )
    except SignatureInvalid as error:
        return replace(event, signature_error=error.text)
    return event if found is None else replace(event, signed_by=found.name)


def is_xml(event: object) -> bool:
    """Whether an event is bytes, text or an element of lxml, and no object of a dataclass."""
    return isinstance(event, (bytes, str)) or hasattr(event, "nsmap")


def unsupported(text: str) -> "UnsupportedOperation":
    """The error that says what a specification has not."""
    from gateway.client.errors import UnsupportedOperation

    return UnsupportedOperation(text)
