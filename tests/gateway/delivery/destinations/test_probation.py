"""Hosts that never agreed to be consumers, and what strangers can have sent to them."""

import asyncio
from ipaddress import ip_address
from pathlib import Path

import pytest

from gateway.delivery.destinations.probation import (
    FORGOTTEN,
    MINUTE,
    Probation,
    ProbationLimits,
    Probations,
)
from gateway.delivery.outbox import OutboxDestination
from gateway.egress import (
    AddressPolicy,
    Consumer,
    ConsumerOptions,
    Dialer,
    HttpTransport,
    IPAddress,
    Request,
    SendFailed,
    Transport,
    parse_target,
)
from gateway.egress.host_list import HostList
from gateway.egress.soap_tcp_transport import SoapTcpTransport
from tests.rigs.consumers import Consumers, consumers, status
from tests.rigs.envelopes import WSE, Speaker, wse_filter
from tests.rigs.gateways import Running, running
from tests.rigs.waiting import until

SPEAKER = Speaker()
EVENT = "<t:event xmlns:t='urn:test'><n>{}</n></t:event>"
STRANGERS = [f"127.0.1.{number}" for number in range(1, 11)]
NO = status(404)


def simulate(probation: Probation, seconds: float, *, step: float = 0.25) -> list[float]:
    """The times at which a host is sent to that always says no, at once."""
    attempts, now = [], 0.0
    while now < seconds and not probation.over:
        if probation.wait(now) <= 0:
            probation.started(now)
            probation.failed(now)
            attempts.append(now)
        else:
            now += step
    return attempts


def test_few_attempts_a_minute_and_in_all() -> None:
    probation = Probation(ProbationLimits())
    attempts = simulate(probation, 86400.0)
    assert len(attempts) == 20
    assert probation.over
    for first in attempts:
        assert sum(first <= each < first + MINUTE for each in attempts) <= 6
    # The breaker opens for the host, so a consumer that begins late has the better part of an hour.
    assert attempts[4] == 0.0
    assert attempts[-1] > 20 * MINUTE


def test_a_host_without_failures_in_a_row_has_its_rate_all_the_same() -> None:
    probation = Probation(ProbationLimits(in_all=1000))
    now, started = 0.0, 0
    while now < 10 * MINUTE:
        wait = probation.wait(now)
        now += wait
        if wait == 0:
            probation.started(now)
            started += 1
    assert started <= 6 * 11


def destination(host: str, port: int = 80, scheme: str = "http") -> OutboxDestination:
    return OutboxDestination((scheme, host, port))


def is_over(one: OutboxDestination) -> bool:
    return one.probation is not None and one.probation.over


def is_free(one: OutboxDestination) -> bool:
    return one.is_free


def test_one_probation_for_all_of_a_host() -> None:
    probations = Probations()
    those = [destination("h"), destination("h", 8080), destination("h", 443, "https")]
    other = destination("other")
    for one in (*those, other):
        probations.admit(one, "anonymous:192.0.2.1", 0.0)
    assert len({id(one.probation) for one in those}) == 1
    assert other.probation is not those[0].probation
    for _ in range(6):
        those[0].start(0.0)
    assert not any(one.may_start(0.0) for one in those)
    assert other.may_start(0.0)
    # What is under way decides.
    for _ in range(14):
        those[1].start(MINUTE)
    assert not is_over(those[0])
    those[0].active = those[1].active = 0
    assert is_over(those[0])
    assert set(probations.agree(those[1].name)) == set(those)
    assert all(one.is_free and one.agreed for one in those)
    assert not other.agreed


def test_soap_tcp_agrees_for_itself() -> None:
    """Any server acknowledges what comes: that says nothing of what else the host wants."""
    probations = Probations()
    web, tcp = destination("h"), destination("h", 9000, "soap.tcp")
    another = destination("h", 9001, "soap.tcp")
    for one in (web, tcp, another):
        probations.admit(one, "anonymous:192.0.2.1", 0.0)
    assert list(probations.agree(tcp.name)) == [tcp]
    assert (web.agreed, tcp.agreed, another.agreed) == (False, True, False)
    assert web.probation is another.probation is not None
    assert set(probations.agree(web.name)) == {web, another}


