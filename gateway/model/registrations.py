"""Registrations of publishers as values."""

from dataclasses import dataclass
from datetime import datetime

from mediation.model.requests import RegisterPublisher
from mediation.model.versions import Spec


@dataclass(frozen=True, slots=True)
class Registration:
    """A publisher that registered.

    Attributes:
        key: The capability in the address of the registration.
        id: What logs and lists show.
        owner: The principal that registered it.
        spec: What the publisher spoke.
        request: What it asked for.
        expires: None: never.
    """

    key: str
    id: str
    owner: str
    spec: Spec
    request: RegisterPublisher
    created: datetime
    expires: datetime | None = None
