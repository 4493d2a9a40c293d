"""Sources: subscriptions that the gateway holds at producers of others."""

from datetime import datetime

from pydantic import BaseModel, Field

from gateway.model.moments import moment_of, moment_or_none
from gateway.security.resource_addresses import shown
from gateway.sources.requests import asked_at
from gateway.sources.sources import Entry


class SourceView(BaseModel, extra="forbid"):
    """A source, without the key that its producer was given."""

    id: str
    url: str
    spec: str
    topic: str | None
    xpath: str | None
    channel: str | None = Field(description="Of a link: the channel that it is of; else none.")
    actions: list[str]
    lease: float
    publish_on: str | None
    silence: float
    profile: str
    resource: str | None
    mode: str
    user: str | None = Field(description="Whom the producer takes the gateway for.")
    credential: str | None = Field(
        description="The kind of what the producer is shown: password, bearer, and those of the "
        "settings; null for nothing."
    )
    existing: bool
    added_by: str = Field(description="operator, settings, directory, or the id of a registration.")
    created: datetime
    state: str = Field(
        description="idle, subscribing, live, renewing, checking, pausing, paused, resuming, lost, "
        "backing-off, removing, removed."
    )
    since: datetime = Field(description="When it came into that state.")
    next: datetime | None = Field(description="When something is to be done next.")
    expires: datetime | None = Field(description="When the lease that the producer granted ends.")
    manager: str | None = Field(description="The address of the subscription's manager.")
    manager_asked_at: str | None = Field(
        description="Where the manager is asked instead, where its address leads nowhere: it is "
        "resolved against the producer's URL."
    )
    failures: int = Field(description="Exchanges with the producer that failed, in a row.")
    last_error: str | None
    last_error_at: datetime | None
    events: int = Field(description="Events that came.")
    last_event: datetime | None


def source_view(entry: Entry, *, events: int, last_event: float | None) -> SourceView:
    """The view of *entry*, of which *events* came, the last at *last_event*."""
    source, standing = entry.source, entry.standing
    return SourceView(
        id=source.id,
        url=shown(source.url),
        spec=source.spec.version.value,
        topic=source.topic,
        xpath=source.xpath,
        actions=list(source.actions),
        channel=source.channel,
        lease=source.lease,
        publish_on=source.publish_on,
        silence=source.silence,
        profile=source.profile,
        resource=source.resource,
        mode=source.mode.value,
        user=(source.credential.user or None) if source.credential is not None else None,
        credential=None if source.credential is None else source.credential.kind,
        existing=source.existing,
        added_by=source.registration or source.made_by or "operator",
        created=moment_of(source.created),
        state=entry.state,
        since=moment_of(standing.since),
        next=moment_or_none(standing.due),
        expires=moment_or_none(standing.expires),
        manager=None if standing.manager is None else shown(standing.manager.address),
        manager_asked_at=_asked_at(entry),
        failures=standing.failures,
        last_error=standing.error or None,
        last_error_at=moment_or_none(standing.error_at),
        events=events,
        last_event=moment_or_none(last_event),
    )


def _asked_at(entry: Entry) -> str | None:
    """Where the manager is asked, if that is not its address."""
    manager = entry.standing.manager
    if manager is None:
        return None
    _, url = asked_at(entry.source, manager)
    return None if url == manager.address else shown(url)
