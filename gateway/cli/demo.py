"""``dragoman demo``: a gateway, its peers, and what goes over the wire between them.

Each command is imported when it is asked for, so no other one waits for the gateway that this
one imports.
"""

import asyncio
import contextlib
import tempfile
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated

import typer
from pydantic import SecretStr
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from gateway.cli.commands import command
from gateway.cli.errors import CommandFailed
from gateway.cli.output import line, styled, table
from gateway.cli.pairs import print_message, print_request, show_pair
from gateway.client import Client, Consumer, Exchange, GatewayError, subscribed
from gateway.observing.logs import set_up_logs
from gateway.server.application import Application
from gateway.server.process import listen, serve
from gateway.settings.settings import Settings
from mediation.matrix import DIALECTS, NOTIFIED, PUBLISHING, Dialect
from mediation.model.versions import Version

SECONDS = 30.0
_ORIGIN, _TARGET = Version.WSE_2004_08.value, Version.WSN_1_3.value
"""What is spoken where one side is named."""
_PAYLOAD = (
    b'<w:Warning xmlns:w="http://example.org/weather">'
    b"<w:place>Amherst</w:place><w:speed>%d</w:speed></w:Warning>"
)
_NAMES = {
    Version.WSE_2004_08: "WS-Eventing 2004/08",
    Version.WSN_1_3: "WS-BaseNotification 1.3",
}


@dataclass(frozen=True, slots=True)
class _Direction:
    publisher: Version
    subscriber: Version
    topic: str
    speed: int


_DIRECTIONS = (
    _Direction(Version.WSE_2004_08, Version.WSN_1_3, "storms", 120),
    _Direction(Version.WSN_1_3, Version.WSE_2004_08, "storms", 140),
)


class _DemoSettings(Settings):
    """Settings that the environment and ``dragoman.toml`` do not touch."""

    model_config = SettingsConfigDict(toml_file=None)

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return (init_settings,)


def demo(
    origin: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="SPEC",
            help=f"What the publisher speaks; with --to alone, {_ORIGIN}.",
        ),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(
            "--to",
            metavar="SPEC",
            help=f"What the subscriber speaks; with --from alone, {_TARGET}.",
        ),
    ] = None,
    list_: Annotated[
        bool, typer.Option("--list", help="List what can be spoken, and end.")
    ] = False,
) -> None:
    r"""Show mediation live: events cross from one specification to another.

    Starts a gateway of its own (in memory, on a free port), a publisher and a subscriber, prints
    what went over the wire, and says what of it was lost. Without options it shows WS-Eventing
    and WS-Notification, both ways. Takes a second or two, leaves nothing behind.

    \b
    Examples:
      dragoman demo
      dragoman demo --list
      dragoman demo --from wsn-1.3 --to cloudevents-structured
    """
    if list_:
        _list()
        return
    pair = None
    if origin or target:
        pair = (
            _dialect(origin or _ORIGIN, "--from", PUBLISHING),
            _dialect(target or _TARGET, "--to", NOTIFIED),
        )
    set_up_logs("error")
    try:
        asyncio.run(_demonstrate(pair))
    except TimeoutError as error:
        raise CommandFailed("the demonstration took too long, and was stopped") from error
    except GatewayError as error:
        raise CommandFailed(str(error)) from error


def _list() -> None:
    rows = [
        (
            one.name,
            "yes" if one in PUBLISHING else "",
            "yes" if one in NOTIFIED else "",
            one.title,
        )
        for one in DIALECTS.values()
    ]
    for row in table(("name", "--from", "--to", "is"), rows):
        line(row)


def _dialect(name: str, option: str, offered: Iterable[Dialect]) -> Dialect:
    names = [one.name for one in offered]
    if name in names:
        return DIALECTS[name]
    near = get_close_matches(name.lower(), names, 1, 0.5)
    hint = f"; did you mean {near[0]}?" if near else ""
    raise typer.BadParameter(
        f"{name!r} is not offered; there are {', '.join(names)}{hint}", param_hint=option
    )


async def _demonstrate(pair: tuple[Dialect, Dialect] | None) -> None:
    async with asyncio.timeout(SECONDS):
        with tempfile.TemporaryDirectory(prefix="dragoman-demo-") as folder:
            async with _gateway(Path(folder)) as url:
                line(f"A gateway runs on {url}, in memory.")
                if pair is not None:
                    line()
                    await show_pair(url, *pair)
                    return
                for number, direction in enumerate(_DIRECTIONS, 1):
                    await _show(number, direction, url)
                line()
                line("The publishers and the subscribers know nothing of each other.")
                line()
                line(f"Next: {command()} serve starts a gateway, and says what to try with it.")
                line(f"{command()} demo --list names what else can be translated.")


@contextlib.asynccontextmanager
async def _gateway(folder: Path) -> AsyncIterator[str]:
    """A gateway in this process; its URL."""
    settings = _DemoSettings(port=0, adapter=SecretStr("memory:"), data=folder)
    listener = listen(settings.host, settings.port)
    running: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    stop = asyncio.Event()

    def started(_: Application, port: int) -> None:
        running.set_result(port)

    serving = asyncio.ensure_future(serve(settings, listener, started=started, stop=stop))
    try:
        await asyncio.wait((running, serving), return_when=asyncio.FIRST_COMPLETED)
        if serving.done():
            serving.result()  # Raises what is wrong.
        yield f"http://{settings.host}:{running.result()}"
    finally:
        stop.set()
        await asyncio.wait((serving,))
        listener.close()


async def _show(number: int, direction: _Direction, url: str) -> None:
    publisher, subscriber = _NAMES[direction.publisher], _NAMES[direction.subscriber]
    line()
    styled(f"=== {number}. From {publisher} to {subscriber} ===")

    def asked(exchange: Exchange) -> None:
        if exchange.operation == "Subscribe":
            print_request(f"The subscriber asks, in {subscriber}:", exchange)

    def sent(exchange: Exchange) -> None:
        print_request(f"The publisher sends, in {publisher}:", exchange)

    async with (
        Consumer() as consumer,
        Client(url, direction.subscriber, watch=asked) as listening,
        subscribed(listening, consumer.address, topic=direction.topic),
    ):
        async with Client(url, direction.publisher, watch=sent) as publishing:
            await publishing.publish(_PAYLOAD % direction.speed, topic=direction.topic)
        arrived = await consumer.receive()
        line()
        styled(f"The subscriber receives, in {subscriber}:")
        print_message(consumer.address, arrived.headers, arrived.octets)
