"""Liveness, readiness and metrics."""

from collections.abc import Callable, Mapping
from typing import Annotated, Any, TypeAlias

from fastapi import APIRouter, Depends, HTTPException, Query, Response
from fastapi.responses import JSONResponse
from prometheus_client import CONTENT_TYPE_LATEST

from gateway.routes import Dependency, open_to_tenants
from gateway.web.dependencies import TenantSeen
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
@open_to_tenants
async def show_metrics(
    metrics: Annotated[Metrics, Depends(METRICS)],
    seen: TenantSeen,
    tenant: Annotated[str | None, Query(max_length=32)] = None,
) -> Response:
    """``/metrics``, for Prometheus: all, or what is counted for one *tenant*. Who is of a tenant
    has its own alone."""
    if seen is not None and tenant not in (None, seen):
        raise HTTPException(404)
    return Response(await metrics.text(seen or tenant), media_type=CONTENT_TYPE_LATEST)
