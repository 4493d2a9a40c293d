"""The HTTP application: the SOAP endpoint, mailboxes, the administration, health and metrics."""

from gateway.web.app import make_app

__all__ = ["make_app"]
