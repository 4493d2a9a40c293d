"""What has to hold of messages and advertisements, and each attack that they can be."""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from uuid import UUID

import pytest

from filters import Refused
from mediation.discovery import (
    Anchors,
    Checked,
    CheckedAdvertisement,
    Created,
    Creator,
    Credentials,
    Crowded,
    DecryptionFailed,
    Element,
    EncryptedAdvertisement,
    Fault,
    Head,
    Malformed,
    Message,
    Mismatch,
    NodeDiscoveryRequest,
    NodeDiscoveryResponse,
    Property,
    Query,
    Refusal,
    ReplayWindow,
    Role,
    SignatureRefused,
    SignedTopicAdvertisement,
    Standing,
    SynopsisRefused,
    TopicAdvertisement,
    TopicCreationRequest,
    TopicCreationResponse,
    TopicDiscoveryRequest,
    TopicDiscoveryResponse,
    TopicWithdrawal,
    Trust,
    Untimely,
    Verifier,
    admit,
    check_advertisement,
    check_answer,
    check_created,
    check_kept,
    check_request,
    check_times,
    check_withdrawal,
    encrypt,
    encrypt_advertisement,
    hand_on,
    open_advertisement,
    path_of,
    place_uuid,
    queries_of,
    read_authorities,
    read_credentials,
    receive,
    standing,
    topic_of,
    write,
)
from mediation.discovery.signing import sign
from mediation.model.expiry import Duration
from tests.rigs import discovery
from tests.rigs.discovery import NOW, TOPIC_ID
from tests.rigs.discovery_keys import Parties, parties

SECOND = timedelta(seconds=1)
STRANGER = "x-" + "7" * 32


@pytest.fixture(scope="module")
def people() -> Parties:
    return parties()


def taken(people: Parties, octets: bytes, *, now: datetime = NOW) -> Checked:
    """What the consumer, the node and a stranger take."""
    own: dict[str, Credentials | None] = {
        people.consumer_id: people.consumer,
        people.node_id: people.node,
        STRANGER: None,
    }
    return receive(octets, people.verifier(), own, now=now)


def request(people: Parties, **changes: object) -> TopicCreationRequest:
    value = TopicCreationRequest(
        discovery.head(people.producer_id, people.node_id),
        Creator(people.producer_id, "North mole"),
        discovery.DESCRIPTORS,
        discovery.PATH,
        Duration(0, timedelta(days=30)),
    )
    return replace(value, **changes)  # type: ignore[arg-type]


def head(sender: str, to: str | None = None, *, issued: timedelta = 0 * SECOND) -> Head:
    value = discovery.head(sender, to)
    return replace(value, issued=NOW + issued, expires=NOW + issued + 30 * SECOND)


# Messages.


def test_a_signed_message_is_taken(people: Parties) -> None:
    value = request(people)
    octets = sign(value, people.producer)
    checked = taken(people, octets)
    assert checked.message == value
    assert checked.signer is not None
    assert checked.signer.identifier == people.producer_id
    assert not checked.encrypted
    assert checked.octets == octets


def test_an_encrypted_message_is_taken(people: Parties) -> None:
    value = TopicDiscoveryResponse(discovery.head(people.node_id, people.consumer_id))
    signed = sign(value, people.node)
    checked = taken(people, encrypt(signed, people.consumer_id, people.consumer.certificate))
    assert checked.message == value
    assert checked.encrypted
    assert checked.octets == signed


@pytest.mark.parametrize("kind", [NodeDiscoveryRequest, TopicDiscoveryRequest])
def test_a_stranger_may_search(people: Parties, kind: type[Message]) -> None:
    value: Element = (
        NodeDiscoveryRequest(discovery.head(STRANGER))
        if kind is NodeDiscoveryRequest
        else TopicDiscoveryRequest(discovery.head(STRANGER), Query("urn:d", "q"))
    )
    checked = taken(people, write(value))
    assert checked.signer is None
    assert isinstance(checked.message, kind)


