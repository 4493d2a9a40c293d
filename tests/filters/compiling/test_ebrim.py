"""Queries of ebRIM as filters: their meaning, against an evaluator of its own, and refusals."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from filters import Event, Expression, Filter, FilterError, FilterSet, Reason, compile
from filters.compiling.ebrim import (
    ADHOC_QUERY,
    FEW_SLOTS,
    FEW_VALUES,
    MAX_TEXT,
    STORED_QUERIES,
    translate_query,
)
from filters.dialects import EBRIM_QUERY
from filters.explaining import explain
from filters.xpath import check
from tests.rigs.cases import for_each
from tests.rigs.corpus import messages
from tests.rigs.document_metadata import (
    ANY_DOCUMENTS,
    ANY_SETS,
    FIND_DOCUMENTS,
    FOLDERS,
    PATIENT_DOCUMENTS,
    PATIENT_SETS,
    RIM,
    SCHEMES,
    XDS,
    Code,
    RegistryObject,
    adhoc_query,
    document,
    submission,
)
from tests.rigs.pace import growth

P1 = "P1^^^&1.2.3&ISO"
PATIENT = ("DocumentEntryPatientId", [f"'{P1}'"])
CLASS = {"classCode": [("history", "classes")]}


def query_filter(text: str) -> Filter:
    return Filter(contents=(Expression(text, EBRIM_QUERY),))


def matches(text: str, *objects: RegistryObject, payload: str = "") -> bool:
    """Whether a query matches, by every way to ask."""
    filter_ = query_filter(text)
    event = Event((payload or submission(*objects)).encode())
    several: FilterSet[str] = FilterSet()
    several.add("one", filter_)
    found = compile(filter_).matches(event)
    assert found == (several.match(event) == ["one"]) == explain(filter_, event).verdict
    return found


@pytest.mark.parametrize(
    ("values", "holds"),
    [
        pytest.param(["'history^^classes'"], True, id="one"),
        pytest.param(["('history^^classes')"], True, id="a list of one"),
        pytest.param(["('x^^classes', 'history^^classes')"], True, id="any of a list"),
        pytest.param(["('x^^classes')", "('history^^classes')"], True, id="any of several lists"),
        pytest.param(["'history'"], True, id="of any scheme"),
        pytest.param(["'history^^other'"], False, id="of another scheme"),
        pytest.param(["'classes^^history'"], False, id="the other way round"),
        pytest.param(["'hist%^^classes'"], False, id="no pattern"),
        pytest.param(["history^^classes"], True, id="without quotes"),
    ],
)
def test_codes(values: list[str], holds: bool) -> None:
    query = adhoc_query(PATIENT_DOCUMENTS, PATIENT, ("DocumentEntryClassCode", values))
    assert matches(query, document(P1, CLASS)) is holds
    assert not matches(query, document("P2", CLASS))


def test_slots_of_one_name_must_all_hold() -> None:
    query = adhoc_query(
        PATIENT_DOCUMENTS,
        PATIENT,
        ("DocumentEntryEventCodeList", ["('a^^s','b^^s')"]),
        ("DocumentEntryEventCodeList", ["'c^^s'"]),
    )
    both: list[Code] = [("b", "s"), ("c", "s")]
    assert matches(query, document(P1, {"eventCodeList": both}))
    assert not matches(query, document(P1, {"eventCodeList": both[:1]}))
    assert not matches(query, document(P1, {"eventCodeList": both[1:]}))


def test_all_must_hold_of_one_document() -> None:
    query = adhoc_query(PATIENT_DOCUMENTS, PATIENT, ("DocumentEntryClassCode", ["'history'"]))
    mine, theirs = document(P1), document("P2", CLASS, id="d2")
    assert not matches(query, mine, theirs)
    assert matches(query, theirs, document(P1, CLASS, id="d3"))


@pytest.mark.parametrize(
    ("pattern", "holds"),
    [
        ("^Smitty^Gerald^^^", True),
        ("^Smitty%", True),
        ("%Gerald%", True),
        ("%^^^", True),
        ("%", True),
        ("Smitty%", False),
        ("^Smitty", False),
        ("%Gerald", False),
    ],
)
def test_authors_are_patterns(pattern: str, holds: bool) -> None:
    query = adhoc_query(PATIENT_DOCUMENTS, PATIENT, ("DocumentEntryAuthorPerson", [f"'{pattern}'"]))
    assert matches(query, document(P1, {}, "^Jones", "^Smitty^Gerald^^^")) is holds


def test_a_quote_is_doubled() -> None:
    name = """O'Neil "Tip" """.strip()
    query = adhoc_query(
        PATIENT_DOCUMENTS, PATIENT, ("DocumentEntryAuthorPerson", ["'O''Neil \"Tip\"'"])
    )
    assert matches(query, document(P1, {}, name))
    assert not matches(query, document(P1, {}, name.replace("'", "")))


