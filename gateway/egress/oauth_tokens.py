"""Access tokens by client credentials (RFC 6749, section 4.4): asked for once by many, and kept
until shortly before they expire."""

import asyncio
import json
import time
from base64 import b64encode
from collections.abc import Awaitable, Callable
from urllib.parse import quote_plus, urlencode

import structlog
from pydantic import SecretStr

from gateway.egress.addresses import parse_target
from gateway.egress.credential_kinds import ClientCredentials
from gateway.egress.transport import Answer, FailureKind, Request, SendFailed

Post = Callable[[Request], Awaitable[Answer]]

EARLY = 30.0
"""Seconds before its end at which a token is replaced: it may take that long to arrive."""
UNSAID = 300.0
"""Seconds for which a token counts whose answer does not say how long."""
PAUSE = 5.0
"""Seconds after a failure in which the endpoint is not asked again: all deliveries that want the
token would ask it, each at its own time."""
LONGEST = 16 * 1024
"""Characters of a token."""
_ERRORS = frozenset(
    {
        "invalid_request",
        "invalid_client",
        "invalid_grant",
        "unauthorized_client",
        "unsupported_grant_type",
        "invalid_scope",
    }
)
"""Errors of RFC 6749, section 5.2. Other text of the endpoint might quote what it was sent."""
_log = structlog.get_logger("dragoman.credentials")


class AccessTokens:
    """The token of one client.

    Args:
        secret: Of the client.

    Attributes:
        asked: How often the endpoint was asked.
    """

    def __init__(self, row: ClientCredentials, secret: SecretStr) -> None:
        self._row = row
        self._secret = secret
        self._token = ""
        self._until = float("-inf")
        self._failure: SendFailed | None = None
        self._failed_at = float("-inf")
        self._forgotten_at = float("-inf")
        self._asking: asyncio.Task[str] | None = None
        self.asked = 0

    async def get(self, post: Post) -> str:
        """The token; *post* sends a request to the endpoint, where there is none.

        Raises:
            SendFailed: It cannot be had now.
        """
        now = time.monotonic()
        if now < self._until:
            return self._token
        if self._failure is not None and now - self._failed_at < PAUSE:
            raise SendFailed(self._failure.kind, self._failure.detail)
        if self._asking is None:
            self._asking = asyncio.get_running_loop().create_task(self._ask(post))
            self._asking.add_done_callback(self._asked)
        return await asyncio.shield(self._asking)

    def forget(self, token: str) -> None:
        """Forget *token*, which a consumer did not take; not again within `PAUSE`, for a consumer
        that takes none would have the endpoint asked for each message."""
        now = time.monotonic()
        if token == self._token and now - self._forgotten_at >= PAUSE:
            self._until, self._forgotten_at = float("-inf"), now

    def _asked(self, task: asyncio.Task[str]) -> None:
        self._asking = None
        if not task.cancelled():
            task.exception()  # Whoever waited may have given up.

    async def _ask(self, post: Post) -> str:
        self.asked += 1
        begun = time.monotonic()
        try:
            token, seconds = self._read(await post(self._request()))
        except SendFailed as error:
            text = error.detail.replace(self._secret.get_secret_value(), "***")
            self._failure = SendFailed(
                FailureKind.CREDENTIAL, f"no token for {self._row.shown} from {self._host}: {text}"
            )
            self._failed_at = time.monotonic()
            _log.warning("credential.no-token", credential=self._row.shown, why=text)
            raise SendFailed(FailureKind.CREDENTIAL, self._failure.detail) from None
        self._failure = None
        self._token, self._until = token, begun + max(seconds - EARLY, seconds / 2)
        return token

    @property
    def _host(self) -> str:
        return parse_target(self._row.token_url).authority

    def _request(self) -> Request:
        row, secret = self._row, self._secret.get_secret_value()
        form = {"grant_type": "client_credentials", "scope": row.scope, "audience": row.audience}
        headers = [
            ("Content-Type", "application/x-www-form-urlencoded"),
            ("Accept", "application/json"),
        ]
        own: tuple[tuple[str, str], ...] = ()
        if row.authentication == "basic":  # Both are encoded first: RFC 6749, section 2.3.1.
            pair = f"{quote_plus(row.client_id)}:{quote_plus(secret)}"
            own = (("Authorization", f"Basic {b64encode(pair.encode()).decode()}"),)
        else:
            form |= {"client_id": row.client_id, "client_secret": secret}
        body = urlencode({name: value for name, value in form.items() if value}).encode()
        target = parse_target(row.token_url)
        return Request(target, body, tuple(headers), soap=None, own_headers=own)

    def _read(self, answer: Answer) -> tuple[str, float]:
        """The token in *answer*, and the seconds for which it is valid.

        Raises:
            SendFailed: There is none.
        """
        try:
            said = json.loads(answer.body) if answer.body else {}
        except (ValueError, RecursionError):
            said = {}
        said = said if isinstance(said, dict) else {}
        if answer.status != 200:
            error = said.get("error")
            known = f" ({error})" if isinstance(error, str) and error in _ERRORS else ""
            raise SendFailed(FailureKind.CREDENTIAL, f"it answered {answer.status}{known}")
        token, type_ = said.get("access_token"), said.get("token_type")
        if not isinstance(token, str) or not 0 < len(token) <= LONGEST:
            raise SendFailed(FailureKind.CREDENTIAL, "its answer has no access_token")
        if not token.isascii() or not token.isprintable() or " " in token:
            raise SendFailed(FailureKind.CREDENTIAL, "its access_token is not a bearer token")
        if not isinstance(type_, str) or type_.lower() != "bearer":
            raise SendFailed(FailureKind.CREDENTIAL, "its token_type is not Bearer")
        return token, _seconds(said.get("expires_in"))


def _seconds(said: object) -> float:
    """The seconds that ``expires_in`` says; some servers write a string."""
    try:
        seconds = float(said) if isinstance(said, int | float | str) else UNSAID
    except (ValueError, OverflowError):
        return UNSAID
    return min(max(seconds, 0.0), 86400.0) if seconds == seconds else UNSAID
