"""The numbers of ``/metrics``."""

from gateway.observing.samples import add_up, counter, counters, gauge


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
