"""Rooms: a gateway is their channel. What is said in one, it gives to all that are in it."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta

from said import kind_for, show, warn

from gateway.client import GatewayError
from gateway.client.grid_events import Event, subscribe_lease
from mediation.grid_events import Port

LEASE = timedelta(minutes=1)
PAUSE = 5.0
"""Seconds after which is tried again what the gateway did not grant."""


async def stay_in(rooms: Sequence[str], channel: str, listener: Port) -> None:
    """Be in *rooms*, subscribed at the gateway *channel*, until cancelled."""
    entered = False
    while True:
        pause = PAUSE
        try:
            for room in rooms:
                wanted = Event(event_type=kind_for(room))
                granted = await subscribe_lease(channel, listener, wanted, lease=LEASE)
                pause = granted.total_seconds() * 2 / 3
                if not entered:
                    show(f"* you are in {room}")
            entered = True
        except GatewayError as error:
            warn(f"{channel}: {error}")
        await asyncio.sleep(pause)
