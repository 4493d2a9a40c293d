"""Where commands receive notifications: a listener of their own, or a mailbox at the gateway."""

import asyncio
import contextlib
import signal
from collections.abc import Coroutine
from typing import Any, TypeAlias
from urllib.parse import urlsplit

from gateway.cli.options import Connecting
from gateway.cli.output import moment, note
from gateway.client import (
    Consumer,
    GatewayError,
    PulledMailbox,
    RenewedSubscription,
    base_url,
    shown,
)
from gateway.client.calling import SCHEMES, SOAP_TCP, address_towards
from gateway.client.soap_tcp import SoapTcpConsumer

Receiving: TypeAlias = Consumer | SoapTcpConsumer | PulledMailbox


def mailbox(gateway: str, connecting: Connecting) -> PulledMailbox:
    """A mailbox at the gateway."""
    return PulledMailbox(
        gateway,
        troubled=say_trouble,
        mended=lambda: note(f"dragoman: {shown(base_url(gateway))} is back"),
        **connecting,
    )


def listener(
    gateway: str, host: str | None = None, port: int = 0, *, reliable: bool = False
) -> Consumer | SoapTcpConsumer:
    """One that the gateway reaches by what we speak to it."""
    make: type[Consumer | SoapTcpConsumer] = Consumer
    if on_soap_tcp(gateway):
        make = SoapTcpConsumer
    elif reliable:
        # Imported when it is wanted, so that other commands start quickly.
        from gateway.client.sequence_consumer import SequenceConsumer

        make = SequenceConsumer
    if host in ("0.0.0.0", "::"):
        return make(host, port, shown=address_towards(gateway))
    return make(host or address_towards(gateway), port)


def say_trouble(error: GatewayError) -> None:
    """Say that a gateway could not be asked, and is asked again."""
    note(f"dragoman: {error}; trying again")


def on_soap_tcp(gateway: str) -> bool:
    """Whether the URL of *gateway* is one of SOAP.TCP."""
    return urlsplit(base_url(gateway, SCHEMES)).scheme in SOAP_TCP


async def until_stopped(work: Coroutine[Any, Any, None]) -> None:
    """Run *work* until it ends, or SIGINT or SIGTERM ends it politely; a second one does so at
    once."""
    task = asyncio.ensure_future(work)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, task.cancel)
    with contextlib.suppress(asyncio.CancelledError):
        await task


def whereabouts(consumer: Receiving, gateway: str) -> str:
    """Where notifications come to."""
    if isinstance(consumer, PulledMailbox):  # Its address is the key to it.
        return f"Notifications are fetched from a mailbox at {shown(gateway)}"
    return f"Notifications come to {consumer.address}"


def end_text(renewed: RenewedSubscription) -> str:
    """What became of a subscription at its end."""
    if renewed.is_over:
        return "Unsubscribed."
    why = f" ({renewed.failure})" if renewed.failure else ""
    return f"Could not unsubscribe{why}; the subscription ends by itself at {_end(renewed)}."


def _end(renewed: RenewedSubscription) -> object:
    expires = renewed.subscription.expires
    return moment(expires.isoformat()) if expires else "some time"
