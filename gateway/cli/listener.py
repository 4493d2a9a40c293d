"""Listens at a gateway for commands: subscribes, prints what comes, and unsubscribes."""

import contextlib
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any

from gateway.cli.errors import CommandFailed
from gateway.cli.listen_checks import CheckedListening
from gateway.cli.options import Connecting
from gateway.cli.output import note
from gateway.cli.printing import Printing, print_all
from gateway.cli.receiving import Receiving, end_text, mailbox, say_trouble, whereabouts
from gateway.client import (
    AnyClient,
    GatewayError,
    PulledMailbox,
    RenewedSubscription,
    shown,
    speaking,
    subscribed,
)
from mediation.model.delivery_modes import DeliveryAssurance
from mediation.model.versions import Version
from mediation.specifications import SPECIFICATIONS


@dataclass(frozen=True, slots=True)
class Wanted:
    """Options of the subscription."""

    version: Version
    topic: str | None
    xpath: str | None
    namespaces: Mapping[str, str]
    reliable: bool
    assurance: DeliveryAssurance | None
    since: str | None = None
    order_key: str | None = None

    @property
    def filter(self) -> dict[str, Any]:
        """What is listened for, as `subscribed` takes it."""
        return {"topic": self.topic, "xpath": self.xpath, "namespaces": self.namespaces}


@dataclass(frozen=True, slots=True)
class Listening:
    """A listener at a gateway; *check* is the seconds of ``--check``."""

    gateway: str
    connecting: Connecting
    wanted: Wanted
    check: float | None

    async def run(self, client_of: AnyClient, receiving: Receiving, printing: Printing) -> None:
        """Subscribe, and print what comes until there is enough.

        Raises:
            GatewayError: There is no subscription, or it was lost.
            CommandFailed: The gateway ended it.
        """
        async with client_of as client, receiving as consumer:
            checked = None if self.check is None else self._checked(consumer, self.check)
            try:
                await self._receive(client, consumer, printing, checked)
            except GatewayError as error:
                if checked is not None:
                    checked.failed(error)
                raise

    async def _receive(
        self,
        client: AnyClient,
        consumer: Receiving,
        printing: Printing,
        checked: CheckedListening | None,
    ) -> None:
        wanted = self.wanted
        subscription = subscribed(
            client,
            consumer.address,
            **wanted.filter,
            troubled=say_trouble,
            reliable=wanted.reliable,
            assurance=wanted.assurance,
            since=wanted.since,
            order_key=wanted.order_key,
        )
        renewed = ended = None
        try:
            async with subscription as renewed:
                note(whereabouts(consumer, self.gateway))
                note(
                    f"Subscribed to {wanted.topic or 'everything'} at {shown(self.gateway)}"
                    f" ({wanted.version.value}); Ctrl-C ends."
                )
                if checked is None:
                    ended = await print_all(consumer, printing)
                else:
                    checked.accepted()
                    async with contextlib.aclosing(checked.messages(consumer)) as messages:
                        ended = await print_all(messages, printing)
                renewed.is_over = ended is not None
        finally:
            if renewed is not None and ended is None:
                note(end_text(renewed))
        if ended is not None:
            raise CommandFailed(f"the gateway ended the subscription: {ended.reason}")

    def _checked(self, consumer: Receiving, seconds: float) -> CheckedListening:
        fetched = isinstance(consumer, PulledMailbox)
        return CheckedListening(
            shown(self.gateway),
            "" if fetched else shown(consumer.address),
            lambda: mailbox(self.gateway, self.connecting),
            self._subscribe_again,
            seconds,
        )

    @contextlib.asynccontextmanager
    async def _subscribe_again(self, address: str) -> AsyncIterator[RenewedSubscription]:
        """Subscribe a mailbox to the same, in SOAP: nothing else is fetched."""
        specification = SPECIFICATIONS[self.wanted.version]
        in_soap = specification.bodies is None and not specification.calls
        version = self.wanted.version if in_soap else Version.WSN_1_3
        async with (
            speaking(self.gateway, version, **self.connecting) as client,
            subscribed(client, address, **self.wanted.filter) as renewed,
        ):
            yield renewed
