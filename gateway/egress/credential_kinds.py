"""Credentials that the gateway shows to consumers, as a row of ``consumers`` has them, and to
producers, as rows of ``sources`` and of ``links`` have them.

No secret is in the settings: a row names the file, or the variable of the environment, that has it.
"""

import os
import re
from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, Self, TypeAlias, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SecretStr, model_validator

from filters import Reason, Refused
from gateway.egress.addresses import AddressRefused, Target, parse_target
from mediation.cloudevents import Secret, read_secret

if TYPE_CHECKING:  # Its libraries take 0.05 s to import, which a gateway without such rows saves.
    from cryptography import x509

    from mediation.ws_security import SigningKey

MOST = 64 * 1024
"""Bytes of a file with a secret."""
KEYS = 2
"""Keys of signatures at a time: the one in use, and the one that it replaces, or that replaces it.
"""
T = TypeVar("T")
_CONTROLS = re.compile(r"[\x00-\x1f\x7f]")
_OTHERS = re.compile(
    r"host|content-.*|transfer-encoding|connection|keep-alive|proxy-.*|te|trailer|upgrade|expect"
    r"|authorization|soapaction|ce-.*|webhook-.*|dragoman-.*|accept.*|user-agent",
    re.IGNORECASE,
)
"""Headers that a request has already, or that mean something to whoever is in between."""


class SecretUnusable(Refused):
    """A secret cannot be used; the text names the setting and the file, and never repeats it."""

    def __init__(self, place: str, why: str) -> None:
        super().__init__(Reason.MESSAGE_INVALID, f"{place} {why}")


