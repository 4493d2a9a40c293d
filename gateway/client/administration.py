"""The JSON administration of a gateway: its subscriptions, mailboxes, dead letters, spool."""

import json
import ssl
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias
from urllib.parse import quote, urlencode

from lxml import etree

from filters import parse_document
from gateway.client.calling import TIMEOUT, Answer, NotStreamed, Speaker, shown, stranger
from gateway.client.credentials import Credentials
from gateway.client.errors import GatewayError
from gateway.client.pace import Pace
from gateway.client.server_sent_events import read_events

Record: TypeAlias = dict[str, Any]
"""A JSON object, as the gateway's ``/docs`` describes it."""

PAGE = 500
ELSEWHERE = "administration-elsewhere"
"""The reason that the public listener of a gateway gives."""
AT_A_TIME = 10_000
"""Dead letters that one request may name."""


SHOWN = 16 * 2**10
WHOLE = 2**31 - 1
"""Bytes of a payload and of an envelope that are shown, and that are shown of it whole."""
RECIPIENTS = 50
"""Subscriptions that one request asks about of a message."""
STEP = 5000
"""Dead letters that one request changes, about."""
Progress: TypeAlias = Callable[[int], None]
"""Called with the number of dead letters so far."""


@dataclass(frozen=True, slots=True)
class Letters:
    """A selection of dead letters: those of ``numbers``; or those that fit every other field that
    is set; or, with ``all``, all. The gateway refuses a selection that says nothing.

    ``topic`` is a topic expression of the Full dialect, ``since`` an instant in ISO 8601,
    ``message`` an id of a message: the publisher's, or the one that the consumer was told.
    """

    numbers: Collection[int] | None = None
    subscription: str | None = None
    topic: str | None = None
    namespaces: Mapping[str, str] | None = None
    reason: str | None = None
    since: str | None = None
    message: str | None = None
    all: bool = False

    def selections(self) -> Iterator[Record]:
        """Yield bodies of requests for this selection, each with few enough numbers."""
        said: Record = {
            name: getattr(self, name)
            for name in ("subscription", "topic", "reason", "since", "message")
            if getattr(self, name) is not None
        }
        if self.namespaces:
            said["namespaces"] = dict(self.namespaces)
        if self.all:
            said["all"] = True
        if self.numbers is None:
            yield said
            return
        every = list(self.numbers)
        for first in range(0, max(1, len(every)), AT_A_TIME):
            yield {**said, "numbers": every[first : first + AT_A_TIME]}


@dataclass(frozen=True, slots=True)
class Changed:
    """The number of dead letters that were, or would be, changed, in all and by reason."""

    number: int
    reasons: Mapping[str, int]


