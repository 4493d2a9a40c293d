"""A shop: a web service that stores each sale and its message in one transaction, and hears when
the warehouse has confirmed it."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI
from sqlalchemy import Column, Integer, MetaData, Table, Text, create_engine, insert, select, update
from sqlalchemy.orm import Session

from dragoman.inbox import Inbox, Message
from dragoman.outbox import Outbox

GATEWAY = os.environ.get("GATEWAY", "http://127.0.0.1:8080")
ADDRESS = os.environ.get("SHOP", "http://127.0.0.1:8091")
engine = create_engine(os.environ.get("SHOP_DATABASE", "sqlite:///shop.db"))
metadata = MetaData()
sales = Table(
    "sales",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("item", Text, nullable=False),
    Column("state", Text, nullable=False, default="sold"),
)
metadata.create_all(engine)

outbox = Outbox(engine, to=GATEWAY, reply_to="replies/shop")
inbox = Inbox(engine, outbox=outbox, gateway=GATEWAY, address=f"{ADDRESS}/inbox/")


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncIterator[None]:
    async with outbox, inbox:
        yield


app = FastAPI(lifespan=lifespan)
app.mount("/inbox", inbox)


@app.post("/sales/{item}")
def sell(item: str) -> int:
    """Sell something; its number."""
    with Session(engine) as session, session.begin():
        number: int = session.execute(
            insert(sales).values(item=item).returning(sales.c.id)
        ).scalar_one()
        order = {"sale": number, "item": item}
        outbox.request(
            "orders", order, session, id=f"sale {number}", key=item,
            on_reply="confirmed", on_fault="refused",
        )  # fmt: skip
        return number


@app.get("/sales")
def list_sales() -> dict[str, int]:
    """Count the sales by state."""
    with Session(engine) as session:
        states = session.execute(select(sales.c.state)).scalars().all()
    return {state: states.count(state) for state in sorted(set(states))}


@inbox.on_reply("confirmed")
def confirm(message: Message) -> None:
    """The warehouse has it."""
    note(message, "confirmed")


@inbox.on_reply("refused")
def refuse(message: Message) -> None:
    """The warehouse has none: `message.fault` says why."""
    note(message, "refused")


def note(message: Message, state: str) -> None:
    """Store the state of a sale, in the transaction that takes the reply."""
    number = int(message.relates_to.removeprefix("sale "))
    message.session.execute(update(sales).where(sales.c.id == number).values(state=state))