def test_what_a_repository_was_given_matches_too() -> None:
    inner = submission(document(P1, CLASS))
    provided = (
        f'<p:ProvideAndRegisterDocumentSetRequest xmlns:p="{XDS}">{inner}'
        "</p:ProvideAndRegisterDocumentSetRequest>"
    )
    assert matches(adhoc_query(PATIENT_DOCUMENTS, PATIENT), payload=provided)


def test_documents_by_references() -> None:
    value = "2013001^^^&1.2.3&ISO^urn:ihe:iti:xds:2013:order"
    query = adhoc_query(
        PATIENT_DOCUMENTS, PATIENT, ("DocumentEntryReferenceIdList", [f"('{value}')"])
    )
    slots = {"urn:ihe:iti:xds:2013:referenceIdList": ["other", value]}
    assert matches(query, RegistryObject("d", {"patientId": P1}, slots=slots))
    assert not matches(query, document(P1))


def test_submission_sets() -> None:
    one = RegistryObject(
        "s1",
        {"setPatientId": P1, "setUniqueId": "1.2", "setSourceId": "1.2.3.4"},
        {"contentTypeCode": [("report", "types")]},
        ["^Welby^Marcus"],
        {"intendedRecipient": ["Some Hospital^^^^^^^^^1.2|^Welby^Marcus"]},
        author_scheme="setAuthor",
        element="RegistryPackage",
    )
    patient = ("SubmissionSetPatientId", [f"'{P1}'"])
    assert matches(adhoc_query(PATIENT_SETS, patient), one)
    for name, value, holds in (
        ("SubmissionSetSourceId", "('1.2.3.4')", True),
        ("SubmissionSetAuthorPerson", "'^Welby%'", True),
        ("SubmissionSetAuthor", "'^Welby%'", True),
        ("SubmissionSetIntendedRecipient", "('Some Hospital%')", True),
        ("SubmissionSetIntendedRecipient", "('Other%')", False),
    ):
        assert matches(adhoc_query(PATIENT_SETS, patient, (name, [value])), one) is holds
        assert matches(adhoc_query(ANY_SETS, (name, [value])), one) is holds
    content = ("SubmissionSetContentType", ["'report^^types'"])
    assert matches(adhoc_query(PATIENT_SETS, patient, content), one)
    assert not matches(adhoc_query(PATIENT_DOCUMENTS, PATIENT), one)


def test_folders() -> None:
    folder = RegistryObject(
        "f1",
        {"folderPatientId": P1, "folderUniqueId": "1.2.9"},
        {"codeList": [("cast", "folders")]},
        element="RegistryPackage",
    )
    patient = ("FolderPatientId", [f"'{P1}'"])
    assert matches(adhoc_query(FOLDERS, patient), folder)
    assert matches(adhoc_query(FOLDERS, patient, ("FolderCodeList", ["('cast^^folders')"])), folder)
    assert not matches(adhoc_query(FOLDERS, patient, ("FolderUniqueId", ["'1.2.8'"])), folder)


def test_find_documents_takes_a_status() -> None:
    approved = "urn:oasis:names:tc:ebxml-regrep:StatusType:Approved"
    query = adhoc_query(FIND_DOCUMENTS, PATIENT, ("DocumentEntryStatus", [f"('{approved}')"]))
    assert matches(query, document(P1))


CODES = st.sampled_from([("a", "s"), ("a", "t"), ("b", "s"), ("it's", "s")])
LISTS = st.lists(CODES, max_size=2)
PATIENTS = st.sampled_from(["P1", "P2"])
NAMES = {
    "DocumentEntryClassCode": "classCode",
    "DocumentEntryTypeCode": "typeCode",
    "DocumentEntryEventCodeList": "eventCodeList",
}
DOCUMENTS = st.builds(
    lambda patient, codes, authors: RegistryObject("d", {"patientId": patient}, codes, authors),
    PATIENTS,
    st.fixed_dictionaries(dict.fromkeys(NAMES.values(), LISTS)),
    st.lists(st.sampled_from(["^Ann", "Ann^", "^Annabel"]), max_size=2),
)
PATTERNS = st.sampled_from(["^Ann", "^Ann%", "%Ann%", "%Ann^", "%", "Bob"])
ASKED = st.tuples(st.sampled_from(sorted(NAMES)), st.lists(CODES, min_size=1, max_size=3))