class SecretPlace(BaseModel):
    """Where a secret is: in a file, or in a variable of the environment."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    secret_file: Path | None = None
    secret_variable: str | None = Field(None, pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")

    @model_validator(mode="after")
    def _is_one_place(self) -> Self:
        if (self.secret_file is None) is (self.secret_variable is None):
            raise ValueError("name one of secret_file and secret_variable")
        return self

    def files(self) -> Iterator[Path]:
        """The files that are named."""
        if self.secret_file is not None:
            yield self.secret_file

    def read(self, row: str) -> SecretStr:
        """Read the secret of the *row* of that name: without a line end behind it.

        Raises:
            SecretUnusable: It cannot be read, is empty, or has control characters.
        """
        text = self._text(row).rstrip("\r\n")
        if not text or _CONTROLS.search(text):
            why = "is empty" if not text else "has more than one line, or a control character"
            raise SecretUnusable(self._place(row), why)
        return SecretStr(text)

    def read_keys(self, row: str) -> tuple[Secret, ...]:
        """Read keys of signatures, of which there is one a line, or two while they are rotated.

        Raises:
            SecretUnusable: They cannot be read, or are not such keys.
        """
        words = self._text(row).split()
        try:
            keys = tuple(map(read_secret, words))
        except Refused as refused:
            raise SecretUnusable(self._place(row), f"cannot be used: {refused.text}") from None
        if not 1 <= len(keys) <= KEYS:
            raise SecretUnusable(self._place(row), f"has {len(keys)} keys: write one, or two")
        return keys

    def _text(self, row: str) -> str:
        try:
            if self.secret_file is None:
                return os.environ[self.secret_variable or ""]
            with self.secret_file.open("rb") as file:
                octets = file.read(MOST + 1)
            if len(octets) > MOST:
                raise SecretUnusable(self._place(row), f"has more than {MOST // 1024} KiB")
            return octets.decode()
        except KeyError:
            raise SecretUnusable(self._place(row), "is not set") from None
        except OSError as error:
            raise SecretUnusable(self._place(row), f"cannot be read ({error.strerror})") from error
        except UnicodeDecodeError:  # Its text would quote the secret.
            raise SecretUnusable(self._place(row), "is not text in UTF-8") from None

    def _place(self, row: str) -> str:
        if self.secret_file is not None:
            return f"{row}: secret_file: {self.secret_file}"
        return f"{row}: secret_variable: {self.secret_variable}"


class _Credential(SecretPlace):
    """What all credentials have.

    Attributes:
        name: What lists and errors call it; without one, its kind.
        allow_http: Also sent over plain HTTP, where whoever is in between reads it.
    """

    name: str | None = Field(None, pattern=r"^[A-Za-z0-9._-]{1,64}$")
    allow_http: bool = False

    @property
    def shown(self) -> str:
        return self.name or str(getattr(self, "kind"))  # noqa: B009 - each kind has its own

    @property
    def in_clear(self) -> bool:
        """True if whoever reads the request has the secret, or can use it."""
        return True

    @property
    def shows_secret(self) -> bool:
        """True if it may be sent only where nobody in between reads it."""
        return self.in_clear and not self.allow_http


User = Annotated[str, Field(min_length=1, max_length=1024, pattern=r"^[^\x00-\x1f\x7f]+$")]


def _has_no_colon(user: str) -> str:
    if ":" in user:
        raise ValueError("a user of HTTP Basic has no colon (RFC 7617)")
    return user


class Basic(_Credential):
    """A user and a password (RFC 7617)."""

    kind: Literal["basic"]
    user: Annotated[User, AfterValidator(_has_no_colon)]


class Digest(_Credential):
    """A user and the digest of a password, where the consumer asks for one (RFC 7616)."""

    kind: Literal["digest"]
    user: User

    @property
    def in_clear(self) -> bool:
        return False


class _InHeader(_Credential):
    """A secret that is the value of a header, or a part of it."""

    def read(self, row: str) -> SecretStr:
        secret = super().read(row)
        if not secret.get_secret_value().isascii():
            raise SecretUnusable(self._place(row), "has characters that no header may have")
        return secret


class Bearer(_InHeader):
    """A token (RFC 6750)."""

    kind: Literal["bearer"]


def _is_own_header(name: str) -> str:
    if _OTHERS.fullmatch(name):
        raise ValueError(f"{name!r} has a meaning of its own in requests")
    return name


class ApiKey(_InHeader):
    """A key in a header of its own.

    Attributes:
        header: Its name.
    """

    kind: Literal["api-key"]
    header: Annotated[
        str,
        Field(pattern=r"^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}$"),
        AfterValidator(_is_own_header),
    ] = "X-API-Key"


def _is_endpoint(url: str) -> str:
    try:
        target = parse_target(url)
    except AddressRefused as refused:
        raise ValueError(refused.text) from refused
    if target.scheme not in ("http", "https"):
        raise ValueError("must begin with https:// or http://")
    return url


class ClientCredentials(_Credential):
    """A token that an authorization server gives for a client's id and secret (RFC 6749, section
    4.4).

    Attributes:
        token_url: Its token endpoint.
        scope, audience: What is asked for.
        authentication: How the client proves itself: by HTTP Basic, or in the body.
    """

    kind: Literal["client-credentials"]
    token_url: Annotated[str, AfterValidator(_is_endpoint)]
    client_id: User
    scope: str = Field("", max_length=4096)
    audience: str = Field("", max_length=4096)
    authentication: Literal["basic", "body"] = "basic"

    @model_validator(mode="after")
    def _keeps_its_secret(self) -> Self:
        if not self.allow_http and not keeps_secrets(parse_target(self.token_url)):
            raise ValueError("token_url: http:// shows the secret: use https, or set allow_http")
        return self


class UsernameToken(_Credential):
    """A user and a password in a header block of SOAP (WS-Security UsernameToken Profile 1.1.1).

    Attributes:
        password: How the password is written: as a digest, or as text.
    """

    kind: Literal["username-token"]
    user: User
    password: Literal["digest", "text"] = "digest"

    @property
    def in_clear(self) -> bool:
        return self.password == "text"


class X509(_Credential):
    """A signature by a key and its certificate in a header block of SOAP (WS-Security X.509
    Certificate Token Profile 1.1.1). The secret is the key, in PEM, without a password.

    Attributes:
        certificate: That of the key, in PEM.
        encrypt_for: The consumer's certificate, in PEM, for which the Body is encrypted; None: it
            is not.
    """

    kind: Literal["x509"]
    certificate: Path
    encrypt_for: Path | None = None

    @property
    def in_clear(self) -> bool:
        return False

    def files(self) -> Iterator[Path]:
        yield from super().files()
        yield self.certificate
        if self.encrypt_for is not None:
            yield self.encrypt_for

    def read(self, row: str) -> SecretStr:
        key = SecretStr(self._text(row))
        self.signing_key(key, row)
        self.recipient(row)
        return key

    def signing_key(self, key: SecretStr, row: str = "credential") -> "SigningKey":
        """What signs, by *key* of the *row* of that name.

        Raises:
            SecretUnusable: The key, or its certificate, cannot be used.
        """
        from mediation.ws_security import read_signing_key

        read = partial(read_signing_key, key.get_secret_value().encode())
        return _of_file(self.certificate, read, f"{row}: certificate")

    def recipient(self, row: str = "credential") -> "x509.Certificate | None":
        """The certificate for which the Body is encrypted; None where it is not.

        Raises:
            SecretUnusable: It cannot be used.
        """
        if self.encrypt_for is None:
            return None
        from mediation.ws_security import read_recipient

        return _of_file(self.encrypt_for, read_recipient, f"{row}: encrypt_for")


def _of_file(path: Path, read: Callable[[bytes], T], setting: str) -> T:
    try:
        return read(path.read_bytes()[:MOST])
    except OSError as error:
        why = f"cannot be read ({error.strerror})"
        raise SecretUnusable(f"{setting}: {path}", why) from error
    except ValueError as error:
        raise SecretUnusable(f"{setting}: {path}", f"cannot be used: {error}") from None


Credential: TypeAlias = Annotated[
    Basic | Digest | Bearer | ApiKey | ClientCredentials | UsernameToken | X509,
    Field(discriminator="kind"),
]


@lru_cache(maxsize=1024)  # Asked for every message: to read an address takes 20 us.
def keeps_secrets(target: Target) -> bool:
    """Whether nobody in between reads what is sent to *target*: TLS, or a host that is loopback."""
    if target.scheme in ("https", "soap.tcps"):
        return True
    return target.host == "localhost" or (target.literal is not None and target.literal.is_loopback)
