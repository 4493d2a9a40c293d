"""Orders are confirmed. Messages are in memory, apart from the data: a crash loses them."""

from shop import ORDER, POLICY, Shop, number_in, order, ordered, run, taken
from sqlalchemy import insert, update

from gateway.client.reliable import Delivery, Receiver, ReliableClient


def client(shop: Shop) -> None:
    def confirm(reply: Delivery) -> None:
        done = update(ordered).where(ordered.c.number == number_in(reply.body))
        with shop.data.begin() as connection:
            connection.execute(done.values(state="confirmed"))

    sender = ReliableClient("memory:", policy=POLICY)
    sender.callbacks("orders", on_message=confirm)
    with sender:
        for number in shop.orders():
            with shop.data.begin() as connection:
                connection.execute(insert(ordered).values(number=number))
            shop.work()
            sender.request(shop.address, order(number), action=ORDER, callbacks="orders")
        shop.finish(sender, answered=True)


def server(shop: Shop) -> None:
    def take(message: Delivery) -> bytes:
        number = number_in(message.body)
        with shop.data.begin() as connection:
            connection.execute(insert(taken).values(number=number))
        shop.work(f"order {number} is taken")
        return f"<confirmed>{number}</confirmed>".encode()

    receiver = Receiver("memory:", policy=POLICY)
    receiver.service("/orders", take)
    shop.serve(receiver)


if __name__ == "__main__":
    run(client, server)
