"""The figures of a server for Prometheus. They hold no part of a report.

Whoever polls them keeps how many reports came by which time: a note of times, which an operator of an anonymous survey does not
take.
"""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import Counter, Gauge, Histogram

from sfumato.web._metrics import WebMetrics


class Metrics(WebMetrics):
    """The figures of one server process, in a registry of their own; ``waiting`` tells how many reports wait for the disk."""

    def __init__(self, waiting: Callable[[], int]) -> None:
        super().__init__()
        self.reports = Counter("sfumato_reports", "Reports by what became of them.", ["answer"], registry=self.registry)
        self.refusals = Counter("sfumato_refusals", "Refused requests by status.", ["status"], registry=self.registry)
        self.commits = Histogram("sfumato_commit_seconds", "Time of a transaction.", registry=self.registry)
        gauge = Gauge("sfumato_waiting_reports", "Reports that wait for the disk.", registry=self.registry)
        gauge.set_function(waiting)