def test_who_needs_no_probation() -> None:
    listed = HostList(["10.0.0.0/8", "good.example.org", "*.plant.example.org"])
    probations = Probations(vouches="anonymous:127.0.0.1".__eq__, exempt=listed.__contains__)
    for host in ("10.1.2.3", "good.example.org", "a.plant.example.org"):
        probations.admit(one := destination(host), "anonymous:192.0.2.1", 0.0)
        assert one.is_free, host
    probations.admit(box := destination("key", 0, "mailbox"), "anonymous:192.0.2.1", 0.0)
    assert box.is_free
    for host in ("11.0.0.1", "bad.example.org", "plant.example.org"):
        probations.admit(one := destination(host), "anonymous:192.0.2.1", 0.0)
        assert not is_free(one), host
        # A trusted peer speaks for it, but that is not the host's word.
        probations.admit(one, "anonymous:127.0.0.1", 0.0)
        assert is_free(one), host
        assert not probations.has_agreed(one.name)


def test_an_old_probation_is_forgotten() -> None:
    probations = Probations()
    probations.admit(one := destination("h"), "anonymous:192.0.2.1", 0.0)
    for _ in range(20):
        one.start(1.0)
    one.active = 0
    assert one.probation is not None
    assert one.probation.over
    probations.forget(one)
    probations.admit(again := destination("h"), "anonymous:192.0.2.1", FORGOTTEN)
    assert again.probation is one.probation
    probations.admit(late := destination("h"), "anonymous:192.0.2.1", FORGOTTEN + 2.0)
    assert late.probation is not None
    assert not late.probation.over


class Everywhere:
    """A name server that gives every name one address, as a victim's enemy does."""

    async def resolve(self, host: str) -> list[IPAddress]:
        return [ip_address("127.0.0.1")]

    def close(self) -> None:
        """It holds nothing."""


@pytest.mark.parametrize("scheme", ["http", "soap.tcp"])
async def test_many_names_of_one_victim(scheme: str) -> None:
    """Each of a hundred names might have twenty attempts: but they are one address."""
    loop = asyncio.get_running_loop()
    probations = Probations(limits=ProbationLimits(probe=1e-9))
    async with consumers() as sinks:
        victim, good = sinks.add(NO), sinks.add()
        port = sinks.port
        dialer = Dialer(AddressPolicy(allow=["127.0.0.0/8"]), resolver=Everywhere())
        transports: dict[str, Transport] = {
            "http": HttpTransport(dialer),
            "soap.tcp": SoapTcpTransport(dialer),
        }
        sent, refused = 0, 0

        async def attempt(number: int, path: str) -> int:
            target = parse_target(f"{scheme}://name{number}.example.org:{port}{path}")
            probations.admit(
                one := OutboxDestination(target.destination), "anonymous:192.0.2.1", 0.0
            )
            gate = probations.gate(target.destination, loop.time, one)
            request = Request(target, b"<e/>", (("Content-Type", "text/xml"),), admit=gate)
            answer = await transports[scheme].send(request)
            if answer.status < 300:
                probations.agree(one.name, one.address)
            return answer.status

        for number in range(100):
            try:
                await attempt(number, "/c1" if scheme == "http" else "/")
                sent += 1
                if scheme == "soap.tcp":
                    break  # There it is acknowledged, which is all that can be had.
            except SendFailed as failure:
                assert failure.connecting
                refused += 1
        if scheme == "http":
            assert (sent, refused, victim.count) == (6, 94, 6)
            # Another host of it that is known to agree speaks for the address.
            probations.agree(("http", "127.0.0.1", port))
        assert good.count == 0
        for number in range(100, 120):
            assert await attempt(number, "/c2") == 202
        for transport in transports.values():
            await transport.close()
        dialer.close()


async def subscribe(run: Running, url: str, source: str, **body: str) -> None:
    answer = await run.ask(SPEAKER, SPEAKER.wse_subscribe(url, **body), source=source)
    assert answer.status == 200, answer.body


async def test_strangers_have_few_messages_sent_to_a_victim(tmp_path: Path) -> None:
    """200 subscriptions of 10 strangers to a host that answers 404, 20 events: it was 400 POSTs."""
    async with consumers() as sinks, running(tmp_path, trusted=()) as run:
        victim, good = sinks.add(NO), sinks.add()
        for source in STRANGERS:
            for number in range(10):
                path = f"{victim.url}?{number}"
                sinks.by_path[path[path.index("/", 8) :]] = victim
                await subscribe(run, path, source)
        await subscribe(run, good.url, STRANGERS[0])
        for number in range(20):
            await run.publish(EVENT.format(number), source="127.0.0.2")
        await good.have(20)
        await until(lambda: run.gateway.dispatchers.scheduler.in_flight == 0)
        assert 1 <= victim.count <= 6


