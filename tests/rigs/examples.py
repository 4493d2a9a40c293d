"""How many examples Hypothesis tries: few by day, many at night."""

import os

NIGHT = "night"
"""The profile of Hypothesis by which `make nightly` runs all property tests once more."""


def examples(*, day: int, night: int) -> int:
    """Return the number of examples of a property that is dear, or that needs more than others."""
    return night if os.environ.get("HYPOTHESIS_PROFILE") == NIGHT else day
