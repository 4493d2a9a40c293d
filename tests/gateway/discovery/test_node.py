"""What a node makes of messages: the exchange, its policy, its limits, what it is attacked with."""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from datetime import timedelta
from uuid import uuid4

import pytest

from filters.queries import XQueryWorker, compile_query, unlimited
from gateway.discovery.limits import NodeLimits, RequestRates
from gateway.discovery.node import Node
from gateway.discovery.node_messages import (
    Answer,
    MessageDropped,
    NewAdvertisement,
    NodeRequest,
    NodeTopic,
    Revocation,
    SearchResult,
    Withdrawal,
)
from gateway.discovery.policy import NodePolicy
from mediation.discovery import (
    Created,
    Dialect,
    EncryptedAdvertisement,
    Fault,
    NodeDiscoveryResponse,
    Property,
    Refusal,
    Scope,
    SignatureRefused,
    SignedTopicAdvertisement,
    Synopsis,
    SynopsisType,
    TopicDiscoveryResponse,
    check_advertisement,
    encrypt,
    open_advertisement,
    place_uuid,
    read_advertisement,
)
from mediation.discovery.signing import sign
from tests.rigs.discovery import NOW, PATH, TIDE
from tests.rigs.discovery_entities import Speaker
from tests.rigs.discovery_keys import parties

PRODUCER = Speaker(parties().producer)
CONSUMER = Speaker(parties().consumer)
ELLIPTIC = Speaker(parties().elliptic)


@dataclass
class Rig:
    """A node, and what it keeps."""

    policy: NodePolicy = field(default_factory=NodePolicy)
    limits: NodeLimits = field(default_factory=NodeLimits)
    xquery: XQueryWorker | None = None

    def __post_init__(self) -> None:
        self.seconds = 0.0
        self.node = Node(
            parties().node, parties().verifier(), sign=sign, new_uuid=uuid4, policy=self.policy,
            limits=self.limits, rates=RequestRates(self.limits, lambda: self.seconds),
            xquery=self.xquery,
        )  # fmt: skip
        self.kept: dict[str, bytes] = {}

    def tell(
        self, octets: bytes, way: NodeTopic = NodeTopic.TOPICS
    ) -> NewAdvertisement | Withdrawal | Revocation | NodeRequest:
        what = self.node.read(octets, way, "somebody", now=NOW)
        if isinstance(what, NewAdvertisement):
            assert what.row.octets is not None
            self.node.add(what.row)
            self.kept[what.row.topic_id] = what.row.octets
        return what

    def ask(self, octets: bytes, way: NodeTopic = NodeTopic.OWN) -> Answer:
        asked = self.tell(octets, way)
        assert isinstance(asked, NodeRequest)
        answer = self.node.answer(asked, seconds_left=unlimited, now=NOW)
        if isinstance(answer, SearchResult):
            found = [self.kept[id_] for id_ in answer.topic_ids]
            answer = self.node.answer_found(answer, found, now=NOW)
        return answer

    def create(self, speaker: Speaker = PRODUCER, **request: object) -> Created:
        asked = speaker.creation(NOW, **request)  # type: ignore[arg-type]
        answer = self.ask(speaker.for_node(asked))
        assert answer.receiver == speaker.id
        return speaker.made(asked, answer.octets, NOW)

    def advertise(self, speaker: Speaker = PRODUCER, **request: object) -> Created:
        created = self.create(speaker, **request)
        self.tell(speaker.advertisement(created, NOW))
        return created

    def dropped(self, octets: bytes, way: NodeTopic = NodeTopic.TOPICS) -> str:
        """Why silence is the answer."""
        with pytest.raises(MessageDropped) as dropped:
            self.ask(octets, way)
        return dropped.value.why

    def refused(self, speaker: Speaker, octets: bytes) -> Fault:
        """Why a request on the node's own topics is refused."""
        message = speaker.read(self.ask(octets).octets, NOW).message
        assert isinstance(message, Refusal)
        return message.reason


