"""What a topic discovery node makes of a message: nothing here waits, sends or stores.

    octets -> take -> Advertised | Withdrawn     to be kept, or marked
                    | Asked                      to be answered, once
                    | (Dropped raised)           nothing is said, it is counted

    begin -> Answer                              to be published
             | Found -> respond -> Answer        with what the store has of it
             | Searching -> end -> Found         after a while

A creation leaves nothing behind: what was made is known again when its creator advertises it.
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
from gateway.discovery.describing import describe, read_described, row_of
from gateway.discovery.limits import NodeLimits, RequestRates
from gateway.discovery.outcomes import (
    Advertised,
    Answer,
    Asked,
    Dropped,
    Found,
    Searching,
    Way,
    Withdrawn,
)
from gateway.discovery.policy import NodePolicy
from gateway.model.advertisements import AdvertisementRow
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
"""How long an answer is valid."""
_ROOM = MAX_RESPONSE - 32 * 2**10
"""Bytes of the advertisements in a response; the rest is for its head and signature."""
_STALE = 1000
"""Ends that are so no more of which the list is freed from time to time: so many may stay."""
_ADVERTISED = re.compile(
    rb"\s*(?:<\?xml[^>]*\?>)?\s*<(?:[^\s<>:/]+:)?SignedTopicAdvertisement[\s>/]"
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Node:
    """A topic discovery node. Used by one thread at a time, but for what is `Searching`.

    Args:
        sign: Signs; it is `mediation.discovery.signing.sign`, which needs an extra.
        new_uuid: Makes a UUID that nobody can guess, another one each time.
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
        """The times at which topics expire, and their ids; some are not so any more."""
        self._end: dict[str, float] = {}
        """When each topic expires."""
        self.topics = {
            NODES: Way.NODES,
            TOPICS: Way.TOPICS,
            topic_of(self.id): Way.OWN,
            queries_of(self.id): Way.OWN,
        }
        """The topics that it subscribes to."""

    # Messages.

    def take(
        self, octets: bytes, way: Way, publisher: str, *, now: datetime
    ) -> Advertised | Withdrawn | Asked:
        """Read and check a message.

        Raises:
            Dropped: Nothing becomes of it.
        """
        if not self._rates.allow_message(publisher):
            raise Dropped("rate")
        try:
            if _ADVERTISED.match(octets):
                if way is Way.NODES:
                    raise Dropped("out-of-place")
                return self._advertised(octets, now)
            checked = receive(octets, self.verifier, {self.id: self._credentials}, now=now)
            return self._message(checked, way, publisher, now)
        except Refused as refused:
            raise Dropped(_why(refused), str(refused)) from refused

    def _advertised(self, octets: bytes, now: datetime) -> Advertised:
        checked = check_advertisement(octets, self.verifier, now=now)
        described = describe(checked.advertisement, checked.signed)
        objection = self.policy.objection(checked.advertisement, described, checked.creator)
        if objection is not None:
            raise Dropped("policy", objection)
        return Advertised(row_of(checked, described))

    def _message(
        self, checked: Checked, way: Way, publisher: str, now: datetime
    ) -> Withdrawn | Asked:
        message = checked.message
        if way is not Way.OWN and not isinstance(message, _TAKEN[way]):
            raise Dropped("out-of-place")
        if isinstance(message, TopicWithdrawal):
            return Withdrawn(str(message.topic_id), message.head.sender)
        if not isinstance(message, _ANSWERED):
            raise Dropped("out-of-place")
        if isinstance(message, TopicDiscoveryRequest) and message.scope is Scope.ENTITIES:
            raise Dropped("for-entities")
        if checked.signer is None:
            if not self.policy.serves(None):
                raise Dropped("unauthenticated")
            if not self._rates.allow_unsigned(publisher):
                raise Dropped("rate")
            admit(checked, self._strangers, now=now)
        elif not self.policy.serves(checked.signer):
            raise Dropped("policy", "the certificate is of another realm")
        return Asked(checked, way, publisher)

    # Answers.

    def answer(self, asked: Asked, *, seconds_left: SecondsLeft, now: datetime) -> Answer | Found:
        """Answer a message that nobody has answered before.

        Raises:
            Dropped: By silence.
        """
        answer = self.begin(asked, seconds_left=seconds_left, soon=None, now=now)
        assert not isinstance(answer, Searching)
        return answer

    def begin(
        self,
        asked: Asked,
        *,
        seconds_left: SecondsLeft,
        soon: SecondsLeft | None,
        now: datetime,
    ) -> Answer | Found | Searching:
        """Answer a message that nobody has answered before, or begin to.

        Args:
            seconds_left: Of the whole search.
            soon: Of those in which others wait for it: a search that takes longer is returned, to
                go on elsewhere. None: nobody waits.

        Raises:
            Dropped: By silence.
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
                    raise Dropped("out-of-place")
        except Refused as refused:
            return self.refuse(asked, _fault(refused), refused.text, now=now)

    def refuse(self, asked: Asked, fault: Fault, text: str, *, now: datetime) -> Answer:
        """Tell whoever asked on this node's own topics, with a signature, why not.

        Raises:
            Dropped: All others are answered by silence.
        """
        if asked.way is not Way.OWN or asked.checked.signer is None:
            raise Dropped(fault.value, text)
        refusal = Refusal(self._head(asked, now), fault, text[:500])
        return self._send(asked, refusal, f"refused-{fault.value}")

    def _offer(self, asked: Asked, request: NodeDiscoveryRequest, now: datetime) -> Answer:
        if not self.policy.serves_institution(request.institution):
            raise Dropped("policy", "the institution is not one of those that are served")
        offer = NodeDiscoveryResponse(
            self._head(asked, now),
            path_of(topic_of(self.id)),
            self.policy.kinds,
            query_dialects(self._xquery),
            Duration(0, self.limits.longest_life),
        )
        return self._send(asked, offer, "offered")

    def _create(self, asked: Asked, now: datetime) -> Answer:
        request, signer = check_request(asked.checked), asked.checked.signer
        assert signer is not None  # `receive` says so of who makes topics.
        topic_id = self._new_uuid()
        longest = now + self.limits.longest_life
        lifetime = request.lifetime
        expires = longest if lifetime is None else min(lifetime.after(now), longest)
        if expires <= now:
            return self.refuse(asked, Fault.MALFORMED, "The topic would have no life.", now=now)
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
                text = "Nothing can be encrypted for the certificate."
                return self.refuse(asked, Fault.UNAUTHORIZED, text, now=now)
            hidden = encrypt_advertisement(topic, signed, signer.certificate)
            objection = self.policy.objection(hidden, describe(hidden), signer)
            if objection is not None:  # This node itself would drop what it makes.
                text = f"The advertisement would be encrypted, and not be kept here: {objection}."
                return self.refuse(asked, Fault.UNAUTHORIZED, text, now=now)
            signed = self._sign(hidden, self._credentials)
        return self._send(asked, TopicCreationResponse(self._head(asked, now), signed), "created")

    def _find(
        self,
        asked: Asked,
        request: TopicDiscoveryRequest,
        left: SecondsLeft,
        soon: SecondsLeft | None,
        now: datetime,
    ) -> Answer | Found | Searching:
        if not self._rates.allow_query():
            return self.refuse(asked, Fault.LIMIT, "Too many queries come now.", now=now)
        if len(request.query.text.strip()) < self.policy.shortest_query:
            text = f"A query has at least {self.policy.shortest_query} characters."
            return self.refuse(asked, Fault.INVALID_QUERY, text, now=now)
        searching = Searching(asked, partial(self._search, asked, request, left, now))
        waits = soon is not None and request.query.dialect.strip() in _ELSEWHERE
        if waits or not searching.go_on(soon or unlimited):
            return searching
        return self._found(searching)

    def _search(
        self, asked: Asked, request: TopicDiscoveryRequest, left: SecondsLeft, now: datetime
    ) -> Search[str]:
        # A query in XQuery can take all of its time: only of those who are known.
        xquery = None if asked.checked.signer is None else self._xquery
        dialect, text = request.query.dialect, request.query.text
        query = compile_query(dialect, text, xquery=xquery, seconds=left())
        most = min(request.max_results or DEFAULT_RESULTS, self.policy.most_results)
        if asked.checked.signer is None:
            most = min(most, self.limits.stranger_results)
        return self.catalogue.search(
            query, limit=most, conditions=conditions_of(request, now), seconds_left=left
        )

    def end(self, searching: Searching, *, now: datetime) -> Answer | Found:
        """Answer with what *searching* has found so far.

        Raises:
            Dropped: By silence.
        """
        try:
            return self._found(searching)
        except FilterError as refused:
            return self.refuse(searching.asked, _fault(refused), refused.text, now=now)

    def _found(self, searching: Searching) -> Found:
        found = searching.found()
        if not (found.topic_ids or found.more) and found.asked.way is not Way.OWN:
            raise Dropped("nothing-found")
        return found

    def respond(self, found: Found, advertisements: list[bytes], *, now: datetime) -> Answer:
        """Answer with what was found; with as much of it as goes into one message.

        Raises:
            Dropped: Nothing is left of it, and the answer is silence.
        """
        taken = fitting(advertisements)
        more = found.more or len(taken) < len(advertisements)
        if not (taken or more) and found.asked.way is not Way.OWN:
            raise Dropped("nothing-found")
        response = TopicDiscoveryResponse(self._head(found.asked, now), taken, more)
        return self._send(found.asked, response, "found")

    def _head(self, asked: Asked, now: datetime) -> Head:
        request = asked.head
        return Head(self._new_uuid(), self.id, now, now + LIFE, request.sender, request.message_id)

    def _send(self, asked: Asked, message: Message, outcome: str) -> Answer:
        """Sign an answer, and encrypt it where its receiver can decrypt it."""
        octets, signer, receiver = (
            self._sign(message, self._credentials),
            asked.checked.signer,
            asked.head.sender,
        )
        if signer is not None:
            if can_receive(signer.certificate):
                octets = encrypt(octets, receiver, signer.certificate)
            elif not self.policy.answers_in_the_clear:
                raise Dropped("not-encrypted")
        return Answer(receiver, octets, outcome)

    # What is known.

    def know(self, row: AdvertisementRow) -> None:
        """Find *row* from now on; one that was withdrawn no more."""
        if row.octets is None:
            self.forget(row.topic_id)
        else:
            if self._end.get(row.topic_id) != row.expires:
                self._end[row.topic_id] = row.expires
                heappush(self._ends, (row.expires, row.topic_id))
                if len(self._ends) > 2 * len(self._end) + _STALE:
                    self._ends = [(end, topic_id) for topic_id, end in self._end.items()]
                    heapify(self._ends)
            self.catalogue.add(row.topic_id, read_described(row))

    def expired(self, now: datetime) -> Iterator[str]:
        """The topics that are known, and over."""
        while self._ends and self._ends[0][0] <= now.timestamp():
            end, topic_id = heappop(self._ends)
            if self._end.get(topic_id) == end:
                del self._end[topic_id]
                yield topic_id

    def forget(self, topic_id: str) -> None:
        """Find a topic no more. One that is not known is no error."""
        self._end.pop(topic_id, None)
        if topic_id in self.catalogue:
            self.catalogue.remove(topic_id)


_ELSEWHERE = frozenset({QUERY_XQUERY, QUERY_REGEX})
"""Dialects whose queries never begin where others wait. What evaluates XQuery is one process, in
which each query may take all of its time; a regular expression takes long for a text in one go, and
to compile."""
_TAKEN: dict[Way, type | tuple[type, ...]] = {
    Way.NODES: NodeDiscoveryRequest,
    Way.TOPICS: (TopicDiscoveryRequest, TopicWithdrawal),
}
"""What is taken on the topics that all nodes have; a node's own two take everything."""
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
    """As many of *advertisements*, the first ones, as go into one response."""
    octets = list(accumulate(map(len, advertisements)))
    return tuple(advertisements[: bisect_right(octets, _ROOM)])


def conditions_of(request: TopicDiscoveryRequest, now: datetime) -> Conditions:
    after = request.expires_after
    return Conditions(
        request.created_after,
        request.created_before,
        now if after is None else max(now, after),  # What is over may not be forgotten yet.
        request.expires_before,
        _length(request.validity_at_least),
        _length(request.validity_at_most),
        request.valid_until,
        request.creator,
    )


def _length(duration: Duration | None) -> timedelta | None:
    """A length in seconds: months are those that follow the first of January 1970."""
    return None if duration is None else duration.after(_EPOCH) - _EPOCH
