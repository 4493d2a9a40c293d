"""Requests to consumers and producers that want to know who sends: each gets the credential of its
row of ``consumers``, ``sources`` or ``links``, and its signature, just before it is sent.

What is not accepted is no refusal of the message: the consumer may have changed its password before
the operator has. So the delivery is tried again, with a sentence that says what to correct. The
answer of the consumer is cleared of what it was sent: it is kept, and shown to subscribers.
"""

import json
import time
from base64 import b64encode
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from http import HTTPStatus
from secrets import token_bytes, token_hex
from typing import Protocol
from urllib.parse import quote
from uuid import uuid4

from pydantic import SecretStr

from gateway.egress.addresses import Target
from gateway.egress.credential_kinds import (
    X509,
    ApiKey,
    Basic,
    Bearer,
    ClientCredentials,
    Credential,
    Digest,
    UsernameToken,
    keeps_secrets,
)
from gateway.egress.http_authentication import Authorization, read_challenges, strongest
from gateway.egress.oauth_tokens import AccessTokens, Post
from gateway.egress.transport import Answer, FailureKind, Request, SendFailed
from mediation.cloudevents import Secret, signature
from mediation.soap.envelopes import xml_text
from mediation.soap.username_tokens import add_username_token

SHORTEST = 4
"""Characters of a secret that is looked for in answers: shorter ones are in any text."""
_NONCE = 16
_TOKENS = 8
"""Access tokens that are looked for: answers to those before the latest may be under way."""
_TOKEN_FAULTS = (b"FailedAuthentication", b"InvalidSecurityToken", b"InvalidSecurity")
"""Codes of faults of WS-Security 1.0, section 12, that mean that a token is not accepted."""
_SIGNATURE_FAULTS = (
    *_TOKEN_FAULTS, b"FailedCheck", b"UnsupportedSecurityToken", b"UnsupportedAlgorithm",
    b"SecurityTokenUnavailable", b"MessageExpired",
)  # fmt: skip
"""The same of a signature."""

Send = Callable[[Request], Awaitable[Answer]]
Write = Callable[[int, Callable[[], bytes]], Awaitable[bytes]]
"""Runs what writes about so many bytes, where that may take its time."""


async def write_here(octets: int, work: Callable[[], bytes]) -> bytes:
    """Run *work* here and now."""
    return work()


class _Proof(Protocol):
    """Shows one credential."""

    def secrets(self) -> Iterable[str]:
        """What must not be in any text."""

    async def send(self, request: Request, send: Send, post: Post, write: Write) -> Answer:
        """Send *request* with the credential by *send*; *post* reaches authorization servers,
        *write* runs what takes its time."""


