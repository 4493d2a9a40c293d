"""Document metadata as registries publish it (ebRIM 3.0, IHE XDS), and queries for it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from xml.sax.saxutils import escape, quoteattr

RIM = "urn:oasis:names:tc:ebxml-regrep:xsd:rim:3.0"
LCM = "urn:oasis:names:tc:ebxml-regrep:xsd:lcm:3.0"
XDS = "urn:ihe:iti:xds-b:2007"
FULL, MINIMAL = "ihe:FullDocumentEntry", "ihe:MinimalDocumentEntry"
PATIENT_DOCUMENTS = "urn:uuid:aa2332d0-f8fe-11e0-be50-0800200c9a66"
ANY_DOCUMENTS = "urn:uuid:742790e0-aba6-43d6-9f1f-e43ed9790b79"
PATIENT_SETS = "urn:uuid:fbede94e-dbdc-4f6b-bc1f-d730e677cece"
ANY_SETS = "urn:uuid:868cad3d-ec09-4565-b66c-1be10d034399"
FOLDERS = "urn:uuid:9376254e-da05-41f5-9af3-ac56d63d8ebd"
FIND_DOCUMENTS = "urn:uuid:14d4debf-8f97-4251-9a74-a90016b0af0d"
SUBMISSION_SET = "urn:uuid:a54d6aa5-d40d-43f9-88c5-b4633d873bdd"
FOLDER = "urn:uuid:d9d542f3-6cc4-48b6-8870-ea235fbc94c2"
"""What a package is, by the node of its classification."""

Code = tuple[str, str]
"""A code and its scheme."""
SCHEMES = {
    "classCode": "41a5887f-8865-4c09-adf7-e362475b143a",
    "typeCode": "f0306f51-975f-434e-a61c-c59651d33983",
    "formatCode": "a09d5840-386c-46f2-b5ad-9c3699a4309d",
    "healthcareFacilityTypeCode": "f33fb8ac-18af-42cc-ae0e-ed0b0bdb91e1",
    "practiceSettingCode": "cccf5598-8b07-4b77-a05e-ae952c785ead",
    "eventCodeList": "2c6b8cb7-8b2a-4051-b291-b1ae6a575ef4",
    "confidentialityCode": "f4f85eac-e6cb-4883-b524-f2705394840f",
    "contentTypeCode": "aa543740-bdda-424e-8c96-df4873be8500",
    "codeList": "1ba97051-7806-41a8-a48b-8fce7af683c5",
    "author": "93606bcf-9494-43ec-9b4e-a7748d1a838d",
    "setAuthor": "a7058bb9-b4e4-4307-ba5b-e3f0ab85e12d",
    "patientId": "58a6f841-87b3-4a3e-92fd-a8ffeff98427",
    "uniqueId": "2e82c1f6-a085-4c72-9da3-8640a32e42ab",
    "setPatientId": "6b5aea1a-874d-4603-a4bc-96a0a7b38446",
    "setUniqueId": "96fdda7c-d067-4183-912e-bf5ee74998a8",
    "setSourceId": "554ac39e-e3fe-47fe-b233-965d2a147832",
    "folderPatientId": "f64ffdf0-4b97-4e06-b79f-a52b38ec2f8a",
    "folderUniqueId": "75df8f67-9973-4fbe-a900-df66cefecc5a",
}


@dataclass(frozen=True)
class RegistryObject:
    """A document, a submission set or a folder: its identifiers and codes by the names of
    `SCHEMES`, the persons who are its authors, its slots, and the node that a package has."""

    id: str
    identifiers: Mapping[str, str]
    codes: Mapping[str, Sequence[Code]] = field(default_factory=dict)
    authors: Sequence[str] = ()
    slots: Mapping[str, Sequence[str]] = field(default_factory=dict)
    author_scheme: str = "author"
    element: str = "ExtrinsicObject"
    node: str | None = None

    def xml(self) -> str:
        inner = [slot(name, values) for name, values in self.slots.items()]
        if self.node is not None:
            inner.append(
                f'<rim:Classification classifiedObject="{self.id}" '
                f'classificationNode="{self.node}"/>'
            )
        inner += [
            f'<rim:Classification classificationScheme="urn:uuid:{SCHEMES[self.author_scheme]}"'
            f' classifiedObject="{self.id}">{slot("authorPerson", [person])}</rim:Classification>'
            for person in self.authors
        ]
        inner += [
            f'<rim:Classification classificationScheme="urn:uuid:{SCHEMES[name]}"'
            f' classifiedObject="{self.id}" nodeRepresentation={quoteattr(code)}>'
            f"{slot('codingScheme', [scheme])}<rim:Name/></rim:Classification>"
            for name, codes in self.codes.items()
            for code, scheme in codes
        ]
        inner += [
            f'<rim:ExternalIdentifier identificationScheme="urn:uuid:{SCHEMES[name]}"'
            f' registryObject="{self.id}" value={quoteattr(value)}><rim:Name/>'
            "</rim:ExternalIdentifier>"
            for name, value in self.identifiers.items()
        ]
        return f'<rim:{self.element} id="{self.id}">{"".join(inner)}</rim:{self.element}>'


def document(
    patient: str, codes: Mapping[str, Sequence[Code]] | None = None, *authors: str, id: str = "d1"
) -> RegistryObject:
    """A document of *patient*."""
    return RegistryObject(id, {"patientId": patient, "uniqueId": f"1.2.{id}"}, codes or {}, authors)


def slot(name: str, values: Iterable[str]) -> str:
    every = "".join(f"<rim:Value>{escape(value)}</rim:Value>" for value in values)
    return f'<rim:Slot name="{name}"><rim:ValueList>{every}</rim:ValueList></rim:Slot>'


def submission(*objects: RegistryObject) -> str:
    """The payload of a publication."""
    every = "".join(each.xml() for each in objects)
    return (
        f'<lcm:SubmitObjectsRequest xmlns:lcm="{LCM}" xmlns:rim="{RIM}"><rim:RegistryObjectList>'
        f"{every}</rim:RegistryObjectList></lcm:SubmitObjectsRequest>"
    )


def adhoc_query(id: str, *slots: tuple[str, Sequence[str]]) -> str:
    """A query, its values as the query writes them: ``'a'``, ``('a','b')``."""
    every = "".join(slot(f"$XDS{name}", values) for name, values in slots)
    return f'<rim:AdhocQuery xmlns:rim="{RIM}" id="{id}">{every}</rim:AdhocQuery>'