def found(speaker: Speaker, answer: Answer) -> TopicDiscoveryResponse:
    message = speaker.read(answer.octets, NOW).message
    assert isinstance(message, TopicDiscoveryResponse)
    return message


# The exchange.


def test_a_node_offers_itself() -> None:
    answer = Rig().ask(PRODUCER.look_for_nodes(NOW), NodeTopic.NODES)
    read = PRODUCER.read(answer.octets, NOW)
    assert read.encrypted
    assert isinstance(offer := read.message, NodeDiscoveryResponse)
    assert offer.topic == f"Services/Discovery/TopicDiscoveryNode/{parties().node_id}"
    assert offer.synopsis_types == tuple(SynopsisType)
    assert Dialect.SQL.value in offer.dialects


@pytest.mark.parametrize(
    "synopsis",
    [
        PATH,
        Synopsis(SynopsisType.INTEGER),
        Synopsis(SynopsisType.TAGS, "a=1"),
        Synopsis(SynopsisType.PROPERTIES, properties=(Property("a", "1"),)),
        Synopsis(SynopsisType.XML, document=TIDE),
    ],
    ids=lambda synopsis: synopsis.type.value,
)
def test_creation_advertisement_discovery(synopsis: Synopsis) -> None:
    rig = Rig()
    created = rig.create(synopsis=synopsis)
    assert not rig.kept and not len(rig.node.catalogue), "a node forgets what it made"
    topic = created.advertisement
    assert topic.synopsis == place_uuid(synopsis, topic.topic_id)
    rig.tell(PRODUCER.advertisement(created, NOW))
    [one] = found(CONSUMER, rig.ask(CONSUMER.query(NOW, "mole"), NodeTopic.TOPICS)).advertisements
    checked = check_advertisement(one, parties().verifier(), now=NOW)
    assert checked.advertisement == topic
    assert checked.creator.identifier == PRODUCER.id


def test_an_encrypted_advertisement() -> None:
    rig = Rig()
    created = rig.advertise(encrypted=True)
    [octets] = rig.kept.values()
    hidden = check_advertisement(octets, parties().verifier(), now=NOW).advertisement
    assert isinstance(hidden, EncryptedAdvertisement)
    opened = open_advertisement(
        hidden, PRODUCER.id, parties().producer, parties().verifier(), now=NOW
    )
    assert opened == created.advertisement
    assert rig.dropped(CONSUMER.query(NOW, "mole")) == "nothing-found"
    name = "*[local-name()='{}' and namespace-uri()='urn:dragoman:tdn:1']"
    for query in (
        f"{name.format('TopicId')} = 'urn:uuid:{opened.topic_id}'",
        f"{name.format('Creator')}/{name.format('EntityId')} = '{PRODUCER.id}'",
    ):
        answer = rig.ask(CONSUMER.query(NOW, query, Dialect.XPATH))
        assert found(CONSUMER, answer).advertisements == (octets,)
    assert rig.dropped(CONSUMER.query(NOW, "//*[local-name()='Text']", Dialect.XPATH)) == (
        "nothing-found"
    )


@pytest.mark.parametrize(
    ("policy", "why"),
    [
        (NodePolicy(institutions=frozenset({"Harbour Office"})), "the institution"),
        (NodePolicy(synopsis_types=frozenset({SynopsisType.PATH})), "such a synopsis"),
        (
            NodePolicy(description=compile_query(Dialect.STRING.value, "mole")),
            "not described as those",
        ),
        (
            NodePolicy(description=compile_query(Dialect.XPATH.value, "not(//*[.='spam'])")),
            "not described as those",
        ),
    ],
    ids=["institution", "synopsis", "words", "nothing that is not there"],
)
def test_no_encrypted_topic_is_made_that_would_not_be_kept(policy: NodePolicy, why: str) -> None:
    rig = Rig(policy=policy)
    rig.advertise()
    request = PRODUCER.for_node(PRODUCER.creation(NOW, encrypted=True))
    message = PRODUCER.read(rig.ask(request).octets, NOW).message
    assert isinstance(message, Refusal)
    assert message.reason is Fault.UNAUTHORIZED
    assert "encrypted" in (message.text or "")
    assert why in (message.text or "")