async def test_a_host_that_never_agrees_loses_its_subscriptions(tmp_path: Path) -> None:
    async with consumers() as sinks, running(tmp_path, trusted=(), probation_attempts=4) as run:
        victim = sinks.add(NO)
        for source in STRANGERS[:3]:
            await subscribe(run, victim.url, source, end_to=victim.url)
        await run.publish(EVENT.format(1), source="127.0.0.2")
        await victim.have(3)
        await run.publish(EVENT.format(2), source="127.0.0.2")
        # Those to whom nothing is under way end at their next turn, the others after their retry.
        await until(lambda: len(run.gateway.subscriptions) == 0, 30.0)
        await run.gateway.subscription_ends.close(0.0)
        assert victim.count == 4, "their EndTo is a victim, too"
        ended = [log for log in run.logs if log["event"] == "subscription.ended"]
        assert len(ended) == 3


async def test_who_accepts_is_sent_to_at_once(tmp_path: Path) -> None:
    """A good consumer must not notice: its first 2xx is all that is needed, also for other paths
    of its host and after a restart."""
    number = 25
    async with Consumers() as consumer:
        for _ in range(2):
            async with running(tmp_path, adapter="embedded:", trusted=()) as run:
                if not len(run.gateway.subscriptions):
                    for index in range(number):
                        await subscribe(run, consumer.url(f"c{index}"), STRANGERS[index % 10])
                else:
                    assert run.gateway.probations.has_agreed(("http", "127.0.0.1", 1))
                for index in range(3):
                    await run.publish(EVENT.format(index), source="127.0.0.2")
                async with asyncio.timeout(MINUTE / 3):  # The rate of probation needs minutes.
                    for index in range(number):
                        for _ in range(3):
                            await consumer.next(consumer.url(f"c{index}"))
                await run.quiet()
                assert len(run.gateway.probations) == 0


async def test_a_box_destroyed_a_hundred_times_tells_no_victim(tmp_path: Path) -> None:
    """SubscriptionEnd goes where a stranger said, too."""
    async with consumers() as sinks, running(tmp_path, trusted=()) as run:
        victim = sinks.add(NO)
        for source in STRANGERS:
            answer = await run.request("POST", "/mailboxes", b"{}", source=source,
                content_type="application/json")  # fmt: skip
            box = answer.body.decode()
            address = box.partition('"address":"')[2].partition('"')[0]
            for _ in range(5):
                await subscribe(run, address, source, end_to=victim.url)
            key = box.partition('"key":"')[2].partition('"')[0]
            gone = await run.request("DELETE", f"/mailboxes/{key}", source=source)
            assert gone.status == 204, gone.body
        await until(lambda: len(run.gateway.subscriptions) == 0)
        await until(lambda: victim.count > 0)
        await run.gateway.subscription_ends.close(0.0)
        assert victim.count <= 6


# Answers to addresses that strangers name.


def reply_to(address: str, name: str = "ReplyTo") -> str:
    return f"<wsa:{name}><wsa:Address>{address}</wsa:Address></wsa:{name}>"


CURRENT = (
    '<n:GetCurrentMessage xmlns:n="http://docs.oasis-open.org/wsn/b-2"><n:Topic '
    'Dialect="http://docs.oasis-open.org/wsn/t-1/TopicExpression/Concrete">a</n:Topic>'
    "</n:GetCurrentMessage>"
)


async def test_strangers_have_no_answers_sent_to_a_victim(tmp_path: Path) -> None:
    """638 octets in were 200 KB out, to any address; faults, too."""
    async with consumers() as sinks, running(tmp_path, trusted=()) as run:
        victim = sinks.add()
        await run.publish(f"<a>{'x' * 100_000}</a>", path="/soap/topic/a", source="127.0.0.2")
        for name in ("ReplyTo", "FaultTo"):
            headers = reply_to(victim.url, name)
            answer = await run.ask(SPEAKER, CURRENT, headers=headers)
            assert answer.status == 200
            assert len(answer.body) > 100_000
            unknown = f'<e:GetStatus xmlns:e="{WSE}"/>'
            answer = await run.ask(SPEAKER, unknown, headers=headers)
            assert answer.fault.subcode
        await run.quiet()
        assert victim.count == 0


