"""The header of a record, and what its fields may say."""

import struct
from enum import IntEnum

from mediation.model.versions import Soap

HEADER = struct.Struct(">BBHHHI")
BEGIN, END, CHUNK = 4, 2, 1
VERSION_1 = 1 << 3
SOAP_BY_TYPE = {soap.value.encode(): soap for soap in Soap}
TYPE_BY_SOAP = {soap: octets for octets, soap in SOAP_BY_TYPE.items()}


class TypeFormat(IntEnum):
    """The meaning of TYPE (section 3.2.5). 5 to 15 are reserved, and read as UNKNOWN."""

    UNCHANGED = 0
    MEDIA_TYPE = 1
    ABSOLUTE_URI = 2
    UNKNOWN = 3
    NONE = 4
