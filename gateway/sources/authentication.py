"""What producers are shown, so that they know who asks: a UsernameToken by their own clock, and the
answers to challenges of HTTP.

A password goes to the host of the source alone, whatever addresses that host gives, and over
nothing weaker than the source's own URL; as it is (Basic) only over TLS, unless the operator says
otherwise.
"""

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from secrets import token_bytes

from gateway.egress import Answer, Target, parse_target
from gateway.egress.http_authentication import (
    Authorization,
    Challenge,
    read_challenges,
    strongest,
)
from gateway.model.moments import moment_of
from gateway.model.sources import Source
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
    """

    ahead: float | None = None
    withheld: bool = False
    authorization: Authorization | None = field(default=None, repr=False)


class Authentication:
    """Says who asks, for sources that have credentials.

    Args:
        decrypt: Returns the password that is sealed in a credential, or raises `Refused`.
    """

    def __init__(self, decrypt: Callable[[str], str]) -> None:
        self._decrypt = decrypt
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
        return source.credential.user, self._decrypt(source.credential.sealed)

    def wants_clock(self, source: Source) -> bool:
        """Return True if the clock of *source* must be asked before anything else."""
        return self.tells_time(source) and self._of(source).ahead is None

    def tells_time(self, source: Source) -> bool:
        """Return True if what *source* is shown has the time of its clock in it."""
        return source.credential is not None and PRODUCERS[source.profile].username_token

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
        """*envelope* with what it needs for this once, and the headers of HTTP that it needs.

        Raises:
            Refused: The password cannot be decrypted.
        """
        credential, known = source.credential, self._of(source)
        if credential is None:
            return envelope, ()
        if self.tells_time(source):
            created = moment_of(time.time()) + timedelta(seconds=known.ahead or 0.0)
            password = self._decrypt(credential.sealed)
            envelope = add_username_token(
                envelope, credential.user, password, nonce=token_bytes(_NONCE), created=created
            )
        if known.authorization is None:
            return envelope, ()
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
        password = self._decrypt(credential.sealed)
        known.authorization = Authorization(challenge, credential.user, password)
        return True

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
