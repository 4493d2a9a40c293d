"""Liveness, readiness and metrics."""

from collections.abc import Callable, Mapping
from typing import Any

from fastapi import APIRouter, Response
from fastapi.responses import JSONResponse
from prometheus_client import CONTENT_TYPE_LATEST

from gateway.web.metrics import Metrics


def health_router(readiness: Callable[[], Mapping[str, Any]]) -> APIRouter:
    """``/healthz`` and ``/readyz``, which shows *readiness*."""
    router = APIRouter()

    @router.get("/healthz", include_in_schema=False)
    async def show_liveness() -> Response:
        """``/healthz``: an answer at all is what is asked for."""
        return JSONResponse({"status": "alive"})

    @router.get("/readyz", include_in_schema=False)
    async def show_readiness() -> Response:
        """``/readyz``: 503 while nothing should be sent here."""
        state = readiness()
        return JSONResponse(dict(state), 200 if state["ready"] else 503)

    return router


def metrics_router(metrics: Metrics) -> APIRouter:
    """``/metrics``, for Prometheus."""
    router = APIRouter()

    @router.get("/metrics", include_in_schema=False)
    async def show_metrics() -> Response:
        return Response(await metrics.text(), media_type=CONTENT_TYPE_LATEST)

    return router
