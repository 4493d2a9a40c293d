"""Subscribing and publishing: what an application does with a gateway, in any specification."""

import json
import ssl
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import urlsplit

from filters import Reason, Refused, Topic, parse_clark
from filters.dialects import ATTRIBUTE_FILTERS, JMS_SELECTOR
from gateway.client.calling import (
    HTTP,
    SCHEMES,
    SOAP_TCP,
    TIMEOUT,
    Answer,
    Caller,
    Speaker,
    shown,
    stranger,
)
from gateway.client.credentials import Credentials
from gateway.client.errors import GatewayError, UnsupportedOperation
from mediation.client import (
    SPECS,
    AnsweredFault,
    Granted,
    Received,
    expiry_text,
    manager_at,
    read_answer,
    read_fetched,
    read_granted,
    read_made,
    write_fetching,
    write_get_status,
    write_pause,
    write_publish,
    write_renew,
    write_resume,
    write_subscribe,
    write_unsubscribe,
)
from mediation.detect import read
from mediation.model.delivery_modes import DeliveryAssurance, SourceOptions
from mediation.model.expiry import format_duration, parse_date_time, parse_expiry
from mediation.model.messages import EndpointReference
from mediation.model.requests import Arrival, Operation, Publish
from mediation.model.versions import Spec, Version, Wsa
from mediation.names import EVENT_SIGNATURE, WSMAN_PULL
from mediation.reliable_messaging import Rm
from mediation.soap.body_elements import BodyContent, body_element
from mediation.soap.envelopes import http_headers
from mediation.soap.properties import properties_block
from mediation.specifications import SPECIFICATIONS

if TYPE_CHECKING:
    from gateway.client.soap_tcp import SoapTcpCaller

SOURCE = "urn:dragoman:client"
"""The source of events that are published without SOAP."""
LEASE = timedelta(minutes=10)
"""The lease that a subscription asks for; a listener that was killed is forgotten after it."""


Authorize: TypeAlias = Callable[[str, str, str], str]
"""Given the message id of a request, the address that it is sent to and the digest of its content
(`mediation.discovery`), writes the header block that proves the right to it."""


Sign: TypeAlias = Callable[[bytes, str, Topic | None], str]
"""Given the payload of an event, its id and its topic, writes its publisher's signature
(`mediation.event_signatures`)."""


