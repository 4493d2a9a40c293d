"""Credentials are sent to the gateway that they are of, and to nobody else."""

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from gateway.client import Credentials, GatewayError
from gateway.client.calling import Caller
from gateway.client.credentials import same_origin

KEY = Credentials.of_key("drg_0123")


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("http://a.example", "http://A.example:80/path?x", True),
        ("https://a.example:443/", "https://a.example", True),
        ("http://a.example", "https://a.example", False),
        ("http://a.example", "http://a.example:8080", False),
        ("http://a.example", "http://a.example.evil.example", False),
        ("http://a.example", "http://a.example@evil.example/", False),
    ],
)
def test_an_origin_is_a_scheme_a_host_and_a_port(one: str, other: str, same: bool) -> None:
    assert same_origin(one, other) is same


@pytest.mark.parametrize("bad", ["", "two words", "line\nfeed", "käse"])
def test_a_key_that_cannot_be_sent(bad: str) -> None:
    with pytest.raises(GatewayError):
        Credentials.of_key(bad)


def test_they_are_not_shown() -> None:
    assert "0123" not in repr(KEY)
    assert Credentials.of_password("Aladdin", "open sesame").authorization == (
        "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="  # RFC 7617, section 2
    )


async def test_they_are_sent_to_their_gateway_alone() -> None:
    came: list[str | None] = []

    async def note(request: web.Request) -> web.Response:
        came.append(request.headers.get("Authorization"))
        return web.Response()

    def server() -> TestServer:
        application = web.Application()
        application.router.add_route("*", "/{path:.*}", note)
        return TestServer(application)

    async with server() as own, server() as other:
        gateway = str(own.make_url("/"))
        async with Caller(credentials=KEY, gateway=gateway) as caller:
            await caller.call("GET", str(own.make_url("/soap/subscription/1")))
            await caller.call("GET", str(other.make_url("/soap")))
    assert came == ["Bearer drg_0123", None]
