"""A conversation with the smart host, by the standard library's `smtplib`: it blocks a thread, and
another can end it, wherever it stands."""

import contextlib
import smtplib
import socket
import ssl
import threading
import time
from typing import Self

from gateway.egress.mail.settings import MailSettings
from gateway.security.secret_files import SecretFileUnusable

MAX_REPLY = 65536
"""Bytes of one reply, of however many lines."""


class Conversation:
    """One connection to the smart host.

    Args:
        tls: For the smart host.
        seconds: What connecting may take at most, and then each reply. Only `end` bounds the whole.

    Attributes:
        speaker: Speaks; None before there is a connection.
        connected: Whether there was a connection.
        ended: Whether somebody ended it.
    """

    def __init__(self, settings: MailSettings, tls: ssl.SSLContext, seconds: float) -> None:
        self._settings = settings
        self._tls = tls
        self._seconds = seconds
        self._lock = threading.Lock()
        self._held: socket.socket | None = None
        """Another handle of the connection: that which speaks changes when TLS begins, and may not
        be touched by two threads."""
        self.speaker: smtplib.SMTP | None = None
        self.connected = False
        self.ended = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def log_in(self) -> smtplib.SMTP:
        """Connect to the smart host, secure the connection, and log in, each as the settings say.

        Raises:
            OSError, smtplib.SMTPException: One of these is not possible.
        """
        settings = self._settings
        speaker = _Speaker(self, settings.smart_host, settings.sender, self._seconds)
        if settings.security == "starttls":
            speaker.starttls(context=self._tls)
        if settings.user is not None:
            try:
                password = settings.read_password()
            except SecretFileUnusable as unusable:
                raise smtplib.SMTPException(f"mail.password_file: {unusable.text}") from None
            speaker.login(settings.user, password)
        speaker.ehlo_or_helo_if_needed()
        return speaker

    def connect(self, host: str, port: int) -> socket.socket:
        """Connect, with TLS where it is there from the first byte on.

        Raises:
            OSError: That is not possible.
        """
        until = time.monotonic() + self._seconds
        failure = OSError(f"{host} has no address")
        for family, kind, protocol, _, address in socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM
        ):
            one = None
            try:
                one = socket.socket(family, kind, protocol)
                self._hold(one)
                one.settimeout(max(until - time.monotonic(), 0.001))
                one.connect(address)
                if self.ended:  # Meanwhile, when there was no connection yet to shut down.
                    raise TimeoutError("the time is over")
                self.connected = True
                one.settimeout(self._seconds)
                if self._settings.security == "tls":
                    return self._tls.wrap_socket(one, server_hostname=host)
            except OSError as error:
                if one is not None:
                    one.close()
                if self.connected or self.ended:
                    raise
                failure = error.with_traceback(None)
            else:
                return one
        try:
            raise failure
        finally:
            del failure

    def _hold(self, one: socket.socket) -> None:
        with self._lock:
            if self.ended:
                raise TimeoutError("the time is over")
            if self._held is not None:
                self._held.close()
            self._held = one.dup()

    def end(self) -> None:
        """End the conversation, from any thread: who waits for the smart host fails at once."""
        with self._lock:
            self.ended = True
            if self._held is not None:
                with contextlib.suppress(OSError):
                    self._held.shutdown(socket.SHUT_RDWR)

    def say_goodbye(self) -> None:
        """End it in the way of the protocol. What the smart host replies would change nothing, and
        nobody waits for it: a mail that it accepted would else be late, and sent twice."""
        if self.speaker is not None:
            with contextlib.suppress(OSError, smtplib.SMTPException):
                self.speaker.putcmd("QUIT")

    def close(self) -> None:
        """Close the connection."""
        if self.speaker is not None:
            self.speaker.close()
        with self._lock:
            if self._held is not None:
                self._held.close()
                self._held = None


class _Speaker(smtplib.SMTP):
    """Speaks over the connection that a conversation makes."""

    def __init__(
        self, conversation: Conversation, to: tuple[str, int], sender: str, seconds: float
    ) -> None:
        self._conversation = conversation
        conversation.speaker = self
        super().__init__(*to, local_hostname=sender.partition("@")[2], timeout=seconds)

    def _get_socket(self, host: str, port: int, timeout: float) -> socket.socket:
        """Called by `smtplib` to connect; so do its own classes."""
        return self._conversation.connect(host, port)

    def getreply(self) -> tuple[int, bytes]:
        """Read a reply, of whose lines `smtplib` keeps any number."""
        assert self.sock is not None
        if self.file is None:
            self.file = _Reader(self.sock)
        self.file.left = MAX_REPLY
        return super().getreply()


class _Reader:
    """Reads lines, in all no more than are *left*, in bytes."""

    def __init__(self, sock: socket.socket) -> None:
        self._file = sock.makefile("rb")
        self.left = 0

    def readline(self, size: int) -> bytes:
        line = self._file.readline(size)
        self.left -= len(line)
        if self.left < 0:
            raise OSError(f"the smart host replied with more than {MAX_REPLY} bytes")
        return line

    def close(self) -> None:
        self._file.close()
