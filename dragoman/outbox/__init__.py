"""A transactional outbox: messages are stored in the transaction that changes a program's data, and
sent until they are taken, by the inbox of another program or by a gateway in front of RabbitMQ or
ActiveMQ. It needs SQLAlchemy (``dragoman-client[outbox]``)."""

from gateway.client.outbox import Outbox

__all__ = ["Outbox"]
