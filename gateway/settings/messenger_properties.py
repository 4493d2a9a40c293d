"""Settings from the properties file of a WS-Messenger (Apache Airavata 0.11), as far as they mean
something here."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from urllib.parse import quote

STRATEGIES = {"serial": 1, "parallel": 512, "pcrew": 4}
"""Its delivery strategies, as `Settings.slots`: one message after the other, one worker a consumer,
and a pool of workers."""
_LINE = re.compile(r"\s*([^#!\s=:][^\s=:]*)\s*[=:]?\s*(.*?)\s*")


@dataclass(frozen=True, slots=True)
class Taken:
    """A key of the file: the line of ``dragoman.toml`` that it becomes, or why it becomes none.
    ``value`` is None where that is not shown."""

    key: str
    value: str | None = None
    line: str = ""
    table: str = ""
    """The table that the line is in; empty: none."""
    why: str = ""


def read_properties(text: str) -> Mapping[str, str]:
    """Read a Java properties file: lines of key and value, with comments and continuations."""
    found: dict[str, str] = {}
    for line in re.sub(r"\\\r?\n[ \t]*", "", text).splitlines():
        match = _LINE.fullmatch(line)
        if match is not None:
            found[match[1]] = re.sub(r"\\(.)", r"\1", match[2])
    return found


def take_over(properties: Mapping[str, str]) -> Iterator[Taken]:
    """Say of each key in *properties* what becomes of it, in their order."""
    rules: Mapping[str, Callable[[Mapping[str, str], str], Taken]] = {
        "broker.delivery.method": _strategy,
        "broker.storage.type": _storage,
        "messagePreservationDays": _age,
        "amqp.notification.enable": _copies,
    }
    for key, value in properties.items():
        if key in rules:
            yield rules[key](properties, value)
        elif key in _ELSEWHERE:
            yield Taken(key, value, why=_ELSEWHERE[key])
        else:
            yield Taken(key, why=UNKNOWN)


UNKNOWN = "no key of WS-Messenger that is known here"
"""What is said of keys that mean something to others, as to other parts of Airavata: their values
may be secrets, and are not shown."""
_DATABASE = "subscriptions and messages are in the store of the gateway: see `store`"
_TRIES = (
    "what fails is tried again by a schedule, and hosts that fail rest: see `retry_delays`; "
    "what it did is black_list_after and black_list_for, which are seconds"
)
_WITH_DAYS = "in mailbox_age, with messagePreservationDays"
_SWEEP = "what is too old is dropped as it goes, without a sweep"
_NOT_WRITTEN = (
    "it is not written here: give the URL with it in the environment, as DRAGOMAN_AMQP_COPIES__URL"
)
_WITH_COPIES = "in amqp_copies, where amqp.notification.enable is 1"
_ELSEWHERE: Mapping[str, str] = {
    "broker.jdbc.driver": _DATABASE,
    "broker.jdbc.url": _DATABASE,
    "msgBox.jdbc.driver": _DATABASE,
    "msgBox.jdbc.url": _DATABASE,
    "msgBox.usedatabase": "mailboxes are always in the store",
    "broker.start.delivery.thread": "a gateway always delivers",
    "broker.socket.timeout": "attempts have a deadline of their own",
    "broker.msg.delivery.retries": _TRIES,
    "consumer.expiration.time.gap": _TRIES,
    "broker.delivery.protocol": "the scheme of an address says the transport: see `transports`",
    "sending.batch.size": "each consumer has its turn, whatever waits for it",
    "sending.thread.pool.size": "in slots, where broker.delivery.method is pcrew",
    "messagePreservationHours": _WITH_DAYS,
    "messagePreservationMinutes": _WITH_DAYS,
    **{
        f"message{word}Interval{unit}": _SWEEP
        for word in ("Preservation", "Perservation")
        for unit in ("Days", "Hours", "Minutes")
    },
    **{f"amqp.{name}": _WITH_COPIES for name in ("broker.host", "broker.port", "broker.username")},
    "amqp.broker.password": _NOT_WRITTEN,
    **{
        f"amqp.{name}": "the copies have one form"
        for name in ("sender", "topic.sender", "broadcast.sender")
    },
}
"""Known keys that become no line of their own, with the reason."""


def _strategy(properties: Mapping[str, str], value: str) -> Taken:
    key = "broker.delivery.method"
    if value not in STRATEGIES:
        return Taken(key, value, why=f"it is none of {', '.join(STRATEGIES)}")
    workers = _number(properties.get("sending.thread.pool.size", ""), STRATEGIES["pcrew"])
    slots = max(1, workers) if value == "pcrew" else STRATEGIES[value]
    return Taken(key, value, f"slots = {slots}")


def _storage(_: Mapping[str, str], value: str) -> Taken:
    adapter = "memory:" if value == "memory" else "embedded:"
    return Taken("broker.storage.type", value, f'adapter = "{adapter}"')


def _age(properties: Mapping[str, str], value: str) -> Taken:
    days = _number(value, 2)
    hours = _number(properties.get("messagePreservationHours", ""), 0)
    minutes = _number(properties.get("messagePreservationMinutes", ""), 0)
    if not days + hours + minutes:
        return Taken("messagePreservationDays", value, why="messages would live no time at all")
    return Taken("messagePreservationDays", value, f'mailbox_age = "P{days}DT{hours}H{minutes}M"')


def _copies(properties: Mapping[str, str], value: str) -> Taken:
    key = "amqp.notification.enable"
    if value != "1":
        return Taken(key, value, why="nothing is copied without amqp_copies")
    host = properties.get("amqp.broker.host", "localhost")
    port = _number(properties.get("amqp.broker.port", ""), 5672)
    user = quote(properties.get("amqp.broker.username", "guest"), safe="")
    user += "" if "amqp.broker.password" in properties else ":guest"
    url = json.dumps(f"amqp://{user}@{host}:{port}/")
    lines = f'url = {url}\nrouting_keys = "amqp-routing-keys.xml"'
    return Taken(key, value, lines, table="amqp_copies")


def _number(text: str, otherwise: int) -> int:
    return int(text) if re.fullmatch(r"[0-9]{1,6}", text) else otherwise


def as_toml(taken: list[Taken]) -> str:
    """Write what was taken over as ``dragoman.toml``, with what was not as comments."""
    own = [each.line for each in taken if each.line and not each.table]
    comments = [f"# {_shown(each)}: {each.why}" for each in taken if each.why]
    tables = [f"\n[{each.table}]\n{each.line}" for each in taken if each.table]
    return "\n".join([*own, *comments, *tables])


def _shown(each: Taken) -> str:
    if each.value is None:
        return each.key[:100]
    secret = "password" in each.key or "jdbc.url" in each.key
    return f"{each.key} = {'***' if secret else each.value[:100]}"
