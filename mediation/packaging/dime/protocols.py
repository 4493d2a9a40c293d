"""Protocols that a stream may speak instead of DIME."""


def first_octets(data: bytes) -> str:
    """Guess the protocol of the sender of *data*, for a line of a log; two octets tell most of
    them."""
    if data[:1] in (b"\x0c", b"\x0d", b"\x0e") and len(data) > 1:
        if data[1] == 0x20:
            return "DIME with SOAP"
        if data[1] == 0x10:
            return "DIME with a media type first, which is not SOAP"
    if data[:1].isalpha() and data[:1].isupper():
        return "HTTP"
    if data[:1] == b"v" and b"vnd.sun.ws.tcp".startswith(data[:14]):
        return "Sun's SOAP/TCP"
    if data[:2] == b"\x00\x01" and b"\x00\x01\x00\x01".startswith(data[:4]):
        return ".NET message framing"
    if data[:2] == b"\x16\x03":
        return "TLS"
    return "an unknown protocol"
