"""RabbitMQ is spoken through the public names of pika alone."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import adapters.rabbitmq

SOURCES = sorted(
    source
    for source in Path(adapters.rabbitmq.__file__).parent.glob("*.py")
    if source.name != "headers.py"  # It replaces a function of pika; test_headers.py names it.
)
NOT_PUBLIC = ("pika.adapters.utils", "pika.adapters.base_connection", "pika.data", "pika.frame")
"""Modules that pika itself calls not public, or that know how frames are written."""
OUR_OWN = {"self", "cls", "etree"}


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.endswith("__")


def leaks(tree: ast.AST) -> Iterator[str]:
    """Private names that are taken from another object, or out of pika."""
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=ast.Name(id=owner), attr=name) if owner in OUR_OWN:
                del name  # Of our own object: `inherited` looks at what it is.
            case ast.Attribute(attr=name) if is_private(name):
                yield ast.unparse(node)
            case ast.Call(func=ast.Name(id="getattr"), args=[_, ast.Constant(value=str(name)), *_]):
                if is_private(name):
                    yield ast.unparse(node)
            case ast.ImportFrom(module=str(module), names=names) if module.startswith("pika"):
                whole = [f"{module}.{each.name}" for each in names]
                yield from (each for each in whole if "._" in each or each.startswith(NOT_PUBLIC))
            case ast.Import(names=names):
                yield from (each.name for each in names if each.name.startswith(NOT_PUBLIC))


def inherited(tree: ast.AST) -> Iterator[str]:
    """Classes of pika that are inherited from: its private methods could be overridden then."""
    taken = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("pika")
        for alias in node.names
    } | {"pika"}
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            bases = [ast.unparse(base) for base in node.bases]
            yield from (base for base in bases if base.partition(".")[0] in taken)


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.name)
def test_no_private_name_of_pika_is_used(source: Path) -> None:
    tree = ast.parse(source.read_text())
    assert list(leaks(tree)) == []
    assert list(inherited(tree)) == []


@pytest.mark.parametrize(
    "text",
    [
        "connection.raw._terminate_stream(None)",
        "getattr(raw, '_transport')",
        "from pika.adapters.asyncio_connection import _AsyncioIOServicesAdapter",
        "from pika.adapters.utils import nbio_interface",
        "from pika import frame",
        "import pika.frame",
    ],
)
def test_a_private_name_is_found(text: str) -> None:
    assert list(leaks(ast.parse(text)))


def test_a_class_of_pika_that_is_inherited_from_is_found() -> None:
    text = "from pika.adapters.asyncio_connection import AsyncioConnection\n"
    assert list(inherited(ast.parse(text + "class Stream(AsyncioConnection): ...")))
