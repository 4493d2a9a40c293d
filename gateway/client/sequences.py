"""Publishing in a sequence (WS-ReliableMessaging): each event is taken once, in order, however
often its answer is lost, or the gateway is killed and started again meanwhile."""

import asyncio
import random
import ssl
import time
from typing import TYPE_CHECKING

from filters import Refused
from gateway.client.calling import TIMEOUT, Answer, Speaker, shown, stranger
from gateway.client.credentials import Credentials
from gateway.client.errors import GatewayError
from gateway.client.messaging import Sign, fresh_id, signed_properties, spec_of
from gateway.client.sequence_binding import BoundTo, binding_of, checking_by, signing_by
from gateway.reliability.endpoint import Endpoint
from gateway.reliability.party import Channel, Party, anonymous
from gateway.reliability.records import OutgoingSequence, Wire
from gateway.reliability.source import Message
from gateway.reliability.stores.memory import MemoryStore
from gateway.reliability.values import Outgoing
from mediation.client import write_publish
from mediation.model.messages import EndpointReference
from mediation.model.versions import Spec, Version, Wsa
from mediation.reliable_messaging import ReliableMessage, Rm, RmFault, read_message
from mediation.reliable_messaging.policy import Policy
from mediation.soap.body_elements import BodyContent, body_element
from mediation.soap.properties import properties_block

if TYPE_CHECKING:
    from mediation.ws_security import Trust

PATIENCE = 120.0
"""Seconds that an event is sent again and again."""
END = 10.0
"""Seconds in which the sequence is ended politely."""
_NAME = "publish"
_BUSY = (408, 429, 503)


