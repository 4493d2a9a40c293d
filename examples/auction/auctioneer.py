"""An auction as the Globus tutorial has it: an item with the property ``highestBid``, which tells
its subscribers of every change (WS-Notification 1.2, as in Globus Toolkit 4)."""

import threading
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime
from xml.etree import ElementTree
from xml.sax.saxutils import escape

from peers import (
    ANONYMOUS,
    AUCTION,
    CORE,
    SIMPLE,
    SOAP,
    WSBF,
    WSNT,
    WSNT_ACTIONS,
    WSRL,
    WSRL_ACTIONS,
    WSRP,
    WSRP_ACTIONS,
    Message,
    Reference,
    Service,
    envelope,
    local,
    send,
)

AUCTION_SERVICE = "/wsrf/services/AuctionService"
MANAGER_SERVICE = "/wsrf/services/SubscriptionManagerService"


@dataclass
class Subscription:
    """Who is told; ``until`` None is for ever."""

    consumer: Reference
    until: datetime | None
    paused: bool = False

    @property
    def is_over(self) -> bool:
        return self.until is not None and self.until <= datetime.now(UTC)


class Fault(Exception):
    """A fault: an element of a namespace, over BaseFault."""

    def __init__(self, namespace: str, name: str, text: str) -> None:
        super().__init__(text)
        self.namespace, self.name = namespace, name

    def written(self) -> str:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        return (
            f"<soapenv:Fault><faultcode>soapenv:Server</faultcode><faultstring>{escape(str(self))}"
            f'</faultstring><detail><f:{self.name} xmlns:f="{self.namespace}" xmlns:bf="{WSBF}">'
            f"<bf:Timestamp>{now}</bf:Timestamp><bf:Description>{escape(str(self))}"
            f"</bf:Description></f:{self.name}></detail></soapenv:Fault>"
        )


