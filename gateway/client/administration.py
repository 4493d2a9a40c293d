"""The JSON administration of a gateway: its subscriptions, mailboxes and dead letters."""

import json
import ssl
from collections.abc import AsyncIterator, Collection
from typing import Any, Self, TypeAlias
from urllib.parse import urlencode

from gateway.client.calling import TIMEOUT, Answer, Caller, base_url, shown, stranger
from gateway.client.errors import GatewayError

Record: TypeAlias = dict[str, Any]
"""A JSON object, as the gateway's ``/docs`` describes it."""

PAGE = 500
AT_A_TIME = 10_000
"""Dead letters that one request may name."""


class Administration:
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
    ) -> None:
        self._url = base_url(url)
        self._page = page
        self._caller = Caller(timeout=timeout, tls=tls)

    async def __aenter__(self) -> Self:
        await self._caller.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._caller.__aexit__(*error)

    async def subscriptions(self) -> AsyncIterator[Record]:
        """All subscriptions in the order of their ids, page after page.

        Raises:
            GatewayError: here as in every other method.
        """
        async for record in self._pages("subscriptions", "subscriptions", {}):
            yield record

    async def subscription(self, id_: str) -> Record:
        """One subscription, with what became of its deliveries."""
        return await self._ask("GET", f"subscriptions/{_checked(id_, 'subscription')}", of=id_)

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

    async def dead_letters(self, subscription: str | None = None) -> AsyncIterator[Record]:
        """Dead letters in the order in which they died, of one subscription or of all."""
        chosen = {"subscription": subscription} if subscription else {}
        async for record in self._pages("deadletters", "dead_letters", chosen):
            yield record

    async def dead_letter(self, number: int) -> Record:
        """One dead letter."""
        query = urlencode({"after": number - 1, "limit": 1})
        page = await self._ask("GET", f"deadletters?{query}")
        for record in _listed(page, "dead_letters", self._url):
            if record.get("number") == number:
                return record
        raise GatewayError(f"there is no dead letter {number}", status=404)

    async def redrive(self, numbers: Collection[int] | None = None) -> int:
        """Deliver dead letters again, those of *numbers* or all; how many are on their way."""
        return await self._change("deadletters/redrive", numbers)

    async def purge(self, numbers: Collection[int] | None = None) -> int:
        """Forget dead letters, those of *numbers* or all; how many are gone."""
        return await self._change("deadletters/purge", numbers)

    async def _change(self, path: str, numbers: Collection[int] | None) -> int:
        if numbers is None:
            selections: list[Record] = [{"numbers": None}]
        else:
            every = list(numbers)
            selections = [
                {"numbers": every[n : n + AT_A_TIME]} for n in range(0, len(every), AT_A_TIME)
            ]
        changed = 0
        for selection in selections:
            answer = await self._ask("POST", path, json.dumps(selection).encode())
            changed += int(answer.get("number", 0))
        return changed

    async def _pages(self, path: str, name: str, query: Record) -> AsyncIterator[Record]:
        while True:
            page = await self._ask("GET", f"{path}?{urlencode({**query, 'limit': self._page})}")
            for record in _listed(page, name, self._url):
                yield record
            if not page.get("next") or page["next"] == query.get("after"):
                return
            query = {**query, "after": page["next"]}

    async def _ask(
        self, method: str, path: str, body: bytes | None = None, *, of: str = ""
    ) -> Record:
        answer = await self._call(method, path, body, of=of)
        try:
            record = json.loads(answer.body)
        except ValueError:
            record = None
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
        detail = _detail(answer)
        if detail is None:
            raise stranger(self._url, answer)
        text = f"{of}: {detail}" if of else f"{shown(self._url)} refused: {detail}"
        raise GatewayError(text, status=answer.status)


def _checked(id_: str, of: str) -> str:
    """*id_*, which can stand in a path: another is nothing's."""
    if not (id_.isascii() and id_.isalnum()):
        raise GatewayError(f"{id_}: There is no such {of}.", status=404)
    return id_


def _listed(page: Record, name: str, url: str) -> list[Record]:
    records = page.get(name)
    if not isinstance(records, list):
        raise GatewayError(f"{shown(url)} is not a Dragoman gateway: its list has no {name}")
    return records


def _detail(answer: Answer) -> str | None:
    """What the gateway says is wrong; None where the answer is not one of a gateway."""
    try:
        said = json.loads(answer.body)["detail"]
    except (ValueError, KeyError, TypeError):
        return None
    if isinstance(said, list) and said and isinstance(said[0], dict):  # FastAPI's validation
        said = said[0].get("msg")
    if not isinstance(said, str) or said == "Not Found":  # FastAPI's word for an unknown path
        return None
    return said
