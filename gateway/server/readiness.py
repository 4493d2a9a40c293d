"""The state that ``/readyz`` shows."""

from typing import Any

from adapters import XPathFilterAdapter
from gateway.delivery import WorkSharing
from gateway.server.state import RunState
from gateway.store import Store
from gateway.subscriptions.table import SubscriptionTable


class Readiness:
    """Puts the state together.

    Args:
        scheme: That of the adapter's URL.
    """

    def __init__(
        self,
        state: RunState,
        store: Store,
        adapter: XPathFilterAdapter,
        sharing: WorkSharing,
        table: SubscriptionTable,
        *,
        scheme: str,
    ) -> None:
        self._state = state
        self._store = store
        self._adapter = adapter
        self._sharing = sharing
        self._table = table
        self._scheme = scheme

    def __call__(self) -> dict[str, Any]:
        writable = self._store.writable
        return {
            "ready": self._state.ready and not self._state.draining and writable,
            "draining": self._state.draining,
            "store": "writable" if writable else "unavailable",
            "adapter": self._scheme,
            **self._broker(),
            "subscriptions": len(self._table),
            **self._share(),
        }

    def _broker(self) -> dict[str, Any]:
        state = self._adapter.state if self._state.ready else None
        if state is None:
            return {}
        return {
            "broker": {
                "connected": state.connected,
                "blocked": state.blocked,
                "since": state.since.isoformat(timespec="seconds"),
                "last_error": state.last_error,
                "last_error_at": state.last_error_at
                and state.last_error_at.isoformat(timespec="seconds"),
                **({"queues_gone": list(state.gone)} if state.gone else {}),
            }
        }

    def _share(self) -> dict[str, Any]:
        share = self._sharing.status() if self._state.ready else None
        if share is None:
            return {}
        return {
            "replica": share.replica,
            "replicas": share.alive,
            "partitions": {str(partition): round(age, 3) for partition, age in share.ages.items()},
            "keeps_house": share.keeps_house,
        }
