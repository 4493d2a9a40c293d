"""A topic discovery node, without I/O: it reads messages, and makes answers.

    octets -> read -> NewAdvertisement | Withdrawal | Revocation   to be kept, or marked
                    | NodeRequest                                  to be answered, once
                    | (MessageDropped raised)                      nothing is said, it is counted

    begin_answer -> Answer                                         to be published
                  | SearchResult -> answer_found -> Answer         with what the store has of it
                  | RunningSearch -> finish_search -> SearchResult after a while

A new topic leaves nothing behind in the node: it is known when its creator advertises it.
"""

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from heapq import heapify, heappop, heappush
from itertools import accumulate
from uuid import UUID

from filters import FilterError, Reason, Refused
from filters.dialects import QUERY_REGEX, QUERY_XQUERY
from filters.queries import (
    Catalogue,
    Conditions,
    Search,
    SecondsLeft,
    XQueryWorker,
    compile_query,
    query_dialects,
    unlimited,
)
from gateway.discovery.limits import NodeLimits, RequestRates
from gateway.discovery.node_messages import (
    Answer,
    MessageDropped,
    NewAdvertisement,
    NodeRequest,
    NodeTopic,
    Revocation,
    RunningSearch,
    SearchResult,
    Withdrawal,
)
from gateway.discovery.policy import NodePolicy
from gateway.discovery.topic_descriptions import describe, read_described, row_of
from gateway.model.advertisements import AdvertisementRow, RevocationRow
from mediation.discovery import (
    DEFAULT_RESULTS,
    MAX_RESPONSE,
    NODES,
    TOPICS,
    Checked,
    Credentials,
    DiscoveryError,
    Fault,
    Head,
    Message,
    NodeDiscoveryRequest,
    NodeDiscoveryResponse,
    Refusal,
    ReplayWindow,
    Role,
    Scope,
    Signable,
    Signer,
    TopicAdvertisement,
    TopicCreationRequest,
    TopicCreationResponse,
    TopicDiscoveryRequest,
    TopicDiscoveryResponse,
    TopicWithdrawal,
    Verifier,
    admit,
    can_receive,
    check_advertisement,
    check_request,
    check_revocation,
    encrypt,
    encrypt_advertisement,
    path_of,
    place_uuid,
    queries_of,
    receive,
    topic_of,
)
from mediation.model.expiry import Duration

