"""Dependencies of routes: who asks, whether that may be, and whether the gateway stops."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from fastapi import Depends, HTTPException, Request

from adapters import AdapterUnavailable
from filters import Reason, Refused
from gateway.http import HttpSettings, transport_facts
from gateway.observing.masking import Mask
from gateway.routes import Dependency
from gateway.security.audit import NO_AUDIT, Audit, note_refusal
from gateway.security.authorise import authorise, authorise_administrator
from gateway.security.demands import NO_DEMANDS, Demands
from gateway.security.identify import Identification
from gateway.security.principals import Identity, Principal
from gateway.security.rights import Right
from gateway.web.changes import begin_change
from gateway.web.csrf import refuse_other_origins
from gateway.web.session_cookies import session_token

if TYPE_CHECKING:  # Imported where there is a file of identities.
    from gateway.security.sessions import Sessions

LOOK = 0.2
"""Seconds from one look whether the file of identities has changed to the next."""
ASK_AGAIN = 1.0
"""Seconds after which the sender of a request is identified again, whose answer has no end: its key
or token may have expired. What was verified is remembered, so that this takes microseconds."""


@dataclass(frozen=True, slots=True)
class Asking:
    """Who asks, and whether it may begin something now.

    Attributes:
        draining: Whether the gateway stops.
        sessions: Of those who logged in to the console; None where nobody can.
        audit: Notes what is asked for, but for reading.
        demands: For what only messages in SOAP will do, which can be signed and encrypted.
    """

    http: HttpSettings
    identification: Identification
    draining: Callable[[], bool]
    sessions: "Sessions | None" = None
    audit: Audit = NO_AUDIT
    demands: Demands = NO_DEMANDS

    def of_connection(self, request: Request) -> Principal:
        """Who sends *request*, as far as its connection says that."""
        return self.identification.of_connection(transport_facts(request.scope, self.http))

    async def principal(self, request: Request) -> Principal:
        """Who sends *request*.

        Raises:
            NotIdentified: Its credentials prove nothing.
        """
        facts = transport_facts(request.scope, self.http)
        session = session_token(request.scope) if self.sessions is not None else None
        if session is not None and self.sessions is not None:
            identity = self.sessions.find(session)
            if identity is not None:
                principal = self.identification.principal_of(identity, facts)
                await self.identification.save_roles(principal)
                return principal
        return await self.identification.identify(facts)

    async def note_login(self, identity: Identity, request: Request) -> None:
        """Go by the roles that *identity*, whom a login of *request* has proved, has now, for what
        it subscribed to: its session shows them no more."""
        facts = transport_facts(request.scope, self.http)
        principal = self.identification.principal_of(identity, facts)
        await self.identification.save_roles(principal)

    async def until_refused(self, request: Request, check: Callable[[Principal], object]) -> None:
        """Return when the sender of *request*, whose answer has no end, may not have it any more:
        its session has ended, its credentials prove nothing, or *check* refuses it."""
        known, asked_at = self._grounds(request), time.monotonic()
        while True:
            await asyncio.sleep(LOOK)
            grounds = self._grounds(request)
            in_session = grounds[1]  # To ask would keep that awake.
            late = time.monotonic() - asked_at > ASK_AGAIN and not in_session
            if grounds == known and not late:
                continue
            known, asked_at = grounds, time.monotonic()
            try:
                check(await self.principal(request))
            except Refused as refused:
                if refused.reason not in (Reason.UNAVAILABLE, Reason.RATE):
                    return

    def _grounds(self, request: Request) -> tuple[int, bool]:
        """How often the file of identities has changed, and whether *request* is in a session that
        is open: what its rights may depend on."""
        token, sessions = session_token(request.scope), self.sessions
        in_session = token is not None and sessions is not None and sessions.is_open(token)
        return self.identification.changes, in_session


def route_of(request: Request) -> str:
    """The method and the path of *request*, without what stands in it: at the public listener that
    is a secret."""
    path = request.url.path
    for name, value in reversed(request.path_params.items()):
        before, slash, behind = path.rpartition(f"/{value}") if value else (path, "", "")
        if slash:
            path = f"{before}/{{{name}}}{behind}"
    return f"{request.method} {path[:200]}"


def _id_in(request: Request) -> str:
    """The id in the path of *request*: of the administration, where ids are no secrets."""
    if not request.url.path.startswith("/api/"):
        return ""
    return " ".join(map(str, request.path_params.values()))


ASKING = Dependency[Asking]()
MASK = Dependency[Mask]()
Masking = Annotated[Mask, Depends(MASK)]
"""What hides fields of the messages that operators are shown: a parameter of routes."""
Asked = Annotated[Asking, Depends(ASKING)]
"""A parameter of any route: the application gives it to all."""


def asking_for(
    right: Right,
    reading: Right | None = None,
    *,
    tenants: bool = False,
    notes_changes: bool = True,
) -> Callable[..., Awaitable[None]]:
    """A dependency that refuses who has no *right* to a route, or to one that only reads, where
    that is another: *reading*; and everybody where that must be signed or encrypted, which nothing
    here can be. Where it is not for *tenants*, those of others than the default one
    find nothing at any route but those that are open to them. Where it *notes changes*, the audit
    log has what was asked for before it is done, and then what became of it."""

    async def authorise_sender(request: Request, asking: Asked) -> None:
        reads = request.method in ("GET", "HEAD")
        wanted = reading if reads and reading is not None else right
        if not reads:
            await refuse_other_origins(request)
        principal = None
        try:
            principal = await asking.principal(request)
            if principal.tenant and not (tenants or _is_marked(request, "open_to_tenants")):
                raise HTTPException(404)
            authorise(principal, wanted)
            asking.demands.check_plain(request.scope["path"], wanted)
        except Refused as refused:
            sender = principal or asking.of_connection(request)
            note_refusal(asking.audit, sender, route_of(request), _id_in(request), refused)
            raise
        changes = not (reads or _is_marked(request, "changing_nothing"))
        if changes and notes_changes and wanted is Right.OPERATE:
            await begin_change(request, asking.audit, principal, route_of(request))

    return authorise_sender


async def administrator(request: Request, asking: Asked) -> Principal:
    """Who sends *request*, if it may everything.

    Raises:
        Refused: It may not; the audit log says so where it says what became of the change.
    """
    principal = await asking.principal(request)
    authorise_administrator(principal)
    return principal


Administrator = Annotated[Principal, Depends(administrator)]
"""A parameter of routes that change who may do what."""


def _is_marked(request: Request, mark: str) -> bool:
    """Whether the route of *request* was marked so, as by `gateway.routes.open_to_tenants`."""
    route = request.scope.get("route")
    return getattr(getattr(route, "endpoint", None), mark, False) is True


async def tenant_seen(request: Request, asking: Asked) -> str | None:
    """The tenant whose things alone who sends *request* sees; None: it sees those of all."""
    return (await asking.principal(request)).tenant or None


TenantSeen = Annotated[str | None, Depends(tenant_seen)]
"""A parameter of routes that are open to tenants."""


async def refuse_when_stopping(asking: Asked) -> None:
    """Refuse what begins something, where the gateway stops: a dependency of routes.

    Raises:
        AdapterUnavailable: It does.
    """
    if asking.draining():
        raise AdapterUnavailable("The gateway is stopping.")
