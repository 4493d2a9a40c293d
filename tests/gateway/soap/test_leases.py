"""How long subscriptions live, and how many there may be."""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.rigs.consumers import Consumers
from tests.rigs.envelopes import (
    RL,
    S11,
    S12,
    WSE,
    WSNT,
    Answer,
    Speaker,
    notification_message,
    notify,
    topic_expression,
    wse_filter,
)
from tests.rigs.gateways import Running, running

DAY = timedelta(days=1)
SOMEWHERE = "http://consumer.example.org/sink"
WSE_EXPIRES = f"{{{WSE}}}SubscribeResponse/{{{WSE}}}Expires"
SPEAKER = Speaker()


def granted(answer: Answer) -> timedelta | None:
    """What a WS-Notification answer grants from now on; None is for ever."""
    assert answer.status == 200, answer.body
    body = answer.message.body[0]
    time, now = body.find(f"{{{WSNT}}}TerminationTime"), body.find(f"{{{WSNT}}}CurrentTime")
    assert time is not None and now is not None and now.text
    if time.get("{http://www.w3.org/2001/XMLSchema-instance}nil") == "true":
        assert not time.text
        return None
    assert time.text is not None
    return datetime.fromisoformat(time.text) - datetime.fromisoformat(now.text)


async def test_ws_eventing_grants(tmp_path: Path) -> None:
    async with running(tmp_path) as run:
        cases = {
            None: "PT24H",
            "": "PT24H",
            "PT90M": "PT1H30M",
            "P2D": "PT48H",
            " PT60.000S ": "PT1M",
            "P1Y": None,
        }
        for asked, expected in cases.items():
            answer = await run.ask(SPEAKER, SPEAKER.wse_subscribe(SOMEWHERE, expires=asked))
            text = answer.message.text(WSE_EXPIRES)
            assert re.fullmatch(r"PT(\d+H)?(\d+M)?(\d+S)?", text), text
            assert expected in (None, text), asked
        soon = datetime.now(UTC) + timedelta(hours=3)
        times = {
            "3600000": timedelta(hours=1),
            soon.isoformat(): timedelta(hours=3),
            f"{soon:%Y-%m-%dT%H:%M:%S}": timedelta(hours=3),
        }
        for asked, length in times.items():
            answer = await run.ask(SPEAKER, SPEAKER.wse_subscribe(SOMEWHERE, expires=asked))
            text = answer.message.text(WSE_EXPIRES)
            assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", text), asked
            left = datetime.fromisoformat(text) - datetime.now(UTC)
            assert abs(left - length) < timedelta(seconds=30)


async def test_ws_notification_grants(tmp_path: Path) -> None:
    async with running(tmp_path) as run:
        cases = {None: DAY, "PT90M": timedelta(minutes=90), "P40D": 40 * DAY, "nil": None}
        for asked, expected in cases.items():
            answer = await run.ask(SPEAKER, SPEAKER.wsn_subscribe(SOMEWHERE, expires=asked))
            assert granted(answer) == expected
        path = await run.subscribe(SPEAKER, SPEAKER.wsn_subscribe(SOMEWHERE))
        nil = 'xmlns:i="http://www.w3.org/2001/XMLSchema-instance" i:nil="true"'
        renew = f'<n:Renew xmlns:n="{WSNT}"><n:TerminationTime {nil}/></n:Renew>'
        assert granted(await run.ask(SPEAKER, renew, path)) is None
        answer = await run.ask(SPEAKER, f'<n:Renew xmlns:n="{WSNT}"/>', path)
        assert granted(answer) == DAY
        # WS-Eventing has no word for ever but to say nothing.
        await run.ask(SPEAKER, renew, path)
        status = await run.ask(SPEAKER, f'<e:GetStatus xmlns:e="{WSE}"/>', path)
        assert status.message.find(f"{{{WSE}}}GetStatusResponse/{{{WSE}}}Expires") is None


