"""The figures of a server process for Prometheus: requests, refused connections, and what the process takes."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily
from prometheus_client.registry import Collector

if TYPE_CHECKING:
    from sfumato.web._door import Door

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_LEFT = 499  # whoever asked was gone before the answer
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class WebMetrics:
    """The figures of one server process, in a registry of their own. Labels are routes as the server knows them, never paths."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self._requests = Counter(
            "sfumato_requests", "Requests by route and status.", ["route", "status"], registry=self.registry
        )
        self._seconds = Histogram(
            "sfumato_request_seconds", "Time to the answer.", ["route"], registry=self.registry, buckets=_BUCKETS
        )

    def watch(self, door: Door) -> None:
        gauge = Gauge("sfumato_connections", "Connections that are open.", registry=self.registry)
        gauge.set_function(lambda: door.count)
        most = Gauge("sfumato_most_connections", "Connections that may be open at once.", registry=self.registry)
        most.set(door.most)
        self.registry.register(_Refused(door))

    def answered(self, route: str, status: int, seconds: float) -> None:
        self._requests.labels(route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def text(self) -> bytes:
        return generate_latest(self.registry)


class Measured:
    """An ASGI application ``app`` whose answers are counted in ``metrics``."""

    def __init__(self, app: Callable[..., Awaitable[None]], metrics: WebMetrics) -> None:
        self._app, self._metrics = app, metrics

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        start, status = time.perf_counter(), _LEFT

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, sending)
        except Exception:
            status = 500
            raise
        finally:
            route = scope.get("route")
            self._metrics.answered("none" if route is None else route.path, status, time.perf_counter() - start)


class _Refused(Collector):
    def __init__(self, door: Door) -> None:
        self._door = door

    def collect(self) -> Iterator[CounterMetricFamily]:
        found = CounterMetricFamily(
            "sfumato_refused_connections", "Connections refused or ended, by reason.", labels=["reason"]
        )
        for reason, count in self._door.refused.copy().items():
            found.add_metric([reason], count)
        yield found