def test_a_stranger_may_do_nothing_else(people: Parties) -> None:
    for value in (
        request(people, head=discovery.head(STRANGER, people.node_id)),
        TopicWithdrawal(discovery.head(STRANGER), TOPIC_ID),
        TopicDiscoveryResponse(discovery.head(STRANGER, people.consumer_id)),
        Refusal(discovery.head(STRANGER, people.consumer_id), Fault.LIMIT),
    ):
        with pytest.raises(SignatureRefused):
            taken(people, write(value))
    with pytest.raises(SignatureRefused):
        search = NodeDiscoveryRequest(discovery.head(STRANGER))
        taken(people, sign(search, people.producer))


def test_who_has_a_key_has_to_sign(people: Parties) -> None:
    for value in (request(people), NodeDiscoveryRequest(discovery.head(people.producer_id))):
        with pytest.raises(SignatureRefused, match="not signed"):
            taken(people, write(value))


def test_a_forged_sender_is_refused(people: Parties) -> None:
    """Whose From is a victim's would have the answers sent there."""
    victim = TopicDiscoveryRequest(discovery.head(people.producer_id), Query("urn:d", "q"))
    with pytest.raises(SignatureRefused, match="not the sender"):
        taken(people, sign(victim, people.consumer))


def test_a_forged_node_is_refused(people: Parties) -> None:
    """An entity that says it is a node: by its own key, or by a name that it copied."""
    for name in (people.producer.identifier(Role.NODE), people.node_id):
        value = NodeDiscoveryResponse(discovery.head(name, people.consumer_id), "t")
        with pytest.raises(SignatureRefused, match="no anchor"):
            taken(people, sign(value, people.producer))


@pytest.mark.parametrize("sender", ["node", "producer"])
def test_each_message_comes_of_its_role(people: Parties, sender: str) -> None:
    node = sender == "node"
    credentials = people.node if node else people.producer
    name = people.node_id if node else people.producer_id
    to = people.consumer_id
    values: dict[Message, bool] = {
        NodeDiscoveryRequest(head(name)): not node,
        NodeDiscoveryResponse(head(name, to), path_of(topic_of(name))): node,
        request(people, head=head(name, to)): not node,
        TopicCreationResponse(head(name, to), write(discovery.ADVERTISEMENT)): node,
        TopicWithdrawal(head(name), TOPIC_ID): not node,
        TopicDiscoveryRequest(head(name), Query("urn:d", "q")): not node,
        TopicDiscoveryResponse(head(name, to)): True,
        Refusal(head(name, to), Fault.LIMIT): node,
    }
    for value, may in values.items():
        octets = sign(value, credentials)
        if may:
            assert taken(people, octets).message == value
        else:
            with pytest.raises(SignatureRefused, match="such a sender"):
                taken(people, octets)


def test_a_node_offers_its_own_topic_alone(people: Parties) -> None:
    """Else it could send those who ask to another's topic."""
    other = people.consumer.identifier(Role.NODE)
    for topic in (path_of(topic_of(other)), path_of(queries_of(people.node_id)), "Weather"):
        value = NodeDiscoveryResponse(discovery.head(people.node_id, people.consumer_id), topic)
        with pytest.raises(Mismatch, match="not its own"):
            taken(people, sign(value, people.node))


def test_a_message_for_another_is_refused(people: Parties) -> None:
    for to in (people.producer_id, "x-" + "8" * 32):
        value = NodeDiscoveryResponse(discovery.head(people.node_id, to), "t")
        with pytest.raises(Mismatch, match="another"):
            taken(people, sign(value, people.node))


def test_an_answer_says_whom_it_is_for(people: Parties) -> None:
    for value in (
        NodeDiscoveryResponse(discovery.head(people.node_id), "t"),
        Refusal(discovery.head(people.node_id), Fault.LIMIT),
    ):
        with pytest.raises(Mismatch, match="whom"):
            taken(people, sign(value, people.node))