def test_a_topic_lives_no_longer_than_the_node_lets_it() -> None:
    rig = Rig(limits=NodeLimits(longest_life=timedelta(days=7)))
    for lifetime, days in ((None, 7), (timedelta(days=30), 7), (timedelta(days=2), 2)):
        topic = rig.create(lifetime=lifetime).advertisement
        assert topic.expires - topic.created == timedelta(days=days)
    request = PRODUCER.creation(NOW, lifetime=timedelta())
    assert rig.refused(PRODUCER, PRODUCER.for_node(request)) is Fault.MALFORMED


def test_each_creation_is_another_topic() -> None:
    rig, request = Rig(), PRODUCER.creation(NOW)
    ids = {
        PRODUCER.made(
            request, rig.ask(PRODUCER.for_node(request)).octets, NOW
        ).advertisement.topic_id
        for _ in range(3)
    }
    assert len(ids) == 3


def test_no_match_is_silence_for_all_and_an_empty_list_for_one() -> None:
    rig = Rig()
    query = CONSUMER.query(NOW, "nothing")
    assert rig.dropped(query) == "nothing-found"
    assert found(CONSUMER, rig.ask(query, NodeTopic.OWN)).advertisements == ()


def test_a_limit_says_that_there_is_more() -> None:
    rig = Rig()
    for _ in range(3):
        rig.advertise()
    response = found(CONSUMER, rig.ask(CONSUMER.query(NOW, "mole", most=2)))
    assert (len(response.advertisements), response.more) == (2, True)
    response = found(CONSUMER, rig.ask(CONSUMER.query(NOW, "mole")))
    assert (len(response.advertisements), response.more) == (3, False)


@pytest.mark.parametrize(
    ("dialect", "text", "matches"),
    [
        (Dialect.REGEX, "^Tide/North", True),
        (Dialect.SQL, "gauge = 12 AND unit = 'm'", True),
        (Dialect.SQL, "missing = 12", False),
        (Dialect.XPATH, "//*[local-name()='metres'] = 3.1", True),
        (Dialect.XPATH, "/*[local-name()='TopicAdvertisement']", True),
        (Dialect.XPATH, "//*[local-name()='SignatureValue']", False),
    ],
)
def test_dialects(dialect: Dialect, text: str, matches: bool) -> None:
    rig = Rig()
    rig.advertise()
    answer = rig.ask(CONSUMER.query(NOW, text, dialect))
    assert len(found(CONSUMER, answer).advertisements) == matches


def test_what_has_expired_is_not_found() -> None:
    rig = Rig()
    created = rig.advertise(lifetime=timedelta(minutes=5))
    later = NOW + timedelta(minutes=6)
    asked = rig.node.read(CONSUMER.query(later, "mole"), NodeTopic.OWN, "somebody", now=later)
    assert isinstance(asked, NodeRequest)
    answer = rig.node.answer(asked, seconds_left=unlimited, now=later)
    assert isinstance(answer, SearchResult)
    assert answer.topic_ids == ()
    assert list(rig.node.expired(later)) == [str(created.advertisement.topic_id)]
    assert list(rig.node.expired(later)) == []


def test_the_end_of_a_topic_is_that_of_its_newest_advertisement() -> None:
    rig = Rig()
    octets = PRODUCER.advertisement(rig.create(lifetime=timedelta(minutes=5)), NOW)
    first = rig.tell(octets)
    assert isinstance(first, NewAdvertisement)
    node, at = rig.node, NOW.timestamp()
    for seconds in (600.0, 60.0, 900.0):
        node.add(replace(first.row, expires=at + seconds))
    assert list(node.expired(NOW + timedelta(seconds=899))) == []
    for number in range(1_500):  # What is over no more takes no room for ever.
        node.add(replace(first.row, expires=at + 1000.0 + number))
    assert len(node._ends) < 1_100
    node.add(replace(first.row, expires=at + 60.0))
    assert list(node.expired(NOW + timedelta(seconds=61))) == [first.row.topic_id]
    node.remove(first.row.topic_id)
    assert list(node.expired(NOW + timedelta(days=1))) == []


