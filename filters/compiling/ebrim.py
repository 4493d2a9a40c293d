"""Subscriptions to document metadata (IHE ITI TF-2, 3.52.5.2, "Building Filter Expressions"): an
ebXML ``rim:AdhocQuery`` as an XPath expression over the metadata that is published.

A query matches what a registry that holds nothing but the event would answer it with, so it is an
expression over the objects of the event, a ``lcm:SubmitObjectsRequest`` or anything around one:

    //rim:ExtrinsicObject[a patient and a class and ...]

Of one slot, any of the values will do; of several slots, of one name or of different ones, each
must hold, and all of the same object. As an expression of XPath a query is indexed with all others.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple, NoReturn

from lxml import etree

from filters.dialects import EBRIM_QUERY, XPATH_1_0
from filters.documents import parse_document, text_of
from filters.filter import Expression
from filters.reasons import FilterError, Reason, quoted
from filters.xpath import check

ADHOC_QUERY = f"{{{EBRIM_QUERY}}}AdhocQuery"
_SCOPE = (("rim", EBRIM_QUERY),)
LONGEST = 4096
"""Bytes of an expression that are checked no further where it has few parts."""
MAX_TEXT = 8192
"""Characters of a query."""
MAX_VALUES = 64
"""Values of a query, at most; the expression made of them has limits of its own."""


class Code(NamedTuple):
    """A value of a code: ``code^^scheme``; an empty scheme means any."""

    code: str
    scheme: str

    @classmethod
    def read(cls, text: str) -> "Code":
        code, _, scheme = text.partition("^^")
        return cls(code, scheme)


Condition = Callable[[tuple[str, ...]], str]
"""Makes the condition that one of the values is an object's, for a predicate on the object."""


def _identifier(scheme: str) -> Condition:
    def condition(values: tuple[str, ...]) -> str:
        any_of = _any_of(f"@value={_literal(value)}" for value in values)
        return f"rim:ExternalIdentifier[@identificationScheme='urn:uuid:{scheme}' and {any_of}]"

    return condition


def _code(scheme: str) -> Condition:
    def condition(values: tuple[str, ...]) -> str:
        by_scheme: dict[str, list[str]] = {}
        for value in map(Code.read, values):
            by_scheme.setdefault(value.scheme, []).append(
                f"@nodeRepresentation={_literal(value.code)}"
            )
        any_of = _any_of(
            _any_of(codes) + (f" and {_slot('codingScheme')}={_literal(of)}" if of else "")
            for of, codes in by_scheme.items()
        )
        return f"rim:Classification[@classificationScheme='urn:uuid:{scheme}' and {any_of}]"

    return condition


def _author(scheme: str) -> Condition:
    def condition(values: tuple[str, ...]) -> str:
        author = f"rim:Classification[@classificationScheme='urn:uuid:{scheme}']"
        return f"{author}/{_slot('authorPerson')}[{' or '.join(map(_like, values))}]"

    return condition


def _pattern_slot(name: str) -> Condition:
    return lambda values: f"{_slot(name)}[{' or '.join(map(_like, values))}]"


def _value_slot(name: str) -> Condition:
    return lambda values: _any_of(f"{_slot(name)}={_literal(value)}" for value in values)


def _status(values: tuple[str, ...]) -> str:
    # What is being submitted has a status only when the registry has given it one.
    return _any_of(["not(@status)", *(f"@status={_literal(value)}" for value in values)])


_DOCUMENT_CODES: Mapping[str, Condition] = {
    "$XDSDocumentEntryClassCode": _code("41a5887f-8865-4c09-adf7-e362475b143a"),
    "$XDSDocumentEntryTypeCode": _code("f0306f51-975f-434e-a61c-c59651d33983"),
    "$XDSDocumentEntryPracticeSettingCode": _code("cccf5598-8b07-4b77-a05e-ae952c785ead"),
    "$XDSDocumentEntryHealthcareFacilityTypeCode": _code("f33fb8ac-18af-42cc-ae0e-ed0b0bdb91e1"),
}
_DOCUMENT: Mapping[str, Condition] = {
    **_DOCUMENT_CODES,
    "$XDSDocumentEntryEventCodeList": _code("2c6b8cb7-8b2a-4051-b291-b1ae6a575ef4"),
    "$XDSDocumentEntryConfidentialityCode": _code("f4f85eac-e6cb-4883-b524-f2705394840f"),
    "$XDSDocumentEntryFormatCode": _code("a09d5840-386c-46f2-b5ad-9c3699a4309d"),
    "$XDSDocumentEntryAuthorPerson": _author("93606bcf-9494-43ec-9b4e-a7748d1a838d"),
    "$XDSDocumentEntryReferenceIdList": _value_slot("urn:ihe:iti:xds:2013:referenceIdList"),
}
_DOCUMENT_PATIENT: Mapping[str, Condition] = {
    "$XDSDocumentEntryPatientId": _identifier("58a6f841-87b3-4a3e-92fd-a8ffeff98427")
}
_SUBMISSION_SET: Mapping[str, Condition] = {
    "$XDSSubmissionSetSourceId": _identifier("554ac39e-e3fe-47fe-b233-965d2a147832"),
    "$XDSSubmissionSetAuthorPerson": _author("a7058bb9-b4e4-4307-ba5b-e3f0ab85e12d"),
    "$XDSSubmissionSetAuthor": _author("a7058bb9-b4e4-4307-ba5b-e3f0ab85e12d"),
    "$XDSSubmissionSetIntendedRecipient": _pattern_slot("intendedRecipient"),
}
_CONTENT_TYPE: Mapping[str, Condition] = {
    "$XDSSubmissionSetContentType": _code("aa543740-bdda-424e-8c96-df4873be8500")
}
_SUBMISSION_SET_PATIENT: Mapping[str, Condition] = {
    "$XDSSubmissionSetPatientId": _identifier("6b5aea1a-874d-4603-a4bc-96a0a7b38446")
}
_FOLDER_PATIENT: Mapping[str, Condition] = {
    "$XDSFolderPatientId": _identifier("f64ffdf0-4b97-4e06-b79f-a52b38ec2f8a")
}


