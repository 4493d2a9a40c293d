"""Registrations of publishers as WS-Resources."""

from dataclasses import replace
from datetime import datetime

from gateway.exchange import Inbound
from gateway.model.registrations import Registration
from gateway.resources import end_if_over
from gateway.security.principals import Principal
from gateway.security.resource_addresses import ResourceKind, addressed
from gateway.sources.registrations import Registrations
from mediation.model.expiry import Expiry
from mediation.model.requests import Incoming
from mediation.model.specification import PropertyDocument
from mediation.model.versions import Version
from mediation.specifications import properties_in


class RegistrationResource:
    """One registration, as its address names it."""

    def __init__(self, registrations: Registrations, registration: Registration) -> None:
        self._registrations = registrations
        self._registration = registration

    async def properties(self, version: Version, now: datetime) -> PropertyDocument:
        one = self._registration
        return properties_in(version).of_registration(one.request, one.created, one.expires, now)

    async def set_termination_time(
        self, expires: Expiry, principal: Principal, now: datetime
    ) -> datetime | None:
        if await end_if_over(self, expires, now):
            return now
        asked = replace(self._registration.request, expires=expires)
        end = self._registrations.lease(asked, principal, now)
        await self._registrations.move(self._registration, end)
        return end

    async def destroy(self) -> None:
        await self._registrations.destroy(self._registration)


class RegistrationResources:
    """All registrations."""

    def __init__(self, registrations: Registrations) -> None:
        self._registrations = registrations

    async def find(self, incoming: Incoming, inbound: Inbound) -> RegistrationResource | None:
        address = addressed(inbound.path, incoming.context.headers.to)
        if address is None or address.kind is not ResourceKind.PUBLISHER:
            return None
        # Registrations are the default tenant's: another finds none, whatever its key.
        key = None if inbound.principal.tenant else address.key
        registration = await self._registrations.find(key)
        return RegistrationResource(self._registrations, registration)
