"""The back channel of a client that listens for replies."""

import http.client
import socket

import pytest

from gateway.client import GatewayError
from gateway.client.reliable import Receiver, ReliableClient
from tests.gateway.client.reliable.test_queued import ORDER, SOON
from tests.gateway.client.reliable.test_receiver import ask, create
from tests.rigs.ports import free_ports
from tests.rigs.receivers import served
from tests.rigs.waiting import wait_until


def test_an_address_in_use_is_said_at_the_start() -> None:
    with socket.create_server(("127.0.0.1", 0)) as found:
        url = f"http://127.0.0.1:{found.getsockname()[1]}/"
        client = ReliableClient("memory:", replies=url)
        with pytest.raises(GatewayError, match="cannot listen on"):
            client.start()
    client.start()  # It is free now.
    client.close()


@pytest.mark.parametrize(
    "url", ["here", "http://", "ftp://here/", "http://here:0/", "http://here:x/", "http://here/?a"]
)
def test_what_is_no_url_of_a_listener(url: str) -> None:
    with pytest.raises(ValueError, match=r"listener|is not a URL of HTTP"):
        ReliableClient("memory:", replies=url)


def test_nobody_makes_sequences_at_a_client() -> None:
    """It takes the replies that it asked for."""
    (port,) = free_ports(1)
    url = f"http://127.0.0.1:{port}/back"
    with ReliableClient("memory:", replies=url) as client:
        status, body = ask(url, create())
        assert b"CreateSequenceRefused" in body, (status, body)
        assert ask(url, b"<no/>")[0] >= 400
        assert ask(url, b"x" * (4 * 2**20 + 1))[0] == 413
        assert ask(url, method="GET")[0] == 405
        with client.store.look() as look:
            assert look.incoming_page("", 10) == []


def test_it_is_bound_elsewhere_than_its_address_says() -> None:
    outside, inside = free_ports(2)
    url = f"http://localhost:{outside}/back"
    with ReliableClient("memory:", replies=url, bind=("127.0.0.1", inside)):
        connection = http.client.HTTPConnection("127.0.0.1", inside, timeout=60)
        connection.request("POST", "/back", b"<no/>")
        assert connection.getresponse().status == 415
        connection.close()


def test_without_leave_a_receiver_sends_nothing_to_a_listener() -> None:
    """The client is told, and gives the sequence up."""
    (port,) = free_ports(1)
    told: list[str] = []
    receiver = Receiver("memory:", policy=SOON)
    receiver.service("/orders", lambda each: None)
    client = ReliableClient("memory:", policy=SOON, replies=f"http://127.0.0.1:{port}/back")
    client.callbacks(on_error=lambda each: told.append(each.reason))
    with served(receiver) as url, client:
        client.send(f"{url}/orders", b"<tea/>", action=ORDER)
        wait_until(lambda: told)
    assert "refused" in told[0]
