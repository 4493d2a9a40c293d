"""Requests and replies: what a function returns goes back to who asked, and comes to a function
there by the name that was stored with the request."""

from collections.abc import Callable
from typing import Any, TypeVar

from sqlalchemy import delete, select

from gateway.client.outbox.backoff import Backoff
from gateway.client.outbox.handlers import Function, Handler, Handlers
from gateway.client.outbox.message import Message
from gateway.client.outbox.outbox import Outbox
from gateway.client.outbox.tables import digest, outbox, requests
from gateway.client.outbox.transactions import Transaction

F = TypeVar("F", bound=Callable[..., Any])

RETRIES = 10


class Replies:
    """The replies of one program: those that it sends, and those that it gets.

    Args:
        sender: Sends replies; its `reply_to` is the topic of those that come here.
        handlers: Those of the inbox.
    """

    def __init__(self, sender: Outbox | None, handlers: Handlers) -> None:
        self._sender = sender
        self._named: dict[str, Function] = {}
        self.topic = "" if sender is None else sender.reply_to
        if self.topic:
            handlers.add(self.topic, Handler(_unused, RETRIES, Backoff(), ()))

    def on(self, name: str) -> Callable[[F], F]:
        """Register a function under *name*.

        Raises:
            ValueError: The outbox of the inbox has no topic for replies.
        """
        if not self.topic:
            raise ValueError("replies need Inbox(..., outbox=Outbox(..., reply_to='replies/shop'))")

        def register(function: F) -> F:
            self._named[name] = function
            return function

        return register

    def function_of(self, message: Message, transaction: Transaction) -> Function:
        """The function for a reply; the request is forgotten in the same transaction.

        Raises:
            LookupError: Nothing is registered under its name.
        """
        own = requests.c
        asked = own.digest == digest(message.relates_to)
        found = transaction.rows(select(own.on_reply, own.on_fault).where(asked))
        if not found:
            return _ignore
        transaction.change(delete(requests).where(asked))
        name = found[0][1] if message.fault else found[0][0]
        if name not in self._named:
            raise LookupError(f"nothing is registered as {name!r}: @inbox.on_reply({name!r})")
        return self._named[name]

    def send(self, message: Message, returned: Any, transaction: Transaction) -> None:
        """Store what a function returned, if somebody asked for it."""
        if returned is not None:
            self._answer(message, returned, {}, transaction)

    def refuse(self, message: Message, reason: str, transaction: Transaction) -> None:
        """Store the fault of a request."""
        text = "".join(each if each.isprintable() else " " for each in reason)[:1000]
        self._answer(message, text, {"fault": text or "it was refused"}, transaction)

    def _answer(
        self, message: Message, body: Any, more: dict[str, str], transaction: Transaction
    ) -> None:
        to = str(message.attributes.get("replyto", ""))
        if not to or self._sender is None:
            return
        row = self._sender.row(
            to,
            body,
            id=f"reply to {message.id} of {message.source}",
            key=message.key,
            attributes={"relatesto": message.id, **more},
        )
        transaction.insert_new(outbox, [row])
        self._sender.wake()


def _unused(message: Message) -> None:
    raise AssertionError("replies are given to functions by name")


def _ignore(message: Message) -> None:
    """Take a reply that nobody waits for any more."""
