"""Liveness, readiness and metrics."""

from collections.abc import Callable, Mapping
from typing import Annotated, Any, TypeAlias

from fastapi import APIRouter, Depends, Response
from fastapi.responses import JSONResponse
from prometheus_client import CONTENT_TYPE_LATEST

from gateway.routes import Dependency
from gateway.web.metrics import Metrics

Readiness: TypeAlias = Callable[[], Mapping[str, Any]]

READINESS = Dependency[Readiness]()
METRICS = Dependency[Metrics]()

health_router = APIRouter(include_in_schema=False)
metrics_router = APIRouter(include_in_schema=False)


@health_router.get("/healthz")
async def show_liveness() -> Response:
    """``/healthz``: an answer at all is what is asked for."""
    return JSONResponse({"status": "alive"})


@health_router.get("/readyz")
async def show_readiness(readiness: Annotated[Readiness, Depends(READINESS)]) -> Response:
    """``/readyz``: 503 while nothing should be sent here."""
    state = readiness()
    return JSONResponse(dict(state), 200 if state["ready"] else 503)


@metrics_router.get("/metrics")
async def show_metrics(metrics: Annotated[Metrics, Depends(METRICS)]) -> Response:
    """``/metrics``, for Prometheus."""
    return Response(await metrics.text(), media_type=CONTENT_TYPE_LATEST)
