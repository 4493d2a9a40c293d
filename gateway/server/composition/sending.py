"""What sends: mailboxes, transports, dispatchers."""

from gateway.delivery import (
    Attempts,
    BlackList,
    Dispatchers,
    ProbationLimits,
    Probations,
    Schedule,
    SendScheduler,
    SequenceSending,
)
from gateway.egress.host_list import HostList
from gateway.egress.origins import Origins
from gateway.mailboxes.mailboxes import Mailboxes
from gateway.parsing import Parsing
from gateway.sequences.sequences import TRUSTED
from gateway.server.parts import (
    Messaging,
    Peers,
    Sending,
    Storage,
)
from gateway.server.transports import make_transports
from gateway.settings.settings import Settings
from gateway.store.owner_bytes import OwnerBytes
from gateway.subscriptions.consumers import Consumers
from gateway.subscriptions.sequences import SubscriberSequences
from gateway.subscriptions.webhooks import Handshake, WebHooks


def prepare_sending(
    settings: Settings, storage: Storage, messaging: Messaging, peers: Peers
) -> Sending:
    """Make the transports and the dispatchers.

    Raises:
        TlsError: A file that the settings name cannot be used.
        TransportError: A transport of another package cannot be used.
    """
    trusts = peers.identification.trusts_owner
    owner_bytes = OwnerBytes(
        storage.store,
        trusts=lambda owner: owner == TRUSTED or trusts(owner),
        most=settings.owner_bytes,
        in_all=settings.strangers_bytes,
    )
    mailboxes = Mailboxes(
        storage.store, settings.mailbox_quotas, trusts=trusts, owner_bytes=owner_bytes
    )
    parsing, origins = Parsing(), Origins()
    transports = make_transports(settings, peers, mailboxes, parsing)
    probations = Probations(
        vouches=trusts,
        exempt=HostList(settings.egress_agreed).__contains__,
        limits=ProbationLimits(settings.probation_per_minute, settings.probation_attempts),
        by_address=settings.egress_proxy is None,
    )
    in_sequence = SequenceSending(
        storage.store,
        transports.by_scheme,
        parsing,
        calls_back=lambda target: transports.options.of(target).calls_back,
    )
    attempts = Attempts(
        transports.by_scheme,
        producer=peers.producer,
        parsing=parsing,
        origins=origins,
        probations=probations,
        sequences=in_sequence,
    )
    schedule = _schedule(settings)
    scheduler = SendScheduler(
        attempts, slots=settings.slots, probe=schedule.probe, probations=probations
    )
    consumers = Consumers(transports.schemes, mailboxes)
    return Sending(
        owner_bytes=owner_bytes,
        mailboxes=mailboxes,
        consumers=consumers,
        parsing=parsing,
        origins=origins,
        soap_tcp=transports.soap_tcp,
        transport=transports.by_scheme,
        guarded=transports.guarded,
        probations=probations,
        web_hooks=WebHooks(
            transports.by_scheme,
            consumers,
            probations,
            base=peers.base,
            handshake=Handshake(settings.webhook_handshake),
        ),
        sequences=SubscriberSequences(
            storage.store,
            in_sequence,
            transports.by_scheme,
            consumers,
            probations,
            durable=messaging.capabilities.durable,
            keeps_house=lambda: messaging.sharing.keeps_house,
            shared=messaging.sharing.shared,
        ),
        schedule=schedule,
        dispatchers=Dispatchers(storage.store, scheduler, messaging.sharing.elsewhere),
    )


def _schedule(settings: Settings) -> Schedule:
    black_list = None
    if settings.black_list_after:
        black_list = BlackList(settings.black_list_after, settings.black_list_for)
    if settings.retry_delays is None:
        return Schedule(black_list=black_list)
    return Schedule(settings.retry_delays, black_list=black_list)
