"""Logs: lines for people on a terminal, JSON lines for machines."""

import logging
import sys
from contextlib import suppress
from typing import Any, TextIO, cast

import structlog

from gateway.observing.escaping import visible, visible_but_colours
from gateway.observing.request_ids import current_request


class _StandardError:
    """Lose lines that cannot be written: a full disk under the logs stops no delivery."""

    def write(self, text: str) -> int:
        with suppress(OSError, ValueError):
            return sys.stderr.write(text)
        return 0

    def flush(self) -> None:
        with suppress(OSError, ValueError):
            sys.stderr.flush()


def _name_request(
    _: object, __: str, fields: structlog.types.EventDict
) -> structlog.types.EventDict:
    """Say for which request a line is, where that has an id: its answer and the audit log have it,
    too."""
    if request := current_request():
        fields.setdefault("request", request)
    return fields


def _show_values(
    _: object, __: str, fields: structlog.types.EventDict
) -> structlog.types.EventDict:
    """Escape control characters in fields. Strangers wrote them, and a terminal would obey them."""
    for name, value in fields.items():
        if isinstance(value, str):
            fields[name] = visible(value)
    return fields


def _show_the_rest(_: object, __: str, text: Any) -> str:
    """The messages of exceptions are only in the rendered lines, beside the renderer's colours."""
    return visible_but_colours(str(text))


def set_up_logs(level: str = "info", style: str = "auto") -> None:
    """Send all logs to standard error. *style*: console, json, or auto, by whether that is a
    terminal."""
    console = style == "console" or (style == "auto" and sys.stderr.isatty())
    shared: list[structlog.types.Processor] = [
        _name_request,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
    ]
    renderer: structlog.types.Processor = (
        structlog.dev.ConsoleRenderer() if console else structlog.processors.JSONRenderer()
    )
    if console:
        shared = shared[:-1]
    last: list[structlog.types.Processor] = [renderer]
    if console:
        last = [_show_values, renderer, _show_the_rest]
    structlog.configure(
        processors=[*shared, *last],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelName(level.upper())),
        logger_factory=structlog.PrintLoggerFactory(cast(TextIO, _StandardError())),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(_StandardError())
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            # What the adapters log through the standard library has its fields in `extra`.
            foreign_pre_chain=[structlog.stdlib.ExtraAdder(), *shared],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *last],
        )
    )
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    # What adapters say is ours, and information too; other libraries' warnings are enough.
    logging.getLogger("adapters").setLevel(max(logging.INFO, logging.getLevelName(level.upper())))
