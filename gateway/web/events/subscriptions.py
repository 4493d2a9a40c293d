"""``/events/subscriptions``."""

from fastapi import APIRouter

router = APIRouter(prefix="/events/subscriptions", tags=["CloudEvents"])
