"""Values as the pages of the console show them."""

import pytest

from gateway.web.console.rendering import number_of, size_of, time_of, timed


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (None, ""), (0, "0 bytes"), (1023, "1023 bytes"), (1024, "1.0 KiB"), (1536, "1.5 KiB"),
        (10 * 2**10, "10 KiB"), (2**20, "1.0 MiB"), (5 * 2**30, "5.0 GiB"), (3 * 2**50, "3072 TiB"),
    ],
)  # fmt: skip
def test_sizes(count: int | None, text: str) -> None:
    assert size_of(count) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, ""),
        (0, "0"),
        (10_000, "10,000"),
        (0.0123456, "0.0123"),
        (12345.6, "12,346"),
        (2.0, "2"),
    ],
)
def test_numbers(value: float | None, text: str) -> None:
    assert number_of(value) == text


def test_times_are_in_utc_and_say_which_moment_they_are() -> None:
    text = "2026-11-27T18:07:45.287122+01:00"
    shown = "2026-11-27 17:07:45 UTC"
    assert time_of(text) == f'<time datetime="{text}">{shown}</time>'
    assert time_of(None) == ""


def test_what_a_peer_wrote_is_no_markup() -> None:
    with pytest.raises(ValueError, match="isoformat"):
        time_of("<script>")


def test_moments_in_a_sentence_are_times() -> None:
    """As those that stand alone; all around them is text."""
    text = "was over 2026-11-27 17:07:45Z: <renew> it by 2026-11-28T17:07:45.5Z"
    assert timed(text) == (
        'was over <time datetime="2026-11-27T17:07:45Z">2026-11-27 17:07:45 UTC</time>: '
        '&lt;renew&gt; it by <time datetime="2026-11-28T17:07:45.5Z">2026-11-28 17:07:45 UTC</time>'
    )
    for other in ("2026-13-27 17:07:45Z", "17:07:45Z", "", "2026-11-27 17:07:45"):
        assert timed(other) == other
