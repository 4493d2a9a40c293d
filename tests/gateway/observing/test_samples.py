"""The numbers of ``/metrics``."""

from gateway.observing.samples import (
    SUM,
    Histogram,
    add_up,
    counter,
    counters,
    gauge,
    histogram,
    histograms,
)


def test_samples_of_one_name_are_added_up() -> None:
    samples = [
        gauge("connections", "Connections.", 2),
        counters("refusals", "Refusals.", "reason", {"rate": 1, "loop": 2}),
        gauge("connections", "Connections.", 3),
        counters("refusals", "Refusals.", "reason", {"loop": 5}),
        counters("requests", "Requests.", "operation", {}),
        counter("accepted", "Accepted.", 7),
    ]
    assert [(sample.name, sample.values) for sample in add_up(samples)] == [
        ("connections", {(): 5}),
        ("refusals", {("rate",): 1, ("loop",): 7}),
        ("requests", {}),
        ("accepted", {(): 7}),
    ]


def test_a_histogram_counts_up_to_each_bound() -> None:
    sizes = Histogram((1.0, 10.0))
    for value in (0.5, 1, 2, 10, 11):
        sizes.observe(value)
    assert dict(sizes.values) == {"1.0": 2, "10.0": 4, "+Inf": 5, SUM: 24.5}


def test_histograms_of_one_name_are_added_up() -> None:
    one, other = Histogram((1.0,)), Histogram((1.0,))
    one.observe(0.5)
    other.observe(0.25)
    other.observe(2)
    [sample] = add_up(
        [histograms("s", "", "by", {"a": one}), histograms("s", "", "by", {"a": other})]
    )
    assert sample.values == {("a", "1.0"): 2, ("a", "+Inf"): 3, ("a", SUM): 2.75}
    [alone] = add_up([histogram("t", "", one)])
    assert alone.values == {("1.0",): 1, ("+Inf",): 1, (SUM,): 0.5}