async def test_answers_to_an_agreed_host_are_bounded(tmp_path: Path) -> None:
    """It gets them as WS-Addressing says, up to a rate; the rest goes back to who asked."""
    octets = 400_000
    async with consumers() as sinks, running(tmp_path, trusted=()) as run:
        consumer = sinks.add()
        await subscribe(run, consumer.url, STRANGERS[0], filter=wse_filter("/no"))
        await subscribe(run, consumer.url, STRANGERS[0], filter=wse_filter("/*/a"))
        await run.publish(f"<a>{'x' * octets}</a>", path="/soap/topic/a", source="127.0.0.2")
        await subscribe(run, consumer.url, STRANGERS[1])
        await run.publish("<b/>", source="127.0.0.2")
        await consumer.have(1)
        before = consumer.count
        answers = [
            await run.ask(SPEAKER, CURRENT, headers=reply_to(consumer.url), source=source)
            for source in STRANGERS
        ]
        elsewhere = [answer for answer in answers if answer.status == 202]
        assert 3 <= len(elsewhere) <= 6
        assert all(len(answer.body) > octets for answer in answers if answer.status == 200)
        await consumer.have(before + len(elsewhere))


async def test_trusted_peers_have_their_answers_where_they_want(tmp_path: Path) -> None:
    async with consumers() as sinks, running(tmp_path) as run:
        consumer = sinks.add()
        await run.publish("<a/>", path="/soap/topic/a")
        answer = await run.ask(SPEAKER, CURRENT, headers=reply_to(consumer.url))
        assert answer.status == 202
        await consumer.have(1)


@pytest.mark.parametrize(
    ("host", "listed"),
    [
        ("10.1.2.3", True),
        ("11.1.2.3", False),
        ("a.example.org", True),
        ("b.c.lan", True),
        ("lan", False),
        ("2001:db8::1", True),
    ],
)
def test_hosts(host: str, listed: bool) -> None:
    assert (host in HostList(["10.0.0.0/8", "A.example.org", "*.lan", "2001:db8::/32"])) is listed
    assert host in HostList(["*"])
    assert host not in HostList()


ROWS = ConsumerOptions(
    [
        Consumer(address="https://hooks.bank.example/in", owner="user:bank"),
        Consumer(address="*.plant.example", owner="cert:CN=plant"),
    ]
)
WHO_AGREED = [
    pytest.param("user:bank", "hooks.bank.example", True, id="a registered owner"),
    pytest.param("user:mole", "hooks.bank.example", False, id="somebody else"),
    pytest.param("anonymous:10.0.0.1", "hooks.bank.example", False, id="nobody"),
    pytest.param("user:bank", "www.bank.example", False, id="another host of the owner's"),
    pytest.param("cert:CN=plant", "line7.plant.example", True, id="an owner by certificate"),
    pytest.param("anonymous:127.0.0.1", "a.example", True, id="a trusted peer"),
    pytest.param("anonymous:10.0.0.1", "known.example", True, id="a host that the operator named"),
    pytest.param("anonymous:10.0.0.1", "took.example", True, id="one that took a message"),
    pytest.param("anonymous:10.0.0.1", "a.example", False, id="one that did not"),
]


@pytest.mark.parametrize(("owner", "host", "agreed"), WHO_AGREED)
def test_who_agrees_for_a_host(owner: str, host: str, agreed: bool) -> None:
    probations = Probations(
        vouches=lambda owner: owner == "anonymous:127.0.0.1",
        owns=ROWS.owns,
        exempt=HostList(["known.example"]).__contains__,
        limits=ProbationLimits(in_all=0),
    )
    list(probations.agree(("https", "took.example", 443)))
    name = ("https", host, 443)
    destination = OutboxDestination(name)
    probations.admit(destination, owner, 0.0)
    assert (destination.probation is None) is agreed
    assert probations.may_notify(name, owner, 0.0) is agreed
    assert (probations.gate_for(name, owner, lambda: 0.0) is None) is agreed
