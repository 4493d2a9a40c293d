"""Which addresses are read at all, and which of them may be sent to."""

import contextlib
import socket
from ipaddress import ip_address
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from filters import Reason
from gateway.egress import (
    AddressPolicy,
    AddressRefused,
    Dialer,
    IPAddress,
    LoopRefused,
    Target,
    hops_header,
    is_forbidden,
    parse_target,
    read_hops,
)
from gateway.egress.addresses import POLICY
from gateway.egress.host_list import HostList
from gateway.model.host_decisions import Decision, HostDecision, HostDecisions
from gateway.settings.values import port_ranges
from gateway.web.destinations import host_of
from tests.rigs.cases import for_each

MISSPELT = [
    "",
    " ",
    "http:",
    "http:/",
    "http://",
    "http:///path",
    "//example.com/",
    "example.com",
    "/soap",
    "http:example.com",
    "http:/example.com",
    "http:\\\\example.com\\",
    "http://example.com\\@127.0.0.1/",
    "http://user@example.com/",
    "http://user:pass@example.com/",
    "http://@example.com/",
    "http://example.com@127.0.0.1/",
    "http://127.0.0.1#@example.com/",
    "http://example.com/#fragment",
    "http://example.com#",
    "http://example.com/a b",
    " http://example.com/",
    "http://example.com/ ",
    "http://example.com/\r\nX: y",
    "http://example.com/\n",
    "http://exam\tple.com/",
    "http://example.com/\0",
    "http://example.com/\x7f",
    "http://example.com\x00.evil.example/",
    "ht\ntp://example.com/",
    "http://example.com/é",
    "http://example.com/%",
    "http://example.com/%zz",
    "http://example.com/<x>",
    'http://example.com/"',
    "http://example.com/{x}",
    "http://exa%6dple.com/",
    "http://example.com%2f@127.0.0.1/",
    "http://%31%32%37.0.0.1/",
    "http://example..com/",
    "http://.example.com/",
    "http://example.com./",
    "http://-example.com/",
    "http://exam!ple.com/",
    "http://exam ple.com/",
    "http://" + "a" * 64 + ".com/",
    "http://" + ".".join(["a" * 60] * 5) + "/",
    "http://example.com/" + "a" * 4096,
    "http://xn--0.com/",
    "http://xn--a-ecp.ru/",
    "http://exa\u200bmple.com/",
    "http://１２７.0.0.1/",
    "http://127。0。0。1/",
    "http://ⓔxample.com/",
    "http://example.com\uff0f@127.0.0.1/",
    "http://ex\u2024com/",
    "http://127.1/",
    "http://127.0.1/",
    "http://2130706433/",
    "http://017700000001/",
    "http://0x7f000001/",
    "http://0x7f.0.0.1/",
    "http://0177.0.0.1/",
    "http://127.0.0.01/",
    "http://127.0.0.1./",
    "http://127.0.0.0x1/",
    "http://127.0.0.256/",
    "http://1.2.3.4.5/",
    "http://0/",
    "http://0x/",
    "http://foo.0x7f/",
    "http://[::1/",
    "http://::1/",
    "http://[::1]x/",
    "http://[::1]:/",
    "http://[fe80::1%25eth0]/",
    "http://[fe80::1%eth0]/",
    "http://[v1.x]/",
    "http://[127.0.0.1]/",
    "http://[]/",
    "http://[::ffff:127.1]/",
    "http://example.com:/",
    "http://example.com:x/",
    "http://example.com:0/",
    "http://example.com:080/",
    "http://example.com:-1/",
    "http://example.com:+80/",
    "http://example.com:65536/",
    "http://example.com:99999999/",
    "http://example.com:８０/",
    "http://example.com:80:80/",
    "ftp://example.com/",
    "file:///etc/passwd",
    "gopher://example.com/",
    "ws://example.com/",
    "soap.udp://example.com/",
    "urn:example:consumer",
    "mailto:a@example.com",
    "javascript:alert(1)",
    "data:text/plain,x",
    "http+unix://%2fvar%2frun%2fdocker.sock/",
    "unix:/var/run/docker.sock",
]

