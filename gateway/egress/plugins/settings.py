"""The settings of a transport that a package brings."""

from pydantic import BaseModel, ConfigDict, Field


class PluggedScheme(BaseModel):
    """A row of ``transports`` in the settings: the scheme is enabled by it.

    Attributes:
        scheme: The scheme of consumers' addresses, and the name of the entry point.
        strangers: Whether peers that are not trusted may name such addresses.
        timeout: Seconds that sending one message may take.
        at_a_time: Messages under way, at most.
        settings: The transport's own, by name.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    scheme: str = Field(pattern=r"^[a-z][a-z0-9+.-]{0,31}$")
    strangers: bool = False
    timeout: float = Field(30.0, gt=0, le=300)
    at_a_time: int = Field(16, ge=1, le=512)
    settings: dict[str, str] = {}
