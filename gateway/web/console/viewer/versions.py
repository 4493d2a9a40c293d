"""The specifications that the console subscribes in."""

from gateway.client.errors import GatewayError
from mediation.client import SPECS
from mediation.model.versions import Version

SPOKEN = (*SPECS, Version.CLOUDEVENTS, Version.GRID_EVENTS)


def read_version(text: str) -> Version:
    """Read the name of a specification.

    Raises:
        GatewayError: The console does not subscribe in it.
    """
    if text not in [one.value for one in SPOKEN]:
        raise GatewayError(f"{text!r} is no specification that the console subscribes in")
    return Version(text)
