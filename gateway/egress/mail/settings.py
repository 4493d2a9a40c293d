"""The settings of mail: the smart host, and to whom mail may go."""

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SecretStr, model_validator

from gateway.egress.mail.addresses import is_domain, is_mailbox
from gateway.security.networks import one_host

PORTS = {"starttls": 587, "tls": 465, "none": 25}


def _is_sender(value: str) -> str:
    if not is_mailbox(value):
        raise ValueError(f"{value!r} is not a mail address such as events@example.org")
    return value


def _are_domains(value: tuple[str, ...]) -> tuple[str, ...]:
    for word in value:
        if not is_domain(word.removeprefix("*.")):
            raise ValueError(f"{word!r} must be a domain, or *. and a domain")
    return tuple(word.lower() for word in value)


class MailSettings(BaseModel):
    """The table ``mail`` in the settings; without it there is no mail.

    Attributes:
        host: The smart host through which all mail goes.
        port: Its port; None: that of *security*.
        security: ``starttls``, ``tls`` from the first byte on, or ``none``.
        ca: The only authorities trusted with the smart host; None: those of the system.
        sender: The address that mail comes from, and to which a mail system returns it.
        domains: Domains that mail may go to, ``*.`` and a domain for all below it.
        strangers: Whether peers that are not trusted may subscribe mail addresses.
        timeout: Seconds that one mail may take.
        at_a_time: Connections to the smart host, at most.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    host: Annotated[str, AfterValidator(one_host)]
    port: int | None = Field(None, ge=1, le=65535)
    security: Literal["starttls", "tls", "none"] = "starttls"
    ca: Path | None = None
    user: str | None = None
    password: SecretStr | None = None
    sender: Annotated[str, AfterValidator(_is_sender)]
    domains: Annotated[tuple[str, ...], AfterValidator(_are_domains)] = Field(min_length=1)
    strangers: bool = False
    timeout: float = Field(60.0, gt=0, le=300)
    at_a_time: int = Field(4, ge=1, le=64)

    @model_validator(mode="after")
    def _go_together(self) -> Self:
        if (self.user is None) != (self.password is None):
            raise ValueError("user and password belong together")
        if self.user is not None and self.security == "none":
            raise ValueError("a password needs security = starttls or tls")
        return self

    @property
    def smart_host(self) -> tuple[str, int]:
        """The host and port to connect to."""
        return self.host, self.port or PORTS[self.security]
