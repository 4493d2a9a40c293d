"""Dead letters."""

from datetime import datetime

from pydantic import BaseModel, Field

from gateway.model.dead_letter_reasons import DeadLetter
from gateway.model.moments import moment_of
from gateway.observing.masking import Mask
from gateway.security.resource_addresses import shown
from gateway.subscriptions.dead_letters import Shown
from gateway.web.views.documents import Part, masked_part


class DeadLetterView(BaseModel, extra="forbid"):
    """A dead letter."""

    number: int
    subscription: str
    message_id: str = Field(description="The id that its consumer was told.")
    published_id: str = Field(
        description="The id that its publisher gave it, or that it got when it was accepted."
    )
    topic: str | None
    reason: str
    status: int | None
    failure: str | None
    answer: str
    attempts: int
    since: datetime
    died: datetime
    owner: str
    consumer: str | None
    bytes: int


class DeadLetterDetail(DeadLetterView, extra="forbid"):
    """A dead letter with its message. `envelope` is what was sent, or, of a mailbox, what lay in
    it; null where the subscription has ended."""

    action: str | None
    attachments: int
    payload: Part | None
    envelope: Part | None


def dead_letter_view(letter: DeadLetter, mask: Mask) -> DeadLetterView:
    """The view of *letter* in a list; the consumer's answer is masked."""
    death = letter.death
    return DeadLetterView(
        number=letter.number,
        subscription=death.subscription,
        message_id=death.delivery_id,
        published_id=letter.published,
        topic=death.topic,
        reason=death.reason.value,
        status=death.status,
        failure=death.failure,
        answer=mask.text(death.answer),
        attempts=death.attempts,
        since=moment_of(death.since),
        died=moment_of(death.died),
        owner=death.owner,
        consumer=shown(death.consumer) if death.consumer else None,
        bytes=letter.octets,
    )


def dead_letter_detail(letter: Shown, mask: Mask, limit: int) -> DeadLetterDetail:
    """The view of *letter* with the first *limit* bytes of its payload and of its envelope, masked.
    It takes time for large ones."""
    return DeadLetterDetail(
        **dict(dead_letter_view(letter.letter, mask)),
        action=letter.action,
        attachments=letter.attachments,
        payload=_part(letter.payload, mask, limit),
        envelope=_part(letter.envelope, mask, limit),
    )


def _part(octets: bytes | None, mask: Mask, limit: int) -> Part | None:
    return None if octets is None else masked_part(octets, mask, limit)
