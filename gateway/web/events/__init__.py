"""CloudEvents over HTTP: taken in, and subscribed to."""

from gateway.web.events.endpoint import EventEndpoint, describe_events, event_routes

__all__ = ["EventEndpoint", "describe_events", "event_routes"]
