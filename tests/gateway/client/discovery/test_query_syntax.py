"""Queries as people write them, over what nodes search."""

from collections.abc import Iterator
from datetime import timedelta

import pytest

from filters.queries import Catalogue, compile_query, seconds
from gateway.client.discovery import read_query
from gateway.discovery.topic_descriptions import describe
from mediation.discovery import Creator, Descriptors, Property, PropertyType
from tests.rigs.discovery import ADVERTISEMENT, ENTITY, TOPIC_ID

STORM = ADVERTISEMENT.__class__(
    TOPIC_ID,
    ADVERTISEMENT.node,
    Creator(ENTITY, "North mole's", "Harbour Office"),
    ADVERTISEMENT.created,
    ADVERTISEMENT.created + timedelta(days=30),
    Descriptors(
        paths=("Weather/Europe",),
        texts=("Storms at the north mole, note: every hour",),
        keywords=("storm", "wind force"),
        properties=(
            Property("station", "16622", PropertyType.LONG),
            Property("code", "0042"),
            Property("owner", "the mole's"),
            Property("public", "true", PropertyType.BOOLEAN),
        ),
        documents=(b'<Keyword xmlns="urn:dragoman:tdn:1">forged</Keyword>',),
    ),
    ADVERTISEMENT.synopsis,
)


@pytest.fixture
def catalogue() -> Iterator[Catalogue[str]]:
    catalogue: Catalogue[str] = Catalogue()
    catalogue.add("storm", describe(STORM))
    yield catalogue


@pytest.mark.parametrize(
    ("query", "finds"),
    [
        ("north storms", True),
        ("note: every", True),
        ("south storms", False),
        ("text~[Ss]torm", True),
        ("text ~ ^storm$", True),
        ("text~^torm", False),
        ("keyword=storm", True),
        ("keyword=wind force", True),
        ("keyword=wind", False),
        ("keyword=forged", False),
        ("path=Weather/Europe", True),
        ("path=Weather", False),
        ("property=station=16622", True),
        ("property=station=16623", False),
        ("property=code=0042", True),
        ("property=owner=the mole's", True),
        ("property=public=true", True),
        ("property=public=false", False),
        (f"creator={ENTITY}", True),
        ("creator=North mole's", True),
        ("creator=e-mail", False),
        (f"id={TOPIC_ID}", True),
        (f"id=urn:uuid:{TOPIC_ID}", True),
        ("id=00000000-0000-4000-8000-000000000000", False),
        ("sql:station > 16000 AND code LIKE '00%'", True),
        ("sql:station > 17000", False),
        ("xpath:count(//*[local-name()='Keyword']) > 1", True),
        ("xpath://*[local-name()='nothing']", False),
    ],
)
def test_what_is_found(catalogue: Catalogue[str], query: str, finds: bool) -> None:
    read = read_query(query)
    found = catalogue.find(compile_query(read.dialect, read.text), seconds_left=seconds(5))
    assert found.keys == (("storm",) if finds else ())
    assert found.complete


@pytest.mark.parametrize(
    ("query", "why"),
    [
        (" ", "is empty"),
        ("keywords=wind", "does not begin a query"),
        ("texts~wind", "does not begin a query"),
        ("id=12", "is not the id of a topic"),
        ("property=station", "write a property with its value"),
        ("""creator='"'""", "both single and double quotes"),
    ],
)
def test_what_is_no_query(query: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        read_query(query)
