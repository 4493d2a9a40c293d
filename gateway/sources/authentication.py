"""What producers are shown, so that they know who asks.

    password       a UsernameToken by their own clock, and the answers to challenges of HTTP
    other kinds    a token, a key, a signature, a certificate: as `gateway.egress` shows consumers

It goes to the host of the source alone, whatever addresses that host gives, and over nothing weaker
than the source's own URL; a secret as it is (Basic, a token) only over TLS, unless the operator
says otherwise.
"""

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from secrets import token_bytes

from pydantic import SecretStr

from filters import Refused
from gateway.egress import Answer, Shown, Target, parse_target
from gateway.egress.credential_kinds import Bearer
from gateway.egress.http_authentication import (
    Authorization,
    Challenge,
    read_challenges,
    strongest,
)
from gateway.egress.request_authentication import RequestAuthentication, basic, cleared
from gateway.model.moments import moment_of
from gateway.model.sources import BEARER, PASSWORD, Credential, Source
from gateway.sources.credentials import ConfiguredCredentials
from mediation.profiles import PRODUCERS
from mediation.soap.username_tokens import add_username_token

REMEMBERED = 1000
"""Sources of which it is known how they are to be asked."""
_NONCE = 16


@dataclass(slots=True)
class _Known:
    """What is known of one source.

    Attributes:
        ahead: Seconds that its clock is ahead of ours; None: it was not asked yet.
        authorization: What answers its challenge, if there was one.
        withheld: It takes the password as it is alone, and does not get it.
        answered: The password of *authorization*.
        shown: What it is shown by the transport, where the store has its secret.
    """

    ahead: float | None = None
    withheld: bool = False
    authorization: Authorization | None = field(default=None, repr=False)
    answered: str = field(default="", repr=False)
    shown: Shown | None = None


