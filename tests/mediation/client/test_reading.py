"""What tells, without reading a message, that it does not end a subscription."""

import pytest

from mediation.client import Ended, may_end, read_received

S12 = "http://www.w3.org/2003/05/soap-envelope"
WSE = "http://schemas.xmlsoap.org/ws/2004/08/eventing"
EVENT = f"<s:Envelope xmlns:s='{S12}'><s:Body><a/></s:Body></s:Envelope>"
END = (
    f"<s:Envelope xmlns:s='{S12}' xmlns:e='{WSE}'><s:Body><e:SubscriptionEnd>"
    "<e:Status>x</e:Status></e:SubscriptionEnd></s:Body></s:Envelope>"
)


@pytest.mark.parametrize(
    ("octets", "says"),
    [
        pytest.param(EVENT.encode(), False, id="an event"),
        pytest.param(b"\n " + EVENT.encode(), False, id="an event behind blanks"),
        pytest.param(END.encode(), True, id="an end"),
        pytest.param(END.encode("utf-16"), True, id="an end in UTF-16"),
        pytest.param(END.encode("utf-16-le"), True, id="an end in UTF-16 without its mark"),
        pytest.param(b"\xef\xbb\xbf" + END.encode(), True, id="an end behind a mark"),
        pytest.param(b"--x\r\n\r\n" + EVENT.encode(), True, id="MIME, which may hide one"),
        pytest.param(b"", True, id="nothing"),
    ],
)
def test_what_may_end_a_subscription(octets: bytes, says: bool) -> None:
    assert may_end(octets) is says


def test_what_ends_one_may_end_one() -> None:
    assert isinstance(read_received(END.encode()), Ended)
