"""What follows from the names of header blocks alone."""

import pytest

from mediation import names
from mediation.model.versions import Wsa
from mediation.soap.layout import KEPT_BLOCKS, KEPT_CHARACTERS, layout_of

OLD, NEW = (f"{{{wsa.value}}}" for wsa in (Wsa.V2004_08, Wsa.V2005_08))
WSN = f"{{{names.WSN_1_3}}}"


def test_nothing() -> None:
    layout = layout_of(())
    assert (layout.wsa, layout.repeated, layout.topic) == (None, None, None)
    assert not (layout.namespaces or layout.addressing or layout.identifiers or layout.strange)


def test_places() -> None:
    layout = layout_of(
        ("{urn:a}Own", f"{OLD}Action", f"{OLD}To", f"{WSN}Topic", "{urn:k}SubscriptionId", "plain")
    )
    assert layout.wsa is Wsa.V2004_08
    assert layout.namespaces == {"urn:a", Wsa.V2004_08.value, names.WSN_1_3, "urn:k", ""}
    assert layout.addressing == {"Action": 1, "To": 2}
    assert layout.topic == 3
    assert layout.identifiers == (4,)
    assert layout.strange == (0, 5)
    assert not layout.draft


@pytest.mark.parametrize(
    ("blocks", "wsa"),
    [
        ((f"{OLD}To",), Wsa.V2004_08),
        ((f"{OLD}Action", f"{NEW}To"), Wsa.V2004_08),
        ((f"{OLD}To", f"{NEW}Action"), Wsa.V2005_08),
        ((f"{OLD}Action", f"{NEW}Action"), Wsa.V2005_08),
        ((f"{OLD}To", f"{NEW}To"), Wsa.V2005_08),
        (("{urn:a}Action",), None),
    ],
)
def test_the_version_that_has_the_action(blocks: tuple[str, ...], wsa: Wsa | None) -> None:
    assert layout_of(blocks).wsa is wsa


def test_an_action_elsewhere_stands_in() -> None:
    managed = f"{{{names.WSMAN}}}Action"
    assert layout_of((f"{NEW}To", managed)).addressing == {"To": 0, "Action": 1}
    assert layout_of((managed, f"{NEW}Action")).addressing == {"Action": 1}
    assert layout_of((f"{NEW}To", f"{NEW}Action", f"{OLD}Action")).addressing["Action"] == 1


def test_what_stands_twice() -> None:
    assert layout_of((f"{NEW}To", f"{NEW}Action", f"{NEW}Action", f"{NEW}To")).repeated == "Action"
    several = layout_of((f"{NEW}RelatesTo", f"{NEW}RelatesTo", f"{OLD}To", f"{NEW}To"))
    assert several.repeated is None
    assert several.addressing == {"RelatesTo": 0, "To": 3}


def test_drafts() -> None:
    assert layout_of((f"{{{min(names.WSA_DRAFTS)}}}To",)).draft


@pytest.mark.parametrize(
    ("number", "length", "kept"),
    [(3, 9, True), (KEPT_BLOCKS, 9, True), (KEPT_BLOCKS + 1, 9, False), (1, KEPT_CHARACTERS, True)],
)
def test_what_is_kept_is_bounded(number: int, length: int, kept: bool) -> None:
    blocks = tuple(f"{{urn:{place}}}".ljust(length, "x") for place in range(number))
    assert (layout_of(blocks) is layout_of(blocks)) is kept
    assert layout_of((*blocks, "x" * KEPT_CHARACTERS)).strange == tuple(range(number + 1))
