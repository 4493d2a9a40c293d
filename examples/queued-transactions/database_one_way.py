"""Orders go one way. Messages and data are in one database, and change in one transaction."""

from shop import ORDER, POLICY, Shop, number_in, order, ordered, run, taken
from sqlalchemy import insert

from gateway.client.reliable import DatabaseStore, Delivery, Receiver, ReliableClient


def client(shop: Shop) -> None:
    sender = ReliableClient(DatabaseStore(shop.data), policy=POLICY)
    with sender:
        for number in shop.orders():
            with sender.transaction() as tx:
                tx.connection.execute(insert(ordered).values(number=number))
                shop.work()
                tx.send(shop.address, order(number), action=ORDER)
        shop.finish(sender)


def server(shop: Shop) -> None:
    def take(message: Delivery) -> None:
        number = number_in(message.body)
        message.connection.execute(insert(taken).values(number=number))
        shop.work(f"order {number} is taken")

    receiver = Receiver(DatabaseStore(shop.data), policy=POLICY)
    receiver.service("/orders", take)
    shop.serve(receiver)


if __name__ == "__main__":
    run(client, server)
