"""The figure with two curves, and what is sent to CXF."""

from lxml import etree

from benchmarks.cxf_broker import OURS, THEIRS, WSN, figure, in_soap_1_1
from benchmarks.rig import publish_request
from filters import parse_document
from mediation.model.versions import Soap
from mediation.soap.envelopes import read_envelope

SVG = "{http://www.w3.org/2000/svg}"


def test_a_curve_rises_where_its_values_do() -> None:
    drawn = figure({OURS: {1: 2.0, 10: 4.0, 100: 20.0}, THEIRS: {1: 20.0, 100: 900.0}}, "a < b")
    root = etree.fromstring(drawn)
    curves = [
        [tuple(map(float, place.split(","))) for place in line.get("points", "").split()]
        for line in root.iter(f"{SVG}polyline")
    ]
    assert [len(curve) for curve in curves] == [3, 2]
    for curve in curves:
        assert curve == sorted(curve) and sorted(curve, key=lambda at: -at[1]) == curve
    # The slower one is above, and both end at the same number of consumers.
    assert curves[1][0][1] < curves[0][0][1] and curves[1][-1][0] == curves[0][-1][0]
    texts = [text.text for text in root.iter(f"{SVG}text")]
    assert {OURS, THEIRS, "10 ms", "100 ms", "consumers", "a < b"} <= set(texts)


def test_what_is_sent_to_it_is_soap_1_1() -> None:
    assert read_envelope(parse_document(in_soap_1_1(publish_request(WSN, 1)))).soap is Soap.V1_1
