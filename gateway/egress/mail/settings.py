"""The settings of mail: the smart host, and to whom mail may go."""

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SecretStr, model_validator

from gateway.egress.mail.addresses import is_domain, is_mailbox
from gateway.security.networks import one_host
from gateway.security.secret_files import read_first_line

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
        password_file: The file whose first line is the password, read for each mail.
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
    password_file: Path | None = None
    sender: Annotated[str, AfterValidator(_is_sender)]
    domains: Annotated[tuple[str, ...], AfterValidator(_are_domains)] = Field(min_length=1)
    strangers: bool = False
    timeout: float = Field(60.0, gt=0, le=300)
    at_a_time: int = Field(4, ge=1, le=64)

    @model_validator(mode="after")
    def _go_together(self) -> Self:
        given = [one for one in (self.password, self.password_file) if one is not None]
        if (self.user is None) is bool(given) or len(given) > 1:
            raise ValueError("user goes with a password, or with a password_file")
        if self.user is not None and self.security == "none":
            raise ValueError("a password needs security = starttls or tls")
        return self

    def read_password(self) -> str:
        """Read the password; empty where there is none.

        Raises:
            SecretFileUnusable: Its file cannot be read.
        """
        if self.password_file is not None:
            return read_first_line(self.password_file)
        return self.password.get_secret_value() if self.password is not None else ""

    @property
    def smart_host(self) -> tuple[str, int]:
        """The host and port to connect to."""
        return self.host, self.port or PORTS[self.security]
