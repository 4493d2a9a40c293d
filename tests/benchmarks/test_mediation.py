"""The benchmark of mediation measures what it says."""

from typing import Any

import pytest

from benchmarks.mediation import publications, reading
from mediation import detect
from mediation.matrix import PUBLISHING


class Asked(Exception):
    """What is known of envelopes was asked for."""


@pytest.mark.parametrize("origin", [one for one in PUBLISHING if one.in_soap], ids=lambda o: o.name)
def test_a_message_is_read_as_a_whole_where_it_says_so(
    origin: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Watched:
        def read(self, *_: object) -> None:
            raise Asked

        learn = read

    messages = publications(origin)
    monkeypatch.setattr(detect, "_moulds", Watched())
    with pytest.raises(Asked):
        reading(origin, messages)()
    reading(origin, messages, whole=True)()
