"""The key and the certificates of a topic discovery node."""

from collections.abc import Iterator
from datetime import UTC, datetime

from gateway.checks.certificates import judge
from gateway.checks.findings import Finding, fail, ok, warn
from gateway.discovery.node_factory import DiscoveryUnusable, check_credentials
from gateway.settings.settings import Settings
from mediation.discovery import Role, can_receive


def check_discovery(settings: Settings) -> Iterator[Finding]:
    """Check that the node can be made of its settings."""
    what, given = "discovery", settings.discovery
    if given is None:
        yield fail(what, "the table [discovery] is missing; write it into dragoman.toml")
        return
    try:
        own, _ = check_credentials(given, now=datetime.now(UTC))
    except DiscoveryUnusable as error:
        text = error.text.removeprefix("discovery.")
        yield fail(what, f"{text}; correct it")
        return
    yield ok(what, f"the node is {own.identifier(Role.NODE)}")
    if not can_receive(own.certificate):
        yield fail(
            what,
            f"discovery.certificate: nothing can be encrypted for {given.certificate}: it has to "
            "be RSA, for the encipherment of keys",
        )
    if settings.public_url is None:
        yield warn(
            what,
            "public_url is not set: proofs of possession name the address that they are sent to, "
            f"and only {settings.host}, where the gateway listens, counts; set public_url to the "
            "URL that entities use",
        )
    yield judge(what, "", given.certificate, "renew it for the same key, and start the node again")