async def test_strangers_get_less(tmp_path: Path) -> None:
    async with running(tmp_path, trusted=(), longest_lease=3600, default_lease=7200) as run:
        for asked in (None, "P30D", "-1", "*", "9999999999999"):
            answer = await run.ask(SPEAKER, SPEAKER.wse_subscribe(SOMEWHERE, expires=asked))
            text = answer.message.text(WSE_EXPIRES)
            if text != "PT1H":  # Who asks in milliseconds is answered with a dateTime.
                assert asked in ("-1", "*", "9999999999999")
                left = datetime.fromisoformat(text) - datetime.now(UTC)
                assert timedelta(minutes=59) < left <= timedelta(hours=1)
        assert granted(await run.ask(SPEAKER, SPEAKER.wsn_subscribe(SOMEWHERE))) == DAY / 24
        path = await run.subscribe(SPEAKER, SPEAKER.wsn_subscribe(SOMEWHERE, expires="PT1H"))
        count = len(run.gateway.subscriptions)
        initial = "UnacceptableInitialTerminationTimeFault"
        for asked in ("P30D", "nil", "2999-01-01T00:00:00Z"):
            answer = await run.ask(SPEAKER, SPEAKER.wsn_subscribe(SOMEWHERE, expires=asked))
            check_times(answer, f"{{{WSNT}}}{initial}")
        renew = f'<n:Renew xmlns:n="{WSNT}"><n:TerminationTime>P30D</n:TerminationTime></n:Renew>'
        answer = await run.ask(SPEAKER, renew, path)
        check_times(answer, f"{{{WSNT}}}UnacceptableTerminationTimeFault")
        change = (
            f'<r:SetTerminationTime xmlns:r="{RL}"><r:RequestedLifetimeDuration>P30D'
            "</r:RequestedLifetimeDuration></r:SetTerminationTime>"
        )
        answer = await run.ask(SPEAKER, change, path)
        assert answer.fault.element == f"{{{RL}}}TerminationTimeChangeRejectedFault"
        assert len(run.gateway.subscriptions) == count


def check_times(answer: Answer, element: str) -> None:
    fault = answer.fault
    assert (answer.status, fault.element) == (400, element)
    assert fault.detail is not None
    least = fault.detail.findtext(f"{{{WSNT}}}MinimumTime")
    most = fault.detail.findtext(f"{{{WSNT}}}MaximumTime")
    assert least is not None and most is not None
    allowed = datetime.fromisoformat(most) - datetime.fromisoformat(least)
    assert allowed == timedelta(hours=1)


async def test_what_expires(tmp_path: Path) -> None:
    """WS-Eventing: gone, and nobody is told. WS-Notification: a Renew soon after revives it."""
    async with running(tmp_path) as run, Consumers() as consumer:
        wse, wsn, end = consumer.fresh(), consumer.fresh(), consumer.fresh()
        one = await run.subscribe(SPEAKER, SPEAKER.wse_subscribe(wse, expires="300", end_to=end))
        two = await run.subscribe(SPEAKER, SPEAKER.wsn_subscribe(wsn, expires="PT0.3S"))
        [entry] = [e for e in run.gateway.subscriptions.entries if wsn == e.target.url]
        await run.until(lambda: entry.halted and len(run.gateway.subscriptions) == 1)
        await run.publish("<lost/>")
        status = await run.ask(SPEAKER, f'<e:GetStatus xmlns:e="{WSE}"/>', one)
        assert status.fault.subcode == f"{{{WSE}}}InvalidMessage"
        renew = f'<e:Renew xmlns:e="{WSE}"><e:Expires>PT1H</e:Expires></e:Renew>'
        assert (await run.ask(SPEAKER, renew, one)).status == 400
        for name in ("PauseSubscription", "ResumeSubscription", "GetStatus"):
            answer = await run.ask(SPEAKER, f'<n:{name} xmlns:n="{WSNT}"/>', two)
            assert answer.fault.element.endswith("ResourceUnknownFault")
        renew = f'<n:Renew xmlns:n="{WSNT}"><n:TerminationTime>PT1H</n:TerminationTime></n:Renew>'
        assert granted(await run.ask(SPEAKER, renew, two)) == timedelta(hours=1)
        await run.publish("<kept/>")
        assert (await consumer.next(wsn)).payload.tag == "kept"
        await run.quiet()
        assert [consumer.waiting(url) for url in (wse, wsn, end)] == [0, 0, 0]


