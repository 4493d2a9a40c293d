"""Who may write to an entry: found in the source of the gateway."""

import ast
import functools
from collections.abc import Iterator, Mapping
from pathlib import Path

from gateway.delivery.entry import DeliveryState, Entry

GATEWAY = Path(__file__).parents[3] / "gateway"
LIFECYCLE = {"gateway/subscriptions/lifecycle/lifecycle.py"}
CHANGED_BY_LIFECYCLE = {"ended", "halted", "recipient", "subscription"}


def written(node: ast.AST) -> Iterator[ast.Attribute]:
    """The attributes that a statement assigns to, also those in a tuple."""
    targets: list[ast.expr] = []
    if isinstance(node, ast.Assign):
        targets = list(node.targets)
    elif isinstance(node, ast.AugAssign | ast.AnnAssign):
        targets = [node.target]
    for target in targets:
        for part in ast.walk(target):
            if isinstance(part, ast.Attribute) and isinstance(part.ctx, ast.Store):
                yield part


def owner(attribute: ast.Attribute) -> str:
    """The name of the object that is written to: ``entry`` of ``outbox.entry.ended = True``."""
    value = attribute.value
    return value.attr if isinstance(value, ast.Attribute) else getattr(value, "id", "")


@functools.cache  # To read the whole of it takes a second.
def writers() -> Mapping[tuple[str, str], list[str]]:
    """The files that write an attribute, by the object and the attribute, once a statement."""
    found: dict[tuple[str, str], list[str]] = {}
    for path in sorted(GATEWAY.rglob("*.py")):
        if {"sources", "channels", "client"} & set(path.parts):
            continue  # Entries of their own, such as of subscriptions that the gateway has elsewhere.
        name = str(path.relative_to(GATEWAY.parent))
        for node in ast.walk(ast.parse(path.read_text())):
            for attribute in written(node):
                found.setdefault((owner(attribute), attribute.attr), []).append(name)
    return found


def test_only_the_lifecycle_changes_an_entry() -> None:
    changed = {name: set(files) for (of, name), files in writers().items() if of == "entry"}
    assert changed == dict.fromkeys(CHANGED_BY_LIFECYCLE, LIFECYCLE)
    assert changed.keys() < set(Entry.__slots__)


def test_an_entry_ends_in_one_place() -> None:
    assert writers()["entry", "ended"] == list(LIFECYCLE)


def test_only_delivery_writes_its_state() -> None:
    changed = {name: files for (of, name), files in writers().items() if of == "state"}
    changed = {name: files for name, files in changed.items() if name in DeliveryState.__slots__}
    assert changed
    assert all(file.startswith("gateway/delivery/") for files in changed.values() for file in files)