class Authentication:
    """Says who asks, for sources that have credentials.

    Args:
        decrypt: Returns the secret that is sealed in a credential, or raises `Refused`.
        configured: Credentials of the settings.
    """

    def __init__(
        self, decrypt: Callable[[str], str], configured: ConfiguredCredentials | None = None
    ) -> None:
        self._decrypt = decrypt
        self._configured = configured or ConfiguredCredentials()
        self._known: OrderedDict[str, _Known] = OrderedDict()

    def applies(self, source: Source, target: Target) -> bool:
        """Return True if requests of *source* to *target* say who asks."""
        if source.credential is None:
            return False
        own = parse_target(source.url)
        weaker = own.scheme == "https" and target.scheme != "https"
        return target.host == own.host and not weaker

    def negotiates(self, source: Source, target: Target) -> bool:
        """Return True if requests of *source* to *target* prove its password by Negotiate."""
        return (
            source.credential is not None
            and source.credential.negotiate
            and self.applies(source, target)
        )

    def password_of(self, source: Source) -> tuple[str, str]:
        """The user and the password of *source*, which has them.

        Raises:
            Refused: The password cannot be decrypted.
        """
        assert source.credential is not None, "applies looked"
        return source.credential.user, self._password(source, source.credential)

    def shown(self, source: Source, target: Target) -> Shown | None:
        """What the transport is to show in requests of *source* to *target*; None for nothing.

        Raises:
            Refused: Its secret cannot be decrypted, or is in the settings of others.
        """
        credential = source.credential
        if credential is None or not self.applies(source, target):
            return None
        if credential.configured:
            if credential.kept and not self._configured.has(credential.configured, source.url):
                return None  # It is removed, by the password that it had.
            return self._configured.shown(credential.configured, source.url)
        if credential.kind != BEARER:
            return None
        known = self._of(source)
        if known.shown is None:
            row = Bearer.model_construct(kind="bearer", allow_http=credential.basic)
            secret = SecretStr(self._decrypt(credential.sealed))
            known.shown = Shown(
                RequestAuthentication(row, secret, row="a source in its place", clears=False)
            )
        return known.shown

    def answers_challenges(self, source: Source, target: Target) -> bool:
        """Return True if *source* has a password, which is shown as its producer asks for it."""
        credential = source.credential
        return (
            credential is not None and credential.kind == PASSWORD and self.applies(source, target)
        )

    def cleared(self, source: Source, text: str) -> str:
        """*text*, of what a producer has said, without the secrets of *source*."""
        credential = source.credential
        if credential is None:
            return text
        try:
            shown = self.shown(source, parse_target(source.url))
            if shown is not None and isinstance(shown.authentication, RequestAuthentication):
                text = shown.authentication.cleared(text)
            if credential.kind != PASSWORD:
                return text
            password = self._password(source, credential)
        except Refused:
            return text  # There is none here that could have been sent.
        in_header = basic(credential.user, password).partition(" ")[2]
        return cleared(text, (password, in_header))

    def wants_clock(self, source: Source) -> bool:
        """Return True if the clock of *source* must be asked before anything else."""
        return self.tells_time(source) and self._of(source).ahead is None

    def tells_time(self, source: Source) -> bool:
        """Return True if what *source* is shown has the time of its clock in it."""
        credential = source.credential
        return (
            credential is not None
            and credential.kind == PASSWORD
            and PRODUCERS[source.profile].username_token
        )

    def withholds(self, source: Source, target: Target) -> bool:
        """Return True if the producer takes the password as it is alone, and does not get it."""
        return self.applies(source, target) and self._of(source).withheld

    def set_clock(self, source: Source, ahead: float) -> bool:
        """Note that the clock of *source* is so many seconds ahead of ours; whether that is
        another time than before."""
        known = self._of(source)
        before, known.ahead = known.ahead, ahead
        return before is None or abs(before - ahead) > 2.0

    def with_credentials(
        self, source: Source, target: Target, envelope: bytes
    ) -> tuple[bytes, tuple[tuple[str, str], ...]]:
        """*envelope* with what it needs for this once, and the headers of HTTP that it needs, of a
        source with a password.

        Raises:
            Refused: The password cannot be decrypted.
        """
        credential, known = source.credential, self._of(source)
        if credential is None:
            return envelope, ()
        password = self._password(source, credential)
        if self.tells_time(source):
            created = moment_of(time.time()) + timedelta(seconds=known.ahead or 0.0)
            envelope = add_username_token(
                envelope, credential.user, password, nonce=token_bytes(_NONCE), created=created
            )
        if known.authorization is None:
            return envelope, ()
        if known.answered != password:  # It is another one since.
            challenge = known.authorization.challenge
            known.authorization = Authorization(challenge, credential.user, password)
            known.answered = password
        value = known.authorization.header("POST", target.path, envelope)
        return envelope, (("Authorization", value),)

    def challenged(self, source: Source, target: Target, answer: Answer) -> bool:
        """Take the challenge of an *answer*; whether the request is to be sent once more.

        Raises:
            Refused: The password cannot be decrypted.
        """
        credential, known = source.credential, self._of(source)
        challenges = read_challenges(answer.headers.get("www-authenticate", ""))
        challenge = strongest(challenges)
        if answer.status != 401 or credential is None or challenge is None:
            return False
        in_clear = challenge.scheme == "basic" and target.scheme != "https"
        known.withheld = in_clear and not credential.basic
        if known.withheld:
            return False
        answered = known.authorization
        if answered is not None and not _is_new(challenge, answered.challenge):
            return False  # It knows the answer, and does not take it.
        known.answered = self._password(source, credential)
        known.authorization = Authorization(challenge, credential.user, known.answered)
        return True

    def _password(self, source: Source, credential: Credential) -> str:
        if not credential.configured:
            return self._decrypt(credential.sealed)
        password = self._configured.password(credential.configured, source.url)
        return self._decrypt(credential.kept) if password is None else password

    def _of(self, source: Source) -> _Known:
        known = self._known.setdefault(source.id, _Known())
        self._known.move_to_end(source.id)
        while len(self._known) > REMEMBERED:
            self._known.popitem(last=False)
        return known


def _is_new(challenge: Challenge, before: Challenge) -> bool:
    return challenge.scheme != before.scheme or (
        challenge.scheme != "basic"
        and challenge.parameters.get("nonce") != before.parameters.get("nonce")
    )
