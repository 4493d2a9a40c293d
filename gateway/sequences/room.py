"""The room of sequences in which publishers send events, where some endpoint takes any."""

from collections.abc import Callable, Iterable
from functools import partial

from gateway.exchange import Handlers
from gateway.observing.samples import Sample
from gateway.publishing.operations import IN_SEQUENCE, PublishingOperations
from gateway.rooms import Room, Work
from gateway.security.principals import Principal
from gateway.sequences.operations import SequenceOperations
from gateway.sequences.sequences import SendElsewhere, Sequences, SignAcknowledgement
from gateway.settings.settings import Settings
from gateway.store import Store
from gateway.store.owner_bytes import OwnerBytes
from mediation.reliable_messaging.policy import Policy


class SequenceRoom(Room):
    """The sequences of publishers.

    Args:
        may_name: Returns whether a publisher may name an address for acknowledgements.
        send: Sends one there.
        sign: As of `Sequences`.
    """

    def __init__(
        self,
        settings: Settings,
        store: Store,
        publishing: PublishingOperations,
        owner_bytes: OwnerBytes,
        *,
        may_name: Callable[[str, Principal], bool],
        send: SendElsewhere,
        sign: SignAcknowledgement | None,
        shared: bool,
    ) -> None:
        self.sequences = Sequences(
            store,
            Policy(
                sequences=settings.wsrm_sequences,
                sequences_per_peer=settings.wsrm_sequences_per_owner,
                stored=settings.wsrm_messages,
                expiry=settings.wsrm_expiry.total_seconds(),
            ),
            publish=partial(publishing.accept, kept=True, dialect=IN_SEQUENCE),
            may_name=may_name,
            send=send,
            sign=sign,
            shared=shared,
            octets_per_owner=settings.wsrm_bytes_per_owner,
            owner_bytes=owner_bytes,
            nacks=settings.wsrm_nacks,
        )
        self._operations = SequenceOperations(self.sequences, publishing, settings.bound_sequences)

    def handlers(self) -> Handlers:
        return self._operations.handlers()

    def works(self) -> Iterable[Work]:
        return (self.sequences.run,)

    def metrics(self) -> Iterable[Sample]:
        return self.sequences.metrics()

    async def start(self) -> None:
        await self.sequences.start()

    async def close(self) -> None:
        await self.sequences.close()
