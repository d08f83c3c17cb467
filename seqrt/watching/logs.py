"""A log that programs read: one JSON object a line, `Line`s taken apart. The command line alone sets a log up."""

from __future__ import annotations

import logging
from typing import Any, Final

import msgspec

from seqrt.watching.logline import Line

PLAIN = "%(asctime)s %(levelname)s %(name)s: %(message)s"

_WITH_SECRETS: Final = ("hpack", "h2", "httpcore", "hypercorn")
"""What carries our requests. At DEBUG it logs their headers, and with them every key and every lease's secret."""


class JsonLines(logging.Formatter):
    """Formats records as ``{"at": …, "level": …, "logger": …, "ev": …, "rid": …, …}``.

    ``at`` is seconds since 1970. A record that is no `Line` has ``message`` in place of ``ev`` and ``rid``, one with a
    sentence has it under ``say``, one with an exception its traceback under ``traceback``.
    """

    def format(self, record: logging.LogRecord) -> str:
        """One line."""
        told: dict[str, Any] = {"at": record.created, "level": record.levelname, "logger": record.name}
        said = record.args[0] if isinstance(record.args, tuple) and len(record.args) == 1 else None
        if record.msg == "%s" and isinstance(said, Line):
            told |= {"ev": said.event, "rid": said.request_id, **said.fields}
            if said.sentence:
                told["say"] = said.sentence
        else:
            told["message"] = record.getMessage()
        if record.exc_info:
            told["traceback"] = self.formatException(record.exc_info)
        return msgspec.json.encode(told, enc_hook=str).decode("utf-8", "replace")


def log_to(stream: Any, *, level: int, json: bool) -> None:
    """Have the process log to ``stream``, once.

    Args:
        stream: A text file.
        level: From `logging`.
        json: As `JsonLines`; else as text.
    """
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLines() if json else logging.Formatter(PLAIN))
    logging.basicConfig(level=level, handlers=[handler])
    for name in _WITH_SECRETS:
        logging.getLogger(name).setLevel(max(level, logging.INFO))
