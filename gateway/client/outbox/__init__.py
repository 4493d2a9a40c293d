"""A transactional outbox and inbox: messages are stored with what a program changes, sent as
CloudEvents, and given to a function of another program in the transaction that takes them.

Nothing is lost and nothing taken twice though programs, the gateway and the broker are killed. It
needs SQLAlchemy (the extra ``outbox``).
"""

from importlib.util import find_spec

if find_spec("sqlalchemy") is None:
    raise ModuleNotFoundError(
        "outbox, inbox and sagas need SQLAlchemy: install dragoman-client[outbox]",
        name="sqlalchemy",
    )

from gateway.client.outbox.backoff import Backoff
from gateway.client.outbox.inbox import Inbox
from gateway.client.outbox.message import Dead, Fault, Message
from gateway.client.outbox.outbox import Outbox

__all__ = ["Backoff", "Dead", "Fault", "Inbox", "Message", "Outbox"]