async def test_the_grace_ends(tmp_path: Path) -> None:
    async with running(tmp_path, grace=0.2) as run:
        body = SPEAKER.wsn_subscribe(SOMEWHERE, expires="PT0.1S")
        path = await run.subscribe(SPEAKER, body)
        await run.until(lambda: len(run.gateway.subscriptions) == 0)
        renew = f'<n:Renew xmlns:n="{WSNT}"/>'
        answer = await run.ask(SPEAKER, renew, path)
        assert answer.fault.element.endswith("ResourceUnknownFault")
        # One that is renewed in time does not end at the time that it had before.
        path = await run.subscribe(SPEAKER, body)
        assert (await run.ask(SPEAKER, renew, path)).status == 200
        other = await run.subscribe(SPEAKER, body)
        await run.until(lambda: len(run.gateway.subscriptions) == 1)
        assert (await run.ask(SPEAKER, renew, path)).status == 200
        assert (await run.ask(SPEAKER, renew, other)).status == 400


async def test_leases_outlive_the_process(tmp_path: Path) -> None:
    async with Consumers() as consumer:
        kept, short, paused = consumer.fresh(), consumer.fresh(), consumer.fresh()
        speaker = Speaker(S11)
        async with running(tmp_path, public_url="http://localhost:8080") as run:
            params = speaker.parameters('<x:Box xmlns:x="urn:test:box">7</x:Box>')
            filter_ = wse_filter("w:storms", scope='xmlns:w="urn:w"', dialect=topic_dialect())
            body = speaker.wse_subscribe(kept, filter=filter_, inner=params, expires="PT1H")
            path = await run.subscribe(speaker, body)
            await run.subscribe(speaker, speaker.wse_subscribe(short, expires="50"))
            held = await run.subscribe(speaker, speaker.wsn_subscribe(paused))
            await run.ask(speaker, f'<n:PauseSubscription xmlns:n="{WSNT}"/>', held)
        async with running(tmp_path, public_url="http://localhost:8080") as run:
            await run.until(lambda: len(run.gateway.subscriptions) == 2)
            message = notification_message("<a/>", "x:storms")
            await run.publish(notify(message, scope='xmlns:x="urn:w"'))
            received = await consumer.next(kept)
            assert received.message.soap is S11
            assert received.message.header("Box", "urn:test:box") is not None
            await run.quiet()
            assert [consumer.waiting(url) for url in (kept, short, paused)] == [0, 0, 0]
            answer = await run.ask(speaker, f'<e:GetStatus xmlns:e="{WSE}"/>', path)
            left = answer.message.text(f"{{{WSE}}}GetStatusResponse/{{{WSE}}}Expires")
            assert left.startswith(("PT59M", "PT1H"))
            await run.ask(speaker, f'<n:ResumeSubscription xmlns:n="{WSNT}"/>', held)
            await run.publish("<b/>")
            assert (await consumer.next(paused)).payload.tag == "b"


def topic_dialect() -> str:
    return "http://docs.oasis-open.org/wsn/t-1/TopicExpression/Concrete"


# How many.


@pytest.mark.parametrize("soap", [S11, S12])
async def test_totals_bind_everybody(tmp_path: Path, soap: object) -> None:
    speaker = Speaker(S11 if soap is S11 else S12)
    async with running(tmp_path, max_subscriptions=2) as run:
        paths = [await run.subscribe(speaker, speaker.wse_subscribe(SOMEWHERE)) for _ in range(2)]
        await check_refused(run, speaker)
        await run.ask(speaker, f'<e:Unsubscribe xmlns:e="{WSE}"/>', paths[0])
        await run.subscribe(speaker, speaker.wse_subscribe(SOMEWHERE))
        assert len(run.gateway.subscriptions) == 2


