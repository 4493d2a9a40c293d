"""`Party`: the store, address and policy of one side of reliable messaging."""

import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache

from gateway.reliability.records import OutgoingSequence, Wire
from gateway.reliability.storage import StorageManager
from gateway.reliability.values import (
    Application,
    DeadMessageHandler,
    Notice,
    NoticeKind,
    SequenceCallback,
)
from gateway.token_bucket import TokenBucket
from mediation.model.messages import EndpointReference
from mediation.model.values import checked_dataclass
from mediation.model.versions import Wsa
from mediation.names import MAKE_CONNECTION_ANONYMOUS, WSA_NONE
from mediation.reliable_messaging import IncompleteBehaviour, ReliableMessage
from mediation.reliable_messaging.policy import Policy
from mediation.soap.addressing import is_anonymous

COMPLAINED_EVERY = 600.0
"""Seconds after which people are told once more what a peer goes on doing."""
ANSWERS = 10_000
"""The sequences whose last answer is remembered; the one noted longest ago is forgotten first."""
ANSWER = 300
"""Characters of an answer that are kept."""

SILENT, NOTHING = "the destination does not answer", "the destination takes nothing"


class Offers(Enum):
    """How a destination answers an offer of a sequence for replies."""

    ACCEPT = "accept"
    DECLINE = "decline"
    """The first sequence stands without it; in 1.0, which cannot say that, it is accepted, stays
    empty, and ends with the first one. Nothing is kept of it but its identifier."""
    REFUSE = "refuse"


def _everywhere(address: str) -> bool:
    return True


def _silent(notice: Notice) -> None:
    pass


def _complaints() -> TokenBucket:
    return TokenBucket(1 / COMPLAINED_EVERY)


class Refusals:
    """The last answers of destinations that took no message, by the key of the sequence. Kept in
    memory only: people are told them as the reason when a sequence is given up."""

    def __init__(self) -> None:
        self._said: OrderedDict[str, str] = OrderedDict()

    def note(self, key: str, words: str) -> bool:
        """Keep the answer of a destination; return whether it differs from the last one."""
        words = words[:ANSWER]
        new = self._said.pop(key, None) != words
        self._said[key] = words
        if len(self._said) > ANSWERS:
            self._said.popitem(last=False)
        return new

    def forget(self, key: str) -> None:
        """Forget the answer: the destination took a message."""
        self._said.pop(key, None)

    def reason(self, key: str, why: str) -> str:
        """Add the last answer of the destination to *why* a sequence is given up."""
        words = self._said.pop(key, None)
        if words is None:
            return why
        return f"{NOTHING if why == SILENT else why}; it answered: {words}"


@dataclass(frozen=True, slots=True)
class SequenceBinding:
    """What the sequences that a client asks for are bound to (1.1, section 6).

    Attributes:
        token: A reference to the certificate whose key signs their messages; empty: to none.
        tls: To the certificate that the client shows in TLS.
    """

    token: bytes = b""
    tls: bool = False


@dataclass(frozen=True, slots=True)
class Party:
    """One side of reliable messaging; everything that differs between two sides is here.

    Attributes:
        new_id: Makes message ids and identifiers of sequences: ``urn:uuid:`` and a random UUID,
            since the identifier is what an attacker must guess.
        random: Numbers from 0 to 1, for jitter.
        address: The address at which peers reach it; None: it cannot be called.
        applications: The functions that get messages, by the name of the service.
        given_up: Is told of sequences that were given up, by the name of the callback.
        completed: Is told of sequences that ended with all messages acknowledged, likewise.
        dead: Gets messages that an application refused too often, by the name of the service.
        allows: Returns whether messages may be sent to an address that a stranger named.
        notify: Tells people.
        incomplete: How it treats the messages of a sequence that ends with gaps.
        requires: A message without a sequence is refused (WSRMRequired).
        tells_room: Acknowledgements say how many messages there is room for (WCF's extension).
        nacks: Missing messages are asked for (Nack) when the first one behind them comes.
        after_delivery: Messages are acknowledged once the application took them, not when stored.
        pause: Waits, so many seconds, before something runs again that was in another's way.
        binding: What the sequences that it asks for are bound to.
        complaints: Bounds how often people are told the same of a sequence.
        refusals: The last answers of destinations that took nothing.
    """

    storage: StorageManager
    new_id: Callable[[], str]
    random: Callable[[], float]
    address: str | None = None
    policy: Policy = field(default_factory=Policy)
    applications: Mapping[str, Application] = field(default_factory=dict)
    given_up: Mapping[str, SequenceCallback] = field(default_factory=dict)
    completed: Mapping[str, SequenceCallback] = field(default_factory=dict)
    dead: Mapping[str, DeadMessageHandler] = field(default_factory=dict)
    offers: Offers = Offers.ACCEPT
    allows: Callable[[str], bool] = _everywhere
    notify: Callable[[Notice], None] = _silent
    incomplete: IncompleteBehaviour = IncompleteBehaviour.NO_DISCARD
    requires: bool = False
    tells_room: bool = False
    nacks: bool = False
    after_delivery: bool = False
    pause: Callable[[float], None] = time.sleep
    binding: SequenceBinding = SequenceBinding()
    complaints: TokenBucket = field(default_factory=_complaints, compare=False)
    refusals: Refusals = field(default_factory=Refusals, compare=False)

    def refused(self, key: str, words: str, now: float, *, definite: bool) -> None:
        """Note that a destination answers, and takes no message. People are told now and then, if
        that is *definite*: it will not take it later either."""
        new = self.refusals.note(key, words)
        if definite and new and self.complaints.allows(key, now):
            self.notify(Notice(NoticeKind.REFUSED, key, words))


