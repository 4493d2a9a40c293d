"""The table ``discovery`` in the settings: a node's key, what it trusts, and its policy."""

from datetime import timedelta
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SecretStr

from filters import FilterError
from filters.dialects import QUERY_SQL, QUERY_STRING
from filters.queries import Query, compile_query

_DIALECTS = {"text": QUERY_STRING, "sql": QUERY_SQL}
Words = frozenset[str]


def description_query(text: str) -> Query:
    """Compile ``text:tide`` or ``sql:unit = 'm'``.

    Raises:
        ValueError: It is neither, or not valid.
    """
    kind, colon, query = text.partition(":")
    if not colon or kind not in _DIALECTS:
        raise ValueError("must begin with text: or sql:")
    try:
        return compile_query(_DIALECTS[kind], query)
    except FilterError as error:
        raise ValueError(error.text) from error


def _is_description(text: str) -> str:
    description_query(text)
    return text


class DiscoveryPolicy(BaseModel):
    """The table ``discovery.policy``; what is left out asks for nothing."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    credentials: bool = False
    realms: Words = frozenset()
    institutions: Words = frozenset()
    creators: Words = frozenset()
    provenance: Words = frozenset()
    synopsis_types: frozenset[Literal["path", "integer", "tags", "properties", "xml"]] = frozenset()
    description: Annotated[str, AfterValidator(_is_description)] | None = None
    shortest_query: int = Field(1, ge=1, le=1000)
    most_results: int = Field(1000, ge=1, le=1000)
    answers_in_the_clear: bool = True


class DiscoverySettings(BaseModel):
    """The table ``discovery``.

    Attributes:
        key, certificate: PEM of the node's own; the certificate with its intermediates.
        node_authorities, entity_authorities: PEM of the authorities of nodes and of entities.
        node_fingerprints, entity_fingerprints: SHA-256 of single certificates that are trusted.
        refused: Identifiers that are refused, whatever their certificates say.
        revoked: Ids of delegations that do not count any more.
        close_unknown: Nobody may use topics with a UUID whose advertisement is not known.
        require_digest: A proof of possession without a digest of the content is refused.
        longest_life: Of a topic.
        query_time: Seconds of one query; then the answer has what was found so far.
        xquery: Queries in XQuery are evaluated (the extra ``xquery``).
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    key: Path
    certificate: Path
    key_password: SecretStr | None = None
    node_authorities: Path | None = None
    node_fingerprints: Words = frozenset()
    entity_authorities: Path | None = None
    entity_fingerprints: Words = frozenset()
    refused: Words = frozenset()
    revoked: Words = frozenset()
    close_unknown: bool = False
    require_digest: bool = False
    longest_life: Annotated[timedelta, Field(gt=timedelta(), le=timedelta(days=36500))] = timedelta(
        days=365
    )
    advertisements: int = Field(100_000, ge=1)
    advertisements_per_creator: int = Field(1_000, ge=1)
    creations_per_minute: int = Field(10, ge=1)
    queries_per_second: int = Field(100, ge=1)
    query_time: float = Field(0.9, gt=0.0, le=10.0)
    xquery: bool = False
    policy: DiscoveryPolicy = DiscoveryPolicy()
