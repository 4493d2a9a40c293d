"""Liveness, readiness and metrics."""

from fastapi import APIRouter, Response
from fastapi.responses import JSONResponse
from prometheus_client import CONTENT_TYPE_LATEST

from gateway.web.parts import Parts

router = APIRouter()
metrics_router = APIRouter()


@router.get("/healthz", include_in_schema=False)
async def show_liveness() -> Response:
    """``/healthz``: an answer at all is what is asked for."""
    return JSONResponse({"status": "alive"})


@router.get("/readyz", include_in_schema=False)
async def show_readiness(web: Parts) -> Response:
    """``/readyz``: 503 while nothing should be sent here."""
    state = web.readiness()
    return JSONResponse(state, 200 if state["ready"] else 503)


@metrics_router.get("/metrics", include_in_schema=False)
async def show_metrics(web: Parts) -> Response:
    """``/metrics``, for Prometheus."""
    return Response(await web.metrics.text(), media_type=CONTENT_TYPE_LATEST)
