"""Groups of options that several commands have: declared once, read into one value."""

import functools
import inspect
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, get_args, get_origin


@dataclass(frozen=True, slots=True)
class OptionGroup:
    """The annotation of a command's parameter that is made of several options.

    The parameters of *options* are the options, and *read*, or else *options*, makes the value of
    them. Options in *without* are left out.
    """

    options: Callable[..., Any]
    read: Callable[..., Any] | None = None
    without: Collection[str] = ()

    def parameters(self) -> Mapping[str, inspect.Parameter]:
        """The options, by name."""
        declared = inspect.signature(self.options).parameters
        return {name: one for name, one in declared.items() if name not in self.without}

    def value(self, given: Mapping[str, Any]) -> Any:
        """The value of the group, of all options that were *given* to the command."""
        read = self.read or self.options
        return read(**{name: given[name] for name in self.parameters()})


def with_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """A command that does what *function* does; in place of its groups it has their options."""
    declared = inspect.signature(function).parameters
    groups = {name: group for name, one in declared.items() if (group := _group_of(one))}
    if not groups:
        return function
    # Two groups may share an option, such as the context of the command.
    parameters = {one.name: one for one in _expanded(declared, groups)}

    @functools.wraps(function)
    def command(**given: Any) -> Any:
        values = {name: group.value(given) for name, group in groups.items()}
        plain = {name: given[name] for name in declared if name not in groups}
        return function(**plain, **values)

    command.__signature__ = inspect.Signature([*parameters.values()])  # type: ignore[attr-defined]
    command.__annotations__ = {name: one.annotation for name, one in parameters.items()}
    return command


def _group_of(parameter: inspect.Parameter) -> OptionGroup | None:
    if get_origin(parameter.annotation) is not Annotated:
        return None
    return next((one for one in get_args(parameter.annotation) if type(one) is OptionGroup), None)


def _expanded(
    declared: Mapping[str, inspect.Parameter], groups: Mapping[str, OptionGroup]
) -> Iterator[inspect.Parameter]:
    for name, one in declared.items():
        for each in groups[name].parameters().values() if name in groups else (one,):
            # By keyword alone: then one without a default may stand behind one with a default.
            yield each.replace(kind=inspect.Parameter.KEYWORD_ONLY)
