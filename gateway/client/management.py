"""The management of subscriptions in SOAP: what a gateway offers where its JSON administration is
on a listener of its own. A stranger sees and ends what it subscribed itself."""

from collections.abc import AsyncIterator, Mapping
from types import MappingProxyType

from filters import Refused
from gateway.client.administration import Record
from gateway.client.calling import Speaker, shown, stranger
from gateway.client.errors import GatewayError
from mediation.client import (
    MANAGEMENT_SOAP,
    AnsweredFault,
    ListedSubscription,
    ManagedPage,
    read_managed,
    write_delete_subscriptions,
    write_list_subscriptions,
)
from mediation.soap.envelopes import http_headers

PAGE = 1000
"""Subscriptions of one answer."""


class Management(Speaker):
    """Lists and ends subscriptions by ListSubscriptions and DeleteSubscriptions."""

    async def subscriptions(self, **selected: str | None) -> AsyncIterator[Record]:
        """Subscriptions, as `Administration.subscriptions` has them, with what is told here.

        Raises:
            GatewayError: here as in the other methods.
        """
        after: str | None = ""
        while after is not None:
            records, following = await self.page(after, selected=selected)
            for record in records:
                yield record
            after = following if following != after else None

    async def page(
        self,
        after: str = "",
        *,
        most: int = PAGE,
        selected: Mapping[str, str | None] = MappingProxyType({}),
    ) -> tuple[list[Record], str | None]:
        """At most so many subscriptions, and what to go on behind; None at the end."""
        wanted = {name: value for name, value in selected.items() if value is not None}
        page = await self._ask(*write_list_subscriptions(wanted, after=after, most=most))
        return [_record(one) for one in page.subscriptions], page.next

    async def subscription(self, id_: str) -> Record:
        """One subscription."""
        async for record in self.subscriptions():
            if record["id"] == id_:
                return record
        raise GatewayError(f"{id_}: There is no such subscription.", status=404)

    async def delete_subscription(self, id_: str) -> None:
        """End a subscription."""
        if not (await self._ask(*write_delete_subscriptions({}, [id_]))).ids:
            raise GatewayError(f"{id_}: There is no such subscription.", status=404)

    async def delete_subscriptions(
        self,
        *,
        all: bool = False,
        dry_run: bool = False,
        **selected: str | None,
    ) -> AsyncIterator[str]:
        """End the *selected* subscriptions, or *all*; the ids of those that ended, or would."""
        wanted = {name: value for name, value in selected.items() if value is not None}
        if not (wanted or all):
            raise GatewayError("say which subscriptions: some of them, or all")
        after: str | None = ""
        while after is not None:
            page = await self._ask(
                *write_delete_subscriptions(wanted, dry_run=dry_run, after=after)
            )
            for id_ in page.ids:
                yield id_
            after = page.next if page.next != after else None

    async def _ask(self, action: str, body: bytes) -> ManagedPage:
        headers = dict(http_headers(MANAGEMENT_SOAP, action))
        answer = await self._caller.call("POST", self._address, body=body, headers=headers)
        try:
            page = read_managed(answer.body)
        except AnsweredFault as refused:
            text = f"{shown(self._address)} refused: {refused.text}"
            raise GatewayError(text, status=answer.status) from refused
        except Refused as refused:
            raise stranger(self._address, answer, named=True) from refused
        if not 200 <= answer.status < 300:
            raise stranger(self._address, answer, named=True)
        return page


_NAMES = {
    "id": "Id", "owner": "Owner", "spec": "Specification", "soap": "Soap", "consumer": "Consumer",
    "end_to": "EndTo", "created": "Created", "expires": "Expires", "state": "State",
}  # fmt: skip
_COUNTS = ("matched", "delivered", "waiting", "dead")


def _record(one: ListedSubscription) -> Record:
    """A subscription as the JSON administration writes it."""
    facts = one.facts
    error = facts.get("LastError")
    return {
        **{name: facts.get(element) for name, element in _NAMES.items()},
        "topics": list(one.topics),
        "contents": list(one.contents),
        "paused": facts.get("Paused") == "true",
        "delivery": {"failures": int(facts.get("State") == "failing"), "last_error": error},
        "counts": {name: int(facts.get(name.capitalize()) or 0) for name in _COUNTS},
    }