INSIDE = [
    "0.0.0.0", "0.1.2.3", "10.0.0.1", "10.255.255.255", "100.64.0.1", "100.127.255.254",
    "127.0.0.1", "127.255.255.254", "168.63.129.16", "169.254.0.1", "169.254.169.254",
    "172.16.0.1", "172.31.255.255", "192.0.0.1", "192.0.0.9", "192.0.0.170", "192.0.2.1",
    "192.88.99.1", "192.168.0.1", "192.168.255.255", "198.18.0.1", "198.51.100.1",
    "203.0.113.1", "224.0.0.1", "232.1.1.1", "239.255.255.250", "240.0.0.1",
    "255.255.255.255",
    "::", "::1", "::127.0.0.1", "::8.8.8.8", "::ffff:127.0.0.1", "::ffff:10.0.0.1",
    "::ffff:169.254.169.254", "::ffff:7f00:1", "::ffff:0:127.0.0.1", "64:ff9b::7f00:1",
    "64:ff9b::8.8.8.8", "64:ff9b:1::1", "100::1", "2001::1", "2001:0:7f00:1::",
    "2001:db8::1", "2001:10::1", "2002:7f00:1::", "2002:0808:0808::1", "fc00::1",
    "fd00:ec2::254", "fe80::1", "fec0::1", "ff02::1", "ff0e::1",
]  # fmt: skip

OUTSIDE = ["1.1.1.1", "8.8.8.8", "93.184.216.34", "2606:4700::1111", "::ffff:8.8.8.8"]
SAME_HOST = [
    ("8.8.8.8", "::ffff:8.8.8.8"),
    ("::ffff:8.8.8.8", "8.8.8.8"),
    ("[::FFFF:808:808]", "8.8.8.8"),
    ("8.8.8.8", "64:ff9b::8.8.8.8"),
    ("8.8.8.8", "64:ff9b:1::8.8.8.8"),
    ("8.8.8.8", "64:ff9b:1:808:8:800::"),
    ("8.8.8.8", "2002:808:808::1"),
    ("8.8.8.8", "2001:0:808:808::fefe:fefe"),
    ("8.8.8.8", "2001:0:101:101::f7f7:f7f7"),
    ("8.8.8.8", "::ffff:0:8.8.8.8"),
    ("2606:4700:0::1111", "2606:4700::1111"),
]
"""How a host may be listed, and how somebody may write it."""


def url_of(address: str) -> str:
    return f"http://[{address}]/" if ":" in address else f"http://{address}/"


