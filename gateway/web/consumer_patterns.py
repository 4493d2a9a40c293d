"""Patterns of consumers' addresses, by which lists of subscriptions are narrowed."""

from urllib.parse import urlsplit

from gateway.security.resource_addresses import shown


def consumers_beside(address: str) -> str:
    """The pattern of all addresses at the scheme and host of *address*, as
    ``GET /api/v1/subscriptions?consumer=`` takes it; without what is secret in *address*."""
    try:
        parts = urlsplit(shown(address))
    except ValueError:
        return ""
    host = parts.netloc.replace("*", "?")
    return f"{parts.scheme}://{host}/*" if host else f"{parts.scheme}:*"