def test_an_encrypted_message_has_its_receiver_signed(people: Parties) -> None:
    """Else its receiver could encrypt it anew for a third, who would think it meant."""
    for to in (None, people.producer_id, people.node_id):
        value = NodeDiscoveryRequest(discovery.head(people.producer_id, to))
        signed = sign(value, people.producer)
        with pytest.raises(DecryptionFailed):
            taken(people, encrypt(signed, people.consumer_id, people.consumer.certificate))


def test_failures_of_encrypted_messages_are_alike(people: Parties) -> None:
    good = TopicDiscoveryResponse(discovery.head(people.node_id, people.consumer_id))
    wrong: list[bytes] = [
        b"no XML",
        write(good),
        sign(good, people.producer),
        sign(replace(good, head=head(people.node_id, people.consumer_id, issued=-60 * SECOND)),
             people.node),
        write(discovery.ADVERTISEMENT),
        sign(good, people.node).replace(b">false<", b">true<"),
    ]  # fmt: skip
    told = set()
    for octets in wrong:
        with pytest.raises(Refused) as caught:
            taken(people, encrypt(octets, people.consumer_id, people.consumer.certificate))
        assert isinstance(caught.value, DecryptionFailed)
        told.add((str(caught.value), caught.value.value, caught.value.__cause__))
    for recipient in (people.producer, people.elliptic):
        with pytest.raises(DecryptionFailed) as caught:
            octets = encrypt(
                sign(good, people.node), people.consumer_id, people.consumer.certificate
            )
            receive(octets, people.verifier(), {people.consumer_id: recipient}, now=NOW)
        told.add((str(caught.value), caught.value.value, caught.value.__cause__))
    assert len(told) == 1


def test_what_has_no_head_is_no_message(people: Parties) -> None:
    with pytest.raises(Malformed):
        taken(people, sign(discovery.DELEGATION, people.producer))


@pytest.mark.parametrize(
    ("issued", "expires", "right"),
    [
        (-30, 0, True),
        (-30, -1, False),
        (60, 90, True),
        (61, 90, False),
        (-1, 599, True),
        (-1, 600, False),
        (0, 0, True),
        (10, 5, True),
    ],
)
def test_times(people: Parties, issued: int, expires: int, right: bool) -> None:
    begins, ends = NOW + issued * SECOND, NOW + expires * SECOND
    value = NodeDiscoveryRequest(replace(discovery.head(STRANGER), issued=begins, expires=ends))
    if right:
        check_times(begins, ends, now=NOW)
        assert taken(people, write(value)).message == value
    else:
        with pytest.raises(Untimely):
            taken(people, write(value))


# Replays.


def test_a_message_comes_once(people: Parties) -> None:
    window = ReplayWindow()
    checked = taken(people, sign(request(people), people.producer))
    admit(checked, window, now=NOW)
    for later in (0, 30):
        with pytest.raises(Untimely, match="before"):
            admit(checked, window, now=NOW + later * SECOND)
    # By then it is over for other reasons.
    admit(checked, window, now=NOW + 31 * SECOND)


def test_an_id_belongs_to_its_sender() -> None:
    """Whoever sends a message with an id that another has just used does not keep that out."""
    window = ReplayWindow()
    for sender in ("e-1", "e-2"):
        window.admit(sender, "m-1", expires=NOW, now=NOW)
    with pytest.raises(Untimely):
        window.admit("e-1", "m-1", expires=NOW, now=NOW)


