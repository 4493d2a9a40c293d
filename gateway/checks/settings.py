"""Settings: those of the file, of the environment, and the options."""

import os
from collections.abc import Collection, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from gateway.checks.findings import Finding, fail, ok, warn
from gateway.settings.settings import FILE, Settings, SettingsError, read_settings


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
            near = get_close_matches(name, names, 1)
            meant = f"did you mean DRAGOMAN_{near[0].upper()}?" if near else "remove it"
            findings.append(
                warn("settings", f"{variable} is not a setting, and is ignored; {meant}")
            )
    try:
        settings = read_settings(**given)
    except SettingsError as error:
        found = (fail("settings", f"{one}; correct it there") for one in error.problems)
        return None, [*findings, *found]
    options = sum(value is not None for value in given.values())
    file = f"{FILE} is read" if Path(FILE).exists() else f"there is no {FILE} in this folder"
    text = f"{options} given as options, {len(in_environment)} in the environment; {file}"
    return settings, [*findings, ok("settings", text)]
