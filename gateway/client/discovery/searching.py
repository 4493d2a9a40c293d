"""Topics of others: asked for at nodes, then of their creators."""

from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing
from datetime import timedelta

from filters import Topic
from filters.queries import Conditions
from gateway.client.discovery.exchange import Asked, Exchange
from gateway.client.discovery.found import Findings, Found
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
"""Seconds for answers to a query."""


class Search:
    """Topics as they are found: an asynchronous iterator, which is closed with `aclose`."""

    def __init__(self, found: AsyncGenerator[Found], findings: Findings) -> None:
        self._found = found
        self._findings = findings

    @property
    def more(self) -> bool:
        """Whether somebody who answered so far knows more than was answered, or did not look at
        all in its time; also where nothing was found."""
        return self._findings.more

    def __aiter__(self) -> "Search":
        return self

    async def __anext__(self) -> Found:
        return await anext(self._found)

    async def aclose(self) -> None:
        """Wait for no more answers."""
        await self._found.aclose()


async def search(
    exchange: Exchange,
    query: Query,
    conditions: Conditions,
    nodes: Iterable[str],
    most: int | None,
    wait: float,
    findings: Findings,
    *,
    creators: bool,
) -> AsyncGenerator[Found]:
    """Yield topics as they are found; see `Entity.discover`. *nodes* are asked, all where there is
    none."""
    scopes = (Scope.NODES, Scope.ENTITIES) if creators else (Scope.NODES,)
    for scope in scopes:
        places: list[tuple[Topic, str | None]] = [(TOPICS, None)]
        if scope is Scope.NODES:
            places = [(queries_of(node), node) for node in dict.fromkeys(nodes)] or places
        asked = [
            Asked(_request(exchange, query, conditions, to, most, scope), topic)
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
                    for found in findings.new(answer.message):
                        yield found
                        if most is not None and len(findings) >= most:
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
    """A node's refusal, in words."""
    text = f"{refusal.head.sender} refused: {refusal.text or refusal.reason.value}"
    return GatewayError(text, code=refusal.reason.value)
