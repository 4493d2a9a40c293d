"""One subscriber without filters in each dialect, and everything that each of them got."""

from dataclasses import dataclass, field
from functools import partial

from mediation import names
from mediation.client import read_made, write_fetching, write_subscribe
from mediation.grid_events import Port, write_subscribe_lease
from mediation.matrix import NOTIFIED, Dialect
from mediation.model.messages import EndpointReference
from mediation.model.requests import Operation
from mediation.model.versions import Soap, Spec
from mediation.soap.envelopes import http_headers
from mediation.specifications import SPECIFICATIONS
from tests.rigs.cloudevents import agreeing, subscribed
from tests.rigs.consumers import Behaviour, Consumers, accept, acknowledge
from tests.rigs.envelopes import Answer, fresh_id
from tests.rigs.gateways import Running

LEASE = "2037-01-01T00:00:00Z"
_MAKING = {
    Operation.GET_MESSAGES: Operation.CREATE_PULL_POINT,
    Operation.TAKE_MESSAGES: Operation.CREATE_MESSAGE_BOX,
    Operation.PULL_MESSAGES: Operation.CREATE_PULL_POINT_SUBSCRIPTION,
}
_AT_ONCE = {
    b"<r:MaximumNumber>1<": b"<r:MaximumNumber>100<",
    b"<r:MessageLimit>1<": b"<r:MessageLimit>100<",
}


@dataclass
class Subscriber:
    """A subscriber of one dialect: sent to, or fetching from *box*."""

    run: Running
    dialect: Dialect
    consumers: Consumers
    box: str = ""
    fetched: list[bytes] = field(default_factory=list)

    @property
    def url(self) -> str:
        return self.consumers.url(self.dialect.name)

    @property
    def received(self) -> str:
        """The heads and bodies of everything that came."""
        came = self.consumers.at(self.url).received
        sent = [f"{one.headers}\n".encode() + one.body for one in came]
        return b"\n".join([*sent, *self.fetched]).decode()

    async def subscribe(self) -> None:
        """Subscribe to every topic."""
        form, fetching = self.dialect.forms[-1], self.dialect.fetching
        self.consumers.at(self.url).behaviour = _behaviour(self.dialect)
        if not isinstance(form, Soap):
            mode = {"mode": form.value}
            await subscribed(self.run, self.consumers.at(self.url), protocolsettings=mode)
        elif SPECIFICATIONS[self.dialect.version].calls:
            headers, octets = write_subscribe_lease(Port(self.url, "urn:listener"), 600_000)
            await self._post("/soap", dict(headers), octets)
        elif fetching is None:
            await self._subscribe_at(form, self.url)
        else:
            made = await self._ask(_MAKING[fetching.operation], "/soap")
            self.box = read_made(made.body)
            if "://" not in self.box:
                self.box = f"{self.run.url}/axis2/services/MsgBoxService/clientid/{self.box}"
            if fetching.operation is not Operation.PULL_MESSAGES:
                await self._subscribe_at(form, self.box)

    async def fetch(self) -> None:
        """Take everything that waits in the box, where there is one."""
        fetching = self.dialect.fetching
        while fetching is not None:
            answer = await self._ask(fetching.operation, self.box.removeprefix(self.run.url))
            if not _holds_messages(answer):
                return
            self.fetched.append(answer.body)

    async def _subscribe_at(self, form: Soap, consumer: str) -> None:
        action, octets = write_subscribe(
            Spec(self.dialect.version, form, self.dialect.wsa),
            to=f"{self.run.url}/soap",
            consumer=EndpointReference(consumer, self.dialect.wsa),
            message_id=fresh_id(),
            expires=LEASE,
            raw=self.dialect.raw,
            topic_dialect=self.dialect.topics,
            mode=names.WSMAN_EVENTS if self.dialect.delivery.batched else None,
        )
        await self._post("/soap", dict(http_headers(form, action)), octets)

    async def _ask(self, operation: Operation, path: str) -> Answer:
        fetching, form = self.dialect.fetching, self.dialect.forms[-1]
        assert fetching is not None and isinstance(form, Soap)
        action, octets = write_fetching(
            Spec(fetching.version, form, self.dialect.wsa),
            operation,
            f"{self.run.url}{path}",
            message_id=fresh_id(),
            expires=LEASE,
            wait="PT0S",
        )
        for one, many in _AT_ONCE.items():
            octets = octets.replace(one, many)
        return await self._post(path, dict(http_headers(form, action)), octets)

    async def _post(self, path: str, headers: dict[str, str], octets: bytes) -> Answer:
        named = {name.replace("-", "_"): value for name, value in headers.items()}
        answer = await self.run.request("POST", path, octets, **named)
        assert answer.status == 200, answer.body
        return answer


def _behaviour(dialect: Dialect) -> Behaviour:
    return (
        agreeing() if not dialect.in_soap else acknowledge if dialect.delivery.batched else accept
    )


def _holds_messages(answer: Answer) -> bool:
    taken = answer.message.body[0]
    places = (".//{*}NotificationMessage", ".//{*}messages/*", ".//{*}messageAsString")
    return any(taken.find(place) is not None for place in places)


async def subscribe_each(run: Running, consumers: Consumers) -> list[Subscriber]:
    """One subscriber in each dialect."""
    made = list(map(partial(Subscriber, run, consumers=consumers), NOTIFIED))
    for one in made:
        await one.subscribe()
    return made
