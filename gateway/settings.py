"""Settings: from the command line, ``DRAGOMAN_*`` in the environment, and ``dragoman.toml``."""

import tomllib
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, SecretStr, ValidationError, field_validator
from pydantic_settings import (
    BaseSettings,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from filters import Reason, Refused

FILE = "dragoman.toml"

Words = Annotated[tuple[str, ...], NoDecode]
"""In the environment: words separated by commas."""


class SettingsError(Refused):
    """A setting cannot be read; the text names it."""


class Settings(BaseSettings):
    """Everything that can be configured; times are seconds, sizes octets."""

    model_config = SettingsConfigDict(
        env_prefix="DRAGOMAN_",
        env_nested_delimiter="__",
        toml_file=FILE,
        extra="forbid",
        nested_model_default_partial_update=True,
    )

    host: str = "127.0.0.1"
    port: int = Field(8080, ge=0, le=65535)
    adapter: SecretStr = SecretStr("embedded:")
    adapter_settings: dict[str, str] = {}
    store: SecretStr | None = None
    data: Path = Path("dragoman-data")
    public_url: str | None = None

    hosts: Words = ()
    """Further names under which the gateway is asked for."""
    trusted: Annotated[tuple[str, ...] | None, NoDecode] = None
    """Networks whose peers are bound by the limits over all alone; by default loopback, while
    the gateway listens on loopback."""
    trusted_proxies: Words = ()
    egress_allow: Words = ()
    """Networks, addresses and names inside that consumers may have."""
    deliver_to_self: bool = False

    default_lease: timedelta = timedelta(hours=24)
    longest_lease: timedelta = timedelta(hours=24)
    grace: timedelta = timedelta(seconds=60)
    max_subscriptions: int = Field(100_000, ge=1)
    max_subscriptions_per_owner: int = Field(1000, ge=1)
    max_subscriptions_per_destination: int = Field(100, ge=1)
    """Of one stranger to one host and port."""
    survive_power_loss: bool = True

    retry_delays: tuple[float, ...] | None = None
    slots: int = Field(512, ge=1)
    drain: float = Field(10.0, ge=0, le=60)
    """Seconds that deliveries under way get when the gateway stops."""
    log: str = Field("info", pattern="^(debug|info|warning|error)$")
    log_format: str = Field("auto", pattern="^(auto|console|json)$")

    @field_validator("hosts", "trusted", "trusted_proxies", "egress_allow", mode="before")
    @classmethod
    def _split(cls, value: object) -> object:
        if isinstance(value, str):
            return tuple(word.strip() for word in value.split(",") if word.strip())
        return value

    @field_validator("public_url")
    @classmethod
    def _is_url(cls, value: str | None) -> str | None:
        if value is not None and not value.startswith(("http://", "https://")):
            raise ValueError("must begin with http:// or https://")
        return value

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return init_settings, env_settings, TomlConfigSettingsSource(settings_cls)

    @property
    def on_loopback(self) -> bool:
        """Whether the gateway listens on loopback alone."""
        return self.host in ("127.0.0.1", "::1", "localhost") or self.host.startswith("127.")


def read_settings(**given: Any) -> Settings:
    """The settings; *given* ones that are None count as not given.

    Raises:
        SettingsError: One cannot be read; the text is one line for a person.
    """
    try:
        return Settings(**{name: value for name, value in given.items() if value is not None})
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "settings"
        message = str(first["msg"]).removeprefix("Value error, ")
        raise SettingsError(Reason.MESSAGE_INVALID, f"{where}: {message}") from error
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(Reason.MESSAGE_INVALID, f"{FILE}: {error}") from error