Selector: TypeAlias = str | Mapping[str, str]
"""A filter over properties: values that they must have, by name; or a message selector of JMS, for
messaging systems that evaluate them."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """A request as it was sent, and what was answered."""

    operation: str
    url: str
    headers: tuple[tuple[str, str], ...]
    body: bytes
    answer: Answer


@dataclass(frozen=True, slots=True)
class Subscription:
    """A subscription that a gateway granted.

    Attributes:
        manager: As it was answered.
        expires: None is never.
        producer: The address that was subscribed at; empty where *manager* is known to be one that
            can be called.
        context: The element by which events are pulled in WS-Management; None: they are sent.
    """

    manager: EndpointReference
    expires: datetime | None
    producer: str = ""
    context: bytes | None = None

    @property
    def manager_at(self) -> tuple[EndpointReference, str]:
        """Who requests to the manager are written to, and the URL that they are sent to."""
        if not self.producer:
            return self.manager, self.manager.address
        return manager_at(self.manager, self.producer)


class Client(Speaker):
    """Speaks to one gateway in one specification.

    ::

        async with Client("http://127.0.0.1:8080") as client, Consumer() as consumer:
            async with subscribed(client, consumer.address, topic="storms"):
                async for arrived in consumer:
                    print(arrived.notifications)

    Args:
        url: Of the gateway, ``http://host:8080`` or ``soap.tcp://host:8081``, or the same with
            TLS (``https``, ``soap.tcps``); one with a path is the address of any endpoint, a
            broker's or a producer's, and used as it is.
        version: What to speak, in SOAP, or that with another SOAP or WS-Addressing than usual;
            `speaking` makes the client for the others.
        timeout: Seconds for one exchange.
        watch: Told of each exchange.
        tls: For a gateway with TLS; what the system trusts, when None.
        proxy: The HTTP proxy that requests go through, ``http://[user:password@]host:port``.
        caller: Sends the requests over HTTP, instead of one with *timeout*, *tls* and *proxy*.
        soap_tcp: Sends those over SOAP.TCP, instead of one with *timeout* and *tls*; closed with
            this.

    Raises:
        GatewayError: *url* or *proxy* is none, or *version* has no such client.
    """

    def __init__(
        self,
        url: str,
        version: Version | Spec = Version.WSN_1_3,
        *,
        timeout: float = TIMEOUT,
        watch: Callable[[Exchange], None] | None = None,
        tls: ssl.SSLContext | None = None,
        proxy: str | None = None,
        caller: Caller | None = None,
        credentials: Credentials | None = None,
        soap_tcp: "SoapTcpCaller | None" = None,
    ) -> None:
        schemes = SCHEMES if caller is None or soap_tcp is not None else HTTP
        super().__init__(
            url,
            schemes=schemes,
            timeout=timeout,
            tls=tls,
            proxy=proxy,
            caller=caller,
            credentials=credentials,
        )
        if proxy is not None and urlsplit(self._url).scheme in SOAP_TCP:
            raise GatewayError("SOAP.TCP goes through no HTTP proxy: leave out one of the two")
        self._spec: Spec = version if isinstance(version, Spec) else spec_of(version)
        self._seconds, self._trusted = timeout, tls
        self._soap_tcp = soap_tcp
        self._watch = watch

    _topic_dialect: str | None = None
    """The dialect that topics are written in; None: the narrowest that has their form."""
    _source: SourceOptions | None = None
    """What a source of WS-Management is told of its resource."""

    def _expires(self, lease: timedelta) -> str:
        """A lease as it is asked for."""
        return expiry_text(self._spec, lease, datetime.now(UTC))

    async def __aexit__(self, *error: object) -> None:
        await super().__aexit__(*error)
        if self._soap_tcp is not None:
            self._soap_tcp.close()

    def _over_tcp(self) -> "SoapTcpCaller":
        if self._soap_tcp is None:
            # Its connections are those of a gateway, whose libraries few programs need.
            from gateway.client.soap_tcp import SoapTcpCaller

            self._soap_tcp = SoapTcpCaller(timeout=self._seconds, tls=self._trusted)
        return self._soap_tcp

    async def finish(self) -> None:
        """Over SOAP.TCP, where what was taken is answered by nobody: wait until the gateway has
        dealt with all that was published. Over TLS, until it has read it.

        Raises:
            GatewayError: It refused something, or what is there does not speak SOAP.TCP.
        """
        if urlsplit(self._url).scheme not in SOAP_TCP:
            return
        # What listens there for something else closes the connection, as a gateway does at the
        # end. A request is answered by a gateway alone, be it by the fault that this one gets.
        wsa = self._spec.wsa or Wsa.V2005_08
        nobody = EndpointReference(f"{self._url}/subscriptions/none", wsa)
        lease = expiry_text(self._spec, LEASE, datetime.now(UTC))
        _, body = write_renew(self._spec, nobody, lease, message_id=fresh_id())
        await self._over_tcp().call(self._url, self._spec.soap, body)
        await self._over_tcp().finish()

    async def publish(
        self,
        payload: BodyContent,
        *,
        topic: str | None = None,
        action: str | None = None,
        authorize: Authorize | None = None,
        to: str | None = None,
        producer: str | None = None,
        properties: Mapping[str, str] | None = None,
        sign: Sign | None = None,
    ) -> str:
        """Publish one event; on return the gateway's message system holds it. Its message id.

        Over SOAP.TCP the gateway's machine has it on return; `finish` says more.

        Args:
            payload: One XML element: bytes or text of a document, or an element of lxml.
            topic: A name, a path, or Clark notation.
            authorize: For a protected topic.
            to: The address of another endpoint than that of the client, a consumer's for one.
            producer: The address of the event's producer.
            properties: By name; filters over properties see them.
            sign: Signs the event.

        Raises:
            GatewayError: It was not taken, or may not have been.
            Refused: *payload* is not one acceptable XML element (a `ValueError` with line and
                column where it is not well-formed).
        """
        message_id, to = fresh_id(), to or self._address
        content = body_element(payload)
        properties = signed_properties(properties, sign, content, message_id, topic)
        topic, blocks = self._topic_block(topic)
        written = partial(
            write_publish,
            self._spec,
            to=to,
            payload=content,
            message_id=message_id,
            topic=topic,
            action=action,
            producer=None if producer is None else self._reference(producer),
        )
        blocks += properties_block(properties).decode() if properties else ""
        message = written(blocks=blocks)
        if authorize is not None:
            message = written(
                blocks=blocks + authorize(message_id, to, _digest_of_event(message[1]))
            )
        await self._send("Publish", to, message, one_way=True)
        return message_id

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
        raw: bool = False,
        mode: str | None = None,
        selector: Selector | None = None,
    ) -> Subscription:
        """Subscribe the consumer at an address.

        Args:
            topic: A topic expression; None is every topic.
            xpath: XPath 1.0 that must hold.
            namespaces: The prefixes of both.
            reliable: Notifications are to come in a sequence, each once and in order: the consumer
                is a `gateway.client.sequence_consumer.SequenceConsumer`.
            assurance: How often an event is wanted; None: as the gateway has it, at least once.
            since: A time with its zone, or a position of the gateway's archive: what was published
                from there on comes first.
            order_key: ``topic``, or ``property:NAME``: messages of one such key come in order, and
                those of different keys side by side; None: all come in order.
            authorize: For a protected topic.
            raw: Events are to come as they are, without what a specification wraps them in.
            mode: The URI of a delivery mode, which WS-Eventing 2004/08 alone has.
            selector: A filter over properties; it goes with no *xpath*.

        Raises:
            GatewayError: here as in the other methods.
        """
        reference = self._reference(consumer)
        now = datetime.now(UTC)
        message_id, to = fresh_id(), self._address
        written = partial(
            write_subscribe,
            self._spec,
            to=to,
            consumer=reference,
            message_id=message_id,
            topic=topic,
            xpath=xpath,
            namespaces=namespaces,
            expires=self._expires(lease),
            end_to=reference if mode != WSMAN_PULL else None,
            reliable=Rm.V1_1.number if reliable else "",
            assurance=assurance,
            since=since,
            order_key=order_key,
            raw=raw,
            topic_dialect=self._topic_dialect,
            mode=mode,
            source=self._source,
            content=None if selector is None else self._content_filter(selector),
        )
        message = written()
        if authorize is not None:
            # Programs without protected topics do not import it.
            from mediation.discovery import body_digest

            message = written(blocks=authorize(message_id, to, body_digest(message[1])))
        answer = await self._send("Subscribe", to, message)
        granted = _granted(answer, to)
        if granted.manager is None:
            raise GatewayError(f"{shown(self._url)} answered no subscription")
        until = _until(granted)
        if until is None and SPECIFICATIONS[self._spec.version].leases.absolute:
            until = now + lease
        manager = granted.manager
        if not manager.address:
            manager, _ = manager_at(manager, to)
        return Subscription(manager, until, to, granted.context)

    async def renew(self, subscription: Subscription, lease: timedelta = LEASE) -> Subscription:
        """Move the end of a subscription's lease."""
        manager, address = subscription.manager_at
        message = write_renew(
            self._spec, manager, self._expires(lease), message_id=fresh_id(), source=self._source
        )
        granted = _granted(await self._send("Renew", address, message), address)
        return replace(subscription, expires=_until(granted))

    async def unsubscribe(self, subscription: Subscription) -> None:
        """End a subscription."""
        write = partial(write_unsubscribe, source=self._source)
        await self._manage("Unsubscribe", write, subscription)

    async def status(self, subscription: Subscription) -> Subscription:
        """Ask for a subscription as it is now; it is an error where there is none any more."""
        answer, address = await self._manage("GetStatus", write_get_status, subscription)
        return replace(subscription, expires=_until(_granted(answer, address)))

    async def pause(self, subscription: Subscription) -> None:
        """Have a subscription get nothing until it is resumed.

        Raises:
            UnsupportedOperation: The specification has no such request: WS-Notification alone has.
        """
        await self._manage("PauseSubscription", write_pause, subscription)

    async def resume(self, subscription: Subscription) -> None:
        """End what `pause` began."""
        await self._manage("ResumeSubscription", write_resume, subscription)

    async def create_pull_point(self) -> str:
        """Make a pull point, from which `pull` takes what was sent there; its address.

        Raises:
            UnsupportedOperation: The specification has none: WS-Notification 1.3 alone has.
        """
        made = await self._fetch(Operation.CREATE_PULL_POINT, self._address)
        return read_made(made.body)

    async def destroy_pull_point(self, address: str) -> None:
        """Remove a pull point that `create_pull_point` made, with all that is in it.

        Raises:
            UnsupportedOperation: As `create_pull_point`.
        """
        await self._fetch(Operation.DESTROY_PULL_POINT, address)

    async def subscribe_to_pull(
        self, *, topic: str | None = None, lease: timedelta = LEASE
    ) -> Subscription:
        """Subscribe with a pull point that is the subscription's manager, too, as ONVIF has it;
        *topic* is in ONVIF's dialect.

        Raises:
            UnsupportedOperation: As `create_pull_point`.
        """
        operation, now = Operation.CREATE_PULL_POINT_SUBSCRIPTION, datetime.now(UTC)
        expires = expiry_text(self._spec, lease, now)
        answer = await self._fetch(operation, self._address, topic=topic, expires=expires)
        granted = _granted(answer, self._address)
        if granted.manager is None:
            raise GatewayError(f"{shown(self._url)} answered no subscription")
        return Subscription(granted.manager, _until(granted), self._address)

    async def pull(
        self, address: str, *, most: int = 10, wait: timedelta | None = None
    ) -> tuple[Received, ...]:
        """Take what waits in the pull point at an address; none where it is empty.

        Args:
            most: Notifications.
            wait: How long the answer may wait for the first, at one that `subscribe_to_pull` made;
                None at one that `create_pull_point` made, which does not wait.

        Raises:
            UnsupportedOperation: As `create_pull_point`.
        """
        if wait is None:
            operation, wanted = Operation.GET_MESSAGES, {}
        else:
            operation, wanted = Operation.PULL_MESSAGES, {"wait": format_duration(wait)}
        return _fetched(await self._fetch(operation, address, most=most, **wanted), address)

    async def _fetch(self, operation: Operation, address: str, **wanted: Any) -> Answer:
        if operation not in SPECIFICATIONS[self._spec.version].requests.elements.values():
            raise UnsupportedOperation(
                f"{SPECIFICATIONS[self._spec.version].title} has no {operation.value}"
            )
        message = write_fetching(self._spec, operation, address, message_id=fresh_id(), **wanted)
        return await self._send(operation.value, address, message)

    async def _manage(
        self,
        operation: str,
        write: Callable[..., tuple[str, bytes]],
        subscription: Subscription,
    ) -> tuple[Answer, str]:
        """Send a request that *write* writes to a subscription's manager; the answer, and the
        manager's address."""
        manager, address = subscription.manager_at
        try:
            message = write(self._spec, manager, message_id=fresh_id())
        except Refused as refused:
            if refused.reason is not Reason.ACTION_UNSUPPORTED:
                raise
            title = SPECIFICATIONS[self._spec.version].title
            raise UnsupportedOperation(f"{title} has no {operation}") from refused
        return await self._send(operation, address, message), address

    def _content_filter(self, selector: Selector) -> tuple[str, str]:
        """The text and the dialect of a filter over properties."""
        if isinstance(selector, str):
            return selector, JMS_SELECTOR
        return json.dumps({"filters": [{"exact": dict(selector)}]}), ATTRIBUTE_FILTERS

    def _topic_block(self, topic: str | None) -> tuple[str | None, str]:
        """The topic of an event as the specification says it, and a header block that says it in
        its place."""
        return topic, ""

    def _reference(self, address: str) -> EndpointReference:
        return EndpointReference(address, self._spec.wsa or Wsa.V2005_08)

    async def post(
        self, operation: str, path: str, headers: Iterable[tuple[str, str]], body: bytes
    ) -> Answer:
        """Send a message that was written elsewhere, in any specification, to a path of the
        gateway or a URL; *operation* is what `Exchange` calls it.

        Raises:
            GatewayError: with the fault's reason, where there is a fault.
        """
        url = path if "://" in path else self._url + path
        answer = await self._caller.call("POST", url, body=body, headers=dict(headers))
        return self._checked(Exchange(operation, url, tuple(headers), body, answer))

    async def _send(
        self, operation: str, url: str, message: tuple[str, bytes], *, one_way: bool = False
    ) -> Answer:
        """Send a message; an answer that is no refusal.

        Raises:
            GatewayError: with the fault's reason, where there is a fault.
        """
        action, body = message
        soap, headers = self._spec.soap, http_headers(self._spec.soap, action)
        if urlsplit(url).scheme in SOAP_TCP:
            headers = ()
            answer = await self._over_tcp().call(url, soap, body, one_way=one_way)
        else:
            answer = await self._caller.call("POST", url, body=body, headers=dict(headers))
        return self._checked(Exchange(operation, url, headers, body, answer))

    def _checked(self, exchange: Exchange) -> Answer:
        url, answer = exchange.url, exchange.answer
        if self._watch is not None:
            self._watch(exchange)
        try:
            read_answer(answer.body)
        except AnsweredFault as refused:
            fault = refused.fault
            code = fault.subcode or fault.code
            text = f"{shown(url)} refused: {fault.reason or code}"
            raise GatewayError(text, status=answer.status, code=code) from refused
        if not 200 <= answer.status < 300:
            raise stranger(url, answer, named=url == self._address)
        return answer


