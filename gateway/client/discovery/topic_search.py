"""Search for topics: ask nodes and, if none answers, creators."""

import asyncio
from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing
from datetime import timedelta

from filters import Topic
from filters.queries import Conditions
from gateway.client.discovery.exchange import Exchange, OutgoingRequest
from gateway.client.discovery.search_results import Found, SearchResults
from gateway.client.errors import GatewayError
from mediation.discovery import (
    TOPICS,
    Query,
    Refusal,
    Scope,
    TopicDiscoveryRequest,
    TopicDiscoveryResponse,
    queries_of,
)
from mediation.model.expiry import Duration

ANSWERS_TIME = 2.0
"""Seconds to wait for answers to a query."""


class Search:
    """Topics as they are found: an asynchronous iterator, which is closed with `aclose`, and which
    no wait ends that is cancelled, by a time limit, say."""

    def __init__(self, found: AsyncGenerator[Found], results: SearchResults) -> None:
        self._found = found
        self._results = results
        self._coming: asyncio.Future[Found] | None = None
        """The next topic, where a wait for it was cancelled: within the generator that would have
        closed it."""

    @property
    def more(self) -> bool:
        """Whether one that answered so far knows more topics than its answer has, or did not look
        at all of them in its time; also where nothing was found."""
        return self._results.more

    def __aiter__(self) -> "Search":
        return self

    async def __anext__(self) -> Found:
        if self._coming is None:
            self._coming = asyncio.ensure_future(anext(self._found))
            self._coming.add_done_callback(_note_failure)
        await asyncio.wait((self._coming,))
        coming, self._coming = self._coming, None
        return coming.result()

    async def aclose(self) -> None:
        """Stop waiting for answers."""
        if self._coming is not None:
            self._coming.cancel()
            await asyncio.wait((self._coming,))
        await self._found.aclose()


def _note_failure(coming: "asyncio.Future[Found]") -> None:
    """Have asyncio log no failure of a search that nobody waits for any more."""
    if not coming.cancelled():
        coming.exception()


async def search(
    exchange: Exchange,
    query: Query,
    conditions: Conditions,
    nodes: Iterable[str],
    most: int | None,
    wait: float,
    results: SearchResults,
    *,
    creators: bool,
) -> AsyncGenerator[Found]:
    """Yield topics as they are found; see `Entity.discover`. *nodes* are asked; if there are none,
    all nodes."""
    scopes = (Scope.NODES, Scope.ENTITIES) if creators else (Scope.NODES,)
    for scope in scopes:
        places: list[tuple[Topic, str | None]] = [(TOPICS, None)]
        if scope is Scope.NODES:
            places = [(queries_of(node), node) for node in dict.fromkeys(nodes)] or places
        asked = [
            OutgoingRequest(_request(exchange, query, conditions, to, most, scope), topic)
            for topic, to in places
        ]
        left = {each.request.head.message_id for each in asked if each.request.head.to is not None}
        refusals: list[Refusal] = []
        answered = False
        answers = exchange.ask(asked, wait)
        async with aclosing(answers):
            async for answer in answers:
                left -= {answer.message.head.in_reply_to}
                if isinstance(answer.message, Refusal):
                    refusals.append(answer.message)
                elif isinstance(answer.message, TopicDiscoveryResponse):
                    answered = True
                    for found in results.new(answer.message):
                        yield found
                        if most is not None and len(results) >= most:
                            return
                if asked[0].request.head.to is not None and not left:
                    break  # Nobody else was asked.
        if answered:
            return
        if refusals:
            raise refused(refusals[0])


def _request(
    exchange: Exchange,
    query: Query,
    conditions: Conditions,
    to: str | None,
    most: int | None,
    scope: Scope,
) -> TopicDiscoveryRequest:
    return TopicDiscoveryRequest(
        exchange.head(to),
        query,
        created_after=conditions.created_after,
        created_before=conditions.created_before,
        expires_after=conditions.expires_after,
        expires_before=conditions.expires_before,
        validity_at_least=_duration(conditions.validity_at_least),
        validity_at_most=_duration(conditions.validity_at_most),
        valid_until=conditions.valid_until,
        creator=conditions.creator,
        max_results=most,
        scope=scope,
    )


def _duration(time: timedelta | None) -> Duration | None:
    return None if time is None else Duration(0, time)


def refused(refusal: Refusal) -> GatewayError:
    """Return the error that tells a program of a node's refusal."""
    text = f"{refusal.head.sender} refused: {refusal.text or refusal.reason.value}"
    return GatewayError(text, code=refusal.reason.value)
