"""The composition root: makes the rooms of a gateway, each whole, and puts them in order.

    Foundation    the store, the messaging system, the gateway as a producer
    open_spool    the spool in front of the messaging system
    Sending       mailboxes, transports, delivery; sources, publishers' requests
    Subscribing   subscriptions, and what matches, delivers and ends them
    Requests      the other rooms that carry requests out
    Endpoints     what answers, over SOAP, HTTP and TCP

Each step takes what the former ones made. Nothing runs before `Application.start`, but the first
two steps look into the store and the data folder.
"""

import asyncio
import contextlib
from collections.abc import Iterator, Mapping

from filters import Filter, use_engine
from gateway.rooms import Room
from gateway.server.application import Application
from gateway.server.composition.endpoints import Endpoints, serving_of
from gateway.server.composition.foundation import Foundation
from gateway.server.composition.requests import Requests
from gateway.server.composition.sending import Sending, open_spool
from gateway.server.composition.subscribing import Subscribing
from gateway.server.peers import Listening
from gateway.settings.settings import Settings
from gateway.tcp import SoapTcpConnection
from mediation.packaging.dime import DimeMessage


async def build(settings: Settings, listening: Listening) -> Application:
    """Make a gateway, which is to be started.

    Raises:
        DataInUse: Another process has the data folder, or the store.
        Refused: Something cannot be opened; the text says what.
    """

    def filters() -> Mapping[str, Filter]:
        return subscribing.filters()

    async def respond(
        connection: SoapTcpConnection, message: DimeMessage, gone: asyncio.Event
    ) -> None:
        await endpoints.soap.listeners.respond(connection, message, gone)

    use_engine(settings.engine)
    async with contextlib.AsyncExitStack() as undo:
        base = Foundation(settings, listening, filters)
        await base.make(undo)
        sending = Sending(base, await open_spool(base), respond)
        subscribing = Subscribing(base, sending)
        requests = Requests(base, sending, subscribing)
        below = list(_below_endpoints(base, sending, subscribing, requests))
        endpoints = Endpoints(base, sending, subscribing, requests, below)
        # In the order in which they start; they are closed in the reverse order.
        rooms = [
            *below,
            endpoints.events,
            endpoints.json_mailboxes,
            endpoints.administration,
            *([endpoints.console] if endpoints.console else ()),
            endpoints.soap,
        ]
        serving = serving_of(base, endpoints, rooms)
        # From now on it is the application that closes what is open already.
        return Application(settings, listening, base.state, rooms, serving, opened=undo.pop_all())


def _below_endpoints(
    base: Foundation, sending: Sending, subscribing: Subscribing, requests: Requests
) -> Iterator[Room]:
    """The rooms below those that answer, in the order in which they start. An optional room is
    among them where the settings want it."""
    rooms: tuple[Room | None, ...] = (
        base.telemetry,  # Closed last: what ends until then is told.
        base.audit_room,
        base.storage,
        base.identity,
        base.token_roles,
        base.shown_certificates,
        sending.transports,
        base.signed_topics,
        base.atna,
        base.archive,
        base.copies,
        requests.mailboxes,
        sending.delivery,
        base.producer,
        sending.publishing,
        sending.sources,
        requests.keeper,  # Its work goes first: links change what it keeps.
        requests.channels,
        requests.relays,
        requests.directory,
        subscribing.subscriptions,
        subscribing.dead_letters,
        subscribing.discovery,
        base.messaging,  # From now on it yields messages to those who subscribed before.
        requests.sequences,
        requests.resources,
        subscribing.matching,
        subscribing.replays,
        subscribing.ending,
        subscribing.housekeeping,
        subscribing.sharing_room,
    )
    return (room for room in rooms if room is not None)
