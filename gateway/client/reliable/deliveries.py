"""Deliver messages to an application's functions, which are found by name, with the transaction
that takes each message out of the store."""

from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeAlias, TypeVar, cast

from gateway.client.application_calls import Calls
from gateway.reliability.records import OutgoingMessage, OutgoingSequence
from gateway.reliability.storage import Transaction
from gateway.reliability.values import Answer, Application, ApplicationFault, Delivered, NotHere
from mediation.reliable_messaging import RmFault
from mediation.reliable_messaging.application import body_of
from mediation.soap.answers import PeerFault
from mediation.soap.body_elements import BodyContent

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

F = TypeVar("F", bound=Callable[..., Any])

PAGE = 64


class InTransaction:
    """Something that happens in a transaction of the store, for an application that changes its own
    data in the same.

    Attributes:
        transaction: The store's transaction.
    """

    def __init__(self, transaction: Transaction) -> None:
        self.transaction = transaction
        self._session: Session | None = None

    @property
    def connection(self) -> Any:
        """The store's own connection, an SQLAlchemy ``Connection``; None in memory. What is done
        through it is committed, or rolled back, with the message."""
        return self.transaction.connection

    @property
    def session(self) -> "Session":
        """An SQLAlchemy session on that connection.

        Raises:
            TypeError: The store is no database.
        """
        if self._session is None:
            make = getattr(self.transaction, "session", None)
            if make is None or self.connection is None:
                raise TypeError("a store in memory has no session: give it a database")
            self._session = make()
        return self._session

    def enlist(self, participant: Any) -> Any:
        """Let another database take part: see `Transaction.enlist`."""
        return self.transaction.enlist(participant)


class Delivery(InTransaction):
    """A message for an application: each comes once, in the order of its sequence.

    Attributes:
        sequence: Identifier of the sequence.
        number: Its number in it.
        envelope: As it came.
        owner: The identity of the sender, where the receiver tells callers apart.
    """

    def __init__(self, transaction: Transaction, delivered: Delivered) -> None:
        super().__init__(transaction)
        self.sequence = delivered.identifier
        self.number = delivered.number
        self.envelope = delivered.envelope
        self.owner = delivered.owner
        self._message = delivered.message

    @property
    def action(self) -> str:
        return self._message.headers.action or ""

    @property
    def message_id(self) -> str | None:
        return self._message.headers.message_id

    @property
    def relates_to(self) -> str | None:
        """The message id of the request that it answers."""
        return self._message.headers.relates_to

    @property
    def body(self) -> bytes:
        """The element in its body, as a document of its own."""
        return body_of(self.envelope)

    @property
    def fault(self) -> PeerFault | None:
        """The fault in it; None where it has none."""
        fault = self._message.fault
        if isinstance(fault, RmFault):
            return None
        return fault


class GivenUp(InTransaction):
    """A sequence that was given up, or a reply that no function could take; the messages will not
    arrive, or nobody knows whether they did.

    Attributes:
        address: The address to which the messages went.
        reason: Why, in words.
        messages: The messages that were not acknowledged; the envelopes are as they were sent.
        unanswered: Requests that were acknowledged, and whose replies are not there.
    """

    def __init__(
        self,
        transaction: Transaction,
        address: str,
        reason: str,
        messages: tuple[OutgoingMessage, ...] = (),
        unanswered: tuple[OutgoingMessage, ...] = (),
    ) -> None:
        super().__init__(transaction)
        self.address = address
        self.reason = reason
        self.messages = messages
        self.unanswered = unanswered


class Completed(InTransaction):
    """A sequence that has come to its end with all its messages acknowledged.

    Attributes:
        address: The address to which the messages went.
        count: The number of messages.
    """

    def __init__(self, transaction: Transaction, address: str, count: int) -> None:
        super().__init__(transaction)
        self.address = address
        self.count = count


Returned: TypeAlias = Answer | BodyContent | None
Service: TypeAlias = Callable[[Delivery], Awaitable[Returned] | Returned]
"""Returns the reply: a body (bytes, text or an element of lxml), an `Answer` with an action of its
own, or None."""
Callback: TypeAlias = Callable[[Delivery], Awaitable[None] | None]


@dataclass(frozen=True, slots=True)
class Callbacks:
    """The functions that a client calls with the replies to its requests, each in a transaction, on
    a thread of the workers; or coroutine functions."""

    on_message: Callback | None = None
    on_fault: Callback | None = None


class NamedFunctions(Mapping[str, F], Generic[F]):
    """Functions by name. A name without one is not an error: another process may have it, or this
    one later, and until then its messages and sequences wait.

    Args:
        nameless: Whether the empty name waits for a function, too; else there is none for it.
    """

    def __init__(self, *, nameless: bool = False) -> None:
        self._named: dict[str, F] = {}
        self._nameless = nameless

    def register(self, name: str, function: F) -> None:
        """Add a function, or put it in the place of the one that has the name."""
        self._named[name] = function

    def __getitem__(self, name: str) -> F:
        return self._named.get(name) or cast(F, partial(_wait_for, name))

    def get(self, name: str, default: Any = None) -> Any:
        """Find the function; where it is missing, one that raises `NotHere`."""
        return self[name] if name or self._nameless or name in self._named else default

    def __contains__(self, name: object) -> bool:
        return name in self._named

    def __iter__(self) -> Iterator[str]:
        return iter(self._named)

    def __len__(self) -> int:
        return len(self._named)


def _wait_for(name: str, *arguments: object) -> NoReturn:
    raise NotHere(f"nothing is registered as {name!r}")


def served(function: Service, calls: Calls, faults: tuple[type[Exception], ...]) -> Application:
    """The application of a service.

    Args:
        faults: Exceptions that are outcomes: they are answered as faults, at once.
    """

    def application(transaction: Transaction, delivered: Delivered) -> Answer | None:
        delivery = Delivery(transaction, delivered)
        try:
            returned = calls.call(function, delivery)
        except ApplicationFault:
            raise
        except faults as error:
            raise ApplicationFault(str(error) or type(error).__name__) from error
        if returned is None or isinstance(returned, Answer):
            return returned
        return Answer(f"{delivery.action}Response", returned)

    return application


def callback_application(callbacks: Callbacks, calls: Calls) -> Application:
    """The application that gets the replies of a client's requests."""

    def application(transaction: Transaction, delivered: Delivered) -> None:
        delivery = Delivery(transaction, delivered)
        function = callbacks.on_message if delivery.fault is None else callbacks.on_fault
        if function is not None:
            calls.call(function, delivery)

    return application


def left_of(
    transaction: Transaction, sequence: OutgoingSequence, limit: int
) -> tuple[tuple[OutgoingMessage, ...], tuple[OutgoingMessage, ...]]:
    """The messages of a sequence that nobody acknowledged, and those that wait for their replies;
    of both at most *limit*."""
    found = transaction.outgoing.messages(sequence.key, limit)
    known = tuple(each for each in found if each.number in sequence.acknowledged)
    return tuple(each for each in found if each.number not in sequence.acknowledged), known
