"""An inbox: messages are given to functions once, in order by key, each in the transaction that
takes it. It needs SQLAlchemy (``dragoman-client[outbox]``)."""

from gateway.client.outbox import Backoff, Dead, Fault, Inbox, Message

__all__ = ["Backoff", "Dead", "Fault", "Inbox", "Message"]
