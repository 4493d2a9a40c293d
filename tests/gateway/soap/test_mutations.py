"""Real envelopes, spoilt: each gets an answer, none of them an accident inside."""

import asyncio
import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mediation.model.versions import Wsa
from tests.rigs.envelopes import (
    FULL,
    RL,
    RP,
    S11,
    S12,
    WSE,
    WSE11,
    WSNT,
    Answer,
    Speaker,
    message_content,
    notification_message,
    notify,
    pairs,
    topic_expression,
    wse11_filter,
    wse_filter,
)
from tests.rigs.examples import examples
from tests.rigs.gateways import Running, read_http
from tests.rigs.waiting import DEADLINE

pytestmark = pytest.mark.asyncio(loop_scope="module")

# What is accepted would be sent here: nobody listens, and a lease is short.
SINK = "http://127.0.0.1:1024/sink"
KEY = "01234567-89ab-cdef-0123-456789abcdef"
STATUSES = {200, 202, 400, 413, 415, 429, 500, 503}


def bodies(speaker: Speaker) -> list[str]:
    box = speaker.parameters('<x:Box xmlns:x="urn:test:box">7</x:Box>')
    filter_ = topic_expression("w:a//.|b/*", FULL, 'xmlns:w="urn:w"') + message_content(
        "//a[b>1]".replace(">", "&gt;")
    )
    wse = wse_filter("s:Body/*[1]", scope=f'xmlns:s="{speaker.soap.value}"')
    return [
        speaker.wse_subscribe(SINK, filter=wse, expires="500", end_to=SINK, inner=box),
        speaker.wse11_subscribe(
            SINK,
            format="Wrap",
            filter=wse11_filter("self::a[b]"),
            expires="PT0.5S",
            best_effort="1",
            end_to=SINK,
            inner=box,
        ),
        f'<e:Renew xmlns:e="{WSE11}"><e:Expires BestEffort="true">PT1H</e:Expires></e:Renew>',
        f'<e:Notify xmlns:e="{WSE11}" actionURI="urn:a"><o:b xmlns:o="urn:o"/>text</e:Notify>',
        '<m:GetMetadata xmlns:m="http://www.w3.org/2011/03/ws-mex"><m:Dialect Identifier="urn:i" '
        'Type="{http://schemas.xmlsoap.org/wsdl/}definitions"/></m:GetMetadata>',
        '<m:GetMetadata xmlns:m="http://schemas.xmlsoap.org/ws/2004/09/mex"><m:Dialect>urn:none'
        "</m:Dialect></m:GetMetadata>",
        speaker.wsn_subscribe(SINK, filter=filter_, expires="PT0.5S", raw=True, inner=box),
        f'<e:Renew xmlns:e="{WSE}"><e:Expires>PT1H</e:Expires></e:Renew>',
        f'<e:GetStatus xmlns:e="{WSE}"/>',
        f'<n:Renew xmlns:n="{WSNT}"><n:TerminationTime>2030-01-01T00:00:00Z</n:TerminationTime></n:Renew>',
        f'<n:PauseSubscription xmlns:n="{WSNT}"/>',
        f'<n:GetCurrentMessage xmlns:n="{WSNT}"><n:Topic Dialect="{FULL}">a/b</n:Topic></n:GetCurrentMessage>',
        f'<r:GetMultipleResourceProperties xmlns:r="{RP}" xmlns:l="{RL}"><r:ResourceProperty>'
        "l:TerminationTime</r:ResourceProperty></r:GetMultipleResourceProperties>",
        f'<r:SetTerminationTime xmlns:r="{RL}"><r:RequestedTerminationTime>2030-01-01T00:00:00Z'
        "</r:RequestedTerminationTime></r:SetTerminationTime>",
        notify(
            notification_message("<a>1</a>", "a/b", producer=speaker.epr(SINK)),
            notification_message("text", "c|d", dialect=FULL),
        ),
        '<o:Event xmlns:o="urn:o" at="x"><o:inner/>text<![CDATA[more]]></o:Event>',
    ]


def envelopes() -> list[bytes]:
    made = []
    for soap, wsa in pairs((S11, S12), (Wsa.V2003_03, Wsa.V2004_08, Wsa.V2005_08)):
        speaker = Speaker(soap, wsa)
        for body in bodies(speaker):
            headers = (
                f'<e:Identifier xmlns:e="{WSE}">urn:uuid:{KEY}</e:Identifier>'
                f'<h:Topic xmlns:h="{WSNT}">a/b</h:Topic>'
                f"<wsa:ReplyTo><wsa:Address>{wsa.anonymous}</wsa:Address></wsa:ReplyTo>"
            )
            made.append(
                speaker.envelope(
                    body, action=f"{WSE}/Renew", to="/soap", message_id="urn:x", headers=headers
                )
            )
    return made


