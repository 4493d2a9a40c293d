"""The JSON administration, ``/api/v1``: subscriptions, mailboxes, sources, sequences and dead
letters."""

from fastapi import APIRouter

from gateway.web.api import dead_letters, mailboxes, sequences, sources, subscriptions

__all__ = ["router"]

router = APIRouter(prefix="/api/v1")
for _part in (subscriptions, mailboxes, sources, sequences, dead_letters):
    router.include_router(_part.router)
