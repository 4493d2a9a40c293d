"""The faults of WS-Eventing 2011/03 beside those of Apache CXF, whose classes have their names."""

from pathlib import PurePosixPath
from zipfile import ZipFile

from filters import Reason
from mediation.eventing.v2011_03 import FAULT_ACTION, FAULTS, NAMESPACE
from tests.rigs.cxf import LIBRARIES, needs_cxf

needs_cxf()
NEVER_SENT = {"EndToNotSupported"}


def classes() -> dict[str, bytes]:
    """The classes of its jar, by their names; constants stand in them as they are."""
    [jar] = LIBRARIES.glob("cxf-rt-ws-eventing-*.jar")
    with ZipFile(jar) as opened:
        return {
            PurePosixPath(name).stem: opened.read(name)
            for name in opened.namelist()
            if "/eventing/shared/" in name and name.endswith(".class")
        }


def test_our_faults_are_its_faults() -> None:
    found = classes()
    theirs = {
        name: octets for name, octets in found.items() if NAMESPACE.encode() in octets
        and name not in ("EventingConstants", "WSEventingFault") and b"LOCAL_PART" in octets
    }  # fmt: skip
    ours = {
        fault.subcode.rpartition("}")[2]: fault.text
        for (reason, _), fault in FAULTS.items()
        if reason is not Reason.QUOTA
    }
    assert set(theirs) == set(ours) | NEVER_SENT
    for name, text in ours.items():
        assert text.encode() in theirs[name], name
    assert FAULT_ACTION.encode() in found["EventingConstants"]