def like(text: str, pattern: str) -> bool:
    """SQL's LIKE, by trying every way to cut *text*."""
    if not pattern:
        return not text
    if pattern[0] == "%":
        return any(like(text[at:], pattern[1:]) for at in range(len(text) + 1))
    return text[:1] == pattern[0] and like(text[1:], pattern[1:])


def answers(
    one: RegistryObject, patient: str, asked: Sequence[tuple[str, list[Code]]], patterns: list[str]
) -> bool:
    """Whether a registry would answer with *one*."""
    return (
        one.identifiers["patientId"] == patient
        and all(any(code in one.codes[NAMES[name]] for code in codes) for name, codes in asked)
        and (not patterns or any(like(who, each) for who in one.authors for each in patterns))
    )


@given(
    st.lists(DOCUMENTS, min_size=1, max_size=3),
    PATIENTS,
    st.lists(ASKED, max_size=3),
    st.lists(PATTERNS, max_size=2),
)
def test_a_query_matches_what_a_registry_would_answer(
    documents: list[RegistryObject],
    patient: str,
    asked: list[tuple[str, list[Code]]],
    patterns: list[str],
) -> None:
    slots = [
        (name, ["(" + ",".join(f"'{code}^^{scheme}'" for code, scheme in quoted(codes)) + ")"])
        for name, codes in asked
    ]
    if patterns:
        slots.append(("DocumentEntryAuthorPerson", [f"'{pattern}'" for pattern in patterns]))
    query = adhoc_query(PATIENT_DOCUMENTS, ("DocumentEntryPatientId", [f"'{patient}'"]), *slots)
    meant = any(answers(one, patient, asked, patterns) for one in documents)
    assert matches(query, *documents) is meant


@given(
    st.lists(
        st.tuples(
            st.sampled_from(
                sorted(STORED_QUERIES["aa2332d0-f8fe-11e0-be50-0800200c9a66"].parameters)
            ),
            st.lists(st.sampled_from(["a^^s", "b^^t", "c^^u", "d^^v", "%x%", "it''s^^w", "e"])),
        ),
        max_size=FEW_SLOTS - 1,
    )
)
def test_what_is_small_is_within_the_limits(slots: list[tuple[str, list[str]]]) -> None:
    chosen, left = [PATIENT], FEW_VALUES - 1
    for name, values in slots:
        if some := [f"'{value}'" for value in values[:left]]:
            chosen.append((name.removeprefix("$XDS"), some))
            left -= len(some)
    xpath = translate_query(Expression(adhoc_query(PATIENT_DOCUMENTS, *chosen), EBRIM_QUERY))
    check(xpath.text, xpath.namespaces)


def quoted(codes: list[Code]) -> list[Code]:
    return [(code.replace("'", "''"), scheme) for code, scheme in codes]


