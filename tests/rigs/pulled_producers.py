"""Sources of WS-Management that are pulled from, and that give what is not acknowledged again.

A context is acknowledged by the use of the next one. Until then whoever pulls in it gets what it
was answered before, as after a crash of either side.
"""

import asyncio
import contextlib
from dataclasses import dataclass, field

from mediation.names import WSEN, WSMAN
from tests.rigs.producers import Producer, Told, fault
from tests.rigs.waiting import DEADLINE


def event(number: int, *, wrapped: bool = False) -> str:
    """An event, as Items has it."""
    inner = f"<e xmlns='urn:e'><n>{number}</n></e>"
    if not wrapped:
        return inner
    return f'<w:Event xmlns:w="{WSMAN}" Action="urn:action:{number}">{inner}</w:Event>'


@dataclass(eq=False)
class PulledProducer(Producer):
    """A source in mode Pull.

    Attributes:
        items: What is next, each as it stands in Items.
        most: How many of them it gives at once.
        bookmarks: Whether answers have the number of the last item as their bookmark.
        same: Whether a context stays as it is, and what was given is not given again.
        over: Whether the next answer is the last.
        headers: More header blocks of the answers that have items.
    """

    wse: bool = True
    items: list[str] = field(default_factory=list)
    most: int = 64
    bookmarks: bool = False
    same: bool = False
    over: bool = False
    headers: str = ""
    given: dict[str, list[str]] = field(default_factory=dict)
    number: int = 0

    async def give(self, *items: str) -> None:
        """Have *items* for who pulls."""
        async with self.changed:
            self.items += items
            self.changed.notify_all()

    async def lose(self) -> None:
        """Lose all subscriptions: contexts are invalid."""
        async with self.changed:
            self.forget()
            self.changed.notify_all()

    @property
    def contexts(self) -> list[str]:
        """The contexts of all Pulls, in order."""
        return [one.text("EnumerationContext") or "" for one in self.told if _is_pull(one)]

    async def answer(self, told: Told) -> tuple[int, bytes] | None:
        if not _is_pull(told):
            return await super().answer(told)
        context = told.text("EnumerationContext") or ""
        id_ = context.partition("#")[0]
        async with self.changed:
            self.told.append(told)
            self.changed.notify_all()
            script = self.answers.get("Pull")
            if script is not None:
                return script(self, told)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(DEADLINE):
                    await self.changed.wait_for(
                        lambda: context in self.given or self.items or id_ not in self.held
                    )
            if id_ not in self.held:
                self.changed.notify_all()
                return fault("Which?", subcode="InvalidEnumerationContext")(self, told)
            return self._pulled(told, context)

    def _pulled(self, told: Told, context: str) -> tuple[int, bytes]:
        items = self.given.pop(context, None)
        if items is None:
            self.given.clear()  # What was given before is acknowledged.
            items, self.items = self.items[: self.most], self.items[self.most :]
            self.number += len(items)
        following = context
        if not self.same:
            self.given[context] = items
            id_, _, number = context.partition("#")
            following = f"{id_}#{int(number) + 1}"
        over = f'<n:EndOfSequence xmlns:n="{WSEN}"/>' if self.over else ""
        body = (
            f'<n:PullResponse xmlns:n="{WSEN}"><n:EnumerationContext>{following}'
            f"</n:EnumerationContext><n:Items>{''.join(items)}</n:Items>{over}</n:PullResponse>"
        )
        octets = self._envelope(told, body)
        blocks = self.headers if items else ""
        if self.bookmarks:
            blocks += (
                f'<w:Bookmark xmlns:w="{WSMAN}"><at xmlns="urn:m">{self.number}</at></w:Bookmark>'
            )
        if blocks:
            head = f"<s:Header>{blocks}</s:Header><s:Body>"
            octets = octets.replace(b"<s:Body>", head.encode())
        return 200, octets

    def _subscribe(self, told: Told) -> str:
        response = super()._subscribe(told)
        id_ = next(reversed(self.held))
        context = f'<n:EnumerationContext xmlns:n="{WSEN}">{id_}#0</n:EnumerationContext>'
        return response.replace("</p:SubscribeResponse>", f"{context}</p:SubscribeResponse>")


def _is_pull(told: Told) -> bool:
    return told.operation == "Pull"
