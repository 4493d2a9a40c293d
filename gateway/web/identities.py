"""What the routes of users, keys and rules work with."""

from typing import Annotated

from fastapi import Depends, HTTPException

from gateway.identities.stored import StoredIdentities
from gateway.routes import Dependency

IDENTITIES = Dependency[StoredIdentities | None]()


async def known_identities(
    found: Annotated[StoredIdentities | None, Depends(IDENTITIES)],
) -> StoredIdentities:
    """Those of this gateway.

    Raises:
        HTTPException: 404: it asks nobody who it is.
    """
    if found is None:
        raise HTTPException(404, "This gateway has no identities: start it with --identities FILE.")
    return found


Identities = Annotated[StoredIdentities, Depends(known_identities)]
"""A parameter of routes."""
