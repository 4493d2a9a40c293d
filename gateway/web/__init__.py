"""What the gateway serves over HTTP: the SOAP endpoint, the administration, health and metrics."""

from gateway.web.app import make_app

__all__ = ["make_app"]