@dataclass(frozen=True, slots=True)
class StoredQuery:
    """A kind of subscription: the objects that it is about, and the parameters that it takes, of
    which one of *required* is given."""

    title: str
    objects: str
    required: tuple[str, ...]
    parameters: Mapping[str, Condition]


_DOCUMENTS, _PACKAGES = "rim:ExtrinsicObject", "rim:RegistryPackage"
_OF_A_PATIENT = StoredQuery(
    "documents of a patient",
    _DOCUMENTS,
    tuple(_DOCUMENT_PATIENT),
    {**_DOCUMENT_PATIENT, **_DOCUMENT},
)
STORED_QUERIES: Mapping[str, StoredQuery] = {
    "aa2332d0-f8fe-11e0-be50-0800200c9a66": _OF_A_PATIENT,
    "742790e0-aba6-43d6-9f1f-e43ed9790b79": StoredQuery(
        "documents of any patient", _DOCUMENTS, tuple(_DOCUMENT_CODES), _DOCUMENT
    ),
    "fbede94e-dbdc-4f6b-bc1f-d730e677cece": StoredQuery(
        "submission sets of a patient",
        _PACKAGES,
        tuple(_SUBMISSION_SET_PATIENT),
        {**_SUBMISSION_SET_PATIENT, **_SUBMISSION_SET, **_CONTENT_TYPE},
    ),
    "868cad3d-ec09-4565-b66c-1be10d034399": StoredQuery(
        "submission sets of any patient",
        _PACKAGES,
        tuple(_SUBMISSION_SET),
        {**_SUBMISSION_SET, **_CONTENT_TYPE},
    ),
    "9376254e-da05-41f5-9af3-ac56d63d8ebd": StoredQuery(
        "folders of a patient",
        _PACKAGES,
        tuple(_FOLDER_PATIENT),
        {
            **_FOLDER_PATIENT,
            "$XDSFolderUniqueId": _identifier("75df8f67-9973-4fbe-a900-df66cefecc5a"),
            "$XDSFolderCodeList": _code("1ba97051-7806-41a8-a48b-8fce7af683c5"),
        },
    ),
    # FindDocuments, with which early subscribers asked for documents of a patient.
    "14d4debf-8f97-4251-9a74-a90016b0af0d": StoredQuery(
        "documents of a patient",
        _DOCUMENTS,
        _OF_A_PATIENT.required,
        {**_OF_A_PATIENT.parameters, "$XDSDocumentEntryStatus": _status},
    ),
}
"""The queries of subscriptions, by the id of the AdhocQuery without ``urn:uuid:`` (IHE ITI TF-2,
3.52.5.2.1 and 3.52.5.2.2; 3.52.5.2.3 to 3.52.5.2.5 are of the supplement "DSUB Extensions"). They
are those of IPF, ``QueryType``, and so are the schemes above, ``Vocabulary``."""


def document_query_id(parameters: Collection[str]) -> str | None:
    """The id of the first query of subscriptions that takes all of *parameters*, and needs no
    other; None where none does."""
    wanted = frozenset(parameters)
    for id_, query in STORED_QUERIES.items():
        if wanted <= query.parameters.keys() and not wanted.isdisjoint(query.required):
            return f"urn:uuid:{id_}"
    return None


def translate_query(expression: Expression) -> Expression:
    """Translate an AdhocQuery, the text of *expression*, into an expression of XPath that holds of
    the same events.

    Raises:
        FilterError: ``FILTER_UNKNOWN``, its name that of the element: it is not a query of
            subscriptions, or one with parameters or values that are not offered.
    """
    if len(expression.text) > MAX_TEXT:
        _refuse(f"the AdhocQuery has more than {MAX_TEXT} characters")
    return _translated(expression.text)


