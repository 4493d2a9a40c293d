"""Sends the viewer's requests as the gateway sends everything: where its policy of addresses allows
it, within the limits of its transports."""

import asyncio
from collections.abc import Callable, Collection, Mapping

from gateway.client import AnyClient, Client, speaking
from gateway.client.calling import Answer, Caller, shown
from gateway.client.errors import GatewayError
from gateway.client.soap_tcp import SoapTcpCaller
from gateway.egress import (
    AddressPolicy,
    AddressRefused,
    Request,
    SendFailed,
    Target,
    TransportByScheme,
)
from gateway.egress import Answer as SentAnswer
from gateway.egress.addresses import parse_target
from mediation.client import SPECS
from mediation.model.versions import Version

CONNECTING = 10.0
"""Seconds for a connection of SOAP.TCP."""
ANSWERING = 15.0
"""Seconds for an answer over one, which has 64 KiB at most."""
LONGEST_ANSWER = 2**16


class TransportChoice:
    """Chooses the transport to an address: to the gateway's own one that leads to nobody else, to
    all others the one that keeps to the policy.

    Args:
        bases: The URLs at which the gateway itself is reached.
    """

    def __init__(
        self,
        bases: Collection[str],
        to_self: TransportByScheme,
        to_others: TransportByScheme,
        policy: AddressPolicy,
    ) -> None:
        self._own = {parse_target(one).destination for one in bases}
        self._to_self = to_self
        self._to_others = to_others
        self._policy = policy

    def route(self, url: str) -> tuple[Target, TransportByScheme]:
        """Read *url*, and choose its transport.

        Raises:
            GatewayError: Nothing may be sent there.
        """
        try:
            target = parse_target(url)
            if target.destination in self._own:
                return target, self._to_self
            self._policy.check_named(target, trusted=True)
        except AddressRefused as refused:
            text = f"cannot send to {shown(url)}: {refused.with_mend().text}"
            raise GatewayError(text) from refused
        return target, self._to_others

    async def connect(self, url: str, factory: Callable[[], asyncio.BaseProtocol]) -> None:
        """Connect to *url*, one of SOAP.TCP, where the policy allows it.

        Raises:
            GatewayError: There is no connection.
        """
        target, transport = self.route(url)
        deadline = asyncio.get_running_loop().time() + CONNECTING
        try:
            await transport.connect(target, deadline, factory)
        except SendFailed as failed:
            raise GatewayError(f"cannot reach {shown(url)}: {failed.detail}") from failed

    async def close(self) -> None:
        """Close what leads to the gateway itself; the other transport is everybody's."""
        await self._to_self.close()


class PolicedCaller(Caller):
    """A `Caller` that keeps to the gateway's policy.

    Args:
        patient: Answers may take 40 seconds and have 1 MiB; else 15, and 64 KiB.
    """

    def __init__(self, transports: TransportChoice, *, patient: bool = False) -> None:
        super().__init__()
        self._transports = transports
        self._patient = patient

    async def __aenter__(self) -> "PolicedCaller":
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    async def call(
        self,
        method: str,
        url: str,
        *,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        target, transport = self._transports.route(url)
        request = Request(
            target,
            body or b"",
            tuple((headers or {}).items()),
            method=method,
            soap=None,
            patient=self._patient,
        )
        try:
            return _read(await transport.send(request))
        except SendFailed as failed:
            raise GatewayError(f"cannot reach {shown(url)}: {failed.detail}") from failed


def _read(answer: SentAnswer) -> Answer:
    media_type = answer.content_type.partition(";")[0].strip().lower()
    body = answer.document if media_type.endswith("xml") else answer.body
    return Answer(answer.status, body, media_type)


def client_at(
    url: str,
    version: Version,
    transports: TransportChoice,
    *,
    patient: bool = False,
) -> AnyClient:
    """The client that speaks *version* to the broker at *url*, which may be one of SOAP.TCP, where
    the policy allows it.

    Args:
        patient: As of `PolicedCaller`.

    Raises:
        GatewayError: *url* is none, or nothing speaks *version* there.
    """
    caller = PolicedCaller(transports, patient=patient)
    if version not in SPECS:
        return speaking(url, version, caller=caller)
    over_tcp = SoapTcpCaller(
        timeout=ANSWERING, max_answer=LONGEST_ANSWER, connect=transports.connect
    )
    return Client(url, version, caller=caller, soap_tcp=over_tcp)
