"""The messaging system, behind the filters of all subscriptions."""

from collections.abc import Callable, Mapping

import structlog

from adapters import Adapter, XPathFilterAdapter, load
from adapters.loading import RestartingAdapter
from filters import Filter
from gateway.rooms import Room
from gateway.security.keys import public_id
from gateway.security.principals import tenant_of
from gateway.settings.settings import WITHIN, Settings

_log = structlog.get_logger("dragoman")


class MessagingRoom(Room):
    """The messaging system.

    Args:
        filters: Returns the filters that it is started with, by their keys.
        owner_of: Returns the owner of the subscription with a key; None: it is the gateway's own.
    """

    def __init__(
        self,
        adapter: XPathFilterAdapter,
        filters: Callable[[], Mapping[str, Filter]],
        owner_of: Callable[[str], str | None],
    ) -> None:
        self.adapter = adapter
        self._filters = filters
        self._owner_of = owner_of

    async def start(self) -> None:
        filters = self._filters()
        tenants = {key: tenant_of(self._owner_of(key) or "") for key in filters}
        for key, error in (await self.adapter.start(filters, tenants)).items():
            _log.error("subscription.unmatched", subscription=public_id(key), reason=error.text)

    async def close(self) -> None:
        await self.adapter.close()


def open_adapter(settings: Settings) -> Adapter:
    """Make the adapter that *settings* name, which is to be started."""
    options = dict(settings.adapter_settings)
    if not settings.survive_power_loss and settings.scheme == "embedded":
        options.setdefault("survive-power-loss", "false")  # No other adapter flushes by itself.
    # Those within the process fail with it: a new process opens them again.
    make = load if settings.scheme in WITHIN else RestartingAdapter.from_url
    adapter: Adapter = make(
        settings.adapter.get_secret_value(), data=settings.data, settings=options
    )
    return adapter
