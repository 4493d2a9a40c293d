"""Subscribes as a form says, in any dialect, and shows what went over the wire."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta

from filters import Refused
from gateway.client import Client, speaking
from gateway.client.calling import Answer
from gateway.client.errors import GatewayError
from gateway.client.messaging import Subscription
from gateway.web.console.viewer.calls import PolicedCaller, TransportChoice
from gateway.web.console.viewer.references import HeldReference, HeldReferences
from mediation import names
from mediation.model.versions import Version

RAW = "raw"
MODES: Mapping[str, tuple[str, str | None]] = {
    "": ("sent, as the specification does it", None),
    RAW: ("sent raw: the events alone", None),
    "ack": ("sent, each to be acknowledged (WS-Management)", names.WSMAN_PUSH_WITH_ACK),
    "batches": ("sent, several in one message (WS-Management)", names.WSMAN_EVENTS),
    "pull": ("fetched by Pull (WS-Management)", names.WSMAN_PULL),
}
"""Delivery modes: to each its title, and the URI by which WS-Eventing 2004/08 asks for it."""


@dataclass(frozen=True, slots=True)
class SubscribeTrial:
    """The content of a form.

    Attributes:
        url: Of the broker, as people write it.
        mode: A key of `MODES`.
    """

    url: str
    version: Version
    consumer: str
    topic: str | None
    xpath: str | None
    namespaces: Mapping[str, str]
    lease: timedelta
    mode: str = ""


@dataclass(frozen=True, slots=True)
class RecordedCall:
    """A request as it was sent, and its answer; None: there was none."""

    method: str
    url: str
    headers: tuple[tuple[str, str], ...]
    body: str
    answer: Answer | None

    @property
    def answered(self) -> str:
        """The body of the answer."""
        return "" if self.answer is None else self.answer.body.decode("utf-8", "replace")


class RecordingCaller(PolicedCaller):
    """A `PolicedCaller` that keeps what went over the wire."""

    def __init__(self, transports: TransportChoice) -> None:
        super().__init__(transports)
        self.calls: list[RecordedCall] = []

    async def call(
        self,
        method: str,
        url: str,
        *,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        answer: Answer | None = None
        try:
            answer = await super().call(method, url, body=body, headers=headers)
            return answer
        finally:
            text = (body or b"").decode("utf-8", "replace")
            sent = tuple((headers or {}).items())
            self.calls.append(RecordedCall(method, url, sent, text, answer))


@dataclass(slots=True)
class SubscribeOutcome:
    """What became of a trial.

    Attributes:
        said: Why there is no subscription; empty where there is one.
        held: Its reference, by which it is managed.
    """

    calls: list[RecordedCall] = field(default_factory=list)
    said: str = ""
    held: HeldReference | None = None


async def subscribe(
    trial: SubscribeTrial, transports: TransportChoice, references: HeldReferences
) -> SubscribeOutcome:
    """Send a Subscribe, and hold the reference of the subscription that it made."""
    caller, outcome = RecordingCaller(transports), SubscribeOutcome()
    try:
        subscription = await _subscribe(trial, caller)
    except (GatewayError, Refused) as refused:
        outcome.said = refused.text if isinstance(refused, Refused) else str(refused)
    else:
        outcome.held = references.hold(
            trial.url, trial.version, subscription, topic=trial.topic or "", made_by="a trial"
        )
    outcome.calls = caller.calls
    return outcome


WITH_MODES = Version.WSE_2004_08
"""The specification in which delivery modes have names."""


async def _subscribe(trial: SubscribeTrial, caller: RecordingCaller) -> Subscription:
    async with speaking(trial.url, trial.version, caller=caller) as client:
        if isinstance(client, Client):
            _, mode = MODES[trial.mode]
            if mode is not None and trial.version is not WITH_MODES:
                raise GatewayError("WS-Eventing 2004/08 alone has delivery modes by their names")
            return await client.subscribe(
                trial.consumer,
                topic=trial.topic,
                xpath=trial.xpath,
                namespaces=trial.namespaces,
                lease=trial.lease,
                raw=trial.mode == RAW,
                mode=mode,
            )
        if trial.mode:
            raise GatewayError(f"{trial.version.value} has one way of delivery alone")
        return await client.subscribe(
            trial.consumer,
            topic=trial.topic,
            xpath=trial.xpath,
            namespaces=trial.namespaces,
            lease=trial.lease,
        )