@lru_cache(maxsize=256)
def _translated(text: str) -> Expression:
    query, slots = _read(text)
    conditions = []
    for name, values in slots:
        parameter = query.parameters.get(name)
        if parameter is None:
            offered = ", ".join(query.parameters)
            _refuse(f"{quoted(name)} is not a parameter of {query.title}; use one of {offered}")
        conditions.append(parameter(values))
    if not any(name in query.required for name, _ in slots):
        _refuse(f"a subscription to {query.title} needs {' or '.join(query.required)}")
    xpath = f"//{query.objects}[{' and '.join(conditions)}]"
    if not _is_small(xpath, slots):
        try:
            check(xpath, _SCOPE)
        except FilterError:
            _refuse("the AdhocQuery has too many values")
    return Expression(xpath, XPATH_1_0, _SCOPE)


FEW_SLOTS, FEW_VALUES = 5, 8
"""Slots and values of which an expression is made that is within the limits of XPath, if it is not
too long. Nearly every query has no more, and checking it besides would be half of what it costs to
add one to a set, which counts when a gateway starts again with many."""


def _is_small(xpath: str, slots: list[tuple[str, tuple[str, ...]]]) -> bool:
    values = sum(len(values) for _, values in slots)
    return len(slots) <= FEW_SLOTS and values <= FEW_VALUES and len(xpath.encode()) <= LONGEST


def _read(text: str) -> tuple[StoredQuery, list[tuple[str, tuple[str, ...]]]]:
    """Read an AdhocQuery: the query that it names, and each slot with its values."""
    try:
        root = parse_document(text.encode())
    except FilterError as error:
        _refuse(f"the AdhocQuery cannot be read: {error.text}")
    if root.tag != ADHOC_QUERY:
        _refuse("the filter is not an AdhocQuery of ebRIM 3.0")
    id_ = (root.get("id") or "").strip().lower()
    query = STORED_QUERIES.get(id_.removeprefix("urn:uuid:"))
    if query is None:
        _refuse(f"the AdhocQuery {quoted(id_)} is not one of subscriptions")
    slots = []
    for child in root.iterchildren(etree.Element):
        if child.tag != f"{{{EBRIM_QUERY}}}Slot":
            _refuse("the AdhocQuery has something else than slots")
        slots.append(((child.get("name") or "").strip(), tuple(_values(child))))
    if sum(len(values) for _, values in slots) > MAX_VALUES:
        _refuse(f"the AdhocQuery has more than {MAX_VALUES} values")
    return query, slots


_LIST = re.compile(r"\((.*)\)\Z", re.DOTALL)
_ITEM = re.compile(
    r"""\s*+(?: '([^']*+(?:''[^']*+)*)' | ([^'(),\s]++(?:\s++[^'(),\s]++)*) )\s*+(,|\Z)""",
    re.VERBOSE,
)
"""One value; nothing in it is tried in two ways, whatever stands there."""


def _values(slot: etree._Element) -> Iterator[str]:
    """The values of a slot: ``'a'``, ``('a','b')``, a number; a quote is doubled (ITI TF-2,
    3.18.4.1.2.3.5, "Coding of query parameters")."""
    found = False
    for value in slot.iter(f"{{{EBRIM_QUERY}}}Value"):
        text = text_of(value)
        inner = _LIST.match(text)
        rest = inner[1] if inner else text
        while True:
            item = _ITEM.match(rest)
            if item is None:
                _refuse(f"{quoted(text)} is not a value of an AdhocQuery; write 'a' or ('a','b')")
            found = True
            yield item[1].replace("''", "'") if item[1] is not None else item[2]
            rest = rest[item.end() :]
            if not item[3]:
                break
    if not found:
        _refuse("a slot of the AdhocQuery has no value")


def _slot(name: str) -> str:
    return f"rim:Slot[@name='{name}']/rim:ValueList/rim:Value"


def _any_of(conditions: Iterable[str]) -> str:
    every = list(conditions)
    return every[0] if len(every) == 1 else f"({' or '.join(every)})"


def _like(pattern: str) -> str:
    """The condition that the context node is like *pattern*, in which ``%`` is any text (SQL's
    LIKE, ITI TF-2, 3.18.4.1.2.3.5).

    Raises:
        FilterError: ``%`` stands elsewhere than at an end, or there is a ``_``.
    """
    first, last = pattern.startswith("%"), pattern.endswith("%")
    text = pattern.strip("%")
    if "%" in text or "_" in text:
        _refuse(f"the pattern {quoted(pattern)} is not offered: % may stand at its ends only")
    if not text:
        return "true()"
    if first and last:
        return f"contains(.,{_literal(text)})"
    if last:
        return f"starts-with(.,{_literal(text)})"
    if first:
        return f"substring(.,string-length(.)-{len(text) - 1})={_literal(text)}"
    return f".={_literal(text)}"


def _literal(text: str) -> str:
    """*text* as a string of XPath, which has no way to write a quote within its own kind."""
    if "'" not in text:
        return f"'{text}'"
    if '"' not in text:
        return f'"{text}"'
    pieces = ',"\'",'.join(f"'{piece}'" for piece in text.split("'"))
    return f"concat({pieces})"


def _refuse(text: str) -> NoReturn:
    raise FilterError(Reason.FILTER_UNKNOWN, text, names=(ADHOC_QUERY,))