class RequestAuthentication:
    """The credential and the signature of one row.

    Args:
        credential: Of the row; *secret* is read from its place.
        keys: Those that sign.
        row: Where an operator corrects it, in errors.
        clears: The answers are kept as what was said, and never read: secrets in them are masked.
            False for producers: what they answer is data, which is left as it came.
    """

    def __init__(
        self,
        credential: Credential | None = None,
        secret: SecretStr | None = None,
        keys: tuple[Secret, ...] = (),
        *,
        row: str = "its row of [[consumers]]",
        clears: bool = True,
    ) -> None:
        self._credential = credential
        self._proof = None
        if credential is not None and secret is not None:
            self._proof = _proof_of(credential, secret)
        self._keys = keys
        self._row = row
        self._clears = clears

    @property
    def name(self) -> str:
        """The name of the credential, for lists; empty where there is none."""
        return self._credential.shown if self._credential is not None else ""

    @property
    def signs(self) -> bool:
        """Whether messages are signed."""
        return bool(self._keys)

    def __repr__(self) -> str:
        return f"RequestAuthentication({self.name or '-'}, keys={len(self._keys)})"

    async def send(
        self, request: Request, goal: Target, send: Send, post: Post, write: Write = write_here
    ) -> Answer:
        """Send *request*, on a connection to *goal*, by *send*.

        Raises:
            SendFailed: ``CREDENTIAL``: the credential cannot be shown, or was not accepted; or as
                *send* does.
        """
        if self._credential is not None:
            self._check(self._credential, request, goal)
        if self._keys and goal.scheme.startswith("http"):
            request = self._signed(request)
        try:
            if self._proof is None:
                answer = await send(request)
            else:
                answer = await self._proof.send(request, send, post, write)
        except SendFailed as failed:
            if self.cleared(failed.detail) == failed.detail:
                raise
            raise SendFailed(
                failed.kind,
                self.cleared(failed.detail),
                connecting=failed.connecting,
                status=failed.status,
            ) from None
        if answer.body and self._proof is not None and self._clears:
            answer = replace(answer, body=self._cleared_body(answer.body))
        if self._credential is not None and _is_refused(self._credential, answer):
            raise SendFailed(
                FailureKind.CREDENTIAL,
                f"it answered {answer.status} to the credential {self.name}: correct that, in "
                f"{self._row}",
                answer=answer,
            )
        return answer

    def _check(self, credential: Credential, request: Request, goal: Target) -> None:
        """Raise `SendFailed` where the credential cannot be shown on this way."""
        if isinstance(credential, UsernameToken | X509):
            if request.soap is None:
                text = f"its credential {credential.shown} is for SOAP, and this message is not"
                raise SendFailed(FailureKind.CREDENTIAL, text)
        elif not goal.scheme.startswith("http"):
            text = (
                f"its credential {credential.shown} is for HTTP: nothing of it fits {goal.scheme}"
            )
            raise SendFailed(FailureKind.CREDENTIAL, text)
        if credential.shows_secret and not keeps_secrets(goal):
            raise SendFailed(
                FailureKind.CREDENTIAL,
                f"its credential {credential.shown} is not sent over plain {goal.scheme}, where "
                f"others read it: subscribe https, or set allow_http in {self._row}",
            )

    def _signed(self, request: Request) -> Request:
        """*request* with a signature by each key (Standard Webhooks 1.0.0); a subscriber's own
        signature stays the first."""
        own = dict(request.own_headers)
        message = own.get("webhook-id") or request.message_id or f"msg_{uuid4().hex}"
        at = int(own.get("webhook-timestamp") or time.time())
        found = [own["webhook-signature"]] if "webhook-signature" in own else []
        for key in self._keys:
            headers = dict(signature(key, message, at, request.body))
            found.append(headers["webhook-signature"])
        own |= {
            "webhook-id": message,
            "webhook-timestamp": str(at),
            "webhook-signature": " ".join(found),
        }
        return replace(request, own_headers=tuple(own.items()))

    def cleared(self, text: str) -> str:
        """*text* without the secrets."""
        return cleared(text, self._secrets())

    def _secrets(self) -> Iterable[str]:
        return self._proof.secrets() if self._proof is not None else ()

    def _cleared_body(self, body: bytes) -> bytes:
        for form in _forms(self._secrets()):
            body = body.replace(form.encode(), b"***")
        return body


def cleared(text: str, secrets: Iterable[str]) -> str:
    """*text* without the *secrets*, in all forms in which an answer may repeat them."""
    for form in _forms(secrets):
        text = text.replace(form, "***")
    return text


def _forms(secrets: Iterable[str]) -> Iterable[str]:
    for one in secrets:
        if len(one) >= SHORTEST:
            yield from {one, xml_text(one), json.dumps(one)[1:-1], quote(one, safe="")}


def _is_refused(credential: Credential, answer: Answer) -> bool:
    if answer.status == HTTPStatus.UNAUTHORIZED:
        return True
    if answer.status not in (400, 403, 500):
        return False
    match credential:
        case UsernameToken():
            faults: tuple[bytes, ...] = _TOKEN_FAULTS
        case X509():
            faults = _SIGNATURE_FAULTS
        case _:
            return False
    return any(fault in answer.body for fault in faults)


def _with(request: Request, value: str, header: str = "Authorization") -> Request:
    return replace(request, own_headers=(*request.own_headers, (header, value)))


def _proof_of(credential: Credential, secret: SecretStr) -> _Proof:
    match credential:
        case Basic():
            return _Fixed(basic(credential.user, secret.get_secret_value()), secret)
        case Bearer():
            return _Fixed(f"Bearer {secret.get_secret_value()}", secret)
        case ApiKey():
            return _Fixed(secret.get_secret_value(), secret, credential.header)
        case Digest():
            return _Challenged(credential.user, secret)
        case ClientCredentials():
            return _Tokens(credential, secret)
        case UsernameToken():
            return _InEnvelope(credential, secret)
        case X509():
            return _Signed(credential, secret)


def basic(user: str, password: str) -> str:
    """The value of Authorization (RFC 7617)."""
    return f"Basic {b64encode(f'{user}:{password}'.encode()).decode()}"


class _Fixed:
    """The same value of a header for all requests."""

    def __init__(self, value: str, secret: SecretStr, header: str = "Authorization") -> None:
        self._value = value
        self._secret = secret
        self._header = header

    def secrets(self) -> Iterable[str]:
        return self._value.partition(" ")[2], self._secret.get_secret_value()

    async def send(self, request: Request, send: Send, post: Post, write: Write) -> Answer:
        return await send(_with(request, self._value, self._header))


