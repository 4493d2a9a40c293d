"""Where several elements are at a branch, facts must be about the same one: what the compiled
engine sees of that in what holds because of which element, without a program."""

import random

import pytest

from filters import Expression
from filters.documents import parse_own
from filters.matching.engines.choice import NATIVE, engine_note, make_index
from filters.xpath import compile_xpath
from tests.filters.matching.differential import check

if note := engine_note():
    pytest.skip(note, allow_module_level=True)

from filters.matching.engines.native import NativeIndex

WITNESSES = 4095
"""Elements of a message that the engine knows apart."""


def name(chance: random.Random) -> str:
    return "*" if chance.random() < 0.2 else chance.choice("abc")


def value(chance: random.Random) -> str:
    return chance.choice("12")


def predicate(chance: random.Random, depth: int = 0) -> str:
    draw = chance.random()
    if draw < 0.35:
        return f"{name(chance)}='{value(chance)}'"
    if draw < 0.5:
        return f"@k='{value(chance)}'"
    if draw < 0.6:
        return f"text()='{value(chance)}'"
    if draw < 0.75:
        steps = "/".join(name(chance) for _ in range(chance.randint(1, 4)))
        return f".//{steps}" if chance.random() < 0.3 else steps
    if draw < 0.85 or depth == 2:
        return f"{name(chance)}/{name(chance)}='{value(chance)}'"
    if draw < 0.93:
        return f"{predicate(chance, depth + 1)} and {predicate(chance, depth + 1)}"
    return f"{name(chance)}[{predicate(chance, depth + 1)}]"


def path(chance: random.Random) -> str:
    text = "" if chance.random() < 0.9 else name(chance)
    for _ in range(chance.randint(1, 5)):
        text += ("//" if chance.random() < 0.3 else "/") + name(chance)
        for _ in range(chance.choice((0, 0, 1, 1, 2, 3))):
            text += f"[{predicate(chance)}]"
    return text


def tree(chance: random.Random, elements: int) -> bytes:
    """Few names and values, so that many elements are at the same branches."""

    def made(left: int, depth: int) -> str:
        tag = chance.choice("abc")
        attribute = f" k='{value(chance)}'" if chance.random() < 0.3 else ""
        children = []
        while left > 0 and depth < 40:
            share = chance.randint(1, left)
            children.append(made(share - 1, depth + 1))
            left -= share
        text = value(chance) if not children and chance.random() < 0.7 else ""
        return f"<{tag}{attribute}>{''.join(children)}{text}</{tag}>"

    return made(elements - 1, 0).encode()


@pytest.mark.parametrize("seed", range(8))
def test_as_libxml2_says(seed: int) -> None:
    chance = random.Random(seed)
    texts = {path(chance) for _ in range(250)}
    sizes = (4, 8, 16, 24, 40, 600)
    documents = [tree(chance, chance.choice(sizes)) for _ in range(16)]
    if seed < 2:  # libxml2 takes its time.
        documents.append(tree(chance, WITNESSES + 60))
    tally = check(
        lambda: make_index(NATIVE),
        [Expression(text) for text in sorted(texts)],
        documents,
        claims=False,
        churn=chance if seed % 2 else None,
    )
    assert 0.02 < tally.true / tally.pairs < 0.5


def asked(text: str, document: str) -> tuple[bool, int]:
    """The verdict, which is libxml2's, and how many programs it took."""
    index = NativeIndex()
    number = index.add(Expression(text))
    root = parse_own(document.encode())
    found = index.find(root)
    assert not found.doubtful
    verdict = number in found.true
    assert verdict == compile_xpath(text, ())(root)
    return verdict, index.sizes()["programs"]


