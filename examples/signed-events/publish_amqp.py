"""Publish a signed event at RabbitMQ: ``publish_amqp.py URL KEY CERTIFICATE TOPIC XML``.

The exchange is that of a gateway, where no further argument names another.
"""

import sys

import pika

from dragoman.signing import Signer


def main(
    url: str, key: str, certificate: str, topic: str, event: str, exchange: str = "dragoman"
) -> None:
    signer = Signer.from_files(key, certificate)
    properties = pika.BasicProperties(
        content_type="application/xml",
        delivery_mode=2,
        headers=signer.broker_properties(event, topic=topic),
    )
    with pika.BlockingConnection(pika.URLParameters(url)) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.basic_publish(exchange, f"dragoman.adhoc.{topic}", event.encode(), properties)


if __name__ == "__main__":
    main(*sys.argv[1:])
