"""Deliveries to consumers that are mailboxes."""

from gateway.egress import Request, Target
from gateway.mailboxes.transport import MailboxTransport, mailbox_target
from gateway.model.mailboxes import MailboxBounds, MailboxKind
from gateway.security.identify import anonymous
from gateway.store import Store
from tests.rigs.stored_mailboxes import boxes, removal
from tests.rigs.stores import on_each_store

NEIGHBOUR = anonymous("127.0.0.1", trusted=True)
pytestmark = on_each_store


async def test_the_transport_to_a_box_answers_when_it_is_kept(store: Store) -> None:
    mailboxes = await boxes(store, bounds=MailboxBounds(1, 1000, refuse=True))
    box = await mailboxes.make(MailboxKind.PULL_POINT, NEIGHBOUR)
    transport = MailboxTransport(mailboxes)

    def request(target: Target, id_: str) -> Request:
        return Request(target, b"<e>1</e>", (), message_id=id_)

    target = mailbox_target(box, "http://gateway.example/pullpoints/x")
    assert (await transport.send(request(target, "urn:1"))).status == 202
    assert (await transport.send(request(target, "urn:2"))).status == 503
    await removal(mailboxes).destroy(box)
    assert (await transport.send(request(target, "urn:3"))).status == 410