def test_a_window_is_bounded() -> None:
    window = ReplayWindow(most=3)
    for number in range(3):
        window.admit("e-1", str(number), expires=NOW + number * SECOND, now=NOW)
    with pytest.raises(Crowded):
        window.admit("e-1", "3", expires=NOW + 9 * SECOND, now=NOW)
    assert len(window) == 3
    # One that is over makes room; those that are not are still known.
    later = NOW + 1.5 * SECOND
    window.admit("e-1", "3", expires=NOW + 9 * SECOND, now=later)
    with pytest.raises(Untimely):
        window.admit("e-1", "2", expires=NOW + 9 * SECOND, now=later)
    assert len(window) == 2


# Answers.


def test_an_answer_is_to_its_request(people: Parties) -> None:
    asked = discovery.head(people.consumer_id, people.node_id)
    good = replace(
        discovery.head(people.node_id, people.consumer_id),
        message_id=TOPIC_ID,
        in_reply_to=asked.message_id,
    )
    check_answer(asked, good)
    for wrong in (
        replace(good, in_reply_to=None),
        replace(good, in_reply_to=TOPIC_ID),
        replace(good, to=people.producer_id),
        replace(good, sender="tdn-" + "0" * 32),
    ):
        with pytest.raises(Mismatch):
            check_answer(asked, wrong)
    check_answer(replace(asked, to=None), replace(good, sender="tdn-" + "0" * 32))


# Creation.


def created(
    people: Parties,
    asked: TopicCreationRequest,
    change: Callable[[TopicAdvertisement], TopicAdvertisement] = lambda made: made,
    *,
    signer: Credentials | None = None,
    answer: Callable[[Head], Head] = lambda head: head,
    encrypted: bool | None = None,
) -> Checked:
    """The answer of the node."""
    advertisement = change(
        TopicAdvertisement(
            TOPIC_ID,
            people.node_id,
            asked.creator,
            NOW,
            NOW + timedelta(days=30),
            asked.descriptors,
            place_uuid(asked.synopsis, TOPIC_ID),
        )
    )
    signed = sign(advertisement, signer or people.node)
    if asked.encrypted if encrypted is None else encrypted:
        hidden = encrypt_advertisement(advertisement, signed, people.producer.certificate)
        signed = sign(hidden, signer or people.node)
    top = replace(
        discovery.head(people.node_id, people.producer_id), in_reply_to=asked.head.message_id
    )
    octets = sign(TopicCreationResponse(answer(top), signed), people.node)
    own = {people.producer_id: people.producer, people.consumer_id: None}
    return receive(octets, people.verifier(), own, now=NOW)


@pytest.mark.parametrize("encrypted", [False, True])
def test_a_topic_is_created(people: Parties, encrypted: bool) -> None:
    asked = request(people, encrypted=encrypted)
    assert check_request(taken(people, sign(asked, people.producer))) == asked
    got = check_created(asked, created(people, asked), people.verifier(), people.producer, now=NOW)
    assert got.advertisement.topic_id == TOPIC_ID
    assert got.advertisement.descriptors == asked.descriptors
    published = sign(SignedTopicAdvertisement(NOW, TOPIC_ID, got.signed), people.producer)
    checked = check_advertisement(published, people.verifier(), now=NOW)
    assert isinstance(checked.advertisement, EncryptedAdvertisement) is encrypted


@pytest.mark.parametrize("encrypted", [False, True])
def test_a_topic_that_was_kept_is_its_creators_until_it_expires(
    people: Parties, encrypted: bool
) -> None:
    asked = request(people, encrypted=encrypted)
    got = check_created(asked, created(people, asked), people.verifier(), people.producer, now=NOW)

    def again(
        kept: bytes = got.signed, *, own: Credentials = people.producer, now: datetime = NOW
    ) -> Created:
        return check_kept(kept, people.verifier(), own, now=now)

    assert again() == got
    with pytest.raises(Mismatch, match="is of e-"):
        again(own=people.consumer)
    with pytest.raises(Untimely, match="has expired"):
        again(now=got.advertisement.expires)
    with pytest.raises(Refused):
        again(got.signed.replace(b"adv-", b"adv-1"))
    by_entity = replace(got.advertisement, node=people.consumer_id.replace("e-", "tdn-"))
    with pytest.raises(SignatureRefused):
        again(sign(by_entity, people.consumer))
    named_otherwise = replace(got.advertisement, node="tdn-" + "0" * 32)
    with pytest.raises(Mismatch, match="another than its node"):
        again(sign(named_otherwise, people.node))


