"""Orders go one way. Messages are in a database apart from the data: each
commits by itself, and a crash between the two loses an order, or doubles one."""

from shop import ORDER, POLICY, Shop, number_in, order, ordered, run, taken
from sqlalchemy import insert

from gateway.client.reliable import Delivery, Receiver, ReliableClient


def client(shop: Shop) -> None:
    sender = ReliableClient(shop.messages, policy=POLICY)
    with sender:
        for number in shop.orders():
            with shop.data.begin() as connection:
                connection.execute(insert(ordered).values(number=number))
            shop.work()
            sender.send(shop.address, order(number), action=ORDER)
        shop.finish(sender)


def server(shop: Shop) -> None:
    def take(message: Delivery) -> None:
        number = number_in(message.body)
        with shop.data.begin() as connection:
            connection.execute(insert(taken).values(number=number))
        shop.work(f"order {number} is taken")

    receiver = Receiver(shop.messages, policy=POLICY)
    receiver.service("/orders", take)
    shop.serve(receiver)


if __name__ == "__main__":
    run(client, server)
