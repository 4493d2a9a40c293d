"""``/api/v1/links``: channels of this gateway that are subscribed at others, and at producers."""

from typing import Annotated

from fastapi import APIRouter, Depends, HTTPException
from pydantic import BaseModel, Field

from gateway.channels.links import LEASE, Link, Links
from gateway.routes import Dependency
from gateway.sources.sources import Entry
from gateway.web.api.sources import LeaseText, LoginRequest, lease_seconds
from gateway.web.parameters import PAGE, After, Limit, Prefix, Text, page_of
from gateway.web.validation import JsonRoute
from gateway.web.views.links import LinkView, link_view
from mediation.client import LEASED, SPECS
from mediation.grid_events import CHANNEL, EXAMPLE_FIELDS
from mediation.model.versions import Version

router = APIRouter(prefix="/links", tags=["channels"], route_class=JsonRoute)
LINKS = Dependency[Links]()
Given = Annotated[Links, Depends(LINKS)]
_SPECS = ", ".join(version.value for version in (*LEASED, *SPECS))
_FIELDS = ", ".join(EXAMPLE_FIELDS)


class LinkRequest(LoginRequest):
    """A channel to subscribe at."""

    url: Annotated[str, Field(min_length=1, max_length=4096)]
    channel: str = Field("", max_length=64, description="Ours; empty: the one without a name.")
    spec: str = Field(Version.GRID_EVENTS.value, description=f"What to speak: {_SPECS}.")
    example: dict[str, Text] = Field(
        {}, max_length=10, description=f"What is wanted, in grid-events: {_FIELDS}."
    )
    topic: Text | None = Field(None, description="A topic expression, in all others.")
    xpath: Text | None = Field(None, description="XPath 1.0 to filter by, in all others.")
    namespaces: dict[Prefix, Text] = Field({}, max_length=100, description="Prefixes of both.")
    lease: LeaseText = Field(
        LEASE.total_seconds(), description="To ask for: seconds, or an xsd:duration."
    )
    publish_on: Text | None = Field(None, description="The topic of events without one.")
    profile: str = Field("standard", description="The kind of producer, as for sources.")
    binding: str = Field(
        CHANNEL, max_length=1024, description="The binding name of the channel's reference."
    )


class LinkPage(BaseModel, extra="forbid"):
    links: list[LinkView]
    next: str | None = Field(None, description="Pass it as `after` for the next page.")


async def _named(id: str, links: Given) -> Entry:
    entry = links.by_id(id)
    if entry is None:
        raise HTTPException(404, "There is no such link.")
    return entry


Named = Annotated[Entry, Depends(_named)]


@router.get("")
async def list_links(
    links: Given,
    after: After = "",
    limit: Limit = PAGE,
) -> LinkPage:
    """Links in the order of their ids."""
    views = (link_view(one) for one in links.links if one.id > after)
    page, next_ = page_of(views, limit, lambda view: view.id)
    return LinkPage(links=page, next=next_)


@router.post("", status_code=201)
async def add_link(asked: LinkRequest, links: Given) -> LinkView:
    """Subscribe a channel at another one, now and for as long as the link is there. Whether that
    is granted is what `state` says, soon."""
    offered = {version.value: version for version in (*LEASED, *SPECS)}
    if asked.spec not in offered:
        raise HTTPException(422, f"spec: {asked.spec!r} is not offered; there are {_SPECS}.")
    link = Link(
        asked.url,
        asked.channel,
        offered[asked.spec],
        tuple(sorted(asked.example.items())),
        asked.topic,
        asked.xpath,
        tuple(sorted(asked.namespaces.items())),
        lease_seconds(asked.lease),
        asked.publish_on,
        asked.profile,
        asked.binding or None,
        login=asked.login,
    )
    return link_view(await links.link(link))


@router.get("/{id}")
async def show_link(entry: Named) -> LinkView:
    """One link."""
    return link_view(entry)


@router.delete("/{id}", status_code=204)
async def remove_link(entry: Named, links: Given) -> None:
    """Remove a link: the other channel is asked for the shortest lease, for it knows no other end,
    or is told; then the link is gone."""
    await links.unlink(entry)
