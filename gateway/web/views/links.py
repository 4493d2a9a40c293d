"""Links: subscriptions of our channels at channels and producers of others."""

from datetime import datetime

from pydantic import BaseModel, Field

from gateway.model.moments import moment_of, moment_or_none
from gateway.security.resource_addresses import shown
from gateway.sources.sources import Entry


class LinkView(BaseModel, extra="forbid"):
    """A link."""

    id: str
    channel: str
    url: str
    spec: str
    example: dict[str, str]
    topic: str | None
    xpath: str | None
    lease: float
    made_by: str = Field(description="operator, settings, or directory.")
    user: str | None = Field(description="Whom the other side takes the gateway for.")
    credential: str | None = Field(description="The kind of what it is shown, as of sources.")
    state: str = Field(description="As of sources: live, while the other one knows it.")
    since: datetime = Field(description="When it came into that state.")
    expires: datetime | None = Field(description="When the lease that was granted ends.")
    failures: int = Field(description="Exchanges that failed, in a row.")
    last_error: str | None


def link_view(entry: Entry) -> LinkView:
    """The view of the link whose source is *entry*."""
    source, standing = entry.source, entry.standing
    return LinkView(
        id=source.id,
        channel=source.channel or "",
        url=shown(source.url),
        spec=source.spec.version.value,
        example=dict(source.example),
        topic=source.topic,
        xpath=source.xpath,
        lease=source.lease,
        made_by=source.made_by or "operator",
        user=(source.credential.user or None) if source.credential is not None else None,
        credential=None if source.credential is None else source.credential.kind,
        state=entry.state,
        since=moment_of(standing.since),
        expires=moment_or_none(standing.expires),
        failures=standing.failures,
        last_error=standing.error or None,
    )