def test_documents_are_compared_as_they_are_signed(people: Parties) -> None:
    spaced = replace(discovery.DESCRIPTORS, documents=(b'<a  x="1"   b = "2" ><!-- none --></a >',))
    asked = request(people, descriptors=spaced)
    # The node reads the request as it came.
    read_by_node = check_request(taken(people, sign(asked, people.producer)))
    answer = created(people, read_by_node)
    made = check_created(asked, answer, people.verifier(), people.producer, now=NOW)
    assert made.advertisement.topic_id == TOPIC_ID


def test_nobody_asks_for_the_topic_of_another(people: Parties) -> None:
    asked = request(people, creator=Creator(people.consumer_id))
    with pytest.raises(Mismatch, match="is not the sender of the request"):
        check_request(taken(people, sign(asked, people.producer)))


@pytest.mark.parametrize(
    "change",
    [
        lambda made: replace(made, creator=Creator("e-" + "1" * 32)),
        lambda made: replace(made, creator=replace(made.creator, name="South mole")),
        lambda made: replace(
            made, descriptors=replace(made.descriptors, keywords=("tide",))
        ),
        lambda made: replace(
            made, descriptors=replace(made.descriptors, properties=(Property("gauge", "13"),))
        ),
        lambda made: replace(made, synopsis=replace(made.synopsis, text=f"Other/u-{TOPIC_ID}")),
        lambda made: replace(made, synopsis=replace(made.synopsis, text="Tide/u-1")),
        lambda made: replace(made, synopsis=replace(made.synopsis, namespace="urn:other")),
        lambda made: replace(made, topic_id=UUID(int=1)),
        lambda made: replace(made, expires=made.expires + SECOND),
        lambda made: replace(made, created=NOW + timedelta(hours=1)),
        lambda made: replace(made, expires=NOW),
        lambda made: replace(made, node="tdn-" + "1" * 32),
    ],
)  # fmt: skip
@pytest.mark.parametrize("encrypted", [False, True])
def test_a_topic_that_was_not_asked_for_is_refused(
    people: Parties, change: Callable[[TopicAdvertisement], TopicAdvertisement], encrypted: bool
) -> None:
    asked = request(people, encrypted=encrypted)
    answer = created(people, asked, change)
    with pytest.raises(Refused):
        check_created(asked, answer, people.verifier(), people.producer, now=NOW)


def test_a_topic_by_another_than_the_node_is_refused(people: Parties) -> None:
    asked = request(people)
    other = people.node_authority.credentials("other node", people.elliptic.key)
    for answer, error in (
        (created(people, asked, signer=people.producer), SignatureRefused),
        (created(people, asked, signer=other), Mismatch),
        (created(people, asked, encrypted=True), Mismatch),
        (created(people, asked, answer=lambda top: replace(top, in_reply_to=TOPIC_ID)), Mismatch),
        (created(people, asked, answer=lambda top: replace(top, to=people.consumer_id)), Mismatch),
    ):
        with pytest.raises(error):
            check_created(asked, answer, people.verifier(), people.producer, now=NOW)
    refusal = Refusal(
        discovery.head(people.node_id, people.consumer_id, answers=TOPIC_ID), Fault.LIMIT
    )
    with pytest.raises(Malformed):
        checked = taken(people, sign(refusal, people.node))
        check_created(asked, checked, people.verifier(), people.producer, now=NOW)