ENVELOPES = envelopes()
TOKEN = re.compile(rb"<[^>]*>|[^<>]+")
WORDS = re.compile(rb"[A-Za-z0-9_.-]+")
SPLINTERS = [
    b"", b" ", b"\n", b"\0", b"\xff", b"&", b"&amp;", b"<", b"]]>", b"<!-- -->", b"<?x?>", b"urn:uuid:", b"-1",
    b"*", b"//", b"P", b"PT0S", b"P99999999999Y", b"9999-12-31T23:59:59Z", b"0001-01-01T00:00:00+14:00",
    b"2026-02-30T00:00:00Z", b"99999999999999999999", b"xmlns=''", b" xmlns:e=''", b"true", b"nil", b":", b"a:b:c",
    b"{", b"}", b"http://", b"http://127.0.0.1:1/", b"\xef\xbf\xbf", b"\xf0\x9f\x98\x80", b"&#x1F600;", b"&#xD800;",
    b"<a/>", b"x" * 5000, b"mustUnderstand", b'Dialect=""', b"Identifier", b"Topic", b"Address", b"Message",
]  # fmt: skip


@st.composite
def spoilt(draw: st.DrawFn) -> bytes:
    """An envelope with one to four parts changed, moved, doubled, dropped or mixed in."""
    octets = draw(st.sampled_from(ENVELOPES))
    for _ in range(draw(st.integers(1, 4))):
        form = TOKEN if draw(st.booleans()) else WORDS
        places = [match.span() for match in form.finditer(octets)]
        if not places:
            break
        start, end = draw(st.sampled_from(places))
        kind = draw(
            st.sampled_from(("drop", "double", "replace", "insert", "swap", "graft", "flip"))
        )
        part = octets[start:end]
        if kind == "drop":
            part = b""
        elif kind == "double":
            part += part
        elif kind == "replace":
            part = draw(st.sampled_from(SPLINTERS))
        elif kind == "insert":
            part += draw(st.sampled_from(SPLINTERS))
        elif kind == "flip":
            part = bytes([part[0] ^ (1 << draw(st.integers(0, 7)))]) + part[1:]
        else:
            source = octets if kind == "swap" else draw(st.sampled_from(ENVELOPES))
            first, last = draw(st.sampled_from([match.span() for match in form.finditer(source)]))
            part = source[first:last]
        octets = octets[:start] + part + octets[end:]
    return octets


class Connection:
    """One connection that is kept for all requests; lost, it is said so."""

    def __init__(self, run: Running) -> None:
        self._run = run
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None
        self.opened = 0

    async def post(self, path: str, type_: str, octets: bytes) -> Answer:
        if self._writer is None or self._reader is None:
            self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._run.port)
            self.opened += 1
        head = (
            f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: {type_}\r\n"
            f"Content-Length: {len(octets)}\r\n\r\n"
        )
        self._writer.write(head.encode() + octets)
        first, headers, body = await asyncio.wait_for(read_http(self._reader), DEADLINE)
        if headers.get("connection") == "close":
            await self.close()
        return Answer(int(first.split(" ")[1]), headers, body)

    async def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
            await self._writer.wait_closed()
        self._reader = self._writer = None


@pytest.mark.hypothesis
@pytest.mark.slow
async def test_every_input_is_answered(gateway: Running) -> None:
    connection = Connection(gateway)
    loop = asyncio.get_running_loop()

    @settings(
        max_examples=examples(day=500, night=2000),
        suppress_health_check=list(HealthCheck),
        database=None,
    )
    @given(
        spoilt(),
        st.sampled_from(("/soap", "/soap/topic/a%20b", f"/subscriptions/{KEY}", "/subscriptions/")),
        st.sampled_from(("text/xml", "application/soap+xml", 'text/xml; charset="utf-16"')),
    )
    def check(octets: bytes, path: str, type_: str) -> None:
        answer = asyncio.run_coroutine_threadsafe(
            connection.post(path, type_, octets), loop
        ).result(DEADLINE)
        assert answer.status in STATUSES
        if answer.status in (200, 400, 500):
            assert answer.message.body or answer.status == 200
        if answer.status in (400, 500):
            assert answer.fault.code and answer.fault.text
        wrong = [log for log in gateway.logs if log["event"] == "soap.internal-error"]
        assert wrong == []

    await asyncio.to_thread(check)
    await connection.close()
    assert connection.opened == 1  # Nothing but HTTP itself ends a connection.
    answer = await gateway.ask(Speaker(), "<good/>")
    assert answer.status == 202
