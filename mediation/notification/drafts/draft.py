"""The names of one draft of WS-Notification, and the few things in which it has its own way."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from filters import Topic, dialects
from mediation.model.facts import Fact
from mediation.model.requests import Operation
from mediation.notification.brokered import BrokerNames
from mediation.resources.wsrf import WsrfNames


@dataclass(frozen=True, slots=True, eq=False)
class Draft:
    """One draft.

    Attributes:
        namespace: Of WS-BaseNotification's elements.
        brokered: Of WS-BrokeredNotification's.
        actions: The beginning of its actions.
        wsrf: The version of WSRF that its subscriptions are resources of.
        requests: Local names of its requests, which end their actions, too. Of several that mean
            one operation clients of ours send the first.
        subscription_key: The expanded name of the reference property that names a subscription.
        write_topic: Writes an element that holds a topic: its name, the topic, the topic dialect of
            the subscriber, and declarations.
        spelled: What it calls the topic dialects, by their URIs in 1.3.
        simple_is_blind: In its Simple dialect the namespace of a topic means nothing; clients of
            ours say Concrete where there is one.
        notify_actions: Further actions of Notify that peers send.
        responses: Local names of responses in actions, where they are not the operation's.
        empty_answers: Operations whose answer has an empty body.
        answers_notify: Notify is answered with NotifyResponse: its publishers wait for it.
        raw_as_notify: Raw notifications have the action of Notify always; else that of the event,
            where it has one.
        names_gateway: The gateway stands for a producer that nobody named; else there is none.
        repeats: A Subscribe that is the same as that of a subscription renews it.
        untold: What its Notify does not say of an event, besides what Notify of 1.3 does not.
        keeps_topic_element: A topic that a publisher of this draft wrote goes to its consumers as
            it is.
    """

    namespace: str
    brokered: str
    actions: str
    wsrf: WsrfNames
    requests: Mapping[str, Operation]
    subscription_key: str
    write_topic: Callable[[str, Topic, str | None, str], str]
    spelled: Mapping[str, str]
    simple_is_blind: bool = False
    notify_actions: tuple[str, ...] = ()
    responses: Mapping[Operation, str] = field(default_factory=dict)
    empty_answers: frozenset[Operation] = frozenset()
    answers_notify: bool = False
    raw_as_notify: bool = False
    keeps_topic_element: bool = False
    names_gateway: bool = True
    repeats: bool = False
    untold: frozenset[Fact] = frozenset()

    @property
    def declared(self) -> str:
        """The declaration of the prefix ``wsnt``."""
        return f' xmlns:wsnt="{self.namespace}"'

    @property
    def broker(self) -> BrokerNames:
        """The names of its WS-BrokeredNotification, which has no DestroyRegistration."""
        beginning = self.actions.replace("BaseNotification", "BrokeredNotification")
        register = f"{beginning}{Operation.REGISTER_PUBLISHER.value}"
        name, simple = Operation.REGISTER_PUBLISHER.value, dialects.TOPIC_SIMPLE
        return BrokerNames(
            self.brokered,
            (register,),
            request="",
            consumes=False,
            simple=self.spelled[simple] if self.simple_is_blind else simple,
            spelled=self.spelled,
            spellings=(name, f"{name}Request"),  # WS-Messenger's requests are named so.
        )

    @property
    def notify_action(self) -> str:
        return f"{self.actions}{Operation.PUBLISH.value}"

    def request_name(self, operation: Operation) -> str:
        """The local name of the request for *operation*."""
        return next(name for name, meant in self.requests.items() if meant is operation)
