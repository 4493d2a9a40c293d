"""Publish a signed event at ActiveMQ: ``publish_stomp.py URL KEY CERTIFICATE TOPIC XML``.

The root of the destinations is that of a gateway, where no further argument names another.
"""

import sys
from urllib.parse import unquote, urlsplit

import stomp

from dragoman.signing import Signer

RECEIPT = "published"


def main(
    url: str, key: str, certificate: str, topic: str, event: str, root: str = "dragoman"
) -> None:
    signer, broker = Signer.from_files(key, certificate), urlsplit(url)
    connection = stomp.Connection12([(broker.hostname, broker.port)])
    receipt = stomp.WaitingListener(RECEIPT)
    connection.set_listener("receipt", receipt)
    connection.connect(unquote(broker.username or ""), unquote(broker.password or ""), wait=True)
    connection.send(
        f"/topic/VirtualTopic.{root}.adhoc.{topic}",
        event,
        content_type="application/xml",
        headers={**signer.broker_properties(event, topic=topic), "persistent": "true"},
        receipt=RECEIPT,
    )
    receipt.wait_on_receipt()
    connection.disconnect()


if __name__ == "__main__":
    main(*sys.argv[1:])
