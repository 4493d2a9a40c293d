"""A mailbox at a gateway: the consumer of a program that nobody can reach."""

import asyncio
import contextlib
import json
import ssl
from collections import deque
from collections.abc import Callable
from itertools import islice
from typing import Any, Self

from filters import Refused
from gateway.client.calling import Answer, Caller, base_url, shown, stranger
from gateway.client.consumer import Read, ReceivedMessage, read_here
from gateway.client.credentials import Credentials
from gateway.client.errors import GatewayError
from gateway.client.renewal import PARTING_TIME

WAIT = 20.0
"""Seconds that the gateway lets a request wait for a message."""
ANSWERED = 15.0
"""Seconds that it has beyond that."""
LEASE = 60.0
"""Seconds that a program has to deal with what it received, before it comes again."""
AT_A_TIME = 10
RETRY_EVERY = 2.0


class PulledMailbox:
    """Receives notifications and SubscriptionEnd as `Consumer` does, but fetches them: no socket is
    listened on, so it works behind a firewall or NAT.

    The mailbox is made on entry, and deleted on exit. What one answer of the gateway brought is
    acknowledged when all of it was handed out and more is asked for; what was not comes again. An
    iteration that is left, and a wait that is cancelled, lose nothing. While the gateway is away it
    is asked again.

    Args:
        url: Of the gateway.
        wait: Seconds that one request waits for a message.
        lease: Seconds for which what was received is nobody else's.
        troubled: Told when the gateway cannot be asked: once, until it can.
        mended: Told when it can again.
        tls: For a gateway at ``https``; what the system trusts, when None.
        proxy: The HTTP proxy that requests go through; None: none.
        at_a_time: Messages of one answer.
        read: As `Consumer` takes it.
        credentials: Of us, for the gateway at *url* alone.
        caller: Sends the requests, instead of one with *tls*, *proxy* and *credentials*.
    """

    def __init__(
        self,
        url: str,
        *,
        wait: float = WAIT,
        lease: float = LEASE,
        troubled: Callable[[GatewayError], None] = lambda _: None,
        mended: Callable[[], None] = lambda: None,
        tls: ssl.SSLContext | None = None,
        proxy: str | None = None,
        credentials: Credentials | None = None,
        at_a_time: int = AT_A_TIME,
        read: Read = read_here,
        caller: Caller | None = None,
    ) -> None:
        self._url = base_url(url)
        self._wait = wait
        self._lease = lease
        self._troubled = troubled
        self._mended = mended
        self._at_a_time = at_a_time
        self._read = read
        self._caller = caller or Caller(
            timeout=wait + ANSWERED,
            tls=tls,
            proxy=proxy,
            credentials=credentials,
            gateway=self._url,
        )
        self._key = ""
        self._dealt_with: set[int] = set()
        """Ids of what was taken, and may come again: its lease ended first."""
        self._taken: object = None
        """The lease of what was taken last; None: it is acknowledged."""
        self._rest: deque[bytes] = deque()
        """Envelopes of that which were not handed out: they are acknowledged with the others."""
        self._asking: asyncio.Future[dict[str, Any]] | None = None
        """The question for more. It goes on where who waits for it is cancelled: a message that it
        is answered with would be another's for a moment, and come after those behind it."""
        self._receiving = asyncio.Lock()
        """Held by who takes messages: another one would acknowledge what this one has not got."""
        self.address = ""

    async def __aenter__(self) -> Self:
        await self._caller.__aenter__()
        try:
            made = await self._ask("", {})
            self._key, self.address = str(made["key"]), str(made["address"])
        except KeyError as error:
            await self._caller.__aexit__()
            raise GatewayError(f"{shown(self._url)} made no mailbox") from error
        except BaseException:
            await self._caller.__aexit__()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Delete the mailbox, if the gateway answers soon, and close the connections."""
        if self._asking is not None:
            self._asking.cancel()
            await asyncio.wait((self._asking,))
        with contextlib.suppress(GatewayError, TimeoutError):
            async with asyncio.timeout(PARTING_TIME):
                await self._caller.call("DELETE", f"{self._url}/mailboxes/{self._key}")
        await self._caller.__aexit__()

    # No generator, as in `Consumer`: a cancelled wait would close it, and a new one would begin by
    # acknowledging what the one before had not yielded.

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ReceivedMessage:
        """The next message; waits for it.

        Raises:
            GatewayError: The mailbox is gone.
        """
        async with self._receiving:
            while not self._rest:
                await self._take(self._at_a_time, self._wait)
            return (await self._hand_out(1))[0]

    async def receive(self, most: int, wait: float) -> list[ReceivedMessage]:
        """Take the next messages, *most* of them, waiting so many seconds for the first. When all
        that came together was handed out, it is acknowledged by the next call.

        Raises:
            GatewayError: The mailbox is gone.
        """
        async with self._receiving:
            if not self._rest:
                await self._take(most, wait)
            return await self._hand_out(most)

    async def _take(self, most: int, wait: float) -> None:
        """Acknowledge what was taken last, and take more. A question that a cancelled wait left is
        waited for first, for *wait* seconds."""
        left = wait if self._asking is not None else None
        if self._asking is None:
            self._asking = asyncio.ensure_future(self._ask_for_more(most, wait))
            self._asking.add_done_callback(_note_failure)
        await asyncio.wait((self._asking,), timeout=left)
        if not self._asking.done():
            return
        asking, self._asking = self._asking, None
        batch = asking.result()
        messages = batch.get("messages") or ()
        self._rest.extend(
            message["envelope"].encode()
            for message in messages
            if message["id"] not in self._dealt_with
        )
        self._dealt_with.update(message["id"] for message in messages)
        self._taken = batch["lease"] if messages else None

    async def _ask_for_more(self, most: int, wait: float) -> dict[str, Any]:
        if self._taken and await self._ask_again("acknowledge", {"lease": self._taken}):
            self._dealt_with.clear()
        self._taken = None
        asked: dict[str, object] = {"max": most, "wait": wait, "lease": self._lease}
        return await self._ask_again("receive", asked)

    async def _hand_out(self, most: int) -> list[ReceivedMessage]:
        """Read messages of the rest. They leave it when all are read: until then this may fail, or
        be cancelled."""
        read = [await self._message(envelope) for envelope in islice(self._rest, most)]
        for _ in read:
            self._rest.popleft()
        return read

    async def _message(self, octets: bytes) -> ReceivedMessage:
        try:
            received = await self._read((), octets)
        except Refused:  # It is no notification; whoever wants whole envelopes has it.
            received = ()
        return ReceivedMessage.of(received, octets)

    async def _ask_again(self, operation: str, body: dict[str, object]) -> dict[str, Any]:
        """Ask until there is an answer; nothing where the lease has ended.

        Raises:
            GatewayError: The gateway refuses.
        """
        failed = False
        while True:
            try:
                answer = await self._ask(f"/{self._key}/{operation}", body)
            except GatewayError as error:
                if error.status == 409:
                    answer = {}
                elif error.is_final:
                    raise GatewayError(f"the mailbox is lost: {error}") from error
                else:
                    if not failed:
                        self._troubled(error)
                    failed = True
                    await asyncio.sleep(RETRY_EVERY)
                    continue
            if failed:
                self._mended()
            return answer

    async def _ask(self, path: str, body: dict[str, object]) -> dict[str, Any]:
        answer = await self._caller.call(
            "POST",
            f"{self._url}/mailboxes{path}",
            body=json.dumps(body).encode(),
            headers={"Content-Type": "application/json", "Accept": "application/json"},
        )
        try:
            record = json.loads(answer.body)
        except ValueError:
            record = None
        if not isinstance(record, dict):
            raise stranger(self._url, answer)
        if not 200 <= answer.status < 300:
            raise _refused(self._url, answer, record)
        return record


def _note_failure(asking: "asyncio.Future[dict[str, Any]]") -> None:
    """Have asyncio log no failure that is raised to who waits next, if anybody does."""
    if not asking.cancelled():
        asking.exception()


def _refused(url: str, answer: Answer, record: dict[str, Any]) -> GatewayError:
    detail = record.get("detail")
    if not isinstance(detail, str) or detail == "Not Found":  # FastAPI's, of an unknown path
        return stranger(url, answer)
    return GatewayError(f"{shown(url)} refused: {detail}", status=answer.status)
