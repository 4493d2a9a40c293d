"""Changes that are asked for over HTTP: ids of requests, and what the audit log says of each change
before it is made, and when it is answered.

    {"did": "DELETE /api/v1/sources/{id}", "what": "5b0f", "result": "asked for", "request": "c41d"}
    {"did": "DELETE /api/v1/sources/{id}", "what": "5b0f", "result": "done", "request": "c41d"}

The first is on the disk before anything is changed, so that a gateway that is killed leaves it. The
second follows however the request ends.
"""

import json
import re
import secrets
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import parse_qs

from fastapi import Request
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gateway.http import HttpSettings, from_proxy
from gateway.observing.request_ids import current_request, request_under_way
from gateway.security.audit import NO_AUDIT, Audit
from gateway.security.principals import Principal
from gateway.security.resource_addresses import shown, shown_in
from gateway.security.rights import EVERYBODY, NOBODY_IN_PARTICULAR
from gateway.web.validation import StrictRequest

REQUEST_ID = "X-Request-Id"
"""The field of a request and of its answer that has the id."""
PATHS = ("/api/", "/console", "/mailboxes", "/events/subscriptions", "/events/consents")
"""What the paths begin with of requests that have ids."""
ADDRESSES = ("url", "location", "sink", "consumer", "destination")
"""Fields, and parts of paths, that have an address: its login and its query may be a secret."""
TOLD = (
    "dry_run", "all", "numbers", "id", "held", "name", "user", *ADDRESSES, "action", "subscription",
    "message", "topic", "topics", "reason", "since", "from", "to", "spec", "state", "owner", "who",
    "may", "roles", "tenant", "authority", "channel", "days", "hours", "expires", "hold", "force",
    "lease", "rate", "source", "types", "publish_on", "profile", "mode", "existing", "resource",
    "actions", "protocol", "allow_http", "namespaces", "limit", "after",
)  # fmt: skip
"""Fields of a request that the audit log tells, those first that say most. A new field of a route
is one of them, or one that the tests name as withheld."""
SECRETS = ("password", "token", "bearer")
"""Those of which it tells that they were there."""
NESTED = "config"
"""The field whose own are told, too."""
LONGEST_VALUE = 96
"""Characters of one field that are told."""
MOST_VALUES = 20
"""Values of a list that are told."""
ANSWER = 2**16
"""Bytes of an answer that is looked at for what was made, or why it was refused."""
UNANSWERED = "failed: it ended without an answer, and may have been carried out"
_CHANGES = "dragoman.changes"
"""The member of a scope that has the changes for which its request asks."""
_MASK = "***"
_ID = re.compile(r"[A-Za-z0-9._:/+=-]{1,64}")
_PLAIN = re.compile(r"""[^\s"'=\\\x00-\x1f\x7f-\x9f]+""")
_AUTHORITY = re.compile(r"(\[[0-9A-Fa-f:.]*\]|[^\s:\[\]@]*)(:[0-9*]*)?")


class Change:
    """A change that was asked for. What became of it is noted once."""

    def __init__(self, audit: Audit, principal: Principal, did: str, ids: str, asked: str) -> None:
        self._audit = audit
        self._principal = principal
        self._did = did
        self._ids = ids
        self._asked = asked
        self._open = audit.intend(principal, did, _joined(ids, asked))

    @property
    def recorded(self) -> bool:
        """Whether it has a record, and none yet of what became of it."""
        return self._open

    def settle(self, result: str, answer: Any = None) -> None:
        """Note the result, with the id of what was made, or the number of what was chosen, where
        the *answer* has one."""
        if not self._open:
            return
        self._open = False
        ids, number = self._ids, ""
        if isinstance(answer, dict) and result == "done":
            made = str(answer.get("id") or answer.get("name") or "")
            if made and made != ids:
                ids = f"{ids} -> {made}" if ids else made
            if isinstance(answer.get("number"), int):
                number = f"({answer['number']})"
        self._audit.settle(self._principal, self._did, _joined(ids, number, self._asked), result)


async def begin_change(request: Request, audit: Audit, principal: Principal, did: str) -> None:
    """Have the audit log note that *principal* asks for a change; that is on the disk on return.

    Raises:
        HTTPException: 400: the body cannot be read.
    """
    if audit is NO_AUDIT:
        return
    ids = " ".join(_told(str(one), name) for name, one in request.path_params.items())
    change = Change(audit, principal, did, ids, await _asked_in(request))
    request.scope[_CHANGES].append(change)
    if change.recorded:
        await audit.on_disk()


