"""Writes the reference of the client's package from its docstrings.

``python -m distributions.client.reference`` writes ``docs/python-reference.md`` anew.
"""

import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from types import ModuleType
from typing import Any

import dragoman

PAGE = Path(__file__).parents[2] / "docs" / "python-reference.md"
_SECTIONS = ("Args", "Attributes", "Raises", "Returns", "Yields")
_WITHOUT = {"_vendor", "django"}
"""Modules that are not described: copies of others, and one that needs a library of its own."""
_ENTRY = re.compile(r"([\w*., ]+): (.*)", re.DOTALL)
_SHORTER = (
    (r"\b(?:dragoman|gateway|mediation|collections|typing|datetime|pathlib)(?:\.\w+)*\.", ""),
    (r"\bbuiltins\.|~", ""),
    (r"\*<class '(\w+)'>", r"\1"),
    (r"^\(self(?:, /)?(?:, )?", "("),
    (r"(: |-> )'([^']*)'", r"\1\2"),
)
"""What is written shorter of a signature."""
_HEAD = """# Reference of the Python package

Written from the docstrings of `dragoman` by `python -m distributions.client.reference`;
[from Python](python.md) says how to begin.
"""


def main() -> None:
    """Write the page."""
    PAGE.write_text(page())


def page() -> str:
    """The page, in Markdown."""
    return "\n".join([_HEAD, *(line for module in modules() for line in _module(module))])


def modules() -> list[ModuleType]:
    """The modules that programs import: those right below ``dragoman``."""
    names = [one.name for one in pkgutil.iter_modules(dragoman.__path__)]
    return [importlib.import_module(f"dragoman.{name}") for name in names if name not in _WITHOUT]


def _module(module: ModuleType) -> Iterator[str]:
    yield f"## {module.__name__}\n"
    yield from _text(module)
    for name in _public(module):
        value = getattr(module, name)
        home = getattr(value, "__module__", "")
        if home.startswith("dragoman.") and not _is_home(home, module):
            continue  # It is described where it is at home.
        if inspect.isclass(value):
            yield from _class(name, value)
        elif inspect.isfunction(value):
            yield f"### {name}\n\n`{name}{_signature(value)}`\n"
            yield from _text(value)


def _public(module: ModuleType) -> list[str]:
    own = [name for name, value in vars(module).items() if _is_of(value, module)]
    return list(getattr(module, "__all__", own))


def _is_home(home: str, module: ModuleType) -> bool:
    return home == module.__name__ or home.startswith(f"{module.__name__}.")


def _is_of(value: Any, module: ModuleType) -> bool:
    named = inspect.isclass(value) or inspect.isfunction(value)
    return named and value.__module__ == module.__name__ and value.__name__[0] != "_"


def _class(name: str, cls: type) -> Iterator[str]:
    bases = [one.__name__ for one in cls.__mro__[1:] if one.__module__.startswith("dragoman")]
    below = f" ({', '.join(base for base in bases[:1] if base[0] != '_')})".replace(" ()", "")
    yield f"### {name}{below}\n"
    yield f"`{name}{_signature(cls)}`\n"
    yield from _text(cls)
    for attribute, value in vars(cls).items():
        if attribute[0] == "_" or hasattr(value, "__wrapped__"):
            continue  # What wraps a method is described where that is.
        if isinstance(value, property):
            yield f"- **{attribute}**: {_line(value)}"
        elif inspect.isroutine(value):
            bound = getattr(cls, attribute)
            awaited = "await " if inspect.iscoroutinefunction(bound) else ""
            yield f"\n#### {name}.{attribute}\n\n`{awaited}{attribute}{_signature(bound)}`\n"
            yield from _text(value)
    yield ""


def _signature(value: Any) -> str:
    try:
        text = str(inspect.signature(value))
    except (TypeError, ValueError):
        return "(...)"
    for pattern, instead in _SHORTER:
        text = re.sub(pattern, instead, text)
    return text


def _text(value: Any) -> Iterator[str]:
    """A docstring as Markdown: its paragraphs, and a list for each of its sections."""
    for paragraph in (inspect.getdoc(value) or "").split("\n\n"):
        first, _, rest = paragraph.partition("\n")
        if first == "::":
            continue
        if paragraph.startswith("    "):
            yield f"```python\n{dedent(paragraph)}\n```\n"
        elif first.rstrip(":") in _SECTIONS and first.endswith(":"):
            yield f"{first[:-1]}:\n"
            yield from _entries(dedent(rest))
            yield ""
        else:
            yield f"{paragraph}\n"


def _entries(text: str) -> Iterator[str]:
    for entry in re.split(r"\n(?=\S)", text):
        found = _ENTRY.fullmatch(" ".join(entry.split()))
        yield f"- `{found[1]}`: {found[2]}" if found else f"- {' '.join(entry.split())}"


def _line(value: Any) -> str:
    return " ".join((inspect.getdoc(value) or "").split())


if __name__ == "__main__":
    main()