def test_a_shorter_life_is_the_nodes_to_give(people: Parties) -> None:
    asked = request(people)
    answer = created(people, asked, lambda made: replace(made, expires=NOW + timedelta(days=1)))
    made = check_created(asked, answer, people.verifier(), people.producer, now=NOW)
    assert made.advertisement.topic_id == TOPIC_ID


# Advertisements.


def advertisement(people: Parties) -> TopicAdvertisement:
    creator = Creator(people.producer_id)
    return replace(discovery.ADVERTISEMENT, node=people.node_id, creator=creator)


def published(
    people: Parties,
    value: TopicAdvertisement | EncryptedAdvertisement | None = None,
    *,
    node: Credentials | None = None,
    creator: Credentials | None = None,
    issued: datetime = NOW,
) -> bytes:
    inside = sign(value or advertisement(people), node or people.node)
    outside = SignedTopicAdvertisement(issued, TOPIC_ID, inside)
    return sign(outside, creator or people.producer)


def seen(people: Parties, octets: bytes, *, now: datetime = NOW) -> CheckedAdvertisement:
    return check_advertisement(octets, people.verifier(), now=now)


def test_an_advertisement_is_taken(people: Parties) -> None:
    octets = published(people)
    checked = seen(people, octets)
    assert checked.advertisement == advertisement(people)
    assert checked.issued == NOW
    assert checked.creator.identifier == people.producer_id
    assert checked.node.identifier == people.node_id
    assert checked.octets == octets
    assert checked.signed == write(checked.advertisement)


def test_another_cannot_advertise_it(people: Parties) -> None:
    """Who has seen an advertisement signs it, to claim the topic."""
    with pytest.raises(Mismatch, match="creator"):
        seen(people, published(people, creator=people.consumer))


def test_an_entity_cannot_make_a_topic(people: Parties) -> None:
    own = replace(advertisement(people), node=people.producer.identifier(Role.NODE))
    with pytest.raises(SignatureRefused, match="no anchor"):
        seen(people, published(people, own, node=people.producer))


def test_a_node_signs_in_its_own_name(people: Parties) -> None:
    other = people.node_authority.credentials("other node", people.elliptic.key)
    with pytest.raises(Mismatch, match="node"):
        seen(people, published(people, node=other))


def test_both_signatures_have_to_be_there(people: Parties) -> None:
    inside = write(advertisement(people))
    outside = SignedTopicAdvertisement(NOW, TOPIC_ID, inside)
    with pytest.raises(SignatureRefused, match="not signed"):
        seen(people, sign(outside, people.producer))
    with pytest.raises(SignatureRefused, match="not signed"):
        seen(
            people, write(replace(outside, advertisement=sign(advertisement(people), people.node)))
        )


def test_the_times_of_an_advertisement(people: Parties) -> None:
    octets = published(people)
    for wrong in (NOW - 61 * SECOND, NOW + timedelta(days=30)):
        with pytest.raises(Untimely):
            seen(people, octets, now=wrong)
    assert seen(people, octets, now=NOW - 60 * SECOND).issued == NOW
    assert seen(people, octets, now=NOW + timedelta(days=30) - SECOND).issued == NOW
    with pytest.raises(Untimely):
        seen(people, published(people, issued=NOW + 61 * SECOND))


@pytest.mark.parametrize(
    ("text", "namespace"),
    [
        ("Tide", "http://harbour.example.net/tide"),
        (f"Tide/u-{UUID(int=1)}", "http://harbour.example.net/tide"),
        (f"Services/u-{TOPIC_ID}", "urn:dragoman:tdn:1"),
    ],
)
def test_a_node_gives_away_no_topic_but_its_own(people: Parties, text: str, namespace: str) -> None:
    """A topic without its UUID, with that of another, or one that discovery runs over."""
    value = advertisement(people)
    synopsis = replace(value.synopsis, text=text, namespace=namespace)
    with pytest.raises(SynopsisRefused):
        seen(people, published(people, replace(value, synopsis=synopsis)))


