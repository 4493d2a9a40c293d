"""DIME messages, as draft-nielsen-dime-02 lays them out, and SOAP in them as WSE sends it.

     0        1        2        3
    +--------+--------+--------+--------+
    |VVVVVBEC|TTTTRRRR| options length  |   V version, B begin, E end, C chunk,
    +--------+--------+--------+--------+   T type format, R reserved
    |    id length    |   type length   |
    +--------+--------+--------+--------+
    |            data length            |
    +--------+--------+--------+--------+
    | options, id, type, data: each padded to a multiple of 4

One SOAP message is one DIME message: the first record has the envelope, its TYPE the
envelope's namespace; further records are attachments (WS-Attachments, 2002).

After an error the position in the stream is lost: nothing here looks for the next header.
"""

from mediation.packaging.dime.decoding import Decoder, Phase
from mediation.packaging.dime.encoding import Encoder, encode_plain
from mediation.packaging.dime.messages import DimeError, DimeLimits, DimeMessage, DimeReason
from mediation.packaging.dime.protocols import first_octets
from mediation.packaging.dime.records import TypeFormat

__all__ = [
    "Decoder",
    "DimeError",
    "DimeLimits",
    "DimeMessage",
    "DimeReason",
    "Encoder",
    "Phase",
    "TypeFormat",
    "encode_plain",
    "first_octets",
]