async def check_refused(run: Running, speaker: Speaker) -> None:
    answer = await run.ask(speaker, speaker.wse_subscribe(SOMEWHERE))
    assert (answer.status, answer.fault.subcode) == (500, f"{{{WSE}}}EventSourceUnableToProcess")
    answer = await run.ask(speaker, speaker.wsn_subscribe(SOMEWHERE))
    assert answer.status == (500 if speaker.soap is S11 else 400)
    assert answer.fault.element == f"{{{WSNT}}}SubscribeCreationFailedFault"


async def test_quotas_of_a_stranger(tmp_path: Path) -> None:
    async with running(tmp_path, trusted=(), max_subscriptions_per_owner=2) as run:
        for _ in range(2):
            await run.subscribe(SPEAKER, SPEAKER.wse_subscribe(SOMEWHERE))
        await check_refused(run, SPEAKER)
        body = SPEAKER.wse_subscribe(SOMEWHERE)
        assert (await run.ask(SPEAKER, body, source="127.0.0.2")).status == 200


async def test_quotas_of_a_destination(tmp_path: Path) -> None:
    async with running(tmp_path, trusted=(), max_subscriptions_per_destination=2) as run:
        for number in range(2):
            await run.subscribe(SPEAKER, SPEAKER.wse_subscribe(f"{SOMEWHERE}/{number}"))
        await check_refused(run, SPEAKER)
        await run.subscribe(SPEAKER, SPEAKER.wse_subscribe("http://other.example.org/"))
        body = SPEAKER.wse_subscribe(SOMEWHERE)
        assert (await run.ask(SPEAKER, body, source="127.0.0.2")).status == 200


async def test_the_rate_of_a_stranger(tmp_path: Path) -> None:
    async with running(tmp_path, trusted=()) as run:
        statuses = []
        for _ in range(40):
            answer = await run.ask(SPEAKER, SPEAKER.wsn_subscribe(SOMEWHERE))
            statuses.append(answer.status)
        assert statuses[:20] == [200] * 20
        assert statuses[-1] == 429
        assert int(answer.headers["retry-after"]) >= 1
        assert answer.fault.code == f"{{{S12.value}}}Sender"
        count = len(run.gateway.subscriptions)
        assert count == statuses.count(200)
        body = SPEAKER.wse_subscribe(SOMEWHERE)
        assert (await run.ask(SPEAKER, body, source="127.0.0.2")).status == 200
        assert (await run.ask(SPEAKER, notify(notification_message("<a/>")))).status == 202


async def test_trusted_peers_have_no_rate(tmp_path: Path) -> None:
    async with running(tmp_path, max_subscriptions_per_owner=2) as run:
        filter_ = topic_expression("a")
        for _ in range(40):
            await run.subscribe(SPEAKER, SPEAKER.wsn_subscribe(SOMEWHERE, filter=filter_))
        keys = {entry.subscription.key for entry in run.gateway.subscriptions.entries}
        assert len(keys) == 40


async def test_the_rate_of_a_publisher(tmp_path: Path) -> None:
    body = notify(notification_message("<a/>") * 200)
    async with running(tmp_path, trusted=()) as run:
        answers = [await run.ask(SPEAKER, body) for _ in range(20)]
        statuses = [answer.status for answer in answers]
        assert statuses[:5] == [202] * 5 and 429 in statuses
        refused = answers[statuses.index(429)]
        assert int(refused.headers["retry-after"]) >= 1
        assert run.gateway.publishing.accepted == 200 * statuses.count(202)
        assert (await run.ask(SPEAKER, body, source="127.0.0.2")).status == 202
    async with running(tmp_path) as run:
        assert {(await run.ask(SPEAKER, body)).status for _ in range(20)} == {202}
