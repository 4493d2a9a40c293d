"""``/api/v1/sources``: subscriptions that the gateway holds at producers of others."""

from datetime import UTC, datetime, timedelta
from typing import Annotated

from fastapi import APIRouter, Depends, HTTPException
from pydantic import BaseModel, Field, SecretStr

from filters import Refused
from gateway.model.sources import BEARER, Login, Wanted
from gateway.routes import Dependency
from gateway.security.identify import OPERATOR
from gateway.sources.new_sources import NewSource
from gateway.sources.requests import MODES
from gateway.sources.sources import Entry, Sources
from gateway.web.parameters import PAGE, After, Limit, Prefix, Text, page_of
from gateway.web.validation import JsonRoute
from gateway.web.views.sources import SourceView, source_view
from mediation.client import SPECS
from mediation.model.delivery_modes import Mode
from mediation.model.expiry import parse_expiry
from mediation.model.versions import Version
from mediation.profiles import PRODUCERS

router = APIRouter(prefix="/sources", tags=["sources"], route_class=JsonRoute)
SOURCES = Dependency[Sources]()
Given = Annotated[Sources, Depends(SOURCES)]
_SPECS = ", ".join(version.value for version in SPECS)
_PROFILES = ", ".join(PRODUCERS)
_MODES = ", ".join(mode.value for mode in MODES)
Action = Annotated[str, Field(pattern=r"^[!-~]+$", max_length=1024)]
LeaseText = Annotated[float, Field(gt=0, le=1e9, allow_inf_nan=False)] | Text


class LoginRequest(BaseModel, extra="forbid"):
    """What a producer is shown, so that it knows who asks."""

    user: Text | None = Field(None, description="Whom the producer takes the gateway for.")
    password: SecretStr | None = Field(
        None, max_length=1024, description="What the user proves it with; it is never told again."
    )
    allow_basic: bool = Field(
        False, description="The password may go over http as it is, where nothing else is taken."
    )
    negotiate: bool = Field(
        False, description="It is proved by Negotiate (Kerberos, NTLM), and by nothing else."
    )
    bearer: SecretStr | None = Field(
        None,
        max_length=8192,
        description="A token, or an API key of another Dragoman, in place of a user; it is never "
        "told again.",
    )
    allow_http: bool = Field(False, description="The token may go over http, where others read it.")

    @property
    def login(self) -> Login | None:
        """The same as the gateway has it.

        Raises:
            HTTPException: It makes no sense.
        """
        if self.bearer is not None:
            if self.user is not None or self.password is not None:
                raise HTTPException(422, "bearer: it goes with no user, for it says who asks.")
            return Login("", self.bearer.get_secret_value(), self.allow_http, kind=BEARER)
        if self.allow_http:
            raise HTTPException(422, "allow_http: it goes with bearer.")
        if self.user is None:
            if self.password is not None or self.allow_basic or self.negotiate:
                raise HTTPException(422, "user: a password is somebody's.")
            return None
        password = "" if self.password is None else self.password.get_secret_value()
        return Login(self.user, password, self.allow_basic, self.negotiate)


class SourceRequest(LoginRequest):
    """A producer to subscribe at."""

    url: Annotated[str, Field(min_length=1, max_length=4096)]
    spec: str = Field(Version.WSN_1_3.value, description=f"What to speak: {_SPECS}.")
    topic: Text | None = Field(None, description="A topic expression: a/b, a//., {urn:x}a.")
    xpath: Text | None = Field(None, description="XPath 1.0 that the producer is to filter by.")
    actions: list[Action] = Field(
        [],
        max_length=100,
        description="Actions that the producer is to filter by, as devices do; they go with "
        "no topic and no XPath.",
    )
    namespaces: dict[Prefix, Text] = Field({}, max_length=100, description="Prefixes of both.")
    lease: LeaseText | None = Field(
        None,
        description="To ask for: seconds, or an xsd:duration; an hour, of a camera ten minutes.",
    )
    publish_on: Text | None = Field(
        None, description="The topic of events that come without one; else `topic`, if it is one."
    )
    silence: Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)] = Field(
        300.0, description="Seconds without an event after which the producer is asked; 0: never."
    )
    profile: str = Field("standard", description=f"The kind of producer: {_PROFILES}.")
    resource: Action | None = Field(
        None, description="The URI of a resource of WS-Management, with the profile wsman."
    )
    mode: str = Field(Mode.PUSH.value, description=f"How its deliveries are made there: {_MODES}.")
    existing: bool = Field(False, description="The events that it has kept are wanted, too.")


class SourcePage(BaseModel, extra="forbid"):
    sources: list[SourceView]
    next: str | None = Field(None, description="Pass it as `after` for the next page.")


async def _named(id: str, sources: Given) -> Entry:
    entry = sources.by_id(id)
    if entry is None:
        raise HTTPException(404, "There is no such source.")
    return entry


Named = Annotated[Entry, Depends(_named)]


@router.get("")
async def list_sources(
    sources: Given,
    after: After = "",
    limit: Limit = PAGE,
) -> SourcePage:
    """Sources in the order of their ids."""
    entries = sorted(sources.entries, key=lambda entry: entry.id)
    views = (_view(sources, entry) for entry in entries if entry.id > after)
    page, next_ = page_of(views, limit, lambda view: view.id)
    return SourcePage(sources=page, next=next_)


@router.post("", status_code=201)
async def add_source(asked: SourceRequest, sources: Given) -> SourceView:
    """Subscribe at a producer, now and for as long as the source is there. Whether the producer
    grants it is what `state` says, soon."""
    new = NewSource(
        asked.url,
        _version(asked.spec),
        asked.topic,
        asked.xpath,
        tuple(sorted(asked.namespaces.items())),
        None if asked.lease is None else lease_seconds(asked.lease),
        asked.publish_on,
        asked.silence,
        asked.profile,
        actions=tuple(asked.actions),
        resource=asked.resource,
        mode=_mode(asked.mode),
        existing=asked.existing,
        login=asked.login,
    )
    return _view(sources, await sources.add(new, OPERATOR))


@router.get("/{id}")
async def show_source(entry: Named, sources: Given) -> SourceView:
    """One source."""
    return _view(sources, entry)


@router.delete("/{id}", status_code=204)
async def remove_source(entry: Named, sources: Given) -> None:
    """Remove a source; its producer is told, and then it is gone."""
    await sources.want(entry.id, Wanted.REMOVED)


def _version(name: str) -> Version:
    for version in SPECS:
        if version.value == name:
            return version
    raise HTTPException(422, f"spec: {name!r} is not offered; there are {_SPECS}.")


def _mode(name: str) -> Mode:
    for mode in MODES:
        if mode.value == name:
            return mode
    raise HTTPException(422, f"mode: {name!r} is not offered; there are {_MODES}.")


def lease_seconds(lease: float | str) -> float:
    """The seconds of a lease in a request."""
    if isinstance(lease, float):
        return lease
    try:
        duration = parse_expiry(lease).duration
    except Refused:
        duration = None
    if duration is None:
        raise HTTPException(422, "lease: must be seconds, or a duration such as PT1H.")
    start = datetime(2000, 1, 1, tzinfo=UTC)
    return (duration.after(start) - start) / timedelta(seconds=1)


def _view(sources: Sources, entry: Entry) -> SourceView:
    events, last = sources.counts(entry)
    return source_view(entry, events=events, last_event=last)