class _Challenged:
    """Answers challenges of HTTP Digest, and of nothing weaker; a nonce serves until there is
    another."""

    def __init__(self, user: str, secret: SecretStr) -> None:
        self._user = user
        self._secret = secret
        self._by_host: dict[tuple[str, str, int], Authorization] = {}

    def secrets(self) -> Iterable[str]:
        return (self._secret.get_secret_value(),)

    async def send(self, request: Request, send: Send, post: Post, write: Write) -> Answer:
        shown = self._by_host.get(request.target.destination)
        answer = await send(self._answering(request, shown) if shown is not None else request)
        if answer.status != HTTPStatus.UNAUTHORIZED:
            return answer
        challenges = read_challenges(answer.headers.get("www-authenticate", ""))
        challenge = strongest(tuple(one for one in challenges if one.scheme == "digest"))
        if challenge is None or (shown is not None and shown.challenge == challenge):
            return answer
        shown = Authorization(challenge, self._user, self._secret.get_secret_value())
        self._by_host[request.target.destination] = shown
        return await send(self._answering(request, shown))

    @staticmethod
    def _answering(request: Request, shown: Authorization) -> Request:
        return _with(request, shown.header(request.method, request.target.path, request.body))


class _Tokens:
    """Shows an access token, and another one where the consumer does not take it."""

    def __init__(self, credential: ClientCredentials, secret: SecretStr) -> None:
        self._tokens = AccessTokens(credential, secret)
        self._secret = secret
        self._shown: deque[str] = deque(maxlen=_TOKENS)

    def secrets(self) -> Iterable[str]:
        return *self._shown, self._secret.get_secret_value()

    async def send(self, request: Request, send: Send, post: Post, write: Write) -> Answer:
        token = await self._token(post)
        answer = await send(_with(request, f"Bearer {token}"))
        if answer.status != HTTPStatus.UNAUTHORIZED:
            return answer
        self._tokens.forget(token)
        again = await self._token(post)
        return await send(_with(request, f"Bearer {again}")) if again != token else answer

    async def _token(self, post: Post) -> str:
        token = await self._tokens.get(post)
        if token not in self._shown:
            self._shown.append(token)
        return token


class _InEnvelope:
    """Puts a UsernameToken into envelopes."""

    def __init__(self, credential: UsernameToken, secret: SecretStr) -> None:
        self._credential = credential
        self._secret = secret

    def secrets(self) -> Iterable[str]:
        return (self._secret.get_secret_value(),)

    async def send(self, request: Request, send: Send, post: Post, write: Write) -> Answer:
        credential = self._credential
        try:
            body = add_username_token(
                request.body,
                credential.user,
                self._secret.get_secret_value(),
                nonce=token_bytes(_NONCE),
                created=datetime.now(UTC),
                in_clear=credential.in_clear,
            )
        except ValueError:  # An envelope in UTF-16, as WS-Management may ask for.
            text = f"its credential {credential.shown} does not fit into this envelope"
            raise SendFailed(FailureKind.CREDENTIAL, text) from None
        return await send(replace(request, body=body))


class _Signed:
    """Signs envelopes, and encrypts them then. Attachments would not be signed, so there may be
    none."""

    def __init__(self, credential: X509, secret: SecretStr) -> None:
        self._credential = credential
        self._key = credential.signing_key(secret)
        self._recipient = credential.recipient()

    def secrets(self) -> Iterable[str]:
        return ()  # The key is in nothing that is sent.

    async def send(self, request: Request, send: Send, post: Post, write: Write) -> Answer:
        if request.attachments:
            raise self._does_not_fit("attachments would not be signed")
        try:
            body = await write(len(request.body), partial(self._secured, request.body))
        except ValueError:  # A package with attachments, UTF-16, a namespace of a relative name.
            why = "the message is not a plain envelope in UTF-8, or has no canonical form"
            raise self._does_not_fit(why) from None
        return await send(replace(request, body=body))

    def _secured(self, envelope: bytes) -> bytes:
        from mediation.ws_security import encrypt_envelope, sign_envelope

        unique = f"d{token_hex(8)}"
        signed = sign_envelope(envelope, self._key, unique=unique, now=datetime.now(UTC))
        if self._recipient is None:
            return signed
        return encrypt_envelope(signed, self._recipient, unique=unique)

    def _does_not_fit(self, why: str) -> SendFailed:
        text = f"its credential {self._credential.shown} does not fit this message: {why}"
        return SendFailed(FailureKind.UNSIGNABLE, text)
