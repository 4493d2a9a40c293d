"""The other side of a specification: what subscribers, publishers and consumers say."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, NoReturn, Protocol

from lxml import etree

from filters import Reason, Topic
from mediation.model.delivery_modes import DeliveryAssurance, SourceOptions
from mediation.model.errors import MediationError
from mediation.model.messages import EndpointReference
from mediation.model.requests import Operation
from mediation.model.versions import Soap, Wsa


class RequestParts(NamedTuple):
    """A request of ours without its envelope and its addressing headers."""

    action: str
    body: str
    headers: str = ""


@dataclass(frozen=True, slots=True)
class SubscribeOptions:
    """The content of a Subscribe that a client of ours writes, as the arguments of
    `mediation.client.write_subscribe`; *wsa* is the version of WS-Addressing that is spoken."""

    consumer: EndpointReference
    topic: str | None = None
    xpath: str | None = None
    namespaces: Mapping[str, str] = field(default_factory=dict)
    expires: str | None = None
    end_to: EndpointReference | None = None
    raw: bool = False
    topic_dialect: str | None = None
    mode: str | None = None
    reliable: str = ""
    assurance: DeliveryAssurance | None = None
    since: str | None = None
    order_key: str | None = None
    actions: tuple[str, ...] = ()
    source: SourceOptions | None = None
    content: tuple[str, str] | None = None
    wsa: Wsa | None = None

    def content_filter(self, xpath_dialect: str) -> tuple[str, str] | None:
        """The filter over content, and its dialect; that of XPath is *xpath_dialect*.

        Raises:
            MediationError: ``FILTER_DIALECT``: there are two.
        """
        if self.xpath and self.content:
            text = "XPath and a selector are two filters over content: give one of them."
            raise MediationError(Reason.FILTER_DIALECT, text)
        return (self.xpath, xpath_dialect) if self.xpath else self.content


@dataclass(frozen=True, slots=True)
class LeaseOptions:
    """A subscription that is asked for, renewed and given up by one call.

    Attributes:
        producer: Whom it is asked of.
        seconds: The lease; the shortest that there is gives it up.
        example: The fields of an event that is an example of what is wanted, by name.
    """

    producer: EndpointReference
    consumer: EndpointReference
    seconds: float
    example: Mapping[str, str] = field(default_factory=dict)


class Leasing(Protocol):
    """Our own side as a subscriber in a version where one call subscribes, and renews."""

    def subscribe(self, wanted: LeaseOptions) -> tuple[str, bytes]:
        """Write the call: its action, and its envelope in SOAP 1.1.

        Raises:
            MediationError: It cannot be written.
        """

    def read_granted(self, octets: bytes) -> float:
        """Read the seconds that were granted.

        Raises:
            Refused: It does not say.
        """


class UnwrappedEvent(NamedTuple):
    """One event of a wrapped message: its topic, its payload, the address of the manager of the
    subscription that it is for, and its own action, as far as the message tells them."""

    topic: Topic | None
    payload: bytes
    subscription: str | None = None
    action: str | None = None


class Client(Protocol):
    """Our own side as subscriber, publisher and consumer in a version. A request that the version
    does not have is refused with ``ACTION_UNSUPPORTED`` (`refuse_operation`)."""

    @property
    def soap(self) -> Soap:
        """The SOAP version to speak where nobody asks for another."""

    @property
    def wsa(self) -> Wsa:
        """The version of WS-Addressing, likewise."""

    @property
    def notify(self) -> frozenset[str]:
        """The expanded names of elements that wrap notifications."""

    def subscribe(self, wanted: SubscribeOptions) -> RequestParts:
        """Write Subscribe."""

    def manage(self, operation: Operation, expires: str | None = None) -> RequestParts:
        """Write a request to a subscription's manager; *expires* as in `write_renew`."""

    def get_property(self, name: str) -> RequestParts:
        """Write GetResourceProperty of *name*, in Clark notation."""

    def get_current_message(self, topic: str) -> RequestParts:
        """Write GetCurrentMessage."""

    def publish(
        self,
        payload: str,
        topic: str | None,
        action: str | None,
        producer: EndpointReference | None,
    ) -> RequestParts:
        """Write an event."""

    def unwrap(self, notify: etree._Element, *, in_ours: bool) -> Iterable[UnwrappedEvent]:
        """The events in an element of `notify`; *in_ours* as in `payload_of`."""


def refuse_actions(wanted: SubscribeOptions) -> None:
    """Refuse to write a filter of actions, which the version does not have, if one is *wanted*.

    Raises:
        MediationError: ``FILTER_DIALECT``.
    """
    if wanted.actions:
        raise MediationError(
            Reason.FILTER_DIALECT, "The specification has no filter of actions; WS-Eventing has."
        )


def refuse_operation(operation: Operation) -> NoReturn:
    """Refuse to write *operation*, which the version does not have.

    Raises:
        MediationError: ``ACTION_UNSUPPORTED``.
    """
    raise MediationError(Reason.ACTION_UNSUPPORTED, f"The specification has no {operation.value}.")
