"""What a server tells its operator: figures for Prometheus, and log lines in JSON. Neither holds any part of a report."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from sfumato.collect.limits import Buckets

_LOGGER = logging.getLogger("sfumato.collect")
_LINES_A_SECOND = 10


class Metrics:
    """The figures of one server process, in a registry of their own; ``waiting`` tells how many reports wait for the disk."""

    def __init__(self, waiting: Callable[[], int]) -> None:
        self._registry = CollectorRegistry()
        self.reports = Counter(
            "sfumato_reports", "Reports by what became of them.", ["answer"], registry=self._registry
        )
        self.refusals = Counter("sfumato_refusals", "Refused requests by status.", ["status"], registry=self._registry)
        self._commits = Histogram("sfumato_commit_seconds", "Time of a transaction.", registry=self._registry)
        gauge = Gauge("sfumato_waiting_reports", "Reports that wait for the disk.", registry=self._registry)
        gauge.set_function(waiting)

    @contextmanager
    def commit(self) -> Iterator[None]:
        """Measure the time of the block, which is one transaction."""
        with self._commits.time():
            yield

    def text(self) -> bytes:
        """Render the figures in the text form of Prometheus."""
        return generate_latest(self._registry)


class Log:
    """Log lines with names and public facts; of each kind at most 10 a second, so that a flood does not fill the disk."""

    def __init__(self) -> None:
        self._buckets = Buckets(rate=_LINES_A_SECOND, burst=10 * _LINES_A_SECOND)

    def say(self, event: str, level: int = logging.INFO, facts: Mapping[str, object] | None = None) -> None:
        """Write one line, unless too many of this ``event`` were written; the ``level`` is that of ``logging``.

        What ``facts`` hold must be public and short.
        """
        if not self._buckets.take(event):
            _LOGGER.log(level, event, extra={"facts": facts or {}})


class JsonLines(logging.Formatter):
    """The format of log lines: one JSON object each, with time, level, event and facts.

    >>> record = logging.LogRecord("sfumato.collect", logging.INFO, "", 1, "closed", (), None)
    >>> record.created, record.facts = 0.0, {"reports": 7}
    >>> JsonLines().format(record)
    '{"time": "1970-01-01T00:00:00Z", "level": "info", "event": "closed", "reports": 7}'
    """

    def format(self, record: logging.LogRecord) -> str:
        """Write a record as JSON."""
        moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(record.created))
        line = {"time": moment, "level": record.levelname.lower(), "event": record.getMessage()}
        line |= getattr(record, "facts", {})
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line)
