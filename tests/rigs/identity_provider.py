"""A small true identity provider: OpenID Connect Discovery, keys that rotate, signed tokens, a token
endpoint for clients with a secret (RFC 6749, section 4.4), and people who log in by a form (OpenID
Connect Core 1.0, section 3.1, with PKCE)."""

import hashlib
import json
import threading
import time
import warnings
from base64 import b64decode, urlsafe_b64encode
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from html import escape
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from secrets import token_urlsafe
from typing import Any
from urllib.parse import parse_qs, parse_qsl, unquote_plus, urlencode, urlsplit

from joserfc import jwt
from joserfc.errors import SecurityWarning
from joserfc.jwk import ECKey, KeySet, OKPKey, RSAKey

from gateway.security.issuer_documents import IssuerDocuments
from gateway.server.issuer_requests import IssuerRequests

ALGORITHMS = {"RS256": RSAKey, "ES256": ECKey, "EdDSA": OKPKey}
DOCUMENTS = IssuerDocuments(IssuerRequests())
"""Reads those of a provider on this machine."""


class IdentityProvider:
    """Issues tokens for *audience*.

    Attributes:
        reads: How often its keys were read.
        down: It answers nothing but 503.
        clients: Secrets of clients, by their ids.
        lifetime: Seconds for which the tokens of clients count.
        granted: The tokens of clients, in the order in which they were given.
        asked: What clients sent.
        people: The claims of those who can log in, by their names.
        ended: What was asked for where sessions end.
        says_issuer: It says of itself that it always says ``iss`` with a code (RFC 9207).
        names_keys: Its tokens say by which key they are signed.
        renames: A new key has a new name.
        publishes: The algorithms for which it publishes a key.
        userinfo: What it says of people beside their tokens, which have no other claims then
            (OpenID Connect Core 1.0, section 5.4), by their names.
        shown: What was shown to it for that.
    """

    def __init__(self, issuer: str, audience: str = "dragoman") -> None:
        self.issuer = issuer
        self.audience = audience
        self.reads = 0
        self.down = False
        self.clients: dict[str, str] = {}
        self.lifetime = 600
        self.granted: list[str] = []
        self.asked: list[Mapping[str, str]] = []
        self.people: dict[str, dict[str, Any]] = {}
        self.ended: list[Mapping[str, str]] = []
        self.says_issuer = False
        self.names_keys = self.renames = True
        self.publishes: Iterable[str] = ALGORITHMS
        self.userinfo: dict[str, Any] | None = None
        self.shown: list[str] = []
        self._codes: dict[str, tuple[dict[str, str], str]] = {}
        """What was asked for, and who logged in, by code."""
        self._keys = {name: self._new_key(name, 0) for name in ALGORITHMS}
        self._generation = 0

    @staticmethod
    def _new_key(algorithm: str, generation: int) -> Any:
        parameters: Any = {"kid": f"{algorithm}-{generation}", "use": "sig"}
        match algorithm:
            case "RS256":
                return RSAKey.generate_key(2048, parameters)
            case "ES256":
                return ECKey.generate_key("P-256", parameters)
            case _:
                return OKPKey.generate_key("Ed25519", parameters)

    def rotate(self) -> None:
        """Sign with new keys from now on; the former ones are not published any more."""
        self._generation += self.renames
        self._keys = {name: self._new_key(name, self._generation) for name in ALGORITHMS}

    def token(self, algorithm: str = "ES256", *, header: Any = None, **claims: Any) -> str:
        """A token of ``mole``; a claim that is None is left out."""
        said = {
            "iss": self.issuer,
            "aud": self.audience,
            "sub": "mole",
            "exp": int(time.time()) + 600,
            **claims,
        }
        key = self._keys[algorithm]
        head = {"alg": algorithm, **({"kid": key.kid} if self.names_keys else {})} | (header or {})
        kept = {name: value for name, value in said.items() if value is not None}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SecurityWarning)  # Of the name "EdDSA".
            return jwt.encode(head, kept, key, algorithms=[algorithm])

    @property
    def key_set(self) -> dict[str, Any]:
        """What it publishes: its keys."""
        keys = [self._keys[name] for name in self.publishes]
        return dict(KeySet(keys).as_dict(private=False))

    def answer(self, path: str) -> tuple[int, bytes]:
        """The answer to a GET of *path*."""
        if self.down:
            return 503, b""
        if path == "/.well-known/openid-configuration":
            said: Any = {
                "issuer": self.issuer,
                "jwks_uri": f"{self.issuer}/keys",
                "authorization_endpoint": f"{self.issuer}/authorize",
                "token_endpoint": f"{self.issuer}/token",
                "end_session_endpoint": f"{self.issuer}/leave",
                "authorization_response_iss_parameter_supported": self.says_issuer,
            }
            if self.userinfo is not None:
                said["userinfo_endpoint"] = f"{self.issuer}/userinfo"
        elif path.startswith("/authorize?"):
            return 200, _LOGIN.format(escape(path, quote=True)).encode()
        elif path.startswith("/leave?"):
            self.ended.append(dict(parse_qsl(urlsplit(path).query)))
            return 200, b"<title>Left</title>"
        elif path == "/keys":
            self.reads += 1
            said = self.key_set
        else:
            return 404, b""
        return 200, json.dumps(said).encode()

    def grant(self, authorization: str, body: str) -> tuple[int, bytes]:
        """The answer to a POST of *body* to the token endpoint."""
        if self.down:
            return 503, b"upstream said: " + body.encode()
        form = {name: values[0] for name, values in parse_qs(body).items()}
        self.asked.append(form)
        if form.get("grant_type") == "authorization_code":
            return self._grant_login(form)
        client, secret = form.get("client_id", ""), form.get("client_secret", "")
        if authorization.startswith("Basic "):
            pair = b64decode(authorization.removeprefix("Basic ")).decode()
            client, _, secret = (unquote_plus(one) for one in pair.partition(":"))
        if not secret or self.clients.get(client) != secret:
            said: Any = {"error": "invalid_client", "error_description": f"not {secret}"}
            return 401, json.dumps(said).encode()
        if form.get("grant_type") != "client_credentials":
            return 400, json.dumps({"error": "unsupported_grant_type"}).encode()
        self.granted.append(self.token(sub=client, jti=str(len(self.granted))))
        said = {
            "access_token": self.granted[-1],
            "token_type": "Bearer",
            "expires_in": self.lifetime,
        }
        return 200, json.dumps(said).encode()

    def log_in(self, path: str, body: str) -> str:
        """Somebody sends the form of *path*; where the browser goes then."""
        asked = dict(parse_qsl(urlsplit(path).query))
        name = dict(parse_qsl(body)).get("user", "")
        said = {"state": asked["state"], "iss": self.issuer}
        if name in self.people:
            code = token_urlsafe(16)
            self._codes[code] = asked, name
            said["code"] = code
        else:
            said["error"] = "access_denied"
        return f"{asked['redirect_uri']}?{urlencode(said)}"

    def _grant_login(self, form: Mapping[str, str]) -> tuple[int, bytes]:
        """A token of identity, for a code that was not used yet."""
        asked, name = self._codes.pop(form.get("code", ""), ({}, ""))
        digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        if (
            urlsafe_b64encode(digest).rstrip(b"=").decode() != asked.get("code_challenge")
            or form.get("redirect_uri") != asked["redirect_uri"]
        ):
            return 400, json.dumps({"error": "invalid_grant"}).encode()
        claims = {"sub": name, "aud": asked["client_id"], "nonce": asked["nonce"]}
        token = self.token(**{**claims, **self.people[name]})
        said = {"access_token": f"opaque-{name}", "token_type": "Bearer", "id_token": token}
        return 200, json.dumps(said).encode()

    def inform(self, authorization: str) -> tuple[int, bytes]:
        """The answer to a GET of the userinfo endpoint (OpenID Connect Core 1.0, section 5.3)."""
        self.shown.append(authorization)
        name = authorization.removeprefix("Bearer opaque-")
        if self.userinfo is None or name not in self.userinfo:
            return 401, b""
        return 200, json.dumps(self.userinfo[name]).encode()


_LOGIN = """<!doctype html><html lang="en"><title>Who are you?</title>
<form method="post" action="{}"><label>User <input name="user"></label><button>Go</button></form>
</html>"""


@contextmanager
def identity_provider() -> Iterator[IdentityProvider]:
    """An identity provider on a port of its own."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path == "/userinfo":
                self._say(*provider.inform(self.headers.get("Authorization", "")))
                return
            self._say(*provider.answer(self.path))

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
            if self.path.startswith("/authorize?"):
                self.send_response(303)
                self.send_header("Location", provider.log_in(self.path, body))
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            self._say(*provider.grant(self.headers.get("Authorization", ""), body))

        def _say(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.send_header(
                "Content-Type", "text/html" if body[:1] == b"<" else "application/json"
            )
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        provider = IdentityProvider(f"http://127.0.0.1:{server.server_port}")
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield provider
        finally:
            server.shutdown()
            thread.join()