def signed_properties(
    properties: Mapping[str, str] | None,
    sign: Sign | None,
    payload: bytes,
    message_id: str,
    topic: str | None,
) -> Mapping[str, str]:
    """The properties of an event, with its signature where it is to be signed.

    Raises:
        GatewayError: *topic* is no topic.
    """
    said = properties or {}
    if sign is None:
        return said
    return {**said, EVENT_SIGNATURE: sign(payload, message_id, read_topic(topic))}


def _digest_of_event(envelope: bytes) -> str:
    """The digest of the event in an envelope of ours, as the gateway will read it."""
    from mediation.discovery import event_digest

    request = read(envelope, Arrival("", datetime.now(UTC), "")).request
    if not isinstance(request, Publish):  # pragma: no cover
        raise TypeError(request)
    return event_digest(request.notifications[0])


def spec_of(version: Version) -> Spec:
    """What is spoken in *version*, in SOAP.

    Raises:
        GatewayError: It is spoken by another client, or by none.
    """
    if version in SPECS:
        return SPECS[version]
    known = ", ".join(one.value for one in SPECS)
    text = f"there is no Client for {version.value}, but for {known}"
    if SPECIFICATIONS[version].calls or SPECIFICATIONS[version].bodies is not None:
        text += f"; speaking(url, Version.{version.name}) makes one for it"
    raise GatewayError(text)


def _granted(answer: Answer, url: str) -> Granted:
    try:
        return read_granted(answer.body)
    except Refused as refused:
        raise stranger(url, answer) from refused


def _fetched(answer: Answer, url: str) -> tuple[Received, ...]:
    try:
        return read_fetched(answer.body)
    except Refused as refused:
        raise stranger(url, answer) from refused


def _until(granted: Granted) -> datetime | None:
    """The end of a lease by our clock; None where it has none, or none that can be read."""
    now = datetime.now(UTC)
    if granted.expires is None:
        return None
    try:
        until = parse_expiry(granted.expires, milliseconds=True).at(now)
        if until is not None and granted.current_time is not None:
            until += now - parse_date_time(granted.current_time)
    except (Refused, ValueError, OverflowError):
        return None
    return until


def read_topic(text: str | None) -> Topic | None:
    """The topic that *text* names: a name, a path, or Clark notation; None: none.

    Raises:
        GatewayError: It is no topic.
    """
    if not text:
        return None
    try:
        return parse_clark(text)
    except ValueError as error:
        raise GatewayError(f"{text!r} is not a topic: {error}") from error


def fresh_id() -> str:
    """A message id that nobody has."""
    return f"urn:uuid:{uuid.uuid4()}"
