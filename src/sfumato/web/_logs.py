"""Log lines in JSON, so many of a kind as an operator can read: a flood of requests does not fill the disk."""

from __future__ import annotations

import json
import logging
import sys
import threading
import time
from collections import Counter
from collections.abc import Mapping

from sfumato.web._limits import Buckets

_LINES_A_SECOND, _LINES_AT_ONCE = 1.0, 50.0
_MOST_ERROR = 4000


class Log:
    """Log lines with names and public facts; of each kind 50 at once at most, and one a second in the long run."""

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger
        self._kinds = _Kinds()

    def say(self, event: str, level: int = logging.INFO, facts: Mapping[str, object] | None = None) -> None:
        """Write one line, unless too many of this ``event`` were written; the ``level`` is that of ``logging``.

        What ``facts`` hold must be public and short. A line says how many were left out before it.
        """
        left_out = self._kinds.left_out(event)
        if left_out is not None:
            self._logger.log(level, event, extra={"facts": {**(facts or {}), **left_out}})


class JsonLines(logging.Formatter):
    """The format of log lines: one JSON object each, with time, level, event and facts.

    >>> record = logging.LogRecord("sfumato.collect", logging.INFO, "", 1, "closed", (), None)
    >>> record.created, record.facts = 0.0, {"reports": 7}
    >>> JsonLines().format(record)
    '{"time": "1970-01-01T00:00:00Z", "level": "info", "event": "closed", "reports": 7}'
    """

    def format(self, record: logging.LogRecord) -> str:
        moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(record.created))
        line = {"time": moment, "level": record.levelname.lower(), "event": record.getMessage()[:_MOST_ERROR]}
        line |= getattr(record, "facts", {})
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)[-_MOST_ERROR:]
        return json.dumps(line)


def log_as_json(level: int = logging.INFO) -> None:
    """Write all that this process logs, warns of or fails with as JSON lines on standard error.

    Lines of this package have the ``level`` or a higher one, and those of others, such as the event loop, are errors.
    """
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines())
    handler.addFilter(_Few())
    root = logging.getLogger()
    root.handlers, root.level = [handler], logging.WARNING
    for name, least in (("sfumato", level), ("uvicorn", logging.ERROR), ("asyncio", logging.ERROR)):
        logging.getLogger(name).setLevel(least)
    logging.captureWarnings(True)
    threading.excepthook = lambda failed: root.error(
        "a thread ended", exc_info=(failed.exc_type, failed.exc_value or failed.exc_type(), failed.exc_traceback)
    )
    sys.unraisablehook = lambda failed: root.error(
        "an error was lost", exc_info=None if failed.exc_value is None else failed.exc_value
    )


class _Few(logging.Filter):
    """Lets pass what :class:`Log` wrote, and of all other lines of one logger 50 at once, and one a second in the long run."""

    def __init__(self) -> None:
        super().__init__()
        self._kinds = _Kinds()

    def filter(self, record: logging.LogRecord) -> bool:
        if hasattr(record, "facts"):
            return True
        left_out = self._kinds.left_out(record.name)
        record.facts = left_out or {}
        return left_out is not None


class _Kinds:
    """Counts lines by kind; threads may share it."""

    def __init__(self) -> None:
        self._buckets = Buckets(rate=_LINES_A_SECOND, burst=_LINES_AT_ONCE)
        self._left_out: Counter[str] = Counter()
        self._lock = threading.Lock()

    def left_out(self, kind: str) -> dict[str, int] | None:
        """Return what a line of this kind says of those before it; None if it is left out, too."""
        with self._lock:
            if self._buckets.take(kind):
                self._left_out[kind] += 1
                return None
            count = self._left_out.pop(kind, 0)
        return {"left_out": count} if count else {}