def test_the_order_of_checks(people: Parties) -> None:
    """What costs less is looked at first, so that a wrong schema hides a wrong signature."""
    octets = published(people, creator=people.consumer)
    later = NOW + timedelta(days=60)
    wrongs = [
        (b"<tdn:Issued>", b" " * 70_000 + b"<tdn:Issued>", Malformed),
        (b"<tdn:Issued>2027", b"<tdn:Issued>year", Malformed),
        (b"<tdn:Node>", b"<tdn:Nodes>", Refused),
        (b"north mole", b"south mole", SignatureRefused),
    ]
    for before, after, error in wrongs:
        assert before in octets
        with pytest.raises(error):
            seen(people, octets.replace(before, after), now=later)
    with pytest.raises(Mismatch):
        seen(people, octets, now=later)


def test_the_newer_advertisement_stands(people: Parties) -> None:
    known = seen(people, published(people))
    newer = seen(people, published(people, issued=NOW + SECOND))
    assert standing(known, newer) is Standing.NEWER
    assert standing(newer, known) is Standing.NOT_NEWER
    assert standing(known, known) is Standing.NOT_NEWER


def test_a_topic_has_one_creator_and_one_synopsis(people: Parties) -> None:
    """A node that signs two the same UUID is found out."""
    known = seen(people, published(people))
    other = replace(advertisement(people), creator=Creator(people.consumer_id))
    theirs = seen(people, published(people, other, creator=people.consumer, issued=NOW + SECOND))
    assert standing(known, theirs) is Standing.CONFLICT
    text = replace(known.advertisement.synopsis, text=f"Other/u-{TOPIC_ID}")  # type: ignore[union-attr]
    moved = replace(advertisement(people), synopsis=text)
    assert standing(known, seen(people, published(people, moved))) is Standing.CONFLICT


def test_an_encrypted_advertisement_is_taken_and_opened(people: Parties) -> None:
    plain = advertisement(people)
    hidden = encrypt_advertisement(plain, sign(plain, people.node), people.producer.certificate)
    checked = seen(people, published(people, hidden))
    assert checked.advertisement == hidden
    assert isinstance(checked.advertisement, EncryptedAdvertisement)

    def opened(name: str, credentials: Credentials, key: bytes = b"") -> TopicAdvertisement:
        return open_advertisement(hidden, name, credentials, people.verifier(), now=NOW, key=key)

    assert opened(people.producer_id, people.producer) == plain
    with pytest.raises(DecryptionFailed):
        opened(people.consumer_id, people.consumer)
    key = hand_on(
        hidden.data,
        people.producer_id,
        people.producer,
        people.consumer_id,
        people.consumer.certificate,
    )
    assert opened(people.consumer_id, people.consumer, key) == plain
    assert standing(checked, checked) is Standing.NOT_NEWER
    again = encrypt_advertisement(plain, sign(plain, people.node), people.producer.certificate)
    assert standing(checked, seen(people, published(people, again))) is Standing.CONFLICT


@pytest.mark.parametrize(
    "change",
    [
        lambda value: replace(value, topic_id=UUID(int=2)),
        lambda value: replace(value, expires=value.expires + SECOND),
        lambda value: replace(value, created=value.created - SECOND),
        lambda value: replace(value, creator=Creator("e-" + "1" * 32)),
        lambda value: replace(value, node="tdn-" + "1" * 32),
    ],
)  # fmt: skip
def test_what_is_hidden_is_what_is_shown(
    people: Parties, change: Callable[[EncryptedAdvertisement], EncryptedAdvertisement]
) -> None:
    plain = advertisement(people)
    hidden = encrypt_advertisement(plain, sign(plain, people.node), people.producer.certificate)
    with pytest.raises(DecryptionFailed):
        open_advertisement(
            change(hidden), people.producer_id, people.producer, people.verifier(), now=NOW
        )