class TestAddresses:
    @for_each("url", MISSPELT)
    def test_what_others_read_in_two_ways_is_refused(self, url: str) -> None:
        with pytest.raises(AddressRefused) as refusal:
            parse_target(url)
        assert refusal.value.reason is Reason.CONSUMER_ADDRESS
        assert refusal.value.text.startswith("This is not an address to send to: ")
        assert refusal.value.allowed_by is None and "policy" not in refusal.value.text

    @for_each(
        ("url", "why"),
        [
            ("", "it is empty"),
            ("/soap", "it does not begin with a scheme and a host"),
            ("127.0.0.1:8899/x", "it does not begin with a scheme and a host"),
            ("urn:example:consumer", "it does not begin with a scheme and a host"),
            ("http:///path", "it has no host"),
            ("http:/127.0.0.1:8899/x", "it has no host"),
            ("http://?x", "it has no host"),
            ("http://example.com/%zz", "a % in it is not followed by two hexadecimal digits"),
            ("http://example.com/é", "its path has a character that has to be written with %"),
            ("http://example.com/a b", "it has a space"),
            ("http://example.com/\n", "it has the character U+000A"),
            ("http://example.com/#x", "it has a #"),
            ("http://alice:secret@example.com/", "it has a user or a password before @"),
            ("http://example.com:x/", "its port is not a number from 1 to 65535"),
            ("http://example.com:/", "its port is empty"),
            ("http://127.1/", "its host is no IPv4 address of four decimal numbers"),
            ("http://[::1%25eth0]/", "its IPv6 address has a scope"),
            ("http://-example.com/", "its host is neither a name nor an IP address"),
            ("ftp://example.com/", "its scheme is none of http, https, soap.tcp, soap.tcps"),
            ("http://example.com/" + "a" * 4096, "it has more than 4096 characters"),
        ],
    )
    def test_what_is_wrong_is_said(self, url: str, why: str) -> None:
        with pytest.raises(AddressRefused) as refusal:
            parse_target(url)
        assert why in refusal.value.text and "secret" not in refusal.value.text

    @pytest.mark.parametrize(
        ("url", "target"),
        [
            ("http://example.com", Target("http", "example.com", 80, "/", "http://example.com")),
            (
                "HTTP://Example.COM:8080/A/../b//c;d?e=%2f&f[]=?/",
                Target(
                    "http",
                    "example.com",
                    8080,
                    "/A/../b//c;d?e=%2f&f[]=?/",
                    "http://example.com:8080/A/../b//c;d?e=%2f&f[]=?/",
                ),
            ),
            (
                "https://bücher.example?q",
                Target(
                    "https",
                    "xn--bcher-kva.example",
                    443,
                    "/?q",
                    "https://xn--bcher-kva.example?q",
                ),
            ),
            ("https://a_b:443/", Target("https", "a_b", 443, "/", "https://a_b/")),
            (
                "http://[2001:DB8:0:0::1]:9000/",
                Target("http", "2001:db8::1", 9000, "/", "http://[2001:db8::1]:9000/"),
            ),
            ("http://192.0.2.7/x", Target("http", "192.0.2.7", 80, "/x", "http://192.0.2.7/x")),
        ],
    )
    def test_an_address_is_read(self, url: str, target: Target) -> None:
        assert parse_target(url) == target
        assert parse_target(target.url) == target

    @pytest.mark.parametrize(
        ("url", "literal"),
        [
            ("http://192.0.2.7/", ip_address("192.0.2.7")),
            ("http://[::1]/", ip_address("::1")),
            ("http://example.com/", None),
            ("http://a1/", None),
            ("http://1a/", None),
            ("http://1.example/", None),
        ],
    )
    def test_a_literal_address_is_told_from_a_name(
        self, url: str, literal: IPAddress | None
    ) -> None:
        assert parse_target(url).literal == literal

    def test_other_schemes_bring_their_ports(self) -> None:
        target = parse_target("soap.tcp://example.com", default_ports={"soap.tcp": 8081})
        assert target.destination == ("soap.tcp", "example.com", 8081)

    @pytest.mark.parametrize("url", ["pigeon://loft/x", "pigeon://loft:7/x"])
    def test_a_port_that_a_scheme_brings_may_be_named(self, url: str) -> None:
        target = parse_target(url, default_ports={"pigeon": 7})
        assert target.destination == ("pigeon", "loft", 7)
        assert parse_target(target.url, default_ports={"pigeon": 7}) == target
        for other in ("http://loft:07/x", "pigeon://loft:07/x"):
            with pytest.raises(AddressRefused):
                parse_target(other, default_ports={"http": 80, "pigeon": 7})

    @for_each(
        ("port", "open_to_strangers"),
        [
            *((port, True) for port in (80, 443, 1024, 8080, 65535, 81, 500, 600)),
            *((port, False) for port in (1, 22, 25, 499, 601, 5432, 5672, 6379, 8086, 11211)),
        ],
    )
    def test_ports_of_strangers(self, port: int, open_to_strangers: bool) -> None:
        policy = AddressPolicy(ports=port_ranges(("81", "500-600")))
        target = parse_target(f"http://example.com:{port}/")
        policy.check(target)
        policy.check_named(target, trusted=True)
        if open_to_strangers:
            policy.check_named(target)
            return
        with pytest.raises(AddressRefused) as refusal:
            policy.check_named(target)
        assert refusal.value.allowed_by == "egress_ports" and refusal.value.text == POLICY
        assert refusal.value.with_mend().text.endswith("The setting egress_ports can allow it.")

    def test_a_scheme_has_its_own_port(self) -> None:
        AddressPolicy().check_named(parse_target("soap.tcp://example.com"))

    @pytest.mark.parametrize("word", ["", "0", "65536", "9-8", "a", "80-", "-80", "1-70000"])
    def test_what_is_no_range_of_ports(self, word: str) -> None:
        with pytest.raises(ValueError, match="neither a port"):
            port_ranges((word,))

    @pytest.mark.parametrize("host", ["7", "123", "0x1", "a.1", "a:b"])
    def test_names_of_other_schemes_are_no_addresses(self, host: str) -> None:
        assert Target("pigeon", host, 1, "/", f"pigeon:{host}").literal is None

    @given(st.text(max_size=60))
    def test_whatever_comes_is_read_or_refused(self, rest: str) -> None:
        for url in (rest, f"http://{rest}", f"http://a.example/{rest}", f"http://xn--{rest}/"):
            try:
                target = parse_target(url)
            except AddressRefused:
                continue
            assert target.url.isascii()
            assert target.url.isprintable()
            assert parse_target(target.url) == target


