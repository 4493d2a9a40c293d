"""Checks of the file of identities, and of its absence."""

from collections.abc import Iterator

from filters import Refused
from gateway.checks.findings import Finding, fail, ok, warn
from gateway.model.hosts import is_loopback
from gateway.security.certificate_authorities import read_authority
from gateway.security.certificate_proofs import trusted_by_name
from gateway.security.identities import is_expired, key_file, load_identities
from gateway.security.password_cipher import PasswordCipher
from gateway.security.rights import Right
from gateway.settings.settings import Settings


def check_identities(settings: Settings) -> Iterator[Finding]:
    path = settings.identities
    if path is None:
        yield _without(settings)
        return
    if not path.exists():
        yield ok("identities", f"{path} is not there: the first start makes it")
        return
    try:
        found = load_identities(path)
        cipher = PasswordCipher(key_file(path))
        for user in found.users:
            if user.digest is not None:
                cipher.decrypt(user.digest)
    except Refused as refused:
        yield fail("identities", f"{refused.text.rstrip('.')}; correct it")
        return
    for authority in found.authorities:
        try:
            read_authority(authority.name, (path.parent / authority.file).read_bytes())
        except (OSError, ValueError) as error:
            text = f"authorities: {authority.name}: {authority.file} cannot be used: {error}"
            yield fail("identities", f"{text}; until then it certifies nobody")
    rows, authorities = trusted_by_name(found, path.parent, settings.believed_authorities)
    if rows:
        few = f"{', '.join(rows[:5])}{' ...' if len(rows) > 5 else ''}"
        text = f"{few}: the subject alone counts, whichever of {authorities} authorities has"
        yield warn("identities", f"{text} certified it; add `authority`, the name of one")
    if unnamed := [*found.rows_without_deliveries()]:
        few = f"{', '.join(unnamed[:5])}{' ...' if len(unnamed) > 5 else ''}"
        text = f"{few}: rules of `ca:` let such users subscribe, and deliver nothing to them"
        yield warn("identities", f"{text}; add `authority`, the name of one")
    if path.stat().st_mode & 0o077:
        text = f"others can read {path}, and guess passwords; set its mode to 600"
        yield warn("identities", text)
    gone = [key for key in found.keys if is_expired(key.expires)]
    if gone:
        yield warn("identities", f"{len(gone)} keys have expired; remove them (dragoman keys list)")
    if unbounded := [tenant.name for tenant in found.tenants if tenant.messages is None]:
        names = f"{', '.join(unbounded[:5])}{' ...' if len(unbounded) > 5 else ''}"
        text = f"tenants without a quota of messages: {names}; the flood of one delays the others"
        yield warn("identities", f"{text}. Set `messages` in [[tenants]]")
    operators = [rule for rule in found.policy.rules if Right.OPERATE in rule.rights]
    if not operators:
        text = "nobody may operate; add a rule with may = ['operate'], for there is no other way in"
        yield warn("identities", text)
    else:
        users, rules = len(found.users), len(found.rights)
        yield ok("identities", f"{path}: {users} users, {len(found.keys)} keys, {rules} rules")


def _without(settings: Settings) -> Finding:
    """What follows of there being no such file."""
    admin = settings.admin
    if admin is not None and not is_loopback(admin[0]):
        text = f"whoever reaches {admin[0]} may operate; set identities, or admin_host to loopback"
        return (
            warn("identities", text)
            if settings.admin_without_identities
            else fail("identities", f"{text}: without, the gateway does not start")
        )
    if settings.open_to_everybody:
        text = "everybody who reaches the gateway may publish and subscribe; set identities"
        if settings.without_identities:
            return warn("identities", f"{text}, unless the network keeps others out")
        return fail("identities", f"{text}, or without_identities: else it does not start")
    if not settings.on_loopback:
        return ok("identities", "none: everybody with a certificate of tls_client_ca may publish")
    return ok("identities", "none: everybody on this machine may do everything")
