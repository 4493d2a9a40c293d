"""Publish a signed event at ActiveMQ: ``publish_stomp.py HOST:PORT KEY CERTIFICATE TOPIC XML``."""

import sys
from uuid import uuid4

import stomp

from dragoman.signing import Signer


def main(address: str, key: str, certificate: str, topic: str, event: str) -> None:
    signer = Signer.from_files(key, certificate)
    host, port = address.rsplit(":", 1)
    connection = stomp.Connection12([(host, int(port))])
    receipts = stomp.WaitingListener(receipt := str(uuid4()))
    connection.set_listener("receipts", receipts)
    connection.connect(wait=True)
    connection.send(
        f"/topic/VirtualTopic.dragoman.{topic}",
        event,
        content_type="application/xml",
        headers={**signer.broker_properties(event, topic=topic), "persistent": "true"},
        receipt=receipt,
    )
    receipts.wait_on_receipt()
    connection.disconnect()


if __name__ == "__main__":
    main(*sys.argv[1:])
