"""Every fifth order is refused, with a fault.

Messages and data are in two databases, which commit together."""

from shop import ORDER, POLICY, Shop, number_in, order, ordered, run, taken
from sqlalchemy import insert, update

from gateway.client.reliable import (
    Delivery,
    EngineConnections,
    Fault,
    Receiver,
    ReliableClient,
    TwoPhaseStore,
)


def store_of(shop: Shop) -> TwoPhaseStore:
    """Messages in a file, and with them the decisions; the data takes part as "data"."""
    return TwoPhaseStore(shop.messages, [EngineConnections("data", shop.data)])


def client(shop: Shop) -> None:
    def confirm(reply: Delivery) -> None:
        done = update(ordered).where(ordered.c.number == number_in(reply.body))
        reply.enlist("data").execute(done.values(state="confirmed"))

    def refuse(reply: Delivery) -> None:
        assert reply.fault is not None
        done = update(ordered).where(ordered.c.number == number_in(reply.fault.reason))
        reply.enlist("data").execute(done.values(state="refused"))

    sender = ReliableClient(store_of(shop), policy=POLICY)
    sender.callbacks("orders", on_message=confirm, on_fault=refuse)
    with sender:
        for number in shop.orders():
            with sender.transaction() as tx:
                tx.enlist("data").execute(insert(ordered).values(number=number))
                shop.work()
                tx.request(shop.address, order(number), action=ORDER, callbacks="orders")
        shop.finish(sender, answered=True)


def server(shop: Shop) -> None:
    def take(message: Delivery) -> bytes:
        number = number_in(message.body)
        message.enlist("data").execute(insert(taken).values(number=number))
        if number % 5 == 0:  # What was inserted is rolled back.
            raise Fault(f"order {number} cannot be delivered")
        shop.work(f"order {number} is taken")
        return f"<confirmed>{number}</confirmed>".encode()

    receiver = Receiver(store_of(shop), policy=POLICY)
    receiver.service("/orders", take)
    shop.serve(receiver)


if __name__ == "__main__":
    run(client, server)
