"""Which charset a document is in, by whom (RFC 7303, section 3), and how it becomes UTF-8."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from filters import FilterError, Reason, in_utf_8, parse_document
from filters.charsets import CHARSETS, OFFERED, charset_named, require_utf_8
from tests.rigs.cases import for_each

CODECS = {
    "UTF-8": "utf-8",
    "UTF-16": "utf-16",
    "UTF-16LE": "utf-16-le",
    "UTF-16BE": "utf-16-be",
    "US-ASCII": "ascii",
    "ISO-8859-1": "latin-1",
    "ISO-8859-15": "iso-8859-15",
    "windows-1252": "cp1252",
}
NAMES = [(name, charset) for charset, names in CHARSETS.items() for name in (charset, *names)]


def declared(name: str, text: str = "<a>é</a>") -> str:
    return f"<?xml version='1.0' encoding='{name}'?>{text}"


def refusal(octets: bytes, charset: str | None = None) -> FilterError:
    with pytest.raises(FilterError) as caught:
        in_utf_8(octets, charset)
    assert caught.value.__cause__ is None  # A library's message repeats input.
    return caught.value


@for_each(("name", "charset"), NAMES)
def test_every_name_is_that_of_its_charset(name: str, charset: str) -> None:
    assert set(CODECS) == set(CHARSETS)
    for written in (name, name.upper(), f' "{name}"', name.replace("-", "_")):
        assert charset_named(written) == charset


@for_each(("name", "charset"), NAMES)
def test_every_charset_is_read_by_each_of_its_names(name: str, charset: str) -> None:
    text = "<a>e</a>" if charset == "US-ASCII" else "<a>é</a>"
    octets = text.encode(CODECS[charset])
    assert in_utf_8(octets, name) == text.encode()
    if not charset.startswith("UTF-16"):
        found = in_utf_8(declared(name, text).encode(CODECS[charset]))
        assert parse_document(found).text == text[3]


READ = [
    ("<a>é</a>", "utf-8", None),
    ("<a>é</a>", "utf-8-sig", None),
    ("<a>é</a>", "utf-8-sig", "utf-8"),
    ("<a>é</a>", "utf-16", None),
    ("<a>é\U0001f600</a>", "utf-16-le", "UTF-16LE"),
    ("\ufeff<a>é</a>", "utf-16-be", "utf-16"),
    ("\ufeff<a>é</a>", "utf-16-be", "utf-16be"),
    ("<?xml version='1.0'?><a>é</a>", "utf-16", None),
    ("<?xml version='1.0' encoding='utf-8' standalone='yes' ?><a>é</a>", "utf-8", "utf-8"),
    ('<?xml\n version = "1.0"\tencoding = "latin1"?>\n<a>é</a>', "latin-1", None),
    # A byte order mark counts before the charset.
    ("<a>é</a>", "utf-8-sig", "utf-16"),
    ("<a>é</a>", "utf-8-sig", "iso-8859-1"),
    ("<a>é</a>", "utf-16", "utf-8"),
    ("\ufeff<a>é</a>", "utf-16-le", "utf-16be"),
    # The charset counts before the declaration.
    (declared("ISO-8859-1"), "utf-8", "utf-8"),
    (declared("UTF-8"), "cp1252", "windows-1252"),
    (declared("UTF-16"), "utf-8", "utf-8"),
    (declared("UTF-16BE"), "utf-16-le", "utf-16le"),
    (declared("Shift_JIS"), "utf-8", "utf-8"),
    (declared("é"), "utf-8", "utf-8"),
    # And a byte order mark before both.
    (declared("ISO-8859-1"), "utf-8-sig", None),
    (declared("ISO-8859-1"), "utf-8-sig", "latin1"),
    (declared("UTF-8"), "utf-16", None),
    # The declaration counts where nobody says anything else.
    (declared("ISO-8859-1"), "latin-1", None),
    (declared("windows-1252", "<a>é€</a>"), "cp1252", None),
    (declared("ISO-8859-15", "<a>é€</a>"), "iso-8859-15", None),
    (declared("utf8"), "utf-8", None),
]


@for_each(("text", "codec", "charset"), READ)
def test_who_counts(text: str, codec: str, charset: str | None) -> None:
    root = parse_document(in_utf_8(text.encode(codec), charset))
    assert root.text is not None and root.text.startswith("é")


REFUSED = [
    ("<a/>", "utf-32", None),
    ("<a/>", "utf-32-le", None),
    ("<a/>", "utf-32-be", None),
    ("<a/>", "utf-32", "utf-32"),
    ("<a/>", "utf-32", "utf-16"),
    ("<a/>", "utf-16-le", None),
    ("<a/>", "utf-16-be", None),
    ("<a/>", "utf-16-le", "utf-16"),
    ("<a/>", "utf-16-be", "utf-8"),
    ("<a/>", "utf-16-le", "latin1"),
    ("<a/>", "utf-8", "utf-7"),
    ("<a/>", "utf-8-sig", "utf-7"),
    ("<a/>", "utf-8", "nonsense"),
    (declared("UTF-16"), "utf-8", None),
    (declared("UTF-7", "<a/>"), "utf-8", None),
    (declared("UTF-7", "+ADw-a/+AD4-"), "utf-8", None),
    (declared("Shift_JIS", "<a>あ</a>"), "shift-jis", None),
    (declared("EUC-JP", "<a>あ</a>"), "euc-jp", None),
    (declared("GB18030", "<a>中</a>"), "gb18030", None),
    (declared("IBM037", "<a/>"), "cp037", None),
    (declared("UCS-4", "<a/>"), "utf-8", None),
    (declared("é", "<a/>"), "utf-8", None),
]


@for_each(("text", "codec", "charset"), REFUSED)
def test_nothing_is_guessed(text: str, codec: str, charset: str | None) -> None:
    refused = refusal(text.encode(codec), charset)
    assert refused.reason is Reason.ENCODING
    assert OFFERED in refused.text and len(refused.text) < 250


@pytest.mark.parametrize(
    ("octets", "charset"),
    [
        ("<a>é</a>".encode(), "us-ascii"),
        (declared("us-ascii").encode(), None),
        (b"<a>\x81</a>", "windows-1252"),
        (b"<\0a\0/\0>", "utf-16le"),
    ],
)
def test_what_is_not_in_its_charset(octets: bytes, charset: str | None) -> None:
    assert refusal(octets, charset).reason is Reason.NOT_XML


def test_a_name_is_repeated_in_part_and_without_controls() -> None:
    assert "'x\\x1b" not in (text := refusal(b"<a/>", "x\x1b" + "y" * 500).text)
    assert "'x?yyy" in text and len(text) < 250


@pytest.mark.parametrize("codec", ["latin-1", "utf-16-le"])
def test_the_limit_is_of_what_it_becomes(codec: str) -> None:
    octets = ("<a>" + "é" * 100 + "</a>").encode(codec)
    charset = "utf-16le" if codec == "utf-16-le" else codec
    assert len(in_utf_8(octets, charset, most=207)) == 207
    with pytest.raises(FilterError) as caught:
        in_utf_8(octets, charset, most=206)
    assert caught.value.reason is Reason.TOO_LARGE


def test_lines_and_columns_stay() -> None:
    octets = "<?xml version='1.0'\n encoding='latin1'?><a>é</b>".encode("latin-1")
    with pytest.raises(FilterError, match="line 2, column 29"):
        parse_document(in_utf_8(octets))


@pytest.mark.parametrize(
    "octets",
    ["<a>é</a>".encode("utf-16"), declared("latin1").encode(), declared("latin1").encode("latin1")],
)
def test_what_others_read_again_is_in_utf_8_by_itself(octets: bytes) -> None:
    """A signature is verified over what is parsed, whatever a media type said."""
    with pytest.raises(FilterError) as caught:
        require_utf_8(octets)
    assert caught.value.reason is Reason.ENCODING


def test_utf_8_is_required_and_there() -> None:
    for octets in ("<a>é</a>".encode(), declared("utf-8").encode(), b"\xef\xbb\xbf<a/>"):
        require_utf_8(octets)


@given(
    st.text(st.characters(codec="iso-8859-15", categories=("L", "N", "P", "S")), max_size=20),
    st.sampled_from(["UTF-8", "UTF-16", "UTF-16LE", "UTF-16BE", "ISO-8859-15"]),
    st.sampled_from([None, "UTF-8", "utf-16", "latin1", "windows-1252", "Shift_JIS"]),
)
def test_what_leaves_says_nothing_else_of_itself(
    text: str, charset: str, declaration: str | None
) -> None:
    """Read once more, and without a media type, it is the same document."""
    inner = text.replace("&", "").replace("<", "").replace("]", "")
    document = f"<a>{inner}</a>"
    octets = (declared(declaration, document) if declaration else document).encode(CODECS[charset])
    found = in_utf_8(octets, charset)
    assert in_utf_8(found, strict=True) is found or found.startswith(b"<?xml")
    assert in_utf_8(found) == found == in_utf_8(found, "utf-8")
    assert (parse_document(found).text or "") == inner