class ChangeMiddleware:
    """Gives requests ids, and has the audit log note what became of changes for which they ask.

    Args:
        settings: Say whose id of a request is taken: a configured proxy's.
    """

    def __init__(self, app: ASGIApp, settings: HttpSettings) -> None:
        self._app = app
        self._settings = settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not scope["path"].startswith(PATHS):
            await self._app(scope, receive, send)
            return
        # What the console asks of the administration is of the page's request.
        id_ = current_request() or self._said_id(scope) or secrets.token_hex(8)
        changes: list[Change] = []
        scope[_CHANGES] = changes
        answer = _Answer()

        async def send_with_id(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message)[REQUEST_ID] = id_
            if changes and answer.ends_with(message):
                result, said = answer.result()
                for one in changes:
                    one.settle(result, said)
            await send(message)

        with request_under_way(id_):
            try:
                await self._app(scope, receive, send_with_id)
            finally:
                for one in changes:
                    one.settle(UNANSWERED)

    def _said_id(self, scope: Scope) -> str:
        if not from_proxy(scope, self._settings):
            return ""
        said = Headers(scope=scope).get(REQUEST_ID, "")
        return said if _ID.fullmatch(said) else ""


class _Answer:
    """An answer as it is sent."""

    def __init__(self) -> None:
        self._status = 0
        self._body = b""

    def ends_with(self, message: Message) -> bool:
        """Whether it is whole with *message*."""
        if message["type"] == "http.response.start":
            self._status = message["status"]
        elif message["type"] == "http.response.body":
            if len(self._body) <= ANSWER:
                self._body += message.get("body", b"")
            return not message.get("more_body", False)
        return False

    def result(self) -> tuple[str, Any]:
        """What the audit log says of it, and its JSON; None where that is none, or long."""
        said = None
        if len(self._body) <= ANSWER:
            try:
                said = json.loads(self._body)
            except ValueError:
                said = None
        if self._status < 400:
            return "done", said
        detail = said.get("detail", "") if isinstance(said, dict) else ""
        kind = "refused" if self._status < 500 else "failed"
        return f"{kind}: {_joined(str(self._status), shown_in(str(detail)))}", said


async def _asked_in(request: Request) -> str:
    """What *request* asks for, in a line: the fields of its JSON, its form, or its query. What
    its route does not read is not told: it would hide what that does."""
    fields: Mapping[str, Any] = {}
    if isinstance(request, StrictRequest):
        body = await request.json() if await request.body() else None
        fields = body if isinstance(body, dict) else {}
    elif request.url.path.startswith("/console"):
        fields = parse_qs((await request.body()).decode("latin-1"))
    else:
        fields = parse_qs(request.url.query)
    return " ".join(told_fields(fields))


def told_fields(fields: Mapping[str, Any]) -> Iterator[str]:
    """Yield what the audit log tells of *fields*, ``name=value`` each; secrets never."""
    nested = fields.get(NESTED)
    if isinstance(nested, dict):
        fields = {**nested, **fields}
    for name in TOLD:
        value = fields.get(name)
        if isinstance(value, dict):
            value = [f"{key}={one}" for key, one in value.items()]
        text = _told_list(value, name) if isinstance(value, list) else _cut(_told(value, name))
        if text:
            yield f"{name}={text}"
    for name in SECRETS:
        if fields.get(name) not in (None, ""):
            yield f"{name}={_MASK}"


def _told_list(values: list[Any], name: str) -> str:
    """Values in a line: first those that speak of everybody, which none before them may hide, and
    how many there are, where not all are told."""
    ordered = sorted(values, key=lambda one: one not in (EVERYBODY, NOBODY_IN_PARTICULAR))
    text, told = "", 0
    for each in filter(None, (_told(one, name) for one in ordered)):
        if told == MOST_VALUES or (text and len(text) + len(each) > LONGEST_VALUE):
            break
        text, told = f"{text},{each}" if text else each, told + 1
    return text if told == len(values) else f"{text},... {len(values)}"


def _told(value: Any, name: str) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return str(value)
    return told_value(value, address=name in ADDRESSES) if isinstance(value, str) else ""


def told_value(text: str, *, address: bool = False) -> str:
    """*text* in a record: in quotes where it could be taken for more than one; of an address no
    login and no query."""
    if address or "://" in text:
        text = _told_address(text)
    text = _cut(text)
    return text if not text or _PLAIN.fullmatch(text) else json.dumps(text, ensure_ascii=False)


def _told_address(text: str) -> str:
    """*text*, which should be an address, without what may be a secret in it; where nobody knows
    what is what, nothing of it."""
    place = re.split("[?#]", text, maxsplit=1)[0]
    scheme, colon, rest = place.rpartition("://")
    if not colon and "@" not in rest:
        return place if place == text else f"{place}?{_MASK}"
    authority, slash, path = (rest if colon else rest.lstrip("/")).partition("/")
    authority = authority.rpartition("@")[2]
    odd = "@" in path and (not colon or ":" in authority)  # A password may have had the slash.
    if odd or "://" in scheme or not _AUTHORITY.fullmatch(authority):
        return _MASK
    more = "" if place == text else f"?{_MASK}"
    return shown(f"{scheme}{colon}{authority}{slash}{path}") + more


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST_VALUE else text[: LONGEST_VALUE - 3] + "..."


def _joined(*texts: str) -> str:
    return " ".join(filter(None, texts))