def test_a_withdrawal_names_who_withdraws() -> None:
    topic_id = uuid4()
    what = Rig().tell(CONSUMER.withdrawal(topic_id, NOW))
    assert what == Withdrawal(str(topic_id), CONSUMER.id)


# Refusals and silence.


def test_refusals_go_to_who_signed_on_the_node_s_own_topics() -> None:
    rig = Rig()
    unknown = CONSUMER.query(NOW, "a", "urn:nobody-s")
    assert rig.refused(CONSUMER, unknown) is Fault.UNSUPPORTED_DIALECT
    assert rig.dropped(unknown) == "unsupported-dialect"
    invalid = CONSUMER.query(NOW, "a <", Dialect.SQL)
    assert rig.refused(CONSUMER, invalid) is Fault.INVALID_QUERY
    stranger = Speaker(None)
    assert rig.dropped(stranger.query(NOW, "a <", Dialect.SQL), NodeTopic.OWN) == "invalid-query"
    reserved = PRODUCER.creation(
        NOW, synopsis=Synopsis(SynopsisType.PATH, "A", "urn:dragoman:tdn:1")
    )
    assert rig.refused(PRODUCER, PRODUCER.for_node(reserved)) is Fault.UNSUPPORTED_SYNOPSIS


def test_queries_for_entities_are_not_for_nodes() -> None:
    assert Rig().dropped(CONSUMER.query(NOW, "a", scope=Scope.ENTITIES)) == "for-entities"


def test_each_topic_has_its_messages() -> None:
    rig = Rig()
    assert rig.dropped(CONSUMER.query(NOW, "a"), NodeTopic.NODES) == "out-of-place"
    assert rig.dropped(CONSUMER.look_for_nodes(NOW), NodeTopic.TOPICS) == "out-of-place"
    advertisement = PRODUCER.advertisement(rig.create(), NOW)
    assert rig.dropped(advertisement, NodeTopic.NODES) == "out-of-place"


# Policies.


def test_a_node_for_those_with_credentials() -> None:
    rig = Rig(NodePolicy(credentials=True))
    assert rig.dropped(Speaker(None).query(NOW, "a"), NodeTopic.OWN) == "unauthenticated"
    rig.ask(CONSUMER.query(NOW, "a"))


def test_a_node_for_a_realm() -> None:
    assert Rig(NodePolicy(realms=frozenset({"Elsewhere"}))).dropped(
        CONSUMER.query(NOW, "a"), NodeTopic.OWN
    ) == "policy"  # fmt: skip
    Rig(NodePolicy(realms=frozenset({"Authority of entities"}))).advertise()


@pytest.mark.parametrize(
    ("fits", "does_not"),
    [
        (
            NodePolicy(institutions=frozenset({"Harbour Office"})),
            NodePolicy(institutions=frozenset({"Observatory"})),
        ),
        (
            NodePolicy(creators=frozenset({PRODUCER.id})),
            NodePolicy(creators=frozenset({CONSUMER.id})),
        ),
        (
            NodePolicy(synopsis_types=frozenset({SynopsisType.PATH})),
            NodePolicy(synopsis_types=frozenset({SynopsisType.XML})),
        ),
        (
            NodePolicy(description=compile_query(Dialect.SQL.value, "unit = 'm'")),
            NodePolicy(description=compile_query(Dialect.SQL.value, "unit = 's'")),
        ),
        (
            NodePolicy(provenance=frozenset({parties().node_id})),
            NodePolicy(provenance=frozenset({"tdn-" + "0" * 32})),
        ),
    ],
    ids=["institution", "creator", "synopsis", "description", "provenance"],
)
def test_what_is_made_and_kept(fits: NodePolicy, does_not: NodePolicy) -> None:
    created = Rig(fits).advertise()
    rig = Rig(does_not)
    request = PRODUCER.for_node(PRODUCER.creation(NOW))
    assert rig.refused(PRODUCER, request) is Fault.UNAUTHORIZED
    with pytest.raises(MessageDropped, match=r"topic|creator|institution") as dropped:
        rig.tell(PRODUCER.advertisement(created, NOW))
    assert dropped.value.why == "policy"


