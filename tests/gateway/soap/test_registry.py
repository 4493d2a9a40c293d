"""Which handler carries out which request."""

from datetime import UTC, datetime
from pathlib import Path
from types import UnionType
from typing import get_args, get_type_hints

import pytest

from filters import Reason, Refused
from gateway.exchange import Handlers
from gateway.mailboxes.operations import MailboxOperations
from gateway.publishing.metadata import MetadataOperations
from gateway.publishing.operations import PublishingOperations
from gateway.resources.operations import ResourceOperations
from gateway.security.resource_addresses import ResourceAddress, ResourceKind
from gateway.sequences.operations import PublishInSequence, SequenceOperations
from gateway.soap.registry import Registry
from gateway.sources.operations import SourceOperations
from gateway.sources.registering import RegistrationOperations
from gateway.sources.windows import WindowsOperations
from gateway.subscriptions.management import ManagementOperations
from gateway.subscriptions.operations import SubscriptionOperations
from mediation.model.messages import Notification
from mediation.model.requests import EndOfSubscription, GetStatus, Pause, Publish, Request
from tests.rigs.envelopes import Speaker
from tests.rigs.gateways import running

ROOMS = (
    MailboxOperations,
    PublishingOperations,
    MetadataOperations,
    RegistrationOperations,
    ResourceOperations,
    SubscriptionOperations,
    ManagementOperations,
    SequenceOperations,
    WindowsOperations,
)


def rows(room: type) -> Handlers:
    """The handlers of *room*, not bound to any of its parts."""
    return room.handlers(object.__new__(room))  # type: ignore[no-any-return,attr-defined]


def test_every_request_has_one_handler() -> None:
    registry = Registry(*map(rows, ROOMS), at={ResourceKind.SOURCE: rows(SourceOperations)})
    assert registry.offered - {PublishInSequence} == set(get_args(Request))


def test_an_address_may_have_handlers_of_its_own() -> None:
    own = rows(SourceOperations)
    registry = Registry(*map(rows, ROOMS), at={ResourceKind.SOURCE: own})
    source = ResourceAddress(ResourceKind.SOURCE, "key")
    notification = Notification("1", "urn:x", b"<a/>", datetime.now(UTC))
    assert registry.handler(Publish((notification,)), source) is own[Publish]
    assert registry.handler(Publish((notification,))) is not own[Publish]
    with pytest.raises(Refused):
        registry.handler(Pause(), source)
    end = EndOfSubscription("SourceShuttingDown")
    assert registry.handler(end, source) is own[EndOfSubscription]
    assert registry.handler(end) is not own[EndOfSubscription]


@pytest.mark.parametrize("room", (*ROOMS, SourceOperations))
def test_a_handler_takes_the_requests_that_it_stands_for(room: type) -> None:
    for kind, handler in rows(room).items():
        taken = next(iter(get_type_hints(handler).values()))
        assert kind in (get_args(taken) if isinstance(taken, UnionType) else (taken,))


def test_two_rooms_offer_nothing_twice() -> None:
    handlers = rows(SubscriptionOperations)
    with pytest.raises(ValueError, match="two rooms offer Pause"):
        Registry(handlers, {Pause: handlers[Pause]})


def test_what_nobody_offers_is_refused() -> None:
    with pytest.raises(Refused) as refused:
        Registry(otherwise="Not here.").handler(GetStatus())
    assert (refused.value.reason, refused.value.text) == (Reason.ACTION_UNSUPPORTED, "Not here.")


async def test_where_only_mailboxes_are_offered(tmp_path: Path) -> None:
    speaker = Speaker()
    async with running(tmp_path, mailboxes_only=True) as run:
        octets = speaker.envelope(speaker.wse_subscribe("http://consumer.example.org/"))
        answer = await run.post(octets, type=speaker.type)
        assert b"Only mailboxes are offered here." in answer.body
