"""A warehouse: a worker that takes each order once, in the transaction that takes its message, and
confirms it."""

import os

from sqlalchemy import Column, Integer, MetaData, Table, Text, create_engine, insert

from dragoman.inbox import Fault, Inbox, Message
from dragoman.outbox import Outbox

GATEWAY = os.environ.get("GATEWAY", "http://127.0.0.1:8080")
PORT = int(os.environ.get("WAREHOUSE_PORT", "8090"))
engine = create_engine(os.environ.get("WAREHOUSE_DATABASE", "sqlite:///warehouse.db"))
metadata = MetaData()
orders = Table(
    "orders",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("sale", Integer, nullable=False),
    Column("item", Text, nullable=False),
)
metadata.create_all(engine)

outbox = Outbox(engine, to=GATEWAY)
inbox = Inbox(engine, outbox=outbox, gateway=GATEWAY, address=f"http://127.0.0.1:{PORT}/")


@inbox.on("orders")
def take(message: Message) -> dict[str, str]:
    """Store an order, and confirm it."""
    order = message.json()
    if order["item"] == "unicorn":
        raise Fault("we have no unicorns")
    message.session.execute(insert(orders).values(**order))
    return {"shelf": order["item"][:1]}


if __name__ == "__main__":
    with outbox:
        inbox.serve(PORT)
