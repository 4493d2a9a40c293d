"""A program's transaction: what it changes and the messages that it sends, together or not."""

import asyncio
import sys
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, suppress
from functools import lru_cache
from typing import Any, TypedDict, Unpack
from urllib.parse import quote

from filters import Refused
from gateway.client.reliable.deliveries import InTransaction
from gateway.client.sequence_binding import SignEnvelope
from gateway.reliability.party import Channel
from gateway.reliability.source import Message, key_of
from gateway.reliability.storage import Transaction
from gateway.reliability.values import Outgoing, check_action
from mediation.model.messages import EndpointReference
from mediation.model.values import checked_dataclass
from mediation.reliable_messaging import read_message
from mediation.soap.body_elements import BodyContent, body_element


@checked_dataclass(frozen=True, slots=True)
class Pending:
    """A message that is stored when its transaction ends.

    Attributes:
        place: The key of the first sequence of that name, by which sequences are locked.
    """

    name: str
    place: str
    channel: Channel
    message: Message
    message_id: str


class MessageOptions(TypedDict, total=False):
    """What may be said of a message that is sent.

    Attributes:
        action: Its WS-Addressing action, a URI.
        key: Tells several sequences to one address apart; messages of one key come in order.
        envelope: The whole envelope, with Action and MessageID, instead of a body.
        last: It ends the sequence.
    """

    action: str
    key: str
    envelope: BodyContent | None
    last: bool


@lru_cache(4096)
def sequence_name(key: str, callbacks: str | None) -> str:
    """The name of the sequence of a client's *key*: with and without replies they are two. It has
    no blanks, so that the names of sequences sort as the sequences are locked."""
    return quote(key) if callbacks is None else f"{quote(key)}>{quote(callbacks)}"


class PendingMessages:
    """Makes the messages that a program sends, which are stored when their transaction ends.

    Args:
        channel: The way to an address, for the replies of callbacks with a name; None: for none.
        new_id: Makes message ids.
        sign: Signs messages when they are sent; None: nothing does.
    """

    def __init__(
        self,
        channel: Callable[[str | EndpointReference, str | None], Channel],
        new_id: Callable[[], str],
        sign: SignEnvelope | None = None,
    ) -> None:
        self._sign = sign
        self._channel = channel
        self._new_id = new_id

    def make(
        self,
        address: str | EndpointReference,
        body: BodyContent,
        *,
        callbacks: str | None = None,
        action: str = "",
        key: str = "",
        envelope: BodyContent | None = None,
        last: bool = False,
    ) -> Pending:
        """Make a message as `ClientTransaction.send` and `ClientTransaction.request` are given it.

        Raises:
            ValueError: The address, the action, *body* or *envelope* cannot be sent.
            TypeError: The address, *body* or *envelope* is of no type that can be sent.
        """
        finished = None if envelope is None else body_element(envelope)
        if finished is None:
            message_id = self._new_id()
        else:
            action, message_id = _named_in(finished)
            if self._sign is not None:
                self._sign(finished)  # What cannot be signed is refused now.
        check_action(action)
        message = Message(
            action,
            body_element(body),
            message_id,
            wants_reply=callbacks is not None,
            last=last,
            envelope=finished,
        )
        name = sequence_name(key, callbacks)
        to = self._channel(address, callbacks)
        return Pending(name, key_of(name, to.target), to, message, message_id)


def _named_in(envelope: bytes) -> tuple[str, str]:
    """The action and the message id of a finished envelope.

    Raises:
        ValueError: It is no envelope, or lacks one of them.
    """
    try:
        headers = read_message(envelope).headers
    except Refused as error:
        raise ValueError(f"the envelope cannot be sent: {error}") from error
    if not headers.action or not headers.message_id:
        raise ValueError("the envelope has no Action, or no MessageID")
    return headers.action, headers.message_id


