"""The messaging system, behind the filters of all subscriptions."""

from collections.abc import Callable, Mapping

import structlog

from adapters import Adapter, XPathFilterAdapter, load
from adapters.loading import RestartingAdapter
from filters import Filter
from gateway.rooms import Room
from gateway.security.keys import public_id
from gateway.settings.settings import WITHIN, Settings

_log = structlog.get_logger("dragoman")


class MessagingRoom(Room):
    """The messaging system.

    Args:
        filters: Returns the filters that it is started with, by their keys.
    """

    def __init__(
        self, adapter: XPathFilterAdapter, filters: Callable[[], Mapping[str, Filter]]
    ) -> None:
        self.adapter = adapter
        self._filters = filters

    async def start(self) -> None:
        for key, error in (await self.adapter.start(self._filters())).items():
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
