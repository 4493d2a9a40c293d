"""The URLs at which a gateway is reached, as its settings say."""

import socket
from typing import Any

import pytest

from gateway.server.addresses import own_bases
from gateway.settings.settings import Settings

TCP = {"soap.tcp": 8081}


@pytest.mark.parametrize(
    ("settings", "own", "bases"),
    [
        (
            {"public_url": "https://gateway.example/a/"},
            ("0.0.0.0", 8080),
            {"https://gateway.example/a", "soap.tcp://gateway.example:8081"},
        ),
        (
            {"public_url": "https://gateway.example", "soap_tcp_host": "tcp.example"},
            ("0.0.0.0", 8080),
            {"https://gateway.example", "soap.tcp://tcp.example:8081"},
        ),
        (
            {},
            ("192.0.2.7", 80),
            {"http://192.0.2.7:80", "soap.tcp://192.0.2.7:8081"},
        ),
        (
            {},
            ("127.0.0.1", 8080),
            {
                f"{scheme}://{host}:{port}"
                for scheme, port in (("http", 8080), ("soap.tcp", 8081))
                for host in ("127.0.0.1", "[::1]", "localhost")
            },
        ),
    ],
)
def test_bases(settings: dict[str, Any], own: tuple[str, int], bases: set[str]) -> None:
    assert own_bases(Settings(soap_tcp_port=8081, **settings), own, TCP) == bases


def test_what_listens_everywhere_has_the_names_of_its_machine() -> None:
    found = own_bases(Settings(host="0.0.0.0"), ("0.0.0.0", 8080))
    assert {f"http://{socket.gethostname()}:8080", "http://localhost:8080"} <= found