class ClientTransaction(InTransaction):
    """A transaction of a client. Its messages get their places in the sequences at its end, so that
    nobody else waits for a sequence meanwhile."""

    def __init__(self, transaction: Transaction, messages: PendingMessages) -> None:
        super().__init__(transaction)
        self._messages = messages
        self.pending: list[Pending] = []
        self.at_once: list[Outgoing] = []
        """Messages that are sent once it is committed."""

    def send(
        self,
        address: str | EndpointReference,
        body: BodyContent = b"",
        **options: Unpack[MessageOptions],
    ) -> str:
        """Send a message that nobody answers; it goes when the transaction is committed.

        Args:
            address: A URL of HTTP, or a reference with one.
            body: The element in its body, which declares every namespace that it uses: bytes, text
                or an element of lxml; nothing: the body is empty.
            options: `MessageOptions`.

        Returns:
            Its message id.

        Raises:
            ValueError: *address* is no URL of HTTP, *action* no URI, *envelope* cannot be sent, or
                *body* is not one well-formed element (the text has the line and the column).
                Nothing is stored.
        """
        return self._add(self._messages.make(address, body, **options))

    def request(
        self,
        address: str | EndpointReference,
        body: BodyContent = b"",
        *,
        callbacks: str,
        **options: Unpack[MessageOptions],
    ) -> str:
        """Send a message that is answered: *callbacks* is the name of what gets the reply.

        Returns:
            Its message id, to which the reply relates.

        Raises:
            ValueError: As `send`.
        """
        return self._add(self._messages.make(address, body, callbacks=callbacks, **options))

    def _add(self, pending: Pending) -> str:
        self.pending.append(pending)
        return pending.message_id


class OpenTransaction:
    """``with`` or ``async with``: begins, and commits, or rolls back where the block raises. With
    ``async with``, both run on threads.

    Args:
        begin: Begins a transaction of the store.
        finish: Stores the pending messages.
        committed: Is called after the commit.
    """

    def __init__(
        self,
        begin: Callable[[], AbstractContextManager[Transaction]],
        made: Callable[[Transaction], ClientTransaction],
        finish: Callable[[ClientTransaction], None],
        committed: Callable[[ClientTransaction], None],
        threads: Callable[[], "Threads"],
    ) -> None:
        self._begin = begin
        self._made = made
        self._finish = finish
        self._committed = committed
        self._threads = threads
        self._store: AbstractContextManager[Transaction] | None = None
        self._own: ClientTransaction | None = None

    def __enter__(self) -> ClientTransaction:
        self._store = self._begin()
        self._own = self._made(self._store.__enter__())
        return self._own

    def __exit__(self, *raised: Any) -> None:
        assert self._store is not None and self._own is not None
        if raised[0] is None:
            try:
                self._finish(self._own)
            except BaseException:
                self._store.__exit__(*sys.exc_info())
                raise
        self._store.__exit__(*raised)
        if raised[0] is None:
            self._committed(self._own)

    async def __aenter__(self) -> ClientTransaction:
        beginning = self._threads().begin.submit(self.__enter__)
        try:
            return await asyncio.wrap_future(beginning)
        except asyncio.CancelledError:
            beginning.add_done_callback(self._roll_back)
            raise

    async def __aexit__(self, *raised: Any) -> None:
        ending = self._threads().end.submit(self.__exit__, *raised)
        # A task that is cancelled does not wait; the transaction ends all the same.
        await asyncio.shield(asyncio.wrap_future(ending))

    def _roll_back(self, begun: "Future[ClientTransaction]") -> None:
        if not begun.cancelled() and begun.exception() is None:
            given_up = asyncio.CancelledError()
            with suppress(asyncio.CancelledError):
                self.__exit__(type(given_up), given_up, None)


class Threads:
    """Threads for transactions of coroutines: a begin may wait for an end, which therefore has
    threads of its own."""

    def __init__(self, count: int = 8) -> None:
        self.begin = ThreadPoolExecutor(count, "reliable-begin")
        self.end = ThreadPoolExecutor(count, "reliable-end")

    def close(self) -> None:
        """End them; what they do ends first."""
        self.begin.shutdown(wait=False)
        self.end.shutdown(wait=False)
