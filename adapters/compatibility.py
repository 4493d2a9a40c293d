"""Adapters that were written for an earlier Dragoman: they keep working, untouched.

Two things have changed since. The optional powers of an adapter, now fields of `Capabilities`, were
found by name: a property ``state``, the methods of `SharedAdapter` where ``replicas`` is True, and
the attributes ``interest`` and ``arrived`` of deliveries. And the modules that brokers' adapters
share have moved to `adapters.broker`; their former names are found by `FormerModules`.
"""

import sys
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_loader
from types import ModuleType
from typing import Any, Protocol, cast

from adapters.protocol import Adapter, AdapterState, Capabilities, Delivery, Interest


class ReportingAdapter(Adapter, Protocol):
    """The former shape of ``Capabilities.reporting``."""

    @property
    def state(self) -> AdapterState: ...


class SelectedDelivery(Delivery, Protocol):
    """The former shape of ``Capabilities.selecting``."""

    @property
    def interest(self) -> Interest | None: ...


class SharedDelivery(Delivery, Protocol):
    """The former shape of ``Sharing.arrived``."""

    arrived: float


class SharedAdapter(Adapter, Protocol):
    """The former shape of ``Capabilities.sharing``: the methods of `Sharing`, but ``arrived``."""

    def share(self) -> None: ...

    async def adopt(self, interest: Interest) -> None: ...

    def take(self, partition: int) -> None: ...

    async def release(self, partition: int) -> None: ...

    def deliveries(self) -> AsyncIterator[SharedDelivery]: ...


class _SharingByMethods:
    """`Sharing` of an adapter that has its methods itself, and whose deliveries say when they
    came."""

    def __init__(self, adapter: SharedAdapter) -> None:
        self.share = adapter.share
        self.adopt = adapter.adopt
        self.take = adapter.take
        self.release = adapter.release

    def arrived(self, delivery: Delivery) -> float:
        return cast(SharedDelivery, delivery).arrived


def _selected(delivery: Delivery) -> Interest | None:
    return cast(SelectedDelivery, delivery).interest


def capabilities_of(adapter: Adapter) -> Capabilities:
    """Return the capabilities of *adapter*, with the powers that an older one shows by its
    attributes filled in."""
    said = adapter.capabilities
    missing: dict[str, Any] = {}
    if said.reporting is None and hasattr(adapter, "state"):
        missing["reporting"] = lambda: _state(adapter)
    if said.sharing is None and said.replicas:
        missing["sharing"] = _SharingByMethods(cast(SharedAdapter, adapter))
    if said.selecting is None and said.dialects:
        missing["selecting"] = _selected
    return replace(said, **missing) if missing else said


def _state(adapter: Adapter) -> AdapterState | None:
    """An older adapter may have any property of that name, for a purpose of its own."""
    state = cast(Any, adapter).state
    return state if isinstance(state, AdapterState) else None


FORMER_MODULES = {
    "adapters.changing": "adapters.broker.topology_changes",
    "adapters.confirming": "adapters.broker.confirms",
    "adapters.destinations": "adapters.broker.destinations",
    "adapters.endpoint": "adapters.broker.endpoint",
    "adapters.keeping": "adapters.broker.reconnecting",
    "adapters.links": "adapters.broker.connection_state",
    "adapters.native": "adapters.broker.native",
    "adapters.outages": "adapters.broker.outages",
    "adapters.prefetch": "adapters.broker.prefetch",
    "adapters.repeats": "adapters.deduplication",
    "mediation.records": "mediation.packaging.records",
}
"""Modules that docs/adapters.md once named for authors, and where they are now."""


class FormerModules(MetaPathFinder, Loader):
    """Imports a module under its former name: as the same module object, when it is asked for."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return spec_from_loader(fullname, self) if fullname in FORMER_MODULES else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return ModuleType(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        # `import` returns what stands here at the end, so both names lead to one module.
        sys.modules[module.__name__] = import_module(FORMER_MODULES[module.__name__])


sys.meta_path.append(FormerModules())
