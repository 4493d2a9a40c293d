"""Forms from other sites' pages."""

from fastapi import HTTPException, Request

from gateway.web.csrf import refuse_other_origins
from tests.rigs.cases import for_each

HOST = "gateway.example.org:8080"


async def refused(**headers: str) -> bool:
    pairs = {"host": HOST, **{name.replace("_", "-"): text for name, text in headers.items()}}
    raw = [(name.encode(), text.encode()) for name, text in pairs.items()]
    try:
        await refuse_other_origins(Request({"type": "http", "method": "POST", "headers": raw}))
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
