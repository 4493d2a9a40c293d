"""The page of the subscriptions at any broker: by its ListSubscriptions where it has it, and by the
references that are held here."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from types import MappingProxyType
from typing import Annotated
from urllib.parse import parse_qsl

from fastapi import APIRouter, Depends, HTTPException, Query, Request
from starlette.responses import Response

from gateway.client import Record
from gateway.client.calling import base_url
from gateway.client.errors import GatewayError
from gateway.client.management import Management
from gateway.client.messaging import LEASE
from gateway.routes import Dependency
from gateway.web.console.forms import first, read_form
from gateway.web.console.page_routes import Given, PageRoute
from gateway.web.console.tables import SUBSCRIPTIONS
from gateway.web.console.viewer.calls import PolicedCaller, TransportChoice
from gateway.web.console.viewer.references import (
    HeldReference,
    HeldReferences,
    given_subscription,
    manage,
    read_reference,
)
from gateway.web.console.viewer.versions import SPOKEN, read_version
from gateway.web.csrf import refuse_other_origins

MOST = 500
"""Subscriptions of a page."""
NOT_HELD = (
    "its broker lists it, and ends it by its id; to pause, resume or renew it, its reference is "
    "needed, which is not held here: give it below"
)


@dataclass(frozen=True, slots=True)
class Operation:
    """What can be done with subscriptions at a broker: the verb of its button, and what happens."""

    verb: str
    consequence: str
    harmful: bool = False


OPERATIONS: Mapping[str, Operation] = {
    "pause": Operation("Pause", "The broker sends nothing until they are resumed."),
    "resume": Operation("Resume", "The broker sends what is published from now on."),
    "renew": Operation(
        "Renew", f"Their leases begin anew: {LEASE / timedelta(minutes=1):g} minutes are asked for."
    ),
    "end": Operation(
        "End",
        "Their subscribers get nothing more, and are told so where they asked for it. What waits "
        "for them is dropped.",
        harmful=True,
    ),
    "forget": Operation("Forget", "The subscriptions go on; their references are held no more."),
}


class Brokers:
    """Lists and manages subscriptions at brokers."""

    def __init__(self, transports: TransportChoice, references: HeldReferences) -> None:
        self._transports = transports
        self.references = references

    async def subscriptions(
        self, url: str, after: str, narrowed: Mapping[str, str]
    ) -> tuple[list[Record], str | None]:
        """A page of the subscriptions that a broker shows us, those for which all holds that
        narrows it, and what the next is after.

        Raises:
            GatewayError: It cannot be asked, or does not list any.
        """
        async with self._at(url) as management:
            return await management.page(after, most=MOST, selected=narrowed)

    async def manage_listed(self, action: str, url: str, ids: Sequence[str]) -> list[str]:
        """Do something with subscriptions that a broker lists; why it was not done with some."""
        if action != "end":
            return await _each(ids, lambda id_: self._manage_by_id(action, url, id_))
        async with self._at(url) as management:
            return await _each(ids, management.delete_subscription)

    async def _manage_by_id(self, action: str, url: str, id_: str) -> None:
        held = self.references.of_subscription(url, id_)
        if held is None:
            raise GatewayError(f"{id_}: {NOT_HELD}", status=404)
        await manage(action, held, self._transports)

    async def manage_held(self, action: str, ids: Sequence[str]) -> list[str]:
        """Do something with subscriptions whose references are held; why it was not done with
        some."""
        return await _each(ids, lambda id_: self._manage_held(action, id_))

    async def _manage_held(self, action: str, id_: str) -> None:
        held = self.references.find(id_)
        if held is None:
            raise GatewayError("this reference is held no more", status=404)
        if action != "forget":
            await manage(action, held, self._transports)
        if action in ("forget", "end"):
            self.references.drop(id_)

    def hold(self, url: str, spec: str, text: str, topic: str) -> None:
        """Hold a reference that an operator gives.

        Raises:
            GatewayError: It cannot be read.
        """
        version = read_version(spec)
        subscription = given_subscription(url, read_reference(text, version))
        self.references.hold(url, version, subscription, topic=topic, made_by="an operator")

    def _at(self, url: str) -> Management:
        return Management(url, caller=PolicedCaller(self._transports, patient=True))


async def _each(ids: Sequence[str], do: Callable[[str], Awaitable[None]]) -> list[str]:
    """Do something with each of *ids*; why it was not done with some."""
    refused = []
    for id_ in ids:
        try:
            await do(id_)
        except GatewayError as error:
            refused.append(str(error))
            if error.status is None and "cannot reach" in str(error):
                break  # It does not answer: nor will it for the others.
    return refused


router = APIRouter(prefix="/console/brokers", include_in_schema=False, route_class=PageRoute)
BROKERS = Dependency[Brokers]()
Parts = Annotated[Brokers, Depends(BROKERS)]


@router.get("")
async def ask_for_url(
    console: Given, brokers: Parts, url: Annotated[str, Query(max_length=2048)] = ""
) -> Response:
    """Ask which broker: nothing is sent to it before somebody says so."""
    return await _page(console, brokers, url)


@router.post("", dependencies=[Depends(refuse_other_origins)])
async def act(request: Request, console: Given, brokers: Parts) -> Response:
    """List the subscriptions at a broker; before that, do what is confirmed with those that are
    ticked."""
    form = await read_form(request)
    url, action = first(form, "url").strip(), first(form, "action")
    ids, held = form.get("id", [])[:MOST], form.get("held", [])[:MOST]
    if url or not held:
        _check_url(url)
    if action == "hold":
        return await _hold(console, brokers, url, form)
    narrowed = _narrowed(form)
    operation = OPERATIONS.get(action)
    refused: list[str] = []
    if operation is not None and (ids or held):
        if not first(form, "confirmed"):
            return await console.rendering.page(
                "broker_confirm.html",
                url=url,
                action=action,
                operation=operation,
                ids=ids,
                narrowed=narrowed,
                held=[one for one in map(brokers.references.find, held) if one],
                here="brokers",
            )
        refused = await brokers.manage_listed(action, url, ids) if ids else []
        refused += await brokers.manage_held(action, held)
    if held:
        return await _page(console, brokers, url, refused=refused)
    return await _list(console, brokers, url, narrowed, first(form, "after"), refused)


def _narrowed(form: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """What narrows the list: its fields, or, where something is done with its rows, all of them in
    one."""
    if not (given := dict(parse_qsl(first(form, "narrowed")))):
        given = {name: first(form, name).strip() for name in form}
    names = {one.name for one in SUBSCRIPTIONS.narrowings}
    return {name: value for name, value in given.items() if name in names and value}


async def _hold(
    console: Given, brokers: Brokers, url: str, form: Mapping[str, Sequence[str]]
) -> Response:
    try:
        brokers.hold(url, first(form, "spec"), first(form, "reference"), first(form, "topic"))
    except GatewayError as error:
        return await _page(console, brokers, url, refused=[str(error)])
    return await _page(console, brokers, url)


async def _list(
    console: Given,
    brokers: Brokers,
    url: str,
    narrowed: Mapping[str, str],
    after: str,
    refused: Sequence[str],
) -> Response:
    try:
        rows, following = await brokers.subscriptions(url, after, narrowed)
    except GatewayError as error:
        return await _page(
            console, brokers, url, said=str(error), refused=refused, narrowed=narrowed
        )
    return await _page(
        console, brokers, url, rows=rows, following=following, refused=refused, narrowed=narrowed
    )


def _check_url(url: str) -> None:
    try:
        base_url(url.partition("?")[0])
    except GatewayError as error:
        raise HTTPException(422, str(error)) from error


async def _page(
    console: Given,
    brokers: Brokers,
    url: str,
    *,
    said: str = "",
    rows: list[Record] | None = None,
    following: str | None = None,
    refused: Sequence[str] = (),
    narrowed: Mapping[str, str] = MappingProxyType({}),
) -> Response:
    held: Sequence[HeldReference] = brokers.references.at(url)
    return await console.rendering.page(
        "broker.html",
        url=url,
        said=said,
        rows=rows,
        following=following,
        held=held,
        refused=refused,
        narrowed=narrowed,
        narrowings=SUBSCRIPTIONS.narrowings,
        operations=OPERATIONS,
        versions=[one.value for one in SPOKEN],
        here="brokers",
    )
