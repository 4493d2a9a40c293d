"""The composition root: makes all parts of a gateway, each whole, from its settings.

    open_storage         the data folder, locked; the store
    connect_messaging    adapter, sharing with other gateways, archive, spool
    prepare_sending      mailboxes, transports, dispatchers
    keep_subscriptions   subscriptions, and what matches, delivers and ends them
    answer_requests      the operations of all rooms, and the SOAP service
    serve_endpoints      gates, routes, listeners of SOAP.TCP

Each step takes what the former ones made, and returns a frozen group of `parts`. Nothing runs
before `Application.start`, but the first two steps look into the store and the data folder.
"""

import contextlib

from gateway.egress import AddressPolicy
from gateway.model.hosts import host_and_port
from gateway.security.identify import Identification
from gateway.security.networks import networks
from gateway.server.addresses import own_addresses, own_bases
from gateway.server.application import Application
from gateway.server.composition.answering import answer_requests
from gateway.server.composition.endpoints import serve_endpoints
from gateway.server.composition.messaging import connect_messaging, open_storage
from gateway.server.composition.sending import prepare_sending
from gateway.server.composition.subscribing import keep_subscriptions
from gateway.server.parts import Listening, Peers
from gateway.server.state import RunState
from gateway.settings.settings import Settings
from gateway.settings.values import port_ranges

LOOPBACK = ("127.0.0.0/8", "::1")


async def build(settings: Settings, listening: Listening) -> Application:
    """Make a gateway, which is to be started.

    Raises:
        DataInUse: Another process has the data folder, or the store.
        Refused: Something cannot be opened; the text says what.
    """
    peers, state = _peers(settings, listening), RunState()
    async with contextlib.AsyncExitStack() as undo:
        storage = await open_storage(settings, listening, undo)
        messaging = await connect_messaging(settings, storage, peers)
        sending = prepare_sending(settings, storage, messaging, peers)
        subscribing = keep_subscriptions(settings, storage, messaging, sending, peers)
        answering = answer_requests(settings, storage, messaging, sending, subscribing, peers)
        endpoints = serve_endpoints(
            settings, storage, messaging, sending, subscribing, answering, peers, state
        )
        undo.pop_all()  # From now on it is the application that closes them.
    return Application(
        settings,
        admin=listening.admin,
        state=state,
        policy=peers.policy,
        storage=storage,
        messaging=messaging,
        sending=sending,
        subscribing=subscribing,
        answering=answering,
        endpoints=endpoints,
    )


def _peers(settings: Settings, listening: Listening) -> Peers:
    trusted = settings.trusted
    if trusted is None:
        trusted = LOOPBACK if settings.on_loopback else ()
    own, tcp_ports = listening.own, listening.tcp_ports.values()
    policy = AddressPolicy(
        allow=settings.egress_allow,
        loopback=settings.on_loopback,
        own=own_addresses(settings, own, admin=listening.admin, tcp_ports=tcp_ports),
        deliver_to_self=settings.deliver_to_self,
        schemes=settings.egress_schemes,
        ports=port_ranges(settings.egress_ports),
    )
    base = settings.public_url or f"{settings.web_scheme}://{host_and_port(*own)}"
    known = networks(trusted)
    bases = own_bases(settings, own, listening.tcp_ports)
    return Peers(known, Identification(known), base.rstrip("/"), policy, bases)
