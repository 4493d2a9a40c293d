"""SOAP.TCP: SOAP messages in DIME on a connection of their own, as WSE 2.0 and 3.0 speak it.

Here is what both sides share; the listener is `gateway.soap.tcp_listener`, what sends to consumers
is `gateway.egress.soap_tcp_transport`.
"""

from gateway.tcp.acknowledging import Acknowledgements, Fate
from gateway.tcp.connection import SoapTcpConnection
from gateway.tcp.limits import TcpLimits

__all__ = [
    "Acknowledgements",
    "Fate",
    "SoapTcpConnection",
    "TcpLimits",
]
