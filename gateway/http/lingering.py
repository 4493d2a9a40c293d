"""Closes a connection so that the peer still reads why."""

import asyncio

LINGERS = 5
"""As many times as it lingers for a peer that is silent, it does for one that goes on sending."""


class LingeringTransport:
    """A transport whose `close` ends our side only, while the peer is in mid-request.

    Closing a socket with unread octets makes the kernel reset it, and what was written
    last (the refusal) is lost on its way. So the rest is read and thrown away for a while
    (RFC 9112, "Tear-down"); what is written meanwhile is dropped. In TLS, which cannot end one
    side, the peer knows from its length where the refusal ends.
    """

    def __init__(
        self, transport: asyncio.Transport, linger_time: float, linger_octets: int
    ) -> None:
        self._transport = transport
        self._linger_time = linger_time
        self._linger_octets = linger_octets
        self._timer: asyncio.TimerHandle | None = None
        self._turns = LINGERS
        self._came = False
        """Whether anything came since the timer was set."""
        self.receiving = False
        """Whether the peer is in mid-request."""
        self.aborted = False
        """Whether octets that were not written yet were thrown away."""

    @property
    def lingering(self) -> bool:
        return self._timer is not None

    def write(self, octets: bytes) -> None:
        if self._timer is None:
            self._transport.write(octets)

    def is_closing(self) -> bool:
        return self._timer is not None or self._transport.is_closing()

    def close(self) -> None:
        if self.lingering or self._transport.is_closing():
            return
        if not self.receiving:
            self._transport.close()
            return
        self._linger()
        self._transport.resume_reading()
        if self.can_write_eof():
            self._transport.write_eof()

    def _linger(self) -> None:
        self._turns -= 1
        self._came = False
        self._timer = asyncio.get_running_loop().call_later(self._linger_time, self._over)

    def _over(self) -> None:
        if self._came and self._turns > 0:
            self._linger()
        else:
            self.abort()

    def discard(self, octets: int) -> None:
        """Count *octets* that came after `close`; too many abort the connection."""
        self._came = True
        self._linger_octets -= octets
        if self._linger_octets < 0:
            self.abort()

    def abort(self) -> None:
        self.aborted = True
        self.stop()
        self._transport.abort()

    def stop(self) -> None:
        """Stop waiting: the connection is lost."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def can_write_eof(self) -> bool:
        return self._transport.can_write_eof()

    def pause_reading(self) -> None:
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        self._transport.resume_reading()

    def get_write_buffer_size(self) -> int:
        return self._transport.get_write_buffer_size()

    def get_extra_info(self, name: str) -> object:
        return self._transport.get_extra_info(name)
