"""What the routes of users, keys and rules work with."""

from typing import Annotated, TypeVar

from fastapi import Depends, HTTPException

from gateway.identities.stored import StoredIdentities
from gateway.routes import Dependency

V = TypeVar("V")
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


def there(view: V | None) -> V:
    """What was just kept.

    Raises:
        HTTPException: 404: somebody has removed it at once.
    """
    if view is None:
        raise HTTPException(404, "It was kept, and somebody has removed it since.")
    return view


Identities = Annotated[StoredIdentities, Depends(known_identities)]
"""A parameter of routes."""
