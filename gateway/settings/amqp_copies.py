"""The settings of copies of events in RabbitMQ."""

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, SecretStr


class AmqpCopies(BaseModel):
    """The table ``amqp_copies``; without it nothing is copied.

    Attributes:
        url: That of the broker, ``amqp://`` or ``amqps://``.
        routing_keys: The file that tells which events are copied, with which keys.
        every_event: Events that it does not name are copied, too.
        prefix: What the names of the three exchanges begin with.
        durable: Whether the exchanges outlive the broker; what receivers declare must be the same.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    url: SecretStr = SecretStr("amqp://guest:guest@localhost:5672/")
    routing_keys: Path | None = None
    every_event: bool = False
    prefix: str = Field("ws-messenger", pattern=r"^[A-Za-z0-9_][A-Za-z0-9._-]{0,99}$")
    durable: bool = False
