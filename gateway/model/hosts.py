"""Hosts and ports as URLs have them."""


def host_in_url(host: str) -> str:
    """Return *host*, an address or a name, as a URL has it."""
    return f"[{host}]" if ":" in host else host


def host_and_port(host: str, port: int) -> str:
    """Return *host*, an address or a name, and *port* as a URL has them."""
    return f"{host_in_url(host)}:{port}"
