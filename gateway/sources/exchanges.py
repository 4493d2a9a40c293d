"""Exchanges with producers: one request, its answer, and what of it matters to a source."""

import time
from dataclasses import replace

from filters import Refused
from gateway.model.channels import channel_address
from gateway.model.moments import moment_of
from gateway.model.sources import Source
from gateway.security.keys import message_urn
from gateway.sources.devices import Devices
from gateway.sources.held_leases import Granted
from gateway.sources.requester import ProducerRefused, Requester
from gateway.sources.requests import (
    PULL_WAIT,
    asked_at,
    lease_request,
    lease_text,
    options_of,
    producer_of,
    pull_request,
    spec_to,
    subscribe_request,
)
from mediation.client import Granted as GrantedAnswer
from mediation.client import (
    leasing_in,
    read_answer,
    read_granted,
    read_pulled,
    read_pulled_messages,
    write_get_status,
    write_pause,
    write_renew,
    write_resume,
    write_unsubscribe,
)
from mediation.eventing.management import Pulled
from mediation.model.delivery_modes import Mode
from mediation.model.expiry import parse_date_time, parse_expiry
from mediation.model.messages import EndpointReference
from mediation.model.specification import Leasing
from mediation.profiles import PRODUCERS

SHORTEST_OF_STRANGERS = 30.0
"""Seconds of a lease of strangers' sources, at least: what is granted for less is held for as long,
so that nobody has it renewed more often than each quarter of a minute or so."""
SHORTEST_BY_CALL = 3.0
"""Seconds that a lease of one who is asked by a call is believed to last, at least."""
PULL_POINT = b""
"""The context of a pull point, which has none: its address is enough."""


