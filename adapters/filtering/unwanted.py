"""Messages that the system yields and nobody gets."""

import logging

from adapters.protocol import Delivery

logger = logging.getLogger(__name__)


def settle_unwanted(delivery: Delivery) -> None:
    """Settle a message that nobody gets. Where an adapter raises then, the message comes again:
    it must not end the delivery of all others."""
    try:
        delivery.settle()
    except Exception:
        logger.exception("delivery.not-settled")
