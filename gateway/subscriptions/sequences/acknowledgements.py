"""The handler of what consumers send to the addresses for acknowledgements of their sequences."""

import time
from collections.abc import Callable

from sqlalchemy import Connection

from filters import Reason, Refused
from gateway.delivery import AcknowledgementAddresses
from gateway.delivery.sequences import endings, message_numbers
from gateway.delivery.sequences.acknowledgement_addresses import create_id_of
from gateway.exchange import Handlers, Inbound
from gateway.reliability.stores.joined_store import run_joined
from gateway.security.resource_addresses import addressed
from gateway.store import Store
from mediation.model.requests import Incoming, Publish, Request, RunSequence
from mediation.reliable_messaging import ReliableMessage


class AcknowledgementOperations:
    """Takes acknowledgements, and the answers to the end of a sequence: they go to the attempt that
    waits for them, else into the store, where the next attempt finds them.

    Args:
        noted: Called with the id of a subscription, of which something is acknowledged.
    """

    def __init__(
        self, store: Store, acknowledgements: AcknowledgementAddresses, noted: Callable[[str], None]
    ) -> None:
        self._store = store
        self._acknowledgements = acknowledgements
        self._noted = noted

    def handlers(self) -> Handlers:
        """Of messages to `ResourceKind.SEQUENCE`."""
        return {RunSequence: self.take, Publish: self.take}

    async def take(self, _request: Request, incoming: Incoming, inbound: Inbound) -> None:
        """Take what a consumer says of its sequence.

        Raises:
            Refused: ``ACTION_UNSUPPORTED``: it says nothing of any. StoreUnavailable.
        """
        said = incoming.context.reliable
        resource = addressed(inbound.path, incoming.context.headers.to)
        if not isinstance(said, ReliableMessage) or said.sequence is not None or resource is None:
            raise Refused(
                Reason.ACTION_UNSUPPORTED, "Acknowledgements are taken here, and nothing else."
            )
        create_id = create_id_of(resource.key or "")
        if self._acknowledgements.tell(create_id, said):
            return
        key = await self._store.submit(
            lambda connection: endings.key_created_by(connection, create_id)
        )
        if key is None:
            return  # It was long ago, or is a guess.
        now = time.time()

        def told(connection: Connection) -> None:
            run_joined(
                connection,
                lambda storage: endings.take_acknowledgements(storage, connection, key, said, now),
            )

        await self._store.submit(told, locks=(f"sequence {key}",))
        subscription = message_numbers.subscription_of(key)
        if subscription is not None:
            self._noted(subscription)
