"""Programs that call: `publish` from a prepared template, and `subscribe_lease`."""

import ssl
from collections.abc import Mapping
from datetime import timedelta
from typing import Self

from filters import Refused
from gateway.client.calling import HTTP, TIMEOUT, Answer, Caller, endpoint_url, shown, stranger
from gateway.client.errors import GatewayError
from gateway.client.grid_events.events import TYPES, Event, EventTypes
from mediation.grid_events import (
    CHANNEL,
    Port,
    Template,
    read_lease,
    write_handle_event,
    write_subscribe_lease,
)
from mediation.grid_events import Event as WireEvent
from mediation.soap.answers import fault_in

LEASE = timedelta(minutes=10)


def prepared(
    cls: type[Event],
    *,
    types: EventTypes = TYPES,
    binding: str | None = CHANNEL,
    **constants: object,
) -> Template:
    """Prepare calls with events of one class. *constants* have the same value in all of them; the
    others are holes, numbers of which are filled to the same width: where no text is a hole, all
    calls have the same length."""
    tied = types.of(cls)
    elements = {attribute: element for attribute, element, _ in tied.fields}
    for name in constants:
        if name not in elements:
            raise TypeError(f"{cls.__name__} has no field {name}")
    given = {elements[name]: value for name, value in constants.items()}
    return Template(tied.name, tied.elements, given, binding=binding)


class Publisher:
    """Publishes to a gateway, or calls any listener or channel; a context manager, which holds its
    connections.

    Args:
        to: Where to: the URL of a gateway, or the reference of a listener or a channel.

    Raises:
        GatewayError: *to* is no URL.
    """

    def __init__(
        self,
        to: str | Port,
        *,
        types: EventTypes = TYPES,
        timeout: float = TIMEOUT,
        tls: ssl.SSLContext | None = None,
        proxy: str | None = None,
    ) -> None:
        self._port = port_at(to)
        self._types = types
        self._caller = Caller(timeout=timeout, tls=tls, proxy=proxy)
        self._templates: dict[type[Event], tuple[Template, tuple[tuple[str, str], ...]]] = {}

    async def __aenter__(self) -> Self:
        await self._caller.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._caller.__aexit__(*error)

    async def publish(self, event: Event) -> None:
        """Publish an event, in a call that is prepared for its class; on return it was taken.

        Raises:
            GatewayError: It was not, or may not have been.
        """
        if None in (getattr(event, name) for name in _NULLABLE):
            headers, octets = write_handle_event(
                self._types.write(event), binding=self._port.binding
            )
            await self._call(headers, octets)
            return
        template, attributes = self._prepared(type(event))
        values = {element: getattr(event, attribute) for attribute, element in attributes}
        await self.fill(template, values)

    async def fill(self, template: Template, values: Mapping[str, object]) -> None:
        """Publish what fills the holes of a template, by the names of their elements."""
        await self._call(template.headers, template.fill(values))

    def _prepared(self, cls: type[Event]) -> tuple[Template, tuple[tuple[str, str], ...]]:
        found = self._templates.get(cls)
        if found is None:
            tied = self._types.of(cls)
            template = Template(tied.name, tied.elements, {}, binding=self._port.binding)
            names = tuple((attribute, element) for attribute, element, _ in tied.fields)
            found = self._templates[cls] = (template, names)
        return found

    async def _call(self, headers: tuple[tuple[str, str], ...], octets: bytes) -> None:
        await call(self._caller, self._port, headers, octets)


_NULLABLE = ("event_namespace", "event_type", "source", "message", "handback")


async def publish(
    to: str | Port, event: Event, *, types: EventTypes = TYPES, timeout: float = TIMEOUT
) -> None:
    """Publish one event, within *timeout* seconds.

    Raises:
        GatewayError: It was not taken, or may not have been.
    """
    async with Publisher(to, types=types, timeout=timeout) as publisher:
        await publisher.publish(event)


async def subscribe_lease(
    to: str | Port,
    listener: Port,
    pattern: Event | None = None,
    *,
    lease: timedelta = LEASE,
    handback: str | None = None,
    types: EventTypes = TYPES,
    timeout: float = TIMEOUT,
    tls: ssl.SSLContext | None = None,
) -> timedelta:
    """Subscribe a listener at a gateway or a channel, or renew its lease: the lease it has now.

    Args:
        pattern: An example of the events that it wants; a field without a value says nothing.
        timeout: Seconds for the whole exchange.

    Raises:
        GatewayError: It was not granted, or not in time.
    """
    example = None if pattern is None else types.write(pattern)
    async with Caller(timeout=timeout, tls=tls) as caller:
        return await obtain_lease(
            caller, port_at(to), listener, lease, pattern=example, handback=handback
        )


async def obtain_lease(
    caller: Caller,
    at: Port,
    listener: Port,
    lease: timedelta,
    *,
    pattern: WireEvent | None = None,
    handback: str | None = None,
) -> timedelta:
    """Call subscribeLease for *listener*; the lease that was granted.

    Raises:
        GatewayError: None was.
    """
    milliseconds = max(1, lease // timedelta(milliseconds=1))
    headers, octets = write_subscribe_lease(
        listener, milliseconds, pattern=pattern, handback=handback, binding=at.binding
    )
    answer = await call(caller, at, headers, octets)
    try:
        return timedelta(milliseconds=read_lease(answer.body))
    except Refused:
        raise stranger(at.location, answer) from None


def port_at(to: str | Port) -> Port:
    """The reference of a gateway, or of a channel, at a URL; a reference is itself."""
    return to if isinstance(to, Port) else Port(endpoint_url(to, HTTP), CHANNEL, CHANNEL)


async def call(
    caller: Caller, port: Port, headers: tuple[tuple[str, str], ...], octets: bytes
) -> Answer:
    """Call what *port* refers to; an answer that is no fault, in whatever status.

    Raises:
        GatewayError: It refused, or was not there.
    """
    answer = await caller.call("POST", port.location, body=octets, headers=dict(headers))
    fault = fault_in(answer.body)
    if fault is not None:
        text = f"{shown(port.location)} refused: {fault.reason or fault.code}"
        raise GatewayError(text, status=answer.status, code=fault.subcode or fault.code)
    if not 200 <= answer.status < 300:
        raise stranger(port.location, answer)
    return answer