class SequencePublisher(Speaker):
    """Publishes events in a sequence of its own.

    Args:
        patience: Seconds that an event is sent again and again before that is an error.
        bound_to, trust: As of `gateway.client.reliable.ReliableClient`.
    """

    def __init__(
        self,
        url: str,
        version: Version = Version.WSN_1_3,
        *,
        rm: Rm = Rm.V1_1,
        patience: float = PATIENCE,
        timeout: float = TIMEOUT,
        tls: ssl.SSLContext | None = None,
        proxy: str | None = None,
        credentials: Credentials | None = None,
        bound_to: BoundTo = None,
        trust: "Trust | None" = None,
    ) -> None:
        super().__init__(url, timeout=timeout, tls=tls, proxy=proxy, credentials=credentials)
        self._spec: Spec = spec_of(version)
        self._patience = patience
        wsa, soap = self._spec.wsa or Wsa.V2005_08, self._spec.soap
        self._store = MemoryStore()
        policy = Policy(interval=0.5, ceiling=5.0, tries=max(3, int(patience)))
        self._sign_message, self._check = signing_by(bound_to), checking_by(trust, bound_to)
        binding = binding_of(bound_to, rm)
        party = Party(self._store, fresh_id, random.random, policy=policy, binding=binding)
        self._endpoint = Endpoint(party)
        target = EndpointReference(self._address, wsa)
        self._channel = Channel(target, Wire(rm, wsa, soap), anonymous(wsa))
        self._number = 0
        self._fault = ""
        self._why = ""
        """Why the last try came to nothing."""

    async def publish(
        self,
        payload: BodyContent,
        *,
        topic: str | None = None,
        action: str | None = None,
        sign: Sign | None = None,
    ) -> str:
        """Publish one event; on return the gateway has acknowledged it: its message system holds
        it. Its message id.

        Args:
            sign: Signs the event.

        Raises:
            GatewayError: It was refused, or not acknowledged in time.
            Refused: *payload* is not one acceptable XML element (a `ValueError` with line and
                column where it is not well-formed).
        """
        message_id = fresh_id()
        to, content = self._channel.target.address, body_element(payload)
        properties = signed_properties(None, sign, content, message_id, topic)
        said, envelope = write_publish(
            self._spec,
            to=to,
            payload=content,
            message_id=message_id,
            topic=topic,
            action=action,
            blocks=properties_block(properties).decode() if properties else "",
        )
        message = Message(said, message_id=message_id, envelope=envelope)
        with self._store.transaction() as tx:
            sent = self._endpoint.send(tx, time.time(), _NAME, self._channel, message)
        self._number, self._fault = sent.number, ""
        try:
            async with asyncio.timeout(self._patience):
                while not self._is_acknowledged(sent.number):
                    await self._work()
        except TimeoutError:
            text = f"{shown(self._url)} has not acknowledged it within {self._patience:g} seconds"
            raise GatewayError(f"{text}{f': {self._why}' if self._why else ''}") from None
        if self._fault:
            raise GatewayError(self._fault, status=500)
        return message_id

    async def finish(self) -> None:
        """End the sequence, if the gateway answers."""
        with self._store.transaction() as tx:
            there = self._endpoint.end(tx, time.time(), _NAME, self._channel)
        if not there:
            return
        try:
            async with asyncio.timeout(END):
                while (sequence := self._sequence()) is not None and sequence.ended_at is None:
                    await self._work()
        except (TimeoutError, GatewayError):
            pass  # All events are acknowledged; the gateway forgets the rest by itself.

    def _sequence(self) -> OutgoingSequence | None:
        with self._store.look() as look:
            return next(iter(look.outgoing_page("", 1)), None)

    def _is_acknowledged(self, number: int) -> bool:
        sequence = self._sequence()
        if sequence is None:
            return False
        if number in sequence.acknowledged:
            return True
        if sequence.failure is not None:
            raise GatewayError(f"the sequence was given up: {sequence.failure}")
        return False

    async def _work(self) -> None:
        """Send what is due, or wait until something is."""
        due = self._endpoint.due(time.time())
        for outgoing in due:
            await self._send(outgoing)
        if not due:
            at = self._endpoint.next_due()
            pause = 0.1 if at is None else min(max(at - time.time(), 0.01), 1.0)
            await asyncio.sleep(pause)

    async def _send(self, outgoing: Outgoing) -> None:
        headers, body = dict(outgoing.http_headers), outgoing.envelope
        if self._sign_message is not None:
            body = await asyncio.to_thread(self._sign_message, body)
        try:
            answer = await self._caller.call(
                "POST", outgoing.to.address, body=body, headers=headers
            )
        except GatewayError as error:
            self._why = str(error)
            return
        if self._check is not None and answer.body:
            try:
                await asyncio.to_thread(self._check, answer.body)
            except GatewayError as error:
                self._why = f"{error} ({answer.words})"
                return
        if not self._counts(answer):
            self._why = answer.words
            return
        self._endpoint.sent(outgoing, time.time(), delivered=True, answer=answer.body or None)

    def _counts(self, answer: Answer) -> bool:
        """Whether an answer is the gateway's own. One that says "not now", and the page of a proxy
        whose gateway is away, are waited out as a refused connection is.

        Raises:
            GatewayError: It tells of something that cannot be mended by sending again.
        """
        away = answer.status in _BUSY or answer.status >= 500
        if not answer.body:
            if not away and answer.status not in (200, 202):
                raise stranger(self._url, answer)
            return not away
        try:
            said = read_message(answer.body)
        except Refused:
            if not away:
                raise stranger(self._url, answer) from None
            return False
        if answer.status in _BUSY:
            return False
        if said.fault is None or isinstance(said.fault, RmFault):
            return True
        if _acknowledges(said, self._number):
            self._fault = f"{said.fault.reason or 'the event was refused'}"
            return True
        if self._sequence_is_unknown():
            text = "it takes no sequences, it seems; is it started with --wsrm offered?"
            raise GatewayError(f"{shown(self._url)}: {text} ({said.fault.reason})")
        if said.fault.permanent:
            raise GatewayError(said.fault.reason, status=answer.status, code=said.fault.code)
        self._why = said.fault.reason
        return True

    def _sequence_is_unknown(self) -> bool:
        sequence = self._sequence()
        return sequence is None or sequence.identifier is None


def _acknowledges(said: ReliableMessage, number: int) -> bool:
    return any(number in each.ranges for each in said.acknowledgements)
