"""Orders go one way. Messages are in memory, apart from the data: a crash loses them."""

from shop import ORDER, POLICY, Shop, number_in, order, ordered, run, taken
from sqlalchemy import insert

from gateway.client.reliable import Delivery, Receiver, ReliableClient


def client(shop: Shop) -> None:
    sender = ReliableClient("memory:", policy=POLICY)
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

    receiver = Receiver("memory:", policy=POLICY)
    receiver.service("/orders", take)
    shop.serve(receiver)


if __name__ == "__main__":
    run(client, server)
