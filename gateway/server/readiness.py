"""The state that ``/readyz`` shows."""

from typing import Any

from adapters import AdapterState, XPathFilterAdapter
from gateway.delivery import WorkSharing
from gateway.server.state import RunState
from gateway.store import Store
from gateway.subscriptions.table import SubscriptionTable

EMBEDDED = "embedded"


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
        self._store.look()
        writable, reported = self._store.writable, self._reported()
        # What the gateway itself keeps for a messaging system is as much its own as the store.
        kept = self._scheme != EMBEDDED or reported is None or reported.connected
        return {
            "ready": self._state.ready and not self._state.draining and writable and kept,
            "draining": self._state.draining,
            "store": "writable" if writable else "unavailable",
            "adapter": self._scheme,
            **self._broker(reported),
            "subscriptions": len(self._table),
            **self._share(),
        }

    def _reported(self) -> AdapterState | None:
        return self._adapter.state if self._state.ready else None

    def _broker(self, state: AdapterState | None) -> dict[str, Any]:
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
                "stopped_by": state.stopped_by,
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
