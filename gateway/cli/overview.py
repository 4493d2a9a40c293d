"""``dragoman overview``."""

import asyncio
from collections.abc import Iterator, Mapping
from typing import Any

import typer

from gateway.cli.options import GATEWAY, Form, GatewayOption, OutputOption, connecting
from gateway.cli.output import facts, json_line, line, moment, table
from gateway.client import Administration, Record

_UNKNOWN = "not known: the store does not answer"


def overview(
    context: typer.Context,
    gateway: GatewayOption = GATEWAY,
    output: OutputOption = Form.TEXT,
) -> None:
    r"""Show the state of a gateway on one page.

    Whether store and broker are there, what waits and since when, which consumers fail and why,
    what died in the last hour, and the rates of the last ten seconds.

    \b
    Examples:
      dragoman overview
      dragoman overview --output json | jq '.failing.first[].last_error'
    """

    async def run() -> Record:
        async with Administration(gateway, **connecting(context)) as administration:
            return await administration.overview()

    found = asyncio.run(run())
    if output is Form.JSON:
        json_line(found)
        return
    for text in facts(_facts(found)):
        line(text)
    _print_failing(found["failing"])
    _print_dead(found["dead_letters"])


def _facts(found: Record) -> Iterator[tuple[str, object]]:
    shared = f", {found['replicas']} replicas" if found["replica"] else ""
    yield "gateway", f"{found['release']}, since {moment(found['started'])}{shared}"
    store = found["store"]
    yield "store", f"{store['kind']}, {'writable' if store['writable'] else 'NOT WRITABLE'}"
    disk = found["disk"]
    if disk is not None:
        yield "disk", f"{disk['free'] // 2**20:,} MiB free of {disk['size'] // 2**20:,}"
    yield "broker", _broker(found["broker"])
    yield "spool", _spool(found["spool"])
    for one in found["certificates"]:
        left = "cannot be read" if one["days"] is None else f"{one['days']} days left"
        yield "certificate", f"{one['file']} ({one['use']}): {left}"
    yield "a second", _rates(found["rates"])
    yield "waiting", _now(found["now"])
    yield "subscriptions", f"{found['subscriptions']}, {found['failing']['subscriptions']} failing"
    for name in ("sources", "links"):
        yield name, ", ".join(f"{n} {state}" for state, n in found[name]["by_state"].items())


def _broker(broker: Mapping[str, Any]) -> str:
    if broker["connected"] is None:
        return str(broker["adapter"])
    since = moment(broker["since"])
    if broker["connected"]:
        blocked = ", but takes no messages" if broker["blocked"] else ""
        return f"{broker['adapter']}, connected since {since}{blocked}"
    return f"{broker['adapter']}, AWAY since {since}: {broker['last_error']}"


def _spool(spool: Mapping[str, Any] | None) -> str:
    if spool is None:
        return _UNKNOWN
    oldest = f", the oldest since {moment(spool['oldest'])}" if spool["oldest"] else ""
    return f"{spool['messages']} messages, {spool['refused']} refused{oldest}"


def _rates(rates: Mapping[str, Any]) -> str:
    names = ("accepted", "delivered", "failed", "refused")
    if not rates["accepted"]:
        return "not known yet"
    text = ", ".join(f"{rates[name][-1]:g} {name}" for name in names)
    if rates["p50"][-1] is None:
        return text
    return f"{text}; answered in {rates['p50'][-1]:g} s (half), {rates['p99'][-1]:g} s (99 of 100)"


def _now(now: Mapping[str, Any] | None) -> str:
    if now is None:
        return _UNKNOWN
    oldest = f", the oldest since {moment(now['oldest'])}" if now["oldest"] else ""
    return f"{now['waiting']}{oldest}; {now['in_flight']} under way"


def _print_failing(failing: Mapping[str, Any]) -> None:
    if not failing["first"]:
        return
    line()
    names = ("host", "subscriptions", "waiting", "subscription", "next attempt", "last error")
    rows = [
        (
            *(one[name] for name in names[:4]),
            moment(one["next_attempt"]),
            one["last_error"],
        )
        for one in failing["first"]
    ]
    for text in table(names, rows):
        line(text)


def _print_dead(letters: Mapping[str, Any] | None) -> None:
    if letters is None or not letters["by_reason"]:
        return
    line()
    rows = [(one["reason"], one["kept"], one["last_hour"]) for one in letters["by_reason"]]
    for text in table(("dead letters", "kept", "in the last hour"), rows):
        line(text)
