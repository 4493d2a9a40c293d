"""The id of the request that is carried out now: in its answer, and in what the log and the audit
log say meanwhile."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass


@dataclass(slots=True)
class _Request:
    id: str
    ended: bool = False


_CURRENT: ContextVar[_Request | None] = ContextVar("dragoman_request", default=None)


def current_request() -> str:
    """The id of the request for which the current task works; empty: none that has one."""
    request = _CURRENT.get()
    return "" if request is None or request.ended else request.id


@contextmanager
def request_under_way(id_: str) -> Iterator[None]:
    """Have the request with this id be the current one."""
    request = _Request(id_)
    before = _CURRENT.set(request)
    try:
        yield
    finally:
        request.ended = True  # Tasks that it began may live long, and have this.
        _CURRENT.reset(before)
