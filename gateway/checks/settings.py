"""Settings: those of the file, of the environment, and the options."""

import os
from collections.abc import Collection, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from gateway.checks.findings import Finding, fail, ok, warn
from gateway.settings import FILE, Settings, SettingsError, explain, read_settings


def check_settings(
    given: Mapping[str, Any], others: Collection[str]
) -> tuple[Settings | None, list[Finding]]:
    """The settings of a gateway with the options *given*, None where it would not start; and what
    was found. *others* are variables that are no settings, but mean something."""
    names = Settings.model_fields
    findings = []
    in_environment = set()
    for variable in sorted(os.environ):
        if not variable.upper().startswith("DRAGOMAN_") or variable in others:
            continue
        name = variable[len("DRAGOMAN_") :].lower().partition("__")[0]
        if name in names:
            in_environment.add(name)
        else:
            meant = _meant(name, names, "DRAGOMAN_{}")
            findings.append(warn("settings", f"{variable} is none, and is ignored; {meant}"))
    try:
        settings = read_settings(**given)
    except SettingsError as error:
        cause = error.__cause__
        if not isinstance(cause, ValidationError):
            return None, [*findings, fail("settings", f"{error}; correct it")]
        for one in cause.errors():
            name, message = explain(one)
            if one["type"] == "extra_forbidden" and len(one["loc"]) == 1:
                meant = _meant(name, names, "{}")
                findings.append(fail("settings", f"{FILE}: {name!r} is none; {meant}"))
                continue
            place = FILE
            if given.get(name) is not None:
                place = f"--{name.replace('_', '-')}"
            elif name in in_environment:
                place = f"DRAGOMAN_{name.upper()}"
            findings.append(fail("settings", f"{place}: {message}; correct it there"))
        return None, findings
    options = sum(value is not None for value in given.values())
    file = f"{FILE} is read" if Path(FILE).exists() else f"there is no {FILE} in this folder"
    text = f"{options} given as options, {len(in_environment)} in the environment; {file}"
    return settings, [*findings, ok("settings", text)]


def _meant(name: str, names: Collection[str], form: str) -> str:
    near = get_close_matches(name, names, 1)
    if near:
        found = near[0].upper() if form.startswith("DRAGOMAN") else near[0]
        return f"did you mean {form.format(found)}?"
    return "remove it"