LIFE = timedelta(seconds=30)
"""The validity of an answer."""
_ROOM = MAX_RESPONSE - 32 * 2**10
"""Bytes of the advertisements in a response; the rest is for its head and signature."""
_STALE = 1000
"""Outdated entries that may stay in the heap of ends before it is built anew."""
_LASTING = re.compile(
    rb"\s*+(?:<\?xml[^>]*\?>\s*+)?<(?:[^\s<>:/]+:)?"
    rb"(SignedTopicAdvertisement|DelegationRevocation)[\s>/]"
)
"""What has no head: whoever has it may publish it again."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Node:
    """A topic discovery node. For one thread at a time; a `RunningSearch` goes on in any.

    Args:
        sign: `mediation.discovery.signing.sign`, which needs an extra.
        new_uuid: Makes a new random UUID.
        xquery: None: XQuery is not offered.
    """

    def __init__(
        self,
        credentials: Credentials,
        verifier: Verifier,
        *,
        sign: Callable[[Signable, Credentials], bytes],
        new_uuid: Callable[[], UUID],
        policy: NodePolicy | None = None,
        limits: NodeLimits | None = None,
        xquery: XQueryWorker | None = None,
        catalogue: Catalogue[str] | None = None,
        rates: RequestRates | None = None,
    ) -> None:
        self.id = credentials.identifier(Role.NODE)
        self.limits = limits or NodeLimits()
        self.policy = policy or NodePolicy()
        self._credentials = credentials
        self.verifier = verifier
        self._sign = sign
        self._new_uuid = new_uuid
        self._xquery = xquery
        self._rates = rates or RequestRates(self.limits)
        self._strangers = ReplayWindow()
        self.catalogue = catalogue if catalogue is not None else Catalogue[str]()
        self._ends: list[tuple[float, str]] = []
        """A heap of the times at which topics expire, and their ids; some are outdated."""
        self._end: dict[str, float] = {}
        """When each topic expires."""
        self.topics = {
            NODES: NodeTopic.NODES,
            TOPICS: NodeTopic.TOPICS,
            topic_of(self.id): NodeTopic.OWN,
            queries_of(self.id): NodeTopic.OWN,
        }
        """The topics that it subscribes to."""

    # Messages.

    def read(
        self, octets: bytes, way: NodeTopic, publisher: str, *, now: datetime
    ) -> NewAdvertisement | Withdrawal | Revocation | NodeRequest:
        """Read and check a message.

        Raises:
            MessageDropped: It is not answered.
        """
        if not self._rates.allow_message(publisher):
            raise MessageDropped("rate")
        try:
            lasting = _LASTING.match(octets)
            if lasting is not None:
                if way is NodeTopic.NODES:
                    raise MessageDropped("out-of-place")
                if lasting[1] == b"DelegationRevocation":
                    return self._revoked(octets, way, now)
                return self._advertised(octets, now)
            checked = receive(octets, self.verifier, {self.id: self._credentials}, now=now)
            return self._message(checked, way, publisher, now)
        except Refused as refused:
            raise MessageDropped(_why(refused), str(refused)) from refused

    def _advertised(self, octets: bytes, now: datetime) -> NewAdvertisement:
        checked = check_advertisement(octets, self.verifier, now=now)
        described = describe(checked.advertisement, checked.signed)
        objection = self.policy.objection(checked.advertisement, described, checked.creator)
        if objection is not None:
            raise MessageDropped("policy", objection)
        return NewAdvertisement(row_of(checked, described))

    def _revoked(self, octets: bytes, way: NodeTopic, now: datetime) -> Revocation:
        checked = check_revocation(octets, self.verifier, now=now)
        said, signer = checked.revocation, checked.signer
        try:
            id_ = UUID(said.id.removeprefix("rev-"))
        except ValueError:
            raise MessageDropped(Fault.MALFORMED.value, "the ID has no UUID") from None
        row = RevocationRow(
            str(said.topic_id), said.delegation, signer.identifier, said.until.timestamp()
        )
        return Revocation(row, id_, signer, way)

    def _message(
        self, checked: Checked, way: NodeTopic, publisher: str, now: datetime
    ) -> Withdrawal | NodeRequest:
        message = checked.message
        if way is not NodeTopic.OWN and not isinstance(message, _TAKEN[way]):
            raise MessageDropped("out-of-place")
        if isinstance(message, TopicWithdrawal):
            return Withdrawal(str(message.topic_id), message.head.sender)
        if not isinstance(message, _ANSWERED):
            raise MessageDropped("out-of-place")
        if isinstance(message, TopicDiscoveryRequest) and message.scope is Scope.ENTITIES:
            raise MessageDropped("for-entities")
        if checked.signer is None:
            if not self.policy.serves(None):
                raise MessageDropped("unauthenticated")
            if not self._rates.allow_unsigned(publisher):
                raise MessageDropped("rate")
            admit(checked, self._strangers, now=now)
        elif not self.policy.serves(checked.signer):
            raise MessageDropped("policy", "the certificate is of another realm")
        return NodeRequest(checked, way, publisher)

    # Answers.

    def answer(
        self, asked: NodeRequest, *, seconds_left: SecondsLeft, now: datetime
    ) -> Answer | SearchResult:
        """Answer a request that nobody has answered before.

        Raises:
            MessageDropped: It is answered by silence.
        """
        answer = self.begin_answer(asked, seconds_left=seconds_left, soon=None, now=now)
        assert not isinstance(answer, RunningSearch)
        return answer

    def begin_answer(
        self,
        asked: NodeRequest,
        *,
        seconds_left: SecondsLeft,
        soon: SecondsLeft | None,
        now: datetime,
    ) -> Answer | SearchResult | RunningSearch:
        """Answer a request that nobody has answered before, or begin a search for it.

        Args:
            seconds_left: The budget of the whole search.
            soon: The part of it in which others wait. A search that takes longer is returned, to
                go on elsewhere. None: nobody waits.

        Raises:
            MessageDropped: It is answered by silence.
        """
        message = asked.checked.message
        try:
            match message:
                case NodeDiscoveryRequest():
                    return self._offer(asked, message, now)
                case TopicCreationRequest():
                    return self._create(asked, now)
                case TopicDiscoveryRequest():
                    return self._find(asked, message, seconds_left, soon, now)
                case _:
                    raise MessageDropped("out-of-place")
        except Refused as refused:
            return self.refuse(asked, _fault(refused), refused.text, now=now)

    def refuse(self, asked: NodeRequest, fault: Fault, text: str, *, now: datetime) -> Answer:
        """Refuse a signed request on this node's own topics, with the reason.

        Raises:
            MessageDropped: Other requests are answered by silence.
        """
        if asked.way is not NodeTopic.OWN or asked.checked.signer is None:
            raise MessageDropped(fault.value, text)
        refusal = Refusal(self._head(asked, now), fault, text[:500])
        return self._send(asked, refusal, f"refused-{fault.value}")

    def refuse_revocation(
        self, revoked: Revocation, fault: Fault, text: str, *, now: datetime
    ) -> Answer:
        """Refuse a revocation on this node's own topics, with the reason.

        Raises:
            MessageDropped: On others, it is answered by silence.
        """
        if revoked.way is not NodeTopic.OWN:
            raise MessageDropped(fault.value, text)
        receiver = revoked.signer
        head = Head(self._new_uuid(), self.id, now, now + LIFE, receiver.identifier, revoked.id)
        return self._send_to(receiver, Refusal(head, fault, text[:500]), f"refused-{fault.value}")

    def _offer(self, asked: NodeRequest, request: NodeDiscoveryRequest, now: datetime) -> Answer:
        if not self.policy.serves_institution(request.institution):
            raise MessageDropped("policy", "the institution is not one of those that are served")
        offer = NodeDiscoveryResponse(
            self._head(asked, now),
            path_of(topic_of(self.id)),
            self.policy.kinds,
            query_dialects(self._xquery),
            Duration(0, self.limits.longest_life),
        )
        return self._send(asked, offer, "offered")

    def _create(self, asked: NodeRequest, now: datetime) -> Answer:
        request, signer = check_request(asked.checked), asked.checked.signer
        assert signer is not None  # `receive` refuses creation requests without a signature.
        topic_id = self._new_uuid()
        longest = now + self.limits.longest_life
        lifetime = request.lifetime
        expires = longest if lifetime is None else min(lifetime.after(now), longest)
        if expires <= now:
            return self.refuse(
                asked,
                Fault.MALFORMED,
                "The lifetime of the topic is over already; ask for a longer one.",
                now=now,
            )
        topic = TopicAdvertisement(
            topic_id,
            self.id,
            request.creator,
            now,
            expires,
            request.descriptors,
            place_uuid(request.synopsis, topic_id),
        )
        objection = self.policy.objection(topic, describe(topic), signer)
        if objection is not None:
            return self.refuse(asked, Fault.UNAUTHORIZED, objection, now=now)
        signed = self._sign(topic, self._credentials)
        if request.encrypted:
            if not can_receive(signer.certificate):
                text = "Only RSA keys can decrypt: use one, or ask for no encryption."
                return self.refuse(asked, Fault.UNAUTHORIZED, text, now=now)
            hidden = encrypt_advertisement(topic, signed, signer.certificate)
            objection = self.policy.objection(hidden, describe(hidden), signer)
            if objection is not None:  # This node itself would drop the advertisement.
                text = f"An encrypted advertisement would not be kept here: {objection}."
                return self.refuse(asked, Fault.UNAUTHORIZED, text, now=now)
            signed = self._sign(hidden, self._credentials)
        return self._send(asked, TopicCreationResponse(self._head(asked, now), signed), "created")

    def _find(
        self,
        asked: NodeRequest,
        request: TopicDiscoveryRequest,
        left: SecondsLeft,
        soon: SecondsLeft | None,
        now: datetime,
    ) -> Answer | SearchResult | RunningSearch:
        if not self._rates.allow_query():
            return self.refuse(asked, Fault.LIMIT, "Too many queries now; try again soon.", now=now)
        if len(request.query.text.strip()) < self.policy.shortest_query:
            text = f"A query has at least {self.policy.shortest_query} characters."
            return self.refuse(asked, Fault.INVALID_QUERY, text, now=now)
        searching = RunningSearch(asked, partial(self._search, asked, request, left, now))
        waits = soon is not None and request.query.dialect.strip() in _ELSEWHERE
        if waits or not searching.go_on(soon or unlimited):
            return searching
        return self._found(searching)

    def _search(
        self, asked: NodeRequest, request: TopicDiscoveryRequest, left: SecondsLeft, now: datetime
    ) -> Search[str]:
        # A query in XQuery can take all of its time: only signed ones are evaluated.
        xquery = None if asked.checked.signer is None else self._xquery
        dialect, text = request.query.dialect, request.query.text
        query = compile_query(dialect, text, xquery=xquery, seconds=left())
        most = min(request.max_results or DEFAULT_RESULTS, self.policy.most_results)
        if asked.checked.signer is None:
            most = min(most, self.limits.stranger_results)
        return self.catalogue.search(
            query, limit=most, conditions=conditions_of(request, now), seconds_left=left
        )

    def finish_search(self, searching: RunningSearch, *, now: datetime) -> Answer | SearchResult:
        """Answer with what *searching* has found so far.

        Raises:
            MessageDropped: It is answered by silence.
        """
        try:
            return self._found(searching)
        except FilterError as refused:
            return self.refuse(searching.asked, _fault(refused), refused.text, now=now)

    def _found(self, searching: RunningSearch) -> SearchResult:
        found = searching.found()
        if not (found.topic_ids or found.more) and found.asked.way is not NodeTopic.OWN:
            raise MessageDropped("nothing-found")
        return found

    def answer_found(
        self, found: SearchResult, advertisements: list[bytes], *, now: datetime
    ) -> Answer:
        """Answer with the advertisements that were found, as many as one message holds.

        Raises:
            MessageDropped: Nothing is left, and the answer is silence.
        """
        taken = fitting(advertisements)
        more = found.more or len(taken) < len(advertisements)
        if not (taken or more) and found.asked.way is not NodeTopic.OWN:
            raise MessageDropped("nothing-found")
        response = TopicDiscoveryResponse(self._head(found.asked, now), taken, more)
        return self._send(found.asked, response, "found")

    def _head(self, asked: NodeRequest, now: datetime) -> Head:
        request = asked.head
        return Head(self._new_uuid(), self.id, now, now + LIFE, request.sender, request.message_id)

    def _send(self, asked: NodeRequest, message: Message, outcome: str) -> Answer:
        """Sign an answer, and encrypt it where its receiver can decrypt it."""
        if asked.checked.signer is not None:
            return self._send_to(asked.checked.signer, message, outcome)
        return Answer(asked.head.sender, self._sign(message, self._credentials), outcome)

    def _send_to(self, receiver: Signer, message: Message, outcome: str) -> Answer:
        octets = self._sign(message, self._credentials)
        if can_receive(receiver.certificate):
            octets = encrypt(octets, receiver.identifier, receiver.certificate)
        elif not self.policy.answers_in_the_clear:
            raise MessageDropped("not-encrypted")
        return Answer(receiver.identifier, octets, outcome)

    # The catalogue.

    def add(self, row: AdvertisementRow) -> None:
        """Add *row* to the catalogue, or remove it if it was withdrawn."""
        if row.octets is None:
            self.remove(row.topic_id)
        else:
            if self._end.get(row.topic_id) != row.expires:
                self._end[row.topic_id] = row.expires
                heappush(self._ends, (row.expires, row.topic_id))
                if len(self._ends) > 2 * len(self._end) + _STALE:
                    self._ends = [(end, topic_id) for topic_id, end in self._end.items()]
                    heapify(self._ends)
            self.catalogue.add(row.topic_id, read_described(row))

    def expired(self, now: datetime) -> Iterator[str]:
        """Yield the ids of topics that have expired, each once."""
        while self._ends and self._ends[0][0] <= now.timestamp():
            end, topic_id = heappop(self._ends)
            if self._end.get(topic_id) == end:
                del self._end[topic_id]
                yield topic_id

    def remove(self, topic_id: str) -> None:
        """Remove a topic from the catalogue, in which it need not be."""
        self._end.pop(topic_id, None)
        if topic_id in self.catalogue:
            self.catalogue.remove(topic_id)


_ELSEWHERE = frozenset({QUERY_XQUERY, QUERY_REGEX})
"""Dialects whose queries never begin where others wait. XQuery is evaluated in one process, where
each query may take all of its time; a regular expression may take long to compile, and cannot be
interrupted within a text."""
_TAKEN: dict[NodeTopic, type | tuple[type, ...]] = {
    NodeTopic.NODES: NodeDiscoveryRequest,
    NodeTopic.TOPICS: (TopicDiscoveryRequest, TopicWithdrawal),
}
"""The messages that are read on the topics of all nodes; a node's own two take all kinds."""
_ANSWERED = (NodeDiscoveryRequest, TopicCreationRequest, TopicDiscoveryRequest)
_FAULTS = {
    Reason.QUERY_DIALECT: Fault.UNSUPPORTED_DIALECT,
    Reason.QUERY_INVALID: Fault.INVALID_QUERY,
}


def _fault(refused: Refused) -> Fault:
    if isinstance(refused, DiscoveryError):
        return refused.fault
    return _FAULTS.get(
        refused.reason, Fault.LIMIT if isinstance(refused, FilterError) else Fault.MALFORMED
    )


def _why(refused: Refused) -> str:
    return refused.fault.value if isinstance(refused, DiscoveryError) else refused.reason.value


def fitting(advertisements: Sequence[bytes]) -> tuple[bytes, ...]:
    """Return the first of *advertisements*, as many as one response holds."""
    octets = list(accumulate(map(len, advertisements)))
    return tuple(advertisements[: bisect_right(octets, _ROOM)])


def conditions_of(request: TopicDiscoveryRequest, now: datetime) -> Conditions:
    after = request.expires_after
    return Conditions(
        request.created_after,
        request.created_before,
        now if after is None else max(now, after),  # Expired ones may not be forgotten yet.
        request.expires_before,
        _length(request.validity_at_least),
        _length(request.validity_at_most),
        request.valid_until,
        request.creator,
    )


def _length(duration: Duration | None) -> timedelta | None:
    """Return a length in seconds; months are counted from the first of January 1970."""
    return None if duration is None else duration.after(_EPOCH) - _EPOCH
