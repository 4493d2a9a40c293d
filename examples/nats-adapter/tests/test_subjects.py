import pytest
from dragoman_nats.subjects import merged


@pytest.mark.parametrize(
    ("patterns", "subjects"),
    [
        pytest.param(["a.b", "a.c"], ["a.b", "a.c"], id="names"),
        pytest.param(["a.b", "a.*"], ["a.*"], id="one within another"),
        pytest.param(["a.#"], ["a", "a.>"], id="any number of words, none included"),
        pytest.param(["a.#", "a", "a.b.c"], ["a", "a.>"], id="several within another"),
        pytest.param(["a.*.c", "a.b.*"], ["a", "a.>"], id="overlapping"),
        pytest.param(["r.*.c", "r.b.*", "r.x.y.z", "s"], ["r", "r.>", "s"], id="what it then has"),
        pytest.param([], [], id="nothing"),
    ],
)
def test_no_two_overlap(patterns: list[str], subjects: list[str]) -> None:
    assert merged(tuple(pattern.split(".")) for pattern in patterns) == subjects
