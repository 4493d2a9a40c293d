"""Described things for tests, and a catalogue of them."""

from datetime import UTC, datetime, timedelta

from filters.queries import Described

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
STATION = (
    b'<adv xmlns="urn:dragoman:tdn:1" ID="adv-1"><Text>Wind at the harbour</Text>'
    b'<station xmlns="http://example.org/weather"><id>16622</id><height unit="m">12</height>'
    b"</station></adv>"
)


def thing(minutes: float = 0, **said: object) -> Described:
    """A thing created some minutes after noon."""
    return Described(created=NOON + timedelta(minutes=minutes), **said)  # type: ignore[arg-type]


HARBOUR = thing(
    creator="e-1",
    paths=("Weather/Europe/Thessaloniki/Wind",),
    texts=("Wind speed and direction at the harbour, every ten seconds",),
    keywords=("wind", "Straße"),
    properties={"station": 16622, "unit": "m/s", "public": True},
    documents=(STATION,),
    document_text="16622 Aussichtspunkt",
    synopsis_path="Thessaloniki/Wind/u-7d3f0c52",
)
