"""``dragoman match`` as its users run it."""

import re
import shlex
import subprocess
import textwrap
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.rigs.programs import run

WEATHER = "http://example.org/weather"
FILES = {
    "storm.xml": "<storm><speed>120</speed></storm>",
    "breeze.xml": "<storm><speed>20</speed></storm>",
    "named.xml": f"<w:storm xmlns:w='{WEATHER}'><w:speed>120</w:speed></w:storm>",
    "default.xml": f"<?xml version='1.0' encoding='utf-16'?><!--c--><storm xmlns='{WEATHER}'/>",
    "broken.xml": "<storm>",
    "entity.xml": "<!DOCTYPE a [<!ENTITY b 'c'>]><a>&b;</a>",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("match")
    for name, text in FILES.items():
        encoding = "utf-16" if "utf-16" in text else "utf-8"
        (folder / name).write_text(text, encoding)
    return folder


def match(folder: Path, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return run("match", *arguments, cwd=folder, stdin=stdin.encode())


GOOD = ("storm.xml", "breeze.xml", "named.xml", "default.xml")


def test_names_of_what_matches(folder: Path) -> None:
    done = match(folder, "--xpath", "/storm[speed > 100]", *GOOD)
    assert (done.returncode, done.stdout, done.stderr) == (0, "storm.xml\n", "")
    done = match(folder, "--xpath", "/w:storm", "--ns", f"w={WEATHER}", *GOOD)
    assert (done.returncode, done.stdout, done.stderr) == (0, "named.xml\ndefault.xml\n", "")


def test_nothing_matches(folder: Path) -> None:
    done = match(folder, "--xpath", "/calm", *GOOD)
    assert (done.returncode, done.stdout, done.stderr) == (1, "", "")


def test_standard_input(folder: Path) -> None:
    done = match(folder, "--xpath", "speed = 7", "-", stdin="<a><speed>7</speed></a>")
    assert (done.returncode, done.stdout, done.stderr) == (0, "(standard input)\n", "")
    done = match(folder, "--xpath", "speed = 7", "-", stdin="<a")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "dragoman: (standard input): the document is not well-formed XML 1.0:"
        " line 1, column 3: Couldn't find end of Start Tag a line 1\n"
    )


def test_files_that_cannot_be_read_are_named_and_passed_over(folder: Path) -> None:
    names = ("broken.xml", "entity.xml", "none.xml", ".", "storm.xml")
    done = match(folder, "--xpath", "/storm", *names)
    assert (done.returncode, done.stdout) == (2, "storm.xml\n")
    assert done.stderr.splitlines() == [
        "dragoman: broken.xml: the document is not well-formed XML 1.0:"
        " line 1, column 8: Premature end of data in tag storm line 1",
        "dragoman: entity.xml: the document has a document type declaration",
        "dragoman: none.xml: No such file or directory",
        "dragoman: .: Is a directory",
    ]


def test_an_event_that_a_gateway_would_not_take(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "large.xml").write_bytes(b"<a>" + b"x" * 2**21 + b"</a>")
    done = match(tmp_path, "--xpath", "/a", "large.xml")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "dragoman: large.xml: longer than 2097152 bytes\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ("--xpath", "/storm[", "storm.xml"),
            "--xpath: the expression ends too early, at character 8",
        ),
        (("--xpath", "", "storm.xml"), "--xpath: the expression is empty"),
        (
            ("--xpath", "matches(., 'a')", "storm.xml"),
            "--xpath: the expression has a function outside the XPath 1.0 core library:"
            ' "matches", at character 1',
        ),
        (
            ("--xpath", "//w:speed", "broken.xml", "storm.xml", "named.xml"),
            f"--xpath: the prefix w is not declared: add --ns w={WEATHER} (as named.xml has it)",
        ),
        (
            ("--xpath", "//e:speed", *GOOD),
            "--xpath: the prefix e is not declared: add --ns e=URI",
        ),
        (("--xpath", "/storm"), "Missing argument 'FILE'. (dragoman match --help says more)"),
        (("storm.xml",), "Missing option '--xpath'. (dragoman match --help says more)"),
    ],
)
def test_not_asked_rightly(folder: Path, arguments: tuple[str, ...], said: str) -> None:
    done = match(folder, *arguments)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"dragoman: {said}\n")


def test_explained(folder: Path) -> None:
    done = match(folder, "--explain", "--xpath", "/storm[speed > 100]", *GOOD[:3])
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == (
        "storm.xml: matches\n"
        "  yes /storm[speed > 100]  -- 1 node: '120'\n"
        "breeze.xml: does not match\n"
        "  no  /storm[speed > 100]  -- 1 storm, but it does not pass [speed > 100]\n"
        "    no  speed > 100  -- the value is '20', not > 100\n"
        "named.xml: does not match\n"
        f"  no  /storm[speed > 100]  -- the root element is {{{WEATHER}}}storm, element storm was "
        f"asked for. storm exists in namespace {WEATHER}; the expression asks for no namespace, "
        "as names without a prefix do\n"
    )


def test_the_examples_of_the_help(folder: Path) -> None:
    """What a newcomer copies does what it says."""
    text = match(folder, "--help").stdout
    examples = re.findall(r"^  .*dragoman match (.*) (\S+)$", text, re.MULTILINE)
    assert len(examples) == 4
    for options, file in examples:
        words = re.findall(r"'([^']*)'|(\S+)", options)
        names = sorted(GOOD) if file == "*.xml" else [file]
        done = match(folder, *(quoted or word for quoted, word in words), *names, stdin="<storm/>")
        assert done.stderr == ""
        assert done.returncode in (0, 1)


def test_the_session_on_the_page(folder: Path) -> None:
    """What docs/filters.md shows is what is printed."""
    page = (ROOT / "docs" / "filters.md").read_text()
    sessions = re.findall(r"^    \$ dragoman (.*)\n((?:    [^$].*\n)+)", page, re.MULTILINE)
    assert len(sessions) == 2
    for command, printed in sessions:
        name, *arguments = shlex.split(command)
        names = sorted(GOOD) if arguments[-1] == "*.xml" else arguments[-1:]
        done = run(name, *arguments[:-1], *names, cwd=folder)
        assert done.stdout == textwrap.dedent(printed)