def test_a_search_for_nodes_of_another_institution() -> None:
    rig = Rig(NodePolicy(institutions=frozenset({"Observatory"})))
    assert rig.dropped(PRODUCER.look_for_nodes(NOW, "Harbour Office"), NodeTopic.NODES) == "policy"
    rig.ask(PRODUCER.look_for_nodes(NOW, "Observatory"), NodeTopic.NODES)


def test_who_can_decrypt_nothing() -> None:
    answer = Rig().ask(ELLIPTIC.query(NOW, "a"))
    assert not ELLIPTIC.read(answer.octets, NOW).encrypted
    rig = Rig(NodePolicy(answers_in_the_clear=False))
    assert rig.dropped(ELLIPTIC.query(NOW, "a"), NodeTopic.OWN) == "not-encrypted"


def test_harvesting() -> None:
    rig = Rig(NodePolicy(shortest_query=4, most_results=1))
    rig.advertise()
    rig.advertise()
    assert rig.refused(CONSUMER, CONSUMER.query(NOW, "a")) is Fault.INVALID_QUERY
    assert len(found(CONSUMER, rig.ask(CONSUMER.query(NOW, "mole"))).advertisements) == 1


# Attacks.


def test_strangers_have_nothing_evaluated_in_xquery() -> None:
    pytest.importorskip("saxonche", reason="the extra xquery is not installed")
    with closing(XQueryWorker()) as worker:
        rig = Rig(xquery=worker)
        rig.advertise()
        asked = "true()", Dialect.XQUERY
        assert len(found(CONSUMER, rig.ask(CONSUMER.query(NOW, *asked))).advertisements) == 1
        dropped = rig.dropped(Speaker(None).query(NOW, *asked), NodeTopic.OWN)
        assert dropped == "unsupported-dialect"


def test_a_query_is_compiled_within_its_time() -> None:
    pytest.importorskip("saxonche", reason="the extra xquery is not installed")
    given: list[float] = []

    class Noting(XQueryWorker):
        def evaluate(
            self, text: str, documents: Sequence[bytes], seconds: float
        ) -> list[bool | None] | str:
            given.append(seconds)
            return super().evaluate(text, documents, seconds)

    with closing(Noting()) as worker:
        rig = Rig(xquery=worker)
        rig.advertise()
        asked = rig.tell(CONSUMER.query(NOW, "true()", Dialect.XQUERY), NodeTopic.OWN)
        assert isinstance(asked, NodeRequest)
        rig.node.answer(asked, seconds_left=lambda: 0.25, now=NOW)
        assert given == [0.25, 0.25], "to compile it, and to evaluate it"
        rig.ask(CONSUMER.query(NOW, "false()", Dialect.XQUERY))
        assert given[2] == 1.0, "a caller that sets no time"


def test_strangers_get_little() -> None:
    rig = Rig(limits=NodeLimits(strangers=2, stranger_results=2))
    for _ in range(3):
        rig.advertise()
    stranger = Speaker(None)
    response = found(stranger, rig.ask(stranger.query(NOW, "mole")))
    assert (len(response.advertisements), response.more) == (2, True)
    query = stranger.query(NOW, "mole")
    rig.ask(query)
    assert rig.dropped(Speaker(None).query(NOW, "mole")) == "rate"
    rig.seconds += 1
    assert rig.dropped(query) == "unauthenticated", "it came before"


def test_queries_have_a_common_limit() -> None:
    rig = Rig(limits=NodeLimits(queries=2))
    for _ in range(2):
        rig.ask(CONSUMER.query(NOW, "a"))
    assert rig.refused(PRODUCER, PRODUCER.query(NOW, "a")) is Fault.LIMIT
    rig.seconds += 1
    rig.ask(PRODUCER.query(NOW, "a"))