class TestPolicy:
    @for_each("address", INSIDE)
    def test_inside_addresses_are_refused(self, address: str) -> None:
        assert is_forbidden(ip_address(address))
        with pytest.raises(AddressRefused) as refusal:
            AddressPolicy().check(parse_target(url_of(address)))
        assert (refusal.value.text, refusal.value.allowed_by) == (POLICY, "egress_allow")

    @pytest.mark.parametrize("address", OUTSIDE)
    def test_the_public_internet_is_open(self, address: str) -> None:
        AddressPolicy().check(parse_target(url_of(address)))

    @pytest.mark.parametrize("name", ["localhost", "a.localhost", "LOCALHOST"])
    def test_localhost_is_an_inside_name(self, name: str) -> None:
        target = parse_target(f"http://{name}:8080/")
        with pytest.raises(AddressRefused):
            AddressPolicy().check(target)
        AddressPolicy(loopback=True).check(target)

    def test_loopback_opens_nothing_else(self) -> None:
        policy = AddressPolicy(loopback=True)
        for address in ("127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"):
            policy.check(parse_target(url_of(address)))
        for address in ("0.0.0.0", "::", "10.0.0.1", "169.254.169.254"):
            with pytest.raises(AddressRefused):
                policy.check(parse_target(url_of(address)))

    def test_an_operator_allows_networks_and_names(self) -> None:
        policy = AddressPolicy(allow=["10.1.0.0/16", "fd00::/8", "sink.lan", "*.corp.lan"])
        policy.check(parse_target("http://10.1.2.3/"))
        policy.check(parse_target("http://[fd00::1]/"))
        policy.check(parse_target("http://[::ffff:10.1.2.3]/"))
        for name in ("sink.lan", "a.corp.lan", "a.b.corp.lan"):
            policy.check_ip(ip_address("192.168.0.9"), parse_target(f"http://{name}/"))
        for name in ("a.sink.lan", "corp.lan", "evilcorp.lan", "lan"):
            with pytest.raises(AddressRefused):
                policy.check_ip(ip_address("192.168.0.9"), parse_target(f"http://{name}/"))
        with pytest.raises(AddressRefused):
            policy.check(parse_target("http://10.2.0.1/"))

    @pytest.mark.parametrize(("listed", "spelled"), SAME_HOST)
    def test_a_host_is_forbidden_in_every_spelling(self, listed: str, spelled: str) -> None:
        """By the settings and by an operator; also where NAT64 and tunnels are allowed."""
        networks = ["64:ff9b::/96", "64:ff9b:1::/48", "2002::/16", "2001::/32", "::ffff:0:0:0/96"]
        target = parse_target(url_of(spelled))
        AddressPolicy(allow=networks).check(target)
        known = HostDecisions()
        known.replace([HostDecision(host_of(listed), Decision.FORBIDDEN, "user:a", 1.0)])
        for policy in (
            AddressPolicy(allow=networks, forbid=[listed]),
            AddressPolicy(allow=networks, decisions=known),
        ):
            with pytest.raises(AddressRefused):
                policy.check(target)

    @pytest.mark.parametrize(
        ("forbidden", "peer"),
        [
            ("8.8.8.8", "8.8.8.8"),
            ("8.8.8.8", "::ffff:8.8.8.8"),
            ("8.8.8.8", "64:ff9b::808:808"),
            ("64:ff9b::808:808", "64:ff9b::808:808"),
            ("192.168.1.1", "64:ff9b:1:c0a8:1:100:a00:1"),
            ("10.0.0.1", "64:ff9b:1:c0a8:1:100:a00:1"),
            ("8.8.4.4", "2001:0:808:808:0:0:f7f7:fbfb"),
            ("8.8.8.8", "2001:0:808:808:0:0:f7f7:fbfb"),
        ],
    )
    async def test_a_kept_connection_is_judged_as_a_new_one(
        self, forbidden: str, peer: str
    ) -> None:
        """Where an operator forbids one of the hosts that its address leads to."""
        known, target = HostDecisions(), parse_target("https://consumer.example/")
        networks = ["64:ff9b::/96", "64:ff9b:1::/48", "2001::/32", "::ffff:0:0/96"]
        policy = AddressPolicy(allow=[*networks, "192.168.0.0/16", "10.0.0.0/8"], decisions=known)
        dialer = Dialer(policy)
        kept: Any = SimpleNamespace(peer=peer)
        assert dialer.may_use(kept, dialer.route(target))
        policy.check_ip(ip_address(peer), target)
        known.replace([HostDecision(forbidden, Decision.FORBIDDEN, "user:a", 1.0)])
        assert not dialer.may_use(kept, dialer.route(target))
        with pytest.raises(AddressRefused):
            policy.check_ip(ip_address(peer), target)
        dialer.close()

    @pytest.mark.parametrize("inside", ["10.0.0.1", "127.0.0.1", "169.254.169.254"])
    def test_translation_opens_nothing_inside(self, inside: str) -> None:
        policy = AddressPolicy(allow=["64:ff9b::/96"], loopback=True)
        target = parse_target(f"http://[64:ff9b::{inside}]/")
        with pytest.raises(AddressRefused):
            policy.check(target)
        AddressPolicy(allow=["64:ff9b::/96", f"{inside}/32"]).check(target)

    @pytest.mark.parametrize("number", ["127.1", "0x7f000001", "2130706433", "0177.0.0.1", "10.1."])
    def test_a_number_is_not_listed(self, number: str) -> None:
        with pytest.raises(ValueError, match="four decimal numbers"):
            HostList([number])

    @pytest.mark.parametrize(("listed", "host"), [("*.Example.", "a.example"), ("[::1]", "::1")])
    def test_how_names_are_listed(self, listed: str, host: str) -> None:
        assert host in HostList([listed])

    def test_a_network_misspelt_is_the_operators_mistake(self) -> None:
        with pytest.raises(ValueError, match=r"10\.1"):
            AddressPolicy(allow=["10.1/16x"])

    @pytest.mark.parametrize(
        "url",
        [
            "https://events.example/soap",
            "https://events.example:443/",
            "http://127.0.0.1:8080/soap",
            "http://127.3.2.1:8080/soap",
            "http://[::ffff:127.0.0.1]:8080/",
            "http://[::1]:8080/",
            "http://0.0.0.0:8080/",
        ],
    )
    def test_our_own_addresses_are_refused_unless_configured(self, url: str) -> None:
        own = [("events.example", 443), ("0.0.0.0", 8080)]
        target = parse_target(url)
        allow = ["0.0.0.0/0", "::/0"]
        with pytest.raises(AddressRefused):
            AddressPolicy(allow=allow, own=own).check(target)
        AddressPolicy(allow=allow, own=own, deliver_to_self=True).check(target)

    @pytest.mark.parametrize("everywhere", ["0.0.0.0", "::"])
    def test_who_listens_everywhere_is_every_address_of_this_machine(self, everywhere: str) -> None:
        """As whoever names it elsewhere would reach it."""
        policy = AddressPolicy(allow=["0.0.0.0/0", "::/0"], own=[(everywhere, 8080)])
        own = [address for address in addresses_of_this_machine() if not address.is_loopback]
        if not own:
            pytest.skip("this machine has no address but loopback")
        for address in own:
            host = f"[{address}]" if address.version == 6 else str(address)
            with pytest.raises(AddressRefused):
                policy.check(parse_target(f"http://{host}:8080/soap"))
            with pytest.raises(AddressRefused):
                policy.check_ip(address, parse_target("http://named.example:8080/"))
            policy.check(parse_target(f"http://{host}:8081/"))

    def test_our_own_port_on_another_host_is_open(self) -> None:
        policy = AddressPolicy(own=[("0.0.0.0", 8080), ("events.example", 443)])
        policy.check(parse_target("http://1.1.1.1:8080/"))
        policy.check(parse_target("https://other.example/"))


def addresses_of_this_machine() -> list[IPAddress]:
    """Those from which something would be sent to the documentation's networks."""
    found = []
    for family, elsewhere in (
        (socket.AF_INET, "203.0.113.1"),
        (socket.AF_INET6, "2001:db8::1"),
    ):
        with contextlib.suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as sock:
            sock.connect((elsewhere, 9))
            found.append(ip_address(sock.getsockname()[0]))
    return found


class TestHops:
    @pytest.mark.parametrize(("value", "hops"), [(None, 0), ("0", 0), ("1", 1), ("7", 7)])
    def test_hops_are_counted(self, value: str | None, hops: int) -> None:
        assert read_hops(value) == hops
        assert hops_header(hops) == ("Dragoman-Hops", str(hops + 1))

    @pytest.mark.parametrize("value", ["8", "9", "99", "", "-1", "x", "1, 1", " 1", "٣", "100"])
    def test_a_loop_ends(self, value: str) -> None:
        with pytest.raises(LoopRefused) as refusal:
            read_hops(value)
        assert refusal.value.reason is Reason.LOOP