class Auctioneer(Service):
    """The producer: one item, and the subscriptions to its highest bid.

    Args:
        item: What is for sale.
    """

    def __init__(self, item: str) -> None:
        super().__init__()
        self.item, self.highest_bid = item, 0
        self._lock = threading.Condition()
        self._subscriptions: dict[str, Subscription] = {}
        self._operations = {
            f"{{{WSNT}}}Subscribe": (self._subscribe, f"{WSNT_ACTIONS}SubscribeResponse"),
            f"{{{WSNT}}}PauseSubscription": (
                self._pause, f"{WSNT_ACTIONS}PauseSubscriptionResponse"
            ),
            f"{{{WSNT}}}ResumeSubscription": (
                self._pause, f"{WSNT_ACTIONS}ResumeSubscriptionResponse"
            ),
            f"{{{WSRL}}}SetTerminationTime": (
                self._renew, f"{WSRL_ACTIONS}SetTerminationTimeResponse"
            ),
            f"{{{WSRL}}}Destroy": (self._destroy, f"{WSRL_ACTIONS}DestroyResponse"),
            f"{{{WSRP}}}GetResourceProperty": (
                self._property, f"{WSRP_ACTIONS}GetResourcePropertyResponse"
            ),
        }  # fmt: skip

    @property
    def address(self) -> str:
        return self.url + AUCTION_SERVICE

    @property
    def subscribers(self) -> int:
        with self._lock:
            return len(self._subscriptions)

    def wait_for_subscribers(self, number: int, seconds: float) -> bool:
        """Wait until there are so many subscribers; False where there are not in time."""
        with self._lock:
            return self._lock.wait_for(lambda: len(self._subscriptions) == number, seconds)

    def bid(self, bidder: str, amount: int) -> bool:
        """Bid; True where it is the highest, of which every subscriber is told then."""
        with self._lock:
            old = self.highest_bid
            if amount <= old:
                return False
            self.highest_bid = amount
            for key in [key for key, one in self._subscriptions.items() if one.is_over]:
                del self._subscriptions[key]
            told = [one.consumer for one in self._subscriptions.values() if not one.paused]
        for consumer in told:
            send(consumer, f"{WSNT_ACTIONS}Notify", self.notification(old, amount))
        return True

    def notification(self, old: int, new: int) -> str:
        """A change of the property, wrapped twice: in the element of the property's change, and in
        that of Globus's notifications."""

        def value(name: str, amount: int) -> str:
            bid = f'<a:highestBid xmlns:a="{AUCTION}">{amount}</a:highestBid>'
            return f"<rp:{name}>{bid}</rp:{name}>"

        change = f"{value('OldValue', old)}{value('NewValue', new)}"
        return (
            f'<n:Notify xmlns:n="{WSNT}"><n:NotificationMessage>'
            f'<n:Topic xmlns:a="{AUCTION}" Dialect="{SIMPLE}">a:highestBid</n:Topic>'
            f"<n:ProducerReference>{Reference(self.address).written()}</n:ProducerReference>"
            "<n:Message>"
            f'<c:ResourcePropertyValueChangeNotificationElement xmlns:c="{CORE}">'
            f'<rp:ResourcePropertyValueChangeNotification xmlns:rp="{WSRP}">{change}'
            "</rp:ResourcePropertyValueChangeNotification>"
            "</c:ResourcePropertyValueChangeNotificationElement>"
            "</n:Message></n:NotificationMessage></n:Notify>"
        )

    # Requests.

    def answer(self, message: Message) -> tuple[int, bytes]:
        relates_to = message.header("{http://schemas.xmlsoap.org/ws/2004/03/addressing}MessageID")
        try:
            name = "" if message.body is None else message.body.tag
            if name not in self._operations or message.body is None:
                raise Fault(WSNT, "ResourceUnknownFault", "There is no such operation.")
            operation, action = self._operations[name]
            body, status = operation(message, message.body), 200
        except Fault as fault:
            body, action, status = fault.written(), f"{SOAP}fault", 500
        return status, envelope(action, ANONYMOUS, body, relates_to=relates_to)

    def _subscribe(self, message: Message, body: ElementTree.Element) -> str:
        found = {local(child): child for child in body}
        topic = found.get("TopicExpression")
        named = "" if topic is None else (topic.text or "").strip()
        if named.rpartition(":")[2] != "highestBid":
            raise Fault(WSNT, "TopicNotSupportedFault", f"{named} is no topic of the auction.")
        if "ConsumerReference" not in found:
            raise Fault(WSNT, "SubscribeCreationFailedFault", "There is no consumer.")
        key = uuid.uuid4().hex
        with self._lock:
            self._subscriptions[key] = Subscription(
                Reference.read(found["ConsumerReference"]),
                _time(found.get("InitialTerminationTime")),
            )
            self._lock.notify_all()
        named_by = f'<k:SubscriptionKey xmlns:k="{CORE}">{key}</k:SubscriptionKey>'
        reference = Reference(self.url + MANAGER_SERVICE, (named_by,)).written()
        return (
            f'<n:SubscribeResponse xmlns:n="{WSNT}"><n:SubscriptionReference>{reference}'
            "</n:SubscriptionReference></n:SubscribeResponse>"
        )

    def _named(self, message: Message, namespace: str) -> str:
        key = message.header(f"{{{CORE}}}SubscriptionKey") or ""
        if key not in self._subscriptions or self._subscriptions[key].is_over:
            raise Fault(namespace, "ResourceUnknownFault", "There is no such subscription.")
        return key

    def _pause(self, message: Message, body: ElementTree.Element) -> str:
        name = local(body)
        with self._lock:
            key = self._named(message, WSNT)
            self._subscriptions[key].paused = name == "PauseSubscription"
        return f'<n:{name}Response xmlns:n="{WSNT}"/>'

    def _renew(self, message: Message, body: ElementTree.Element) -> str:
        until = _time(body.find(f"{{{WSRL}}}RequestedTerminationTime"))
        with self._lock:
            self._subscriptions[self._named(message, WSRL)].until = until
        return (
            f'<l:SetTerminationTimeResponse xmlns:l="{WSRL}">{_written("New", until)}'
            f"<l:CurrentTime>{datetime.now(UTC).isoformat()}</l:CurrentTime>"
            "</l:SetTerminationTimeResponse>"
        )

    def _destroy(self, message: Message, body: ElementTree.Element) -> str:
        with self._lock:
            del self._subscriptions[self._named(message, WSRL)]
            self._lock.notify_all()
        return f'<l:DestroyResponse xmlns:l="{WSRL}"/>'

    def _property(self, message: Message, body: ElementTree.Element) -> str:
        """The highest bid of the item, or until when a subscription lives."""
        name = (body.text or "").strip().rpartition(":")[2]
        with self._lock:
            if name == "highestBid":
                value = f'<a:highestBid xmlns:a="{AUCTION}">{self.highest_bid}</a:highestBid>'
            elif name == "TerminationTime":
                until = self._subscriptions[self._named(message, WSRP)].until
                value = _written("", until)
            else:
                raise Fault(WSRP, "InvalidResourcePropertyQNameFault", f"There is no {name}.")
        return (
            f'<p:GetResourcePropertyResponse xmlns:p="{WSRP}" xmlns:l="{WSRL}">{value}'
            "</p:GetResourcePropertyResponse>"
        )


def _time(element: ElementTree.Element | None) -> datetime | None:
    text = "" if element is None else (element.text or "").strip()
    return datetime.fromisoformat(text) if text else None


def _written(kind: str, until: datetime | None) -> str:
    """A termination time; nil is never."""
    if until is None:
        nil = 'xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:nil="true"'
        return f"<l:{kind}TerminationTime {nil}/>"
    return f"<l:{kind}TerminationTime>{until.isoformat()}</l:{kind}TerminationTime>"