class Exchanges:
    """Speaks with producers as a subscriber.

    Args:
        base: The gateway's URL, without a slash at its end: producers send there.
        endpoint: The address of the SOAP endpoint, as channels of others are told it; those with
            names are below it.
    """

    def __init__(self, requester: Requester, *, base: str, endpoint: str | None = None) -> None:
        self._endpoint = endpoint or f"{base}/soap"
        self._requester = requester
        self._devices = Devices(requester)
        self._base = base

    def location(self, source: Source) -> str:
        """Where the producer of *source* is told to send: the channel's address, or what all keys
        are below; empty where its events are pulled."""
        if leasing_in(source.spec) is not None:
            return channel_address(self._endpoint, source.channel or "")
        return "" if source.mode is Mode.PULL else self._base

    async def subscribe(self, source: Source, key: str, bookmark: bytes | None = None) -> Granted:
        """Subscribe; what the producer sends comes to the address with *key*, and begins behind the
        *bookmark*.

        Raises:
            BookmarkRefused
            ProducerRefused, ProducerUnreachable: as every method here.
        """
        leasing = leasing_in(source.spec)
        if leasing is not None:
            return await self._lease(source, leasing, source.lease)
        if PRODUCERS[source.profile].device:
            return await self._subscribe_at_device(source, key)
        at = time.time()
        written = subscribe_request(source, self._base, key, at, bookmark)
        granted = self._granted(
            source, await self._requester.ask(source, source.url, written, read_granted), at
        )
        if source.mode is Mode.PULL and granted.context is None:
            raise ProducerRefused("It did not answer Subscribe with an EnumerationContext.")
        return granted

    async def _subscribe_at_device(self, source: Source, key: str) -> Granted:
        found = await self._devices.event_service(source)
        at = time.time()
        written = subscribe_request(source, self._base, key, at, service=found.service.address)
        answered = await self._requester.ask(source, found.url, written, read_granted)
        granted = self._granted(source, answered, at)
        if granted.manager is not None:
            await self._devices.synchronize(source, granted.manager)
        return replace(granted, context=PULL_POINT) if source.mode is Mode.PULL else granted

    def _granted(self, source: Source, answered: GrantedAnswer, at: float) -> Granted:
        manager = answered.manager
        if manager is None:
            raise ProducerRefused("It did not answer Subscribe with a subscription.")
        if not manager.address:  # The store keeps no reference without one.
            manager, _ = asked_at(source, manager)
        return Granted(at, self._length(source, answered, at), manager, answered.context)

    async def renew(self, source: Source, manager: EndpointReference) -> Granted:
        """Renew for as long as was asked for at first."""
        leasing = leasing_in(source.spec)
        if leasing is not None:
            return await self._lease(source, leasing, source.lease)
        at = time.time()
        manager, url = asked_at(source, manager)
        written = write_renew(
            spec_to(source, manager),
            manager,
            lease_text(source, at),
            message_id=message_urn(),
            source=options_of(source),
        )
        answered = await self._requester.ask(source, url, written, read_granted)
        return Granted(at, self._length(source, answered, at))

    async def check(self, source: Source, manager: EndpointReference) -> None:
        """Ask whether the subscription is still there."""
        if not PRODUCERS[source.profile].checks or leasing_in(source.spec) is not None:
            raise ProducerRefused("It cannot be asked.")
        manager, url = asked_at(source, manager)
        written = write_get_status(spec_to(source, manager), manager, message_id=message_urn())
        await self._requester.ask(source, url, written, read_answer)

    async def pause(self, source: Source, manager: EndpointReference) -> None:
        """Have the producer send nothing for a while."""
        if not PRODUCERS[source.profile].pauses or leasing_in(source.spec) is not None:
            raise ProducerRefused("It cannot pause.")
        manager, url = asked_at(source, manager)
        try:
            written = write_pause(spec_to(source, manager), manager, message_id=message_urn())
        except Refused as refused:  # WS-Eventing has no such request.
            raise ProducerRefused(refused.text) from refused
        await self._requester.ask(source, url, written, read_answer)

    async def resume(self, source: Source, manager: EndpointReference) -> None:
        """Have the producer send again."""
        manager, url = asked_at(source, manager)
        written = write_resume(spec_to(source, manager), manager, message_id=message_urn())
        await self._requester.ask(source, url, written, read_answer)

    async def unsubscribe(self, source: Source, manager: EndpointReference) -> None:
        """End the subscription; where there is no request for that, by a lease that is as short as
        can be."""
        leasing = leasing_in(source.spec)
        if leasing is not None:
            await self._lease(source, leasing, 0.0)
            return
        manager, url = asked_at(source, manager)
        spec, options = spec_to(source, manager), options_of(source)
        written = write_unsubscribe(spec, manager, message_id=message_urn(), source=options)
        await self._requester.ask(source, url, written, read_answer)

    async def pull(
        self, source: Source, manager: EndpointReference | None, context: bytes
    ) -> Pulled:
        """Pull events of a subscription, waiting for the first for `PULL_WAIT` seconds.

        Raises:
            NothingYet, ContextRefused
        """
        written, url = pull_request(source, manager, context)
        read = read_pulled_messages if PRODUCERS[source.profile].device else read_pulled
        return await self._requester.wait(source, url, written, read, seconds=PULL_WAIT)

    async def _lease(self, source: Source, leasing: Leasing, seconds: float) -> Granted:
        """Subscribe, or renew, by the call that does both."""
        at = time.time()
        written = lease_request(source, self._endpoint, seconds)
        granted = await self._requester.ask(source, source.url, written, leasing.read_granted)
        length = max(SHORTEST_BY_CALL, min(granted, seconds))
        return Granted(at, length, producer_of(source))

    def _length(self, source: Source, answered: GrantedAnswer, at: float) -> float | None:
        """The seconds for which a lease is held."""
        length = _length(answered, at, source.lease)
        if length is None or not self._requester.is_strangers(source):
            return length
        return max(length, SHORTEST_OF_STRANGERS)


def _length(answered: GrantedAnswer, at: float, asked: float) -> float | None:
    """The seconds of a granted lease, from *at*, when it was asked for.

    A date is one of the producer's clock: its own time in the answer says how far that is. Where it
    does not say, no more is believed than was asked for, and a date that is over here says only
    that the clocks differ. None where there is no date, which is for ever, or as long as was asked
    for.
    """
    if not answered.expires:
        return None
    try:
        expiry = parse_expiry(answered.expires)
        now = moment_of(at)
        if expiry.duration is not None:
            return (expiry.duration.after(now) - now).total_seconds()
        if expiry.instant is None:
            return None
        if answered.current_time:
            theirs = parse_date_time(answered.current_time)
            return (expiry.instant - theirs).total_seconds()
    except (Refused, ValueError):
        return None
    length = (expiry.instant - now).total_seconds()
    return min(length, asked) if length > 0 else None
