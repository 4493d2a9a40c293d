"""``dragoman demo``: a gateway, its peers, and what goes over the wire between them.

Each command is imported when it is asked for, so no other one waits for the gateway that this
one imports.
"""

import asyncio
import contextlib
import tempfile
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from pydantic import SecretStr
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from gateway.cli.commands import command
from gateway.cli.errors import CommandFailed
from gateway.cli.output import line, pretty, styled
from gateway.client import Client, Consumer, Exchange, subscribed
from gateway.observing.logs import set_up_logs
from gateway.server.application import Application
from gateway.server.process import listen, serve
from gateway.settings.settings import Settings
from mediation import Version

SECONDS = 30.0
_SHOWN = frozenset({"host", "content-type", "soapaction"})
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


def demo() -> None:
    r"""Show mediation live: events cross from one specification to the other, both ways.

    Starts a gateway of its own (in memory, on a free port), a publisher and a subscriber of each
    specification, and prints what went over the wire. Takes a second or two, leaves nothing behind.

    \b
    Example:
      dragoman demo
    """
    set_up_logs("error")
    try:
        asyncio.run(_demonstrate())
    except TimeoutError as error:
        raise CommandFailed("the demonstration took too long, and was stopped") from error


async def _demonstrate() -> None:
    async with asyncio.timeout(SECONDS):
        with tempfile.TemporaryDirectory(prefix="dragoman-demo-") as folder:
            async with _gateway(Path(folder)) as url:
                line(f"A gateway runs on {url}, in memory.")
                for number, direction in enumerate(_DIRECTIONS, 1):
                    await _show(number, direction, url)
                line()
                line("The publishers and the subscribers know nothing of each other.")
                line()
                line(f"Next: {command()} serve starts a gateway, and says what to try with it.")


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
            _print_request(f"The subscriber asks, in {subscriber}:", exchange)

    def sent(exchange: Exchange) -> None:
        _print_request(f"The publisher sends, in {publisher}:", exchange)

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
        _print_message(consumer.address, arrived.headers, arrived.octets)


def _print_request(title: str, exchange: Exchange) -> None:
    line()
    styled(title)
    _print_message(exchange.url, exchange.headers, exchange.body)
    line(f"-> answered {exchange.answer.words}")


def _print_message(url: str, headers: Iterable[tuple[str, str]], body: bytes) -> None:
    line(f"POST {urlsplit(url).path}")
    for name, value in headers:
        if name.lower() in _SHOWN:
            line(f"{name}: {value}")
    line()
    line(pretty(body))
