"""``dragoman tenants``: what is used, behind it the quota."""

from gateway.cli.resources import TENANTS

ANY = {"used": 0, "limit": None, "refused": 0}
RATE = {"used": None, "limit": 2.5, "refused": 3}
RECORD = {
    "name": "acme",
    "subscriptions": {"used": 7, "limit": 10.0, "refused": 2},
    "mailboxes": ANY,
    "disk": {"used": 1000, "limit": 1e9, "refused": 0},
    "backlog": {"used": 40, "limit": 500.0, "refused": 1},
    "messages": RATE,
    "bytes": RATE | {"limit": None, "refused": 0},
}


def test_a_row_of_the_list() -> None:
    used = ["7/10", "0/any", "1000/1000000000", "40/500", "2.5/s", "any/s"]
    assert TENANTS.row(RECORD) == ["acme", *used, 6]
    assert dict(TENANTS.facts(RECORD))["refused"] == 6