AGAIN = (
    "<a><b><c>1</c><d/></b><b><c>1</c><c>2</c><e><d>1</d><d>2</d></e></b>"
    "<b><c>1</c><e><d>1</d></e><e><d>2</d><f/></e></b></a>"
)


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        # What is asked for holds of several elements, of which the first is not the one.
        ("/a/b[c='1']/e", True),
        ("/a/b[c='1'][c='2']/e", True),
        ("/a/b[c='1'][c='2']/d", False),
        ("//b[c='1'][.//d='2']//f", True),
        # Both b and the e in it are several.
        ("/a/b[c='2']/e[d='1']", True),
        ("/a/b[c='1']/e[d='2']/f", True),
        ("/a/b[c='1']/e[d='1']/f", False),
        ("/a/b[c='2']/e[d='2']/f", False),
        ("//b[c='1']//e[d='2'][f]", True),
        ("//*[c='2']//*[d='2'][f]", False),
    ],
)
def test_where_facts_recur(text: str, verdict: bool) -> None:
    assert asked(text, AGAIN) == (verdict, 0)


TWO = "<a><b><c>1</c><d/></b><b><c>2</c><e><d>1</d></e></b></a>"


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        ("/a/b[c='1']/d", True),
        ("/a/b[c='2']/d", False),
        ("/a/b[c='2']//d", True),
        ("/a/b[c='1']//e", False),
        ("/a/b[c='2']/e/d", True),
        ("/a/b[c='1']/e/d", False),
        ("/a/b[c='2'][e/d='1']", True),
        ("/a/b[c='1'][e/d='1']", False),
        ("/a/b[c='1'][c='2']", False),
        ("//b[c='2'][.//d='1']/e", True),
        ("//b[c='1'][.//d='1']", False),
        ("//b[d][c]", True),
        ("//b[d][e]", False),
    ],
)
def test_without_a_program(text: str, verdict: bool) -> None:
    assert asked(text, TWO) == (verdict, 0)


@pytest.mark.parametrize(
    ("text", "document", "verdict"),
    [
        # Another predicate asks for another b.
        ("/a[b[c][e]][b[d]]", "<a><b><c/><e/></b><b><d/></b></a>", True),
        ("/a[b='1']/b[c='2']/d", "<a><b>1</b><b><c>2</c><d/></b></a>", True),
        # So does what is absolute.
        ("//b[c='1'][//b/d]", "<a><b><c>1</c></b><b><d/></b></a>", True),
        ("/c//*[b[//@x]]//@x", "<c x='1'><a><b/><c x='2'/></a></c>", True),
        # One alternative has another element than the other.
        ("//b[c='1'][d or e]", "<a><b><d/></b><b><c>1</c><e/></b></a>", True),
        # The first element that an atom holds of is not the one.
        ("/a/b[c='1']/d", "<a><b><c>1</c></b><b><c>1</c><d/></b></a>", True),
    ],
)
def test_not_the_same_element(text: str, document: str, verdict: bool) -> None:
    assert asked(text, document)[0] is verdict


@pytest.mark.parametrize("before", [0, WITNESSES - 4, WITNESSES, 2 * WITNESSES])
def test_far_into_a_message(before: int) -> None:
    document = f"<a>{'<x/>' * before}<b><c>1</c></b><b><c>2</c><d/></b></a>"
    # Something asks for the others, so that they count.
    assert asked("/a[x or b]/b[c='2'][d]", document)[0] is True
    assert asked("/a[x or b]/b[c='1'][d]", document)[0] is False


def test_many_ask_about_the_same_elements() -> None:
    """So many that what lies below an element is put together once."""
    texts = [
        f"/a/b[@k='{key}'][c='{value}']/*/d{n}" for n in range(24) for key in "12" for value in "12"
    ]
    texts += [text.replace("/*/", "//") for text in texts]
    document = "".join(
        f"<b k='{1 + at % 2}'><c>{1 + at // 2}</c><e>{''.join(f'<d{n}/>' for n in range(at, 24, 3))}"
        f"</e><f><d{at}/></f></b>"
        for at in range(4)
    )
    tally = check(
        lambda: make_index(NATIVE),
        [Expression(text) for text in texts],
        [f"<a>{document}</a>".encode()],
        claims=False,
    )
    assert 0.3 < tally.true / tally.pairs < 0.7