class PeerLimits:
    """How often peers may ask for sequences, and hear of unknown ones; in memory, for one
    process."""

    def __init__(self, policy: Policy) -> None:
        self.creations = TokenBucket(policy.creations)
        self.unknowns = TokenBucket(1 / policy.unknown_every)


@checked_dataclass(frozen=True, slots=True)
class Channel:
    """The way of a client to a service: what a sequence is made with.

    Attributes:
        target: The address of messages.
        acks_to: The address of acknowledgements and replies; the anonymous address: back on the
            connections; one of WS-MakeConnection: they are fetched.
        offers: Replies come in a sequence, which is offered.
        callback: The name of the application that gets replies, and of what is told when the
            sequence is given up; None: "".
        owner: The identity that the other side has, where it is known.
    """

    target: EndpointReference
    wire: Wire
    acks_to: EndpointReference
    offers: bool = False
    callback: str | None = None
    owner: str | None = None


@lru_cache
def anonymous(wsa: Wsa) -> EndpointReference:
    """The address of the other end of the connection."""
    return EndpointReference(wsa.anonymous, wsa)


def is_fetched(epr: EndpointReference) -> bool:
    """Return whether messages to *epr* are fetched by WS-MakeConnection."""
    return _is_fetched(epr.address)


def is_callable(epr: EndpointReference) -> bool:
    """Return whether messages can be sent to *epr* on a connection that we open."""
    return _is_callable(epr.address)


def replies_on_connections(sequence: OutgoingSequence) -> bool:
    """Return whether replies come back on the connections of their requests."""
    return sequence.acks_to is not None and is_anonymous(sequence.acks_to.address)


@lru_cache(1024)  # Strangers name addresses, of 4 KiB at most.
def _is_callable(address: str) -> bool:
    return not is_anonymous(address) and not _is_fetched(address) and address != WSA_NONE


def _is_fetched(address: str) -> bool:
    return address.startswith(MAKE_CONNECTION_ANONYMOUS)


def reply_endpoint(message: ReliableMessage, *, offered: bool) -> EndpointReference | None:
    """The address of the reply to *message*, if an application gives one; None: there is none.

    Args:
        offered: There is a sequence for replies, whose messages go back on connections: one is
            expected there even where the message does not say so. Without it such a message is
            one-way, since peers name no place in those either.
    """
    headers = message.headers
    if headers.reply_to is not None:
        return headers.reply_to if headers.reply_to.address != WSA_NONE else None
    if not offered or headers.wsa is None or headers.message_id is None:
        return None
    address = headers.wsa.default_reply_to
    return EndpointReference(address, headers.wsa) if address is not None else None


def same_place(one: EndpointReference, other: EndpointReference) -> bool:
    """Return whether two references are the same, parameters included: an acknowledgement may
    travel on a message only then."""
    return (one.address, one.properties, one.parameters) == (
        other.address,
        other.properties,
        other.parameters,
    )


def reply_key(identifier: str) -> str:
    """The key of the outgoing sequence that has the replies to the incoming one."""
    return f"replies to {identifier}"


_EMPTY = "empty "


def empty_key(offered: str) -> str:
    """The stand-in for `reply_key` where the *offered* sequence stays empty: there is no such
    outgoing sequence."""
    return f"{_EMPTY}{offered}"


def empty_of(key: str) -> str | None:
    """The identifier of the sequence that stays empty; the inverse of `empty_key`."""
    return key[len(_EMPTY) :] if key.startswith(_EMPTY) else None


def requests_of(key: str) -> str | None:
    """The incoming sequence that *key* has the replies to; the inverse of `reply_key`."""
    start = reply_key("")
    return key[len(start) :] if key.startswith(start) else None
