"""A row of ``signed_topics`` in the settings."""

from datetime import timedelta
from pathlib import Path
from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from filters import FilterError
from gateway.security.rights import read_topics

MAX_AGE = timedelta(hours=1)
"""How long ago an event may have been signed, where nobody says so."""


class SignedTopicsRow(BaseModel):
    """A row of ``signed_topics``: on these topics events must be signed.

    Attributes:
        topics: Expressions of WS-Topics.
        namespaces: The prefixes in them.
        signers: PEM: authorities, whose holders' signatures count, and single certificates.
        names: Common names or identifiers (``e-...``); others that *signers* has do not count.
            Without, all do.
        max_age: How long ago an event may have been signed.
        tenant: Whose topics these are; empty: those of the default tenant.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    topics: tuple[Annotated[str, Field(min_length=1, max_length=4096)], ...] = Field(
        min_length=1, max_length=1000
    )
    namespaces: dict[str, str] = {}
    signers: Path
    names: frozenset[str] = frozenset()
    max_age: Annotated[timedelta, Field(gt=timedelta(), le=timedelta(days=30))] = MAX_AGE
    tenant: Annotated[str, Field(pattern=r"^([a-z][a-z0-9-]{0,31})?$")] = ""

    @model_validator(mode="after")
    def _are_topics(self) -> Self:
        try:
            read_topics(self.topics, self.namespaces)
        except FilterError as error:
            raise ValueError(f"topics: {error.text}") from error
        return self
