"""An event loop that a thread calls may have closed meanwhile: its program ends. Nothing may come of
that for the thread, whose own work is done: a commit, say."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import adapters
import dragoman
import gateway

PARTS = {part.__name__: Path(str(part.__file__)).parent for part in (gateway, adapters, dragoman)}


def unguarded(node: ast.AST, *, guarded: bool = False) -> Iterator[int]:
    """The lines in *node* that call an event loop from a thread, and do not expect a closed one."""
    if isinstance(node, ast.With):
        guarded = guarded or any("RuntimeError" in ast.unparse(each) for each in node.items)
    elif isinstance(node, ast.Try):
        expected = [ast.unparse(each.type) for each in node.handlers if each.type is not None]
        inside = guarded or any("RuntimeError" in each for each in expected)
        for each in node.body:
            yield from unguarded(each, guarded=inside)
        for other in (*node.handlers, *node.orelse, *node.finalbody):
            yield from unguarded(other, guarded=guarded)
        return
    elif isinstance(node, ast.Attribute) and node.attr == "call_soon_threadsafe" and not guarded:
        yield node.lineno
    for child in ast.iter_child_nodes(node):
        yield from unguarded(child, guarded=guarded)


@pytest.mark.parametrize("part", PARTS)
def test_a_closed_loop_is_expected_wherever_a_thread_calls_one(part: str) -> None:
    found = [
        f"{path}:{line}"
        for path in sorted(PARTS[part].rglob("*.py"))
        for line in unguarded(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert found == []
