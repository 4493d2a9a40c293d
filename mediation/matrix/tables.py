"""The tables for users, in Markdown: what each dialect says, and what is lost between two."""

from mediation.matrix.dialects import NOTIFIED, PUBLISHING
from mediation.matrix.report import lost_between
from mediation.model.facts import Fact
from mediation.profiles import PROFILES

LETTERS = {
    Fact.TOPIC: "T",
    Fact.LEVELS: "L",
    Fact.NAMESPACES: "N",
    Fact.TOPIC_ELEMENT: "E",
    Fact.ACTION: "A",
    Fact.PRODUCER: "P",
    Fact.PRODUCER_REFERENCE: "R",
    Fact.HEADERS: "H",
    Fact.ATTACHMENTS: "F",
    Fact.ID: "I",
    Fact.TIME: "t",
    Fact.EXPIRY: "x",
    Fact.PROPERTIES: "p",
    Fact.SIGNATURE: "s",
    Fact.ATTRIBUTES: "C",
    Fact.SEVERAL: "S",
    Fact.SUBSCRIPTION: "",
}
"""The letter of each fact in the matrix; empty: it never stands there."""


def tables() -> str:
    """All tables, as they stand in ``docs/mediation.md``."""
    return "\n".join(("\n".join(part) + "\n") for part in (_dialects(), _said(), _matrix()))


def profiles() -> str:
    """The table of ``docs/profiles.md``."""
    rows = [
        _row("profile", "peers", "which", "so", "found", "to be seen in"),
        _row(*["---"] * 6),
        *(
            _row(f"`{one.name}`", one.peers, one.does, one.done, one.how, one.case)
            for one in PROFILES.values()
        ),
    ]
    return "\n".join(rows) + "\n"


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def _dialects() -> list[str]:
    rows = [_row("dialect", "is", "publishes", "is notified"), _row(*["---"] * 4)]
    names = dict.fromkeys((*PUBLISHING, *NOTIFIED))
    for dialect in names:
        notified = dialect in NOTIFIED
        rows.append(
            _row(
                f"`{dialect.name}`",
                dialect.title,
                "yes" if dialect in PUBLISHING else "",
                ("fetches" if dialect.fetching else "yes") if notified else "",
            )
        )
    return rows


def _said() -> list[str]:
    rows = [
        _row("", "what", "publishers say it in", "consumers read it in"),
        _row(*["---"] * 4),
    ]
    for fact in Fact:
        said = ", ".join(f"`{one.name}`" for one in PUBLISHING if fact in one.says)
        told = ", ".join(f"`{one.name}`" for one in NOTIFIED if fact in one.tells)
        rows.append(_row(LETTERS[fact], fact.value, said, told))
    return rows


def _matrix() -> list[str]:
    rows = [
        _row("from \\ to", *(f"`{target.name}`" for target in NOTIFIED)),
        _row("---", *["---"] * len(NOTIFIED)),
    ]
    for source in PUBLISHING:
        cells = []
        for target in NOTIFIED:
            lost = lost_between(source, target)
            cells.append("".join(LETTERS[fact] for fact in Fact if fact in lost))
        rows.append(_row(f"`{source.name}`", *cells))
    return rows
