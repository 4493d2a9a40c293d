"""Requests from other sites' pages."""

from pathlib import Path

from fastapi import HTTPException, Request

from gateway.http.media import SOAP_MEDIA_TYPES
from gateway.web.csrf import refuse_other_origins
from tests.rigs.cases import for_each
from tests.rigs.gateways import running

HOST = "gateway.example.org:8080"


IN_SESSION = {"cookie": "__Host-dragoman=4d2a"}


async def refused(path: str = "/console/sources", method: str = "POST", **headers: str) -> bool:
    pairs = {"host": HOST, **{name.replace("_", "-"): text for name, text in headers.items()}}
    raw = [(name.encode(), text.encode()) for name, text in pairs.items()]
    try:
        scope = {"type": "http", "method": method, "path": path, "headers": raw}
        await refuse_other_origins(Request(scope))
    except HTTPException as error:
        assert error.status_code == 403
        return True
    return False


@for_each(
    ("headers", "expected"),
    [
        ({}, False),  # A program, which no other site's page can lead.
        ({"sec_fetch_site": "same-origin"}, False),
        ({"sec_fetch_site": "none"}, False),
        ({"sec_fetch_site": "same-site"}, True),
        ({"sec_fetch_site": "cross-site"}, True),
        ({"sec_fetch_site": "cross-site", "origin": f"http://{HOST}"}, True),
        ({"sec_fetch_site": ""}, True),
        ({"origin": f"http://{HOST}"}, False),
        ({"origin": f"https://{HOST}"}, False),  # Behind what ends TLS.
        ({"origin": "http://gateway.example.org"}, True),
        ({"origin": "http://evil.example.org"}, True),
        ({"origin": f"http://{HOST}.evil.example.org"}, True),
        ({"origin": f"http://evil.example.org/{HOST}"}, True),
        ({"origin": "null"}, True),
        ({"origin": ""}, True),
        ({"origin": "http://[::1"}, True),
    ],
)
async def test_what_a_browser_says(headers: dict[str, str], expected: bool) -> None:
    assert await refused(**headers) is expected


@for_each(
    ("path", "method", "headers", "expected"),
    [
        ("/console/sources", "POST", {}, True),
        ("/console/sources", "POST", {"sec_fetch_site": "same-origin"}, False),
        ("/console/sources", "POST", {"origin": f"http://{HOST}"}, False),
        ("/console/sources", "POST", {"sec_fetch_site": "cross-site"}, True),
        ("/console/login/openid", "GET", {}, False),  # Where browsers say no origin.
        ("/api/v1/sources", "POST", {}, False),  # The cookie proves nothing there.
    ],
)
async def test_a_session_takes_a_browser_that_says_where_it_is_from(
    path: str, method: str, headers: dict[str, str], expected: bool
) -> None:
    assert await refused(path, method, **headers, **IN_SESSION) is expected


EVENT = {"ce_specversion": "1.0", "ce_id": "1", "ce_source": "/a", "ce_type": "t", "ce_topic": "a"}
MAILBOX = b"{}"
ELSEWHERE = ({"sec_fetch_site": "cross-site"}, {"origin": "http://evil.example.org"})


async def test_no_page_of_another_site_publishes_or_makes_mailboxes(tmp_path: Path) -> None:
    async with running(tmp_path / "data") as run:
        here = {"sec_fetch_site": "same-origin"}
        for path, headers, body, taken in (
            ("/events", {"content_type": "text/plain", **EVENT}, b"x", 202),
            ("/events/topic/a", {"content_type": "text/plain", **EVENT}, b"x", 202),
            ("/mailboxes", {"content_type": "application/json"}, MAILBOX, 201),
        ):
            for said in ELSEWHERE:
                answer = await run.request("POST", path, body, **headers, **said)
                assert answer.status == 403, (path, said)
            for said in ({}, here):
                answer = await run.request("POST", path, body, **headers, **said)
                assert answer.status == taken, (path, said, answer.body)


SENT_WITHOUT_ASKING = ("application/x-www-form-urlencoded", "multipart/form-data", "text/plain")
"""The media types that a browser has another site's page send without a preflight (Fetch,
"CORS-safelisted request-header")."""


async def test_no_page_of_another_site_sends_soap(tmp_path: Path) -> None:
    """A browser asks first, whatever envelopes come in, and no answer allows it."""
    assert not SOAP_MEDIA_TYPES & {*SENT_WITHOUT_ASKING}
    async with running(tmp_path / "data") as run:
        for path in ("/soap", "/soap/topic/a", "/soap/channel/a", "/msgbox", "/subscriptions/a"):
            for type_ in SENT_WITHOUT_ASKING:
                for one in (type_, f"{type_}; charset=utf-8", f"{type_}; type=text/xml"):
                    answer = await run.request("POST", path, b"<a/>", content_type=one)
                    assert answer.status == 415, (path, one)
            assert (await run.request("POST", path, b"<a/>")).status == 415
            asked = await run.request(
                "OPTIONS",
                path,
                origin="http://evil.example.org",
                access_control_request_method="POST",
                access_control_request_headers="content-type",
            )
            allowed = [name for name in asked.headers if name.startswith("access-control-")]
            assert not allowed, path
