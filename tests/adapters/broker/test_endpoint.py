"""Where a broker is, and how it is spoken to, as the settings say."""

import ssl
from pathlib import Path

from adapters.broker.endpoint import read_endpoint
from adapters.options import Options
from tests.rigs.certificates import Authority


def test_an_authority_that_is_named_is_believed_as_it_issues(tmp_path: Path) -> None:
    """Private ones leave out the authority key identifier, which Python asks for from 3.13 on."""
    authority = Authority(tmp_path)
    certificate, key = authority.issue("localhost")
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(certificate, key)
    broker = read_endpoint(
        "amqps://localhost",
        Options("", {"ca": str(authority.certificate)}),
        plain=("amqp", 5672),
        secure=("amqps", 5671),
        form="amqp://host",
    )
    assert broker.tls is not None
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = broker.tls.wrap_bio(to_client, to_server, server_hostname="localhost")
    other = server.wrap_bio(to_server, to_client, server_side=True)
    for side in (client, other, client, other):
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            continue
    assert client.version() == "TLSv1.3"
