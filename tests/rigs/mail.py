"""A smart host: a real, small SMTP server that keeps mail, and replies as it is told."""

import asyncio
import base64
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from email.message import EmailMessage
from email.parser import BytesParser
from email.policy import SMTP


@dataclass(frozen=True)
class Mail:
    """One mail as it came: its envelope, and its content."""

    sender: str
    recipients: tuple[str, ...]
    octets: bytes
    encrypted: bool
    user: str

    @property
    def message(self) -> EmailMessage:
        return BytesParser(EmailMessage, policy=SMTP).parsebytes(self.octets)

    @property
    def body(self) -> bytes:
        body = self.message.get_payload(decode=True)
        assert isinstance(body, bytes)
        return body


@dataclass(eq=False)
class SmartHost:
    """*replies*: to a command, by its first word, instead of what it would reply; ``DATA.`` is the
    reply to the mail itself. *silent*: commands that are never replied to; after ``greeting`` nothing is said at all,
    and after ``end of greeting`` one line after another, but never the last."""

    tls: ssl.SSLContext | None = None
    password: str = ""
    replies: dict[str, bytes] = field(default_factory=dict)
    silent: set[str] = field(default_factory=set)
    received: "asyncio.Queue[Mail]" = field(default_factory=asyncio.Queue)
    connections: int = 0
    at_once: int = 0
    most_at_once: int = 0
    port: int = 0

    async def next(self) -> Mail:
        return await asyncio.wait_for(self.received.get(), 20)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            with suppress(ConnectionError, asyncio.IncompleteReadError):
                await self._converse(reader, writer)
        finally:
            self.at_once -= 1
            writer.transport.abort()

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        def say(text: bytes) -> None:
            writer.write(text + b"\r\n")

        if "greeting" in self.silent:
            await reader.read()
            return
        while "end of greeting" in self.silent:
            say(b"220-smart host")
            await writer.drain()
            await asyncio.sleep(0.01)
        say(self.replies.get("greeting", b"220 smart host"))
        sender, user, recipients = "", "", list[str]()
        while line := await reader.readline():
            command = line.decode().strip()
            word = command.partition(" ")[0].upper()
            if word in self.silent:
                await reader.read()
                return
            if word in self.replies and word != "DATA.":
                say(self.replies[word])
                continue
            match word:
                case "EHLO":
                    offers = [b"smart host"]
                    if self.tls and not writer.get_extra_info("ssl_object"):
                        offers.append(b"STARTTLS")
                    if self.password:
                        offers.append(b"AUTH PLAIN")
                    for offer in offers[:-1]:
                        say(b"250-" + offer)
                    say(b"250 " + offers[-1])
                case "STARTTLS":
                    say(b"220 go on")
                    assert self.tls is not None
                    await writer.start_tls(self.tls)
                case "AUTH":
                    _, user, word = base64.b64decode(command.split()[2]).decode().split("\0")
                    say(b"235 welcome" if word == self.password else b"535 who are you?")
                case "MAIL":
                    sender, recipients = command[command.index("<") + 1 : command.index(">")], []
                    say(b"250 yes")
                case "RCPT":
                    recipients.append(command[command.index("<") + 1 : command.index(">")])
                    say(b"250 yes")
                case "DATA":
                    say(b"354 go on")
                    octets = await reader.readuntil(b"\r\n.\r\n")
                    encrypted = writer.get_extra_info("ssl_object") is not None
                    mail = Mail(sender, tuple(recipients), octets[:-3], encrypted, user)
                    self.received.put_nowait(mail)
                    if "DATA." in self.silent:
                        await reader.read()
                        return
                    say(self.replies.get("DATA.", b"250 it is mine now"))
                case "RSET":
                    say(b"250 yes")
                case "QUIT":
                    say(b"221 bye")
                    return
                case _:
                    say(b"500 what?")


@asynccontextmanager
async def smart_host(
    *, implicit_tls: bool = False, tls: ssl.SSLContext | None = None, password: str = ""
) -> AsyncIterator[SmartHost]:
    host = SmartHost(tls=tls, password=password)
    server = await asyncio.start_server(
        host.serve, "127.0.0.1", 0, ssl=tls if implicit_tls else None
    )
    host.port = server.sockets[0].getsockname()[1]
    try:
        yield host
    finally:
        server.close()