class Administration(Speaker):
    """A gateway's administration.

    Args:
        url: Of the gateway, ``http://127.0.0.1:8080``.
        page: How many records one request asks for.
        tls: For a gateway at ``https``; what the system trusts, when None.
    """

    def __init__(
        self,
        url: str,
        *,
        timeout: float = TIMEOUT,
        page: int = PAGE,
        tls: ssl.SSLContext | None = None,
        proxy: str | None = None,
        credentials: Credentials | None = None,
    ) -> None:
        super().__init__(url, timeout=timeout, tls=tls, proxy=proxy, credentials=credentials)
        self._page = page

    async def overview(self) -> Record:
        """The state of the gateway as a whole.

        Raises:
            GatewayError: here as in every other method.
        """
        return await self._ask("GET", "overview")

    async def subscriptions(self, **selected: str | None) -> AsyncIterator[Record]:
        """Subscriptions in the order of their ids, page after page: all, or those for which all
        that is *selected* holds: ``topic``, ``consumer``, ``spec``, ``state``, ``owner``."""
        query = {name: value for name, value in selected.items() if value is not None}
        async for record in self._pages("subscriptions", "subscriptions", query):
            yield record

    async def delete_subscriptions(
        self, *, all: bool = False, dry_run: bool = False, **selected: str | None
    ) -> AsyncIterator[str]:
        """End the subscriptions for which all that is *selected* holds, as `subscriptions` says, or
        *all*; the ids of those that ended, or with *dry_run* would."""
        query = {name: value for name, value in selected.items() if value is not None}
        query |= {"all": "true"} if all else {}
        query |= {"dry_run": "true"} if dry_run else {}
        while True:
            page = await self._ask("DELETE", f"subscriptions?{urlencode(query)}")
            for id_ in page.get("ids") or ():
                yield str(id_)
            if not page.get("next") or page["next"] == query.get("after"):
                return
            query["after"] = page["next"]

    async def subscription(self, id_: str) -> Record:
        """One subscription, with what became of its deliveries."""
        return await self._ask("GET", f"subscriptions/{_checked(id_, 'subscription')}", of=id_)

    async def explain(
        self,
        id_: str,
        payload: bytes | None = None,
        *,
        topic: str | None = None,
        namespaces: Mapping[str, str] | None = None,
    ) -> list[Record]:
        """Why a subscription gets messages or does not, step by step; with a *payload*, whether it
        would get that, published on *topic*.

        Raises:
            Refused: The payload is none.
        """
        asked: Record = {}
        if payload is not None:
            # As it would be taken in, whatever its encoding.
            asked["payload"] = etree.tostring(parse_document(payload), encoding="unicode")
        if topic is not None:
            asked["topic"] = topic
        if namespaces:
            asked["namespaces"] = dict(namespaces)
        path = f"subscriptions/{_checked(id_, 'subscription')}/explain"
        octets = json.dumps(asked, ensure_ascii=False).encode()
        answer = await self._call("POST", path, octets, of=id_)
        steps = _json(answer.body)
        if not isinstance(steps, list):
            raise stranger(self._url, answer)
        return steps

    async def pause(self, id_: str, hold: bool | None = None) -> Record:
        """Pause a subscription; with *hold* what is published meanwhile waits for it."""
        return await self._change_subscription(id_, "pause", {"hold": hold})

    async def resume(self, id_: str) -> Record:
        """Resume a subscription."""
        return await self._change_subscription(id_, "resume", {})

    async def renew(self, id_: str, expires: str | None = None) -> Record:
        """Move the end of a subscription's lease; None leaves it to the gateway."""
        return await self._change_subscription(id_, "renew", {"expires": expires})

    async def _change_subscription(self, id_: str, verb: str, said: Record) -> Record:
        path = f"subscriptions/{_checked(id_, 'subscription')}/{verb}"
        return await self._ask("POST", path, json.dumps(said).encode(), of=id_)

    async def attempts(self, id_: str) -> list[Record]:
        """The last attempts to deliver to a subscription, the latest first."""
        path = f"subscriptions/{_checked(id_, 'subscription')}/attempts"
        return list(_listed(await self._ask("GET", path, of=id_), "attempts", self._url))

    async def send_again(self, id_: str, message: str, *, force: bool = False) -> Record:
        """Make one delivery once more, in one attempt, and say how that ended.

        Args:
            force: Although the filter of the subscription does not take the message.
        """
        asked: Record = {"message": message, **({"force": True} if force else {})}
        return await self._change_subscription(id_, "send-again", asked)

    async def begin_replay(self, id_: str, wanted: Record) -> Record:
        """Replay a range of the archive into a subscription; *wanted* is what
        ``POST /api/v1/subscriptions/{id}/replay`` takes. Returns how it stands with it."""
        return await self._change_subscription(id_, "replay", wanted)

    async def replay(self, id_: str) -> Record:
        """How it stands with the last replay into a subscription."""
        return await self._ask("GET", self._replay_path(id_), of=id_)

    async def cancel_replay(self, id_: str) -> Record:
        """Cancel the replay into a subscription; how it stands with it then."""
        return await self._ask("DELETE", self._replay_path(id_), of=id_)

    def _replay_path(self, id_: str) -> str:
        return f"subscriptions/{_checked(id_, 'subscription')}/replay"

    async def delete_subscription(self, id_: str) -> None:
        """End a subscription; its subscriber is told, where it asked for that."""
        await self._call("DELETE", f"subscriptions/{_checked(id_, 'subscription')}", of=id_)

    async def mailboxes(self) -> AsyncIterator[Record]:
        """All mailboxes in the order of their ids, page after page."""
        async for record in self._pages("mailboxes", "mailboxes", {}):
            yield record

    async def mailbox(self, id_: str) -> Record:
        """One mailbox."""
        return await self._ask("GET", f"mailboxes/{_checked(id_, 'mailbox')}", of=id_)

    async def delete_mailbox(self, id_: str) -> None:
        """Forget a mailbox with all that lies in it, and end what fills it."""
        await self._call("DELETE", f"mailboxes/{_checked(id_, 'mailbox')}", of=id_)

    async def tenants(self) -> AsyncIterator[Record]:
        """All tenants but the default one, by their names; of a tenant's user, its own."""
        for record in (await self._ask("GET", "tenants"))["tenants"]:
            yield record

    async def tenant(self, name: str) -> Record:
        """One tenant, and what it uses of its quotas."""
        return await self._ask("GET", f"tenants/{_checked(name, 'tenant')}", of=name)

    async def users(self) -> AsyncIterator[Record]:
        """All users in the order of their names, page after page."""
        async for record in self._pages("users", "users", {}):
            yield record

    async def keep_user(self, wanted: Record) -> Record:
        """Keep a user in the gateway's store, or change one there; *wanted* is what
        ``POST /api/v1/users`` takes."""
        return await self._ask("POST", "users", json.dumps(wanted).encode())

    async def remove_user(self, name: str) -> None:
        """Remove a user from the gateway's store, with its keys there."""
        await self._call("DELETE", f"users/{quote(name, safe='')}")

    async def keys(self) -> AsyncIterator[Record]:
        """All API keys, without themselves, in the order of their ids, page after page."""
        async for record in self._pages("keys", "keys", {}):
            yield record

    async def add_key(self, wanted: Record) -> Record:
        """Make an API key, which is told this once; *wanted* is what ``POST /api/v1/keys``
        takes."""
        return await self._ask("POST", "keys", json.dumps(wanted).encode())

    async def rotate_key(self, id_: str, hours: float) -> Record:
        """Make an API key in place of another, which is taken for *hours* more."""
        body = json.dumps({"hours": hours}).encode()
        return await self._ask("POST", f"keys/{_checked(id_, 'key')}/rotate", body, of=id_)

    async def remove_key(self, id_: str) -> None:
        """Remove an API key from the gateway's store."""
        await self._call("DELETE", f"keys/{_checked(id_, 'key')}", of=id_)

    async def rules(self) -> AsyncIterator[Record]:
        """All rules in the order in which they are asked, page after page."""
        async for record in self._pages("rights", "rules", {}):
            yield record

    async def add_rule(self, wanted: Record) -> Record:
        """Add a rule to the gateway's store; *wanted* is what ``POST /api/v1/rights`` takes."""
        return await self._ask("POST", "rights", json.dumps(wanted).encode())

    async def remove_rule(self, id_: str) -> None:
        """Remove a rule from the gateway's store."""
        await self._call("DELETE", f"rights/{_checked(id_, 'rule')}", of=id_)

    async def check_right(self, **asked: Any) -> Record:
        """Whether a ``principal`` may do something, by its ``right``, ``topic``, ``role`` and
        ``tenant``, and which rule says so."""
        said = {name: value for name, value in asked.items() if value is not None}
        return await self._ask("GET", f"rights/check?{urlencode(said, doseq=True)}")

    async def sources(self) -> AsyncIterator[Record]:
        """All sources in the order of their ids, page after page."""
        async for record in self._pages("sources", "sources", {}):
            yield record

    async def source(self, id_: str) -> Record:
        """One source, and how it stands."""
        return await self._ask("GET", f"sources/{_checked(id_, 'source')}", of=id_)

    async def add_source(self, wanted: Record) -> Record:
        """Subscribe the gateway at a producer; *wanted* is what ``POST /api/v1/sources`` takes."""
        return await self._ask("POST", "sources", json.dumps(wanted).encode())

    async def remove_source(self, id_: str) -> None:
        """Remove a source; its producer is told."""
        await self._call("DELETE", f"sources/{_checked(id_, 'source')}", of=id_)

    async def channels(self) -> AsyncIterator[Record]:
        """All channels with names, in the order of these, page after page."""
        async for record in self._pages("channels", "channels", {}):
            yield record

    async def add_channel(self, wanted: Record) -> Record:
        """Make a channel; *wanted* is what ``POST /api/v1/channels`` takes."""
        return await self._ask("POST", "channels", json.dumps(wanted).encode())

    async def remove_channel(self, name: str) -> None:
        """Remove a channel, and end the subscriptions at it."""
        _checked(name.replace(".", "").replace("_", ""), "channel")
        await self._call("DELETE", f"channels/{name}", of=name)

    async def links(self) -> AsyncIterator[Record]:
        """All links of channels in the order of their ids, page after page."""
        async for record in self._pages("links", "links", {}):
            yield record

    async def add_link(self, wanted: Record) -> Record:
        """Link a channel; *wanted* is what ``POST /api/v1/links`` takes."""
        return await self._ask("POST", "links", json.dumps(wanted).encode())

    async def remove_link(self, id_: str) -> None:
        """Cut a link; the other side is told, as far as that can be."""
        await self._call("DELETE", f"links/{_checked(id_, 'link')}", of=id_)

    async def sequences(self) -> AsyncIterator[Record]:
        """All sequences, from publishers and to subscribers, in the order of their ids, page after
        page."""
        async for record in self._pages("sequences", "sequences", {}):
            yield record

    async def sequence(self, id_: str) -> Record:
        """One sequence, and how far it is."""
        return await self._ask("GET", f"sequences/{_checked(id_, 'sequence')}", of=id_)

    async def terminate_sequence(self, id_: str) -> None:
        """End a sequence for its maker; of a subscriber, with its subscription."""
        await self._call("DELETE", f"sequences/{_checked(id_, 'sequence')}", of=id_)

    async def topics(self) -> AsyncIterator[Record]:
        """All topics that are known there, in the order of their ids, page after page."""
        async for record in self._pages("topics", "topics", {}):
            yield record

    async def topic(self, id_: str) -> Record:
        """One topic, and whose it is."""
        return await self._ask("GET", f"topics/{_checked(id_, 'topic')}", of=id_)

    async def trace(self, message: str, *, content: bool = False) -> list[Record]:
        """What became of a message, by an id of it; with *content* what is in it, too, where it is
        kept."""
        query = "?content=true" if content else ""
        answer = await self._ask("GET", f"messages/{quote(message, safe='')}{query}", of=message)
        return list(_listed(answer, "messages", self._url))

    async def recipients(self, message: str, matched: bool | None = None) -> AsyncIterator[Record]:
        """What each subscription makes of a message that is kept, in the order of their ids: all,
        those that get it, or those that do not."""
        query: Record = {"message": message}
        if matched is not None:
            query["matched"] = "true" if matched else "false"
        async for record in self._pages("recipients", "recipients", query, RECIPIENTS):
            yield record

    async def tap(self, **wanted: Any) -> AsyncGenerator[tuple[str, Record], None]:
        """What passes, as it passes: pairs of ``message`` or ``lost``, and what it says.

        Args:
            wanted: The parameters of ``GET /api/v1/tap``.
        """
        query = urlencode({name: value for name, value in wanted.items() if value}, doseq=True)
        lines = self._caller.lines(
            f"{self._url}/api/v1/tap?{query}", {"Accept": "text/event-stream"}
        )
        try:
            async for event, data in read_events(lines):
                record = _json(data)
                if isinstance(record, dict):
                    yield event, record
        except NotStreamed as error:
            raise self._refusal(error.answer) from error

    async def dead_letters(
        self, subscription: str | None = None, *, letters: Letters | None = None
    ) -> AsyncIterator[Record]:
        """Dead letters in the order in which they died: of one subscription, of a selection without
        numbers, or all."""
        chosen: Record = {"subscription": subscription} if subscription else {}
        if letters is not None:
            [chosen] = letters.selections()
            chosen.pop("all", None)
            chosen["ns"] = [f"{name}={uri}" for name, uri in chosen.pop("namespaces", {}).items()]
        async for record in self._pages("deadletters", "dead_letters", chosen):
            yield record

    async def dead_letter(self, number: int, *, whole: bool = False) -> Record:
        """One dead letter with its payload and the envelope that was sent; unless *whole*, only the
        first `SHOWN` bytes of each."""
        query = urlencode({"limit": WHOLE}) if whole else urlencode({"limit": SHOWN})
        try:
            return await self._ask("GET", f"deadletters/{number}?{query}")
        except GatewayError as error:
            if error.status != 404:
                raise
            raise GatewayError(f"there is no dead letter {number}", status=404) from error

    async def redrive(
        self,
        letters: Letters,
        *,
        dry_run: bool = False,
        progress: Progress | None = None,
        rate: float | None = None,
    ) -> Changed:
        """Deliver dead letters again; how many are on their way. With *dry_run*, how many would
        be.

        Args:
            rate: How many a second at most; None: as many as there are.
        """
        return await self._change("deadletters/redrive", letters, dry_run, progress, rate)

    async def purge(
        self, letters: Letters, *, dry_run: bool = False, progress: Progress | None = None
    ) -> Changed:
        """Forget dead letters; how many are gone. With *dry_run*, how many would be."""
        return await self._change("deadletters/purge", letters, dry_run, progress)

    async def destinations(self) -> AsyncIterator[Record]:
        """Destinations to which attempts failed, whose hosts are on probation or did not agree, or
        about which an operator has decided."""
        answer = await self._ask("GET", "destinations?limit=1000")
        for record in answer["destinations"]:
            yield record

    async def approve_destination(self, host: str) -> Record:
        """Let *host* be sent to without its agreement: a host, or a destination as it is listed."""
        return await self._ask("POST", f"destinations/{quote(host, safe='')}/approve")

    async def forbid_destination(self, host: str) -> Record:
        """Let nothing be sent to *host* any more."""
        return await self._ask("POST", f"destinations/{quote(host, safe='')}/forbid")

    async def reset_destination(self, host: str) -> Record:
        """Forget what was decided about *host*."""
        return await self._ask("POST", f"destinations/{quote(host, safe='')}/reset")

    async def spool(self, state: str | None = None) -> AsyncIterator[Record]:
        """Messages of the spool in the order in which they came: ``waiting``, ``refused``, or
        both."""
        async for record in self._pages("spool", "messages", {"state": state} if state else {}):
            yield record

    async def spooled(self, number: int, *, whole: bool = False) -> Record:
        """One message of the spool; unless *whole*, only the first `SHOWN` bytes of it."""
        query = urlencode({"limit": WHOLE if whole else SHOWN})
        try:
            return await self._ask("GET", f"spool/{number}?{query}")
        except GatewayError as error:
            if error.status != 404:
                raise
            raise GatewayError(f"there is no message {number} in the spool", status=404) from error

    async def retry_spooled(self, numbers: Collection[int] | None) -> int:
        """Have messages that are refused published again, *numbers* of them or all; how many."""
        return await self._change_spool("spool/retry", numbers)

    async def discard_spooled(self, numbers: Collection[int] | None) -> int:
        """Forget messages of the spool, *numbers* or all that are refused; how many."""
        return await self._change_spool("spool/discard", numbers)

    async def _change_spool(self, path: str, numbers: Collection[int] | None) -> int:
        request = {"all": True} if numbers is None else {"numbers": sorted(numbers)}
        answer = await self._ask("POST", path, json.dumps(request).encode())
        return int(answer.get("number") or 0)

    async def _change(
        self,
        path: str,
        letters: Letters,
        dry_run: bool,
        progress: Progress | None,
        rate: float | None = None,
    ) -> Changed:
        reasons: Counter[str] = Counter()
        pace = Pace(rate)
        for selection in letters.selections():
            request = {**selection, "dry_run": dry_run, "limit": pace.step(STEP)}
            while True:
                answer = await self._ask("POST", path, json.dumps(request).encode())
                found = answer.get("reasons") or {}
                reasons.update(found)
                await pace.keep(sum(found.values()))
                if progress is not None:
                    progress(reasons.total())
                if not answer.get("next"):
                    break
                request["after"] = answer["next"]
        return Changed(reasons.total(), dict(sorted(reasons.items())))

    async def _pages(
        self, path: str, name: str, query: Record, limit: int | None = None
    ) -> AsyncIterator[Record]:
        query = {**query, "limit": limit or self._page}
        while True:
            page = await self._ask("GET", f"{path}?{urlencode(query, doseq=True)}")
            for record in _listed(page, name, self._url):
                yield record
            if not page.get("next") or page["next"] == query.get("after"):
                return
            query = {**query, "after": page["next"]}

    async def _ask(
        self, method: str, path: str, body: bytes | None = None, *, of: str = ""
    ) -> Record:
        answer = await self._call(method, path, body, of=of)
        record = _json(answer.body)
        if not isinstance(record, dict):
            raise stranger(self._url, answer)
        return record

    async def _call(
        self, method: str, path: str, body: bytes | None = None, *, of: str = ""
    ) -> Answer:
        headers = {"Accept": "application/json"}
        if body is not None:
            headers["Content-Type"] = "application/json"
        answer = await self._caller.call(
            method, f"{self._url}/api/v1/{path}", body=body, headers=headers
        )
        if 200 <= answer.status < 300:
            return answer
        raise self._refusal(answer, of)

    def _refusal(self, answer: Answer, of: str = "") -> GatewayError:
        """The error for an *answer* that is one; *of* names what was asked for."""
        detail = _detail(answer)
        if detail is None:
            return stranger(self._url, answer)
        text = f"{of}: {detail}" if of else f"{shown(self._url)} refused: {detail}"
        code = str(_json(answer.body).get("reason") or "")
        if code == ELSEWHERE:
            text = (
                f"{shown(self._url)} has no administration: it is on a listener of its own, see "
                "admin_host and admin_port; without them it is on loopback, ten ports behind"
            )
        return GatewayError(text, status=answer.status, code=code)


def _json(octets: bytes) -> Any:
    """The value of *octets*; None where they are not JSON."""
    try:
        return json.loads(octets)
    except ValueError:
        return None


def _checked(id_: str, of: str) -> str:
    """*id_*, which can stand in a path: another is nothing's."""
    if not (id_.isascii() and id_.replace("-", "").isalnum()):
        raise GatewayError(f"{id_}: There is no such {of}.", status=404)
    return id_


def _listed(page: Record, name: str, url: str) -> list[Record]:
    records = page.get(name)
    if not isinstance(records, list):
        raise GatewayError(f"{shown(url)} is not a Dragoman gateway: its list has no {name}")
    return records


def _detail(answer: Answer) -> str | None:
    """The text of the gateway's refusal; None where the answer is not one of a gateway."""
    body = _json(answer.body)
    said = body.get("detail") if isinstance(body, dict) else None
    if not isinstance(said, str) or said == "Not Found":  # FastAPI's word for an unknown path
        return None
    return said