REFUSED = [
    pytest.param(adhoc_query("urn:uuid:0", PATIENT), "not one of subscriptions", id="unknown id"),
    pytest.param(
        adhoc_query(PATIENT_DOCUMENTS, PATIENT, ("DocumentEntryColor", ["'red'"])),
        '"$XDSDocumentEntryColor" is not a parameter of documents of a patient; use one of $XDSDocument',
        id="unknown slot",
    ),
    pytest.param(
        adhoc_query(ANY_DOCUMENTS, PATIENT), "is not a parameter", id="a patient of any patient"
    ),
    pytest.param(
        adhoc_query(PATIENT_DOCUMENTS, ("DocumentEntryClassCode", ["'a^^b'"])),
        "needs $XDSDocumentEntryPatientId",
        id="no patient",
    ),
    pytest.param(
        adhoc_query(ANY_DOCUMENTS, ("DocumentEntryFormatCode", ["'a^^b'"])),
        "needs $XDSDocumentEntryClassCode or",
        id="too wide",
    ),
    pytest.param(adhoc_query(PATIENT_DOCUMENTS), "needs", id="no slots"),
    pytest.param(
        adhoc_query(PATIENT_DOCUMENTS, ("DocumentEntryPatientId", [])), "no value", id="no value"
    ),
    pytest.param(
        adhoc_query(PATIENT_DOCUMENTS, ("DocumentEntryPatientId", ["'a' or 1=1"])),
        "is not a value",
        id="an expression",
    ),
    pytest.param(
        adhoc_query(PATIENT_DOCUMENTS, ("DocumentEntryPatientId", ["('a'"])),
        "is not a value",
        id="(",
    ),
    pytest.param(
        adhoc_query(PATIENT_DOCUMENTS, PATIENT, ("DocumentEntryAuthorPerson", ["'a%b'"])),
        "% may stand at its ends only",
        id="a pattern",
    ),
    pytest.param(
        adhoc_query(
            PATIENT_DOCUMENTS, PATIENT, ("DocumentEntryClassCode", [f"'{n}'" for n in range(64)])
        ),
        "more than 64 values",
        id="many values",
    ),
    pytest.param(
        adhoc_query(
            PATIENT_DOCUMENTS,
            PATIENT,
            ("DocumentEntryClassCode", [f"'{n}^^{n}'" for n in range(50)]),
        ),
        "too many values",
        id="many schemes",
    ),
    pytest.param("<AdhocQuery/>", "not an AdhocQuery of ebRIM 3.0", id="no namespace"),
    pytest.param("<rim:AdhocQuery", "cannot be read", id="no XML"),
    pytest.param(
        adhoc_query(PATIENT_DOCUMENTS, PATIENT).replace("rim:Slot", "rim:QueryExpression"),
        "something else than slots",
        id="SQL",
    ),
    pytest.param(
        adhoc_query(PATIENT_DOCUMENTS, PATIENT).ljust(MAX_TEXT + 1),
        "more than 8192 characters",
        id="long",
    ),
    pytest.param(" " * MAX_TEXT + "<", "more than 8192 characters", id="long, and no XML"),
]


@for_each(("text", "said"), REFUSED)
def test_refused(text: str, said: str) -> None:
    with pytest.raises(FilterError) as refused:
        compile(query_filter(text))
    assert refused.value.reason is Reason.FILTER_UNKNOWN
    assert refused.value.names == (ADHOC_QUERY,)
    assert said in refused.value.text


@for_each("value", ["x{}(", "'x'{}x", "'{}", "({}x(", "('x',{}"])
@for_each("filling", [" ", "x", "x ", "'", "''", "a,"])
def test_a_value_costs_what_it_is_long(value: str, filling: str) -> None:
    def refused(size: int) -> None:
        text = adhoc_query(
            PATIENT_DOCUMENTS,
            ("DocumentEntryPatientId", [value.format(filling * (size // len(filling)))]),
            ("NoParameter", ["'a'"]),  # What is refused is not remembered.
        )
        with pytest.raises(FilterError):
            translate_query(Expression(text, EBRIM_QUERY))

    assert growth(refused, 900) < 3


@given(st.text(max_size=60))
def test_any_value_is_translated_or_refused(value: str) -> None:
    text = adhoc_query(PATIENT_DOCUMENTS, ("DocumentEntryPatientId", [value]))
    try:
        assert compile(query_filter(text)) is not None
    except FilterError as refused:
        assert refused.reason is Reason.FILTER_UNKNOWN


def test_every_query_takes_what_it_requires() -> None:
    for id_, query in STORED_QUERIES.items():
        for name in query.required:
            one = adhoc_query(f"URN:UUID:{id_.upper()}", (name.removeprefix("$XDS"), ["'a'"]))
            assert translate_query(Expression(one, EBRIM_QUERY)).text.startswith("//rim:")


def test_real_submissions_are_found_by_their_patients(shared: Path) -> None:
    """What registries were given: with codes of many schemes, in a SubmitObjectsRequest or deeper."""
    found = 0
    for octets in messages(shared, "ihe"):
        if b"ExtrinsicObject" not in octets or b"SubmitObjectsRequest" not in octets:
            continue
        root = etree.fromstring(octets)
        for one in root.iter(f"{{{RIM}}}ExtrinsicObject"):
            for identifier in one.findall(f"{{{RIM}}}ExternalIdentifier"):
                if identifier.get("identificationScheme") != f"urn:uuid:{SCHEMES['patientId']}":
                    continue
                patient = identifier.get("value", "")
                query = adhoc_query(PATIENT_DOCUMENTS, ("DocumentEntryPatientId", [f"'{patient}'"]))
                assert matches(query, payload=octets.decode())
                assert not matches(query.replace(patient[:3], "nobody"), payload=octets.decode())
                found += 1
    assert found