def test_a_publisher_is_limited_before_its_signatures_are_looked_at() -> None:
    rig = Rig(limits=NodeLimits(messages=1, messages_at_once=2))
    for why in ("unauthenticated", "not-xml", "rate", "rate"):
        octets = b"<" if why != "unauthenticated" else tampered(CONSUMER.query(NOW, "mole"))
        assert rig.dropped(octets) == why
    rig.node.read(CONSUMER.query(NOW, "a"), NodeTopic.TOPICS, "another", now=NOW)


def tampered(octets: bytes) -> bytes:
    changed = octets.replace(b"mole", b"mola")
    assert changed != octets
    return changed


def test_a_topic_is_claimed_by_its_creator_alone() -> None:
    rig = Rig()
    created = rig.create()
    claim = SignedTopicAdvertisement(NOW, created.advertisement.topic_id, created.signed)
    assert rig.dropped(CONSUMER.signed(claim)) == "unauthorized"


def test_a_creation_for_another() -> None:
    request = PRODUCER.creation(NOW)
    forged = CONSUMER.for_node(request)
    assert Rig().dropped(forged, NodeTopic.OWN) == "unauthenticated"


def test_an_entity_is_no_node() -> None:
    """It signs an advertisement itself, with a certificate that only entities are believed with."""
    created = Rig().create()
    topic = created.advertisement
    own = CONSUMER.signed(topic)
    assert read_advertisement(own).value == topic
    claim = CONSUMER.signed(SignedTopicAdvertisement(NOW, topic.topic_id, own))
    with pytest.raises(MessageDropped) as dropped:
        Rig().tell(claim)
    assert isinstance(dropped.value.__cause__, SignatureRefused)


def test_a_message_for_another_node() -> None:
    request = PRODUCER.creation(NOW, node="tdn-" + "0" * 32)
    assert Rig().dropped(PRODUCER.for_node(request), NodeTopic.OWN) == "unauthenticated"
    assert Rig().dropped(PRODUCER.signed(request), NodeTopic.OWN) == "unauthorized"


def test_failures_of_decryption_are_one() -> None:
    rig = Rig()
    node = parties()
    right = PRODUCER.for_node(PRODUCER.creation(NOW))
    for octets in (
        right.replace(b"<xenc:CipherValue>", b"<xenc:CipherValue>AAAA"),
        encrypt(b"<a/>", node.node_id, node.node.certificate),
        encrypt(right, CONSUMER.id, node.consumer.certificate),
        encrypt(tampered(CONSUMER.query(NOW, "mole")), node.node_id, node.node.certificate),
    ):
        with pytest.raises(MessageDropped) as dropped:
            rig.tell(octets, NodeTopic.OWN)
        assert (dropped.value.why, str(dropped.value)) == (
            "unauthenticated", "The encrypted message cannot be read.",
        )  # fmt: skip


@pytest.mark.parametrize("way", [NodeTopic.OWN, NodeTopic.TOPICS])
def test_a_query_that_costs_too_much_is_cut_short(way: NodeTopic) -> None:
    rig = Rig()
    for _ in range(3):
        rig.advertise()
    asked = rig.tell(CONSUMER.query(NOW, "//*[local-name()='metres']", Dialect.XPATH), way)
    assert isinstance(asked, NodeRequest)
    answer = rig.node.answer(asked, seconds_left=lambda: 0.0, now=NOW)
    assert isinstance(answer, SearchResult)
    assert (answer.topic_ids, answer.more) == ((), True)
    response = found(CONSUMER, rig.node.answer_found(answer, [], now=NOW))
    assert (response.advertisements, response.more) == ((), True)


def test_an_answer_has_a_bounded_size() -> None:
    rig = Rig()
    rig.advertise()
    [one] = rig.kept.values()
    asked = rig.tell(CONSUMER.query(NOW, "mole"), NodeTopic.OWN)
    assert isinstance(asked, NodeRequest)
    answer = rig.node.answer_found(
        SearchResult(asked, ("x",) * 400, more=False), [one] * 400, now=NOW
    )
    assert len(answer.octets) < 1_500_000