def test_what_is_hidden_is_signed_by_a_node(people: Parties) -> None:
    plain = advertisement(people)
    for inside in (
        write(plain),
        sign(plain, people.producer),
        sign(discovery.DELEGATION, people.node),
    ):
        hidden = encrypt_advertisement(plain, inside, people.producer.certificate)
        with pytest.raises(DecryptionFailed):
            open_advertisement(
                hidden, people.producer_id, people.producer, people.verifier(), now=NOW
            )


# Withdrawal.


def test_a_creator_withdraws_its_topic(people: Parties) -> None:
    value = TopicWithdrawal(discovery.head(people.producer_id), TOPIC_ID)
    checked = taken(people, sign(value, people.producer))
    check_withdrawal(checked, advertisement(people))
    with pytest.raises(Malformed):
        check_withdrawal(checked, replace(advertisement(people), topic_id=UUID(int=1)))


def test_nobody_else_withdraws_it(people: Parties) -> None:
    value = TopicWithdrawal(discovery.head(people.consumer_id), TOPIC_ID)
    with pytest.raises(Mismatch):
        check_withdrawal(taken(people, sign(value, people.consumer)), advertisement(people))
    search = NodeDiscoveryRequest(discovery.head(people.producer_id))
    with pytest.raises(Malformed):
        check_withdrawal(taken(people, sign(search, people.producer)), advertisement(people))


# The published examples, each at its time.


def test_the_published_examples_are_taken(shared: Path) -> None:
    folder = shared / "specs/schemas/tdn/examples"
    nodes, entities = (
        Anchors(read_authorities((folder / f"{name}-ca.crt.pem").read_bytes()))
        for name in ("node", "entity")
    )
    verifier = Verifier(Trust(nodes, entities))
    key, certificate = ((folder / f"consumer.{one}.pem").read_bytes() for one in ("key", "crt"))
    consumer = read_credentials(key, certificate)
    own: dict[str, Credentials | None] = {
        consumer.identifier(Role.ENTITY): consumer,
        "e-6699b28b77881f9c41e834f55d107bd2": None,
        "tdn-8ba14fa7afbd1f84e5d8a4b245af26f0": None,
    }
    times = {
        "2026-11-21T09:00:10+00:00": ("01", "02", "03", "04"),
        "2026-11-21T10:00:10+00:00": ("06", "07", "08", "12"),
        "2026-11-22T09:00:10+00:00": ("11",),
    }
    found = {}
    for text, numbers in times.items():
        now = datetime.fromisoformat(text)
        for number in numbers:
            [path] = folder.glob(f"{number}-*.xml")
            found[number] = receive(path.read_bytes(), verifier, own, now=now)
            with pytest.raises(Refused):
                receive(path.read_bytes(), verifier, own, now=now + timedelta(hours=2))
    assert found["12"].message == found["07"].message
    assert found["12"].encrypted
    now = datetime.fromisoformat("2026-11-21T09:00:10+00:00")
    [path] = folder.glob("05-*.xml")
    checked = check_advertisement(path.read_bytes(), verifier, now=now)
    response = found["07"].message
    assert isinstance(response, TopicDiscoveryResponse)
    [inside] = response.advertisements
    assert check_advertisement(inside, verifier, now=now).advertisement == checked.advertisement
    asked, answer = found["03"].message, found["04"]
    assert isinstance(asked, TopicCreationRequest)
    made = check_created(asked, answer, verifier, consumer, now=now)
    assert made.advertisement == checked.advertisement
    check_withdrawal(found["11"], checked.advertisement)


def test_a_wrong_placeholder_is_the_requests_fault(people: Parties) -> None:
    asked = request(people, synopsis=replace(discovery.PATH, namespace="urn:dragoman:tdn:1"))
    with pytest.raises(SynopsisRefused) as caught:
        created(people, asked)
    assert caught.value.fault is Fault.UNSUPPORTED_SYNOPSIS
