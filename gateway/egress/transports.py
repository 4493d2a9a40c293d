"""All transports as one."""

from collections.abc import Mapping

from gateway.egress.dialing import Dialer
from gateway.egress.transport import Answer, Request, Transport


class Transports:
    """The `Transport` that hands each request to the one for its scheme.

    Args:
        by_scheme: One for each scheme that targets may have.
        dialer: What they share; closed with them.
    """

    def __init__(self, by_scheme: Mapping[str, Transport], dialer: Dialer) -> None:
        self._by_scheme = dict(by_scheme)
        self._dialer = dialer

    async def send(self, request: Request) -> Answer:
        return await self._by_scheme[request.target.scheme].send(request)

    async def close(self) -> None:
        for transport in {id(one): one for one in self._by_scheme.values()}.values():
            await transport.close()
        self._dialer.close()
