"""Run the parts of a computation on a Ray cluster, which may lose workers and machines meanwhile.

**What leaves the process that fits.** The parts of a hop get arcs and messages, and those of a step of DP-SGD rows, labels,
weights and the drawn positions; both return exact sums. Noise is added in the process that fits, so the keys of hops and steps
never leave it. Trials and teachers get the records, and each trial a key of its own. So every machine of the cluster sees
private data and belongs to the curator. Nothing is charged on a worker: a part that runs twice changes no ledger.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from socket import create_connection
from types import TracebackType
from typing import Any, TypeVar

from sfumato._optional import require
from sfumato._validate import fail
from sfumato._version import __version__
from sfumato.errors import EngineError, InputError

T = TypeVar("T")

_PARTS = 4  # for each processor, so that one large part does not hold up the others
_RETRIES = 3
_LOOK = 2.0  # seconds between two looks at the cluster, while nothing finishes
_PATIENCE = 60.0  # seconds without enough processors until the run gives up
_FULL = "Start one with more memory (ray start --head --object-store-memory BYTES), or choose --engine local."
_LOST = "Start the machines again, and give them more memory if it ran out."


class RayEngine:
    """Runs the parts of a computation on the workers of a Ray cluster: use it as a context manager, in ``bounded._engine.using``.

    A part whose worker or machine dies runs again elsewhere, up to three times. Results have the bits of the local engine.
    Without ``address`` (``host:port`` or ``auto``) a cluster of ``workers`` processors starts on this machine, for this process
    alone, and keeps all its data in memory.
    """

    def __init__(self, address: str | None = None, workers: int | None = None) -> None:
        self._ray = ray = require("ray")
        self._owned = not ray.is_initialized()
        if self._owned:
            own = {
                "num_cpus": workers,
                "include_dashboard": False,
                "_system_config": {"automatic_object_spilling_enabled": False, "worker_niceness": 0},
            }
            try:
                _reach(address)
                ray.init(
                    address=address or "local",
                    log_to_driver=False,
                    logging_level=logging.ERROR,
                    **({} if address else own),
                )
            except (OSError, ValueError, RuntimeError, ray.exceptions.RayError) as error:
                expected = "to be the address of a running Ray cluster"
                raise fail("ray_address", address, expected, "Start it: ray start --head") from error
        self._task = ray.remote(max_retries=_RETRIES)(_call)

    def __enter__(self) -> RayEngine:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._owned:
            self._ray.shutdown()

    @property
    def parts(self) -> int:
        """Return how many parts keep all processors of the cluster busy."""
        return _PARTS * max(1, int(self._ray.cluster_resources().get("CPU", 1)))

    def hold(self, value: Any) -> Any:
        """Put a value where all workers find it, for as long as what is returned is kept."""
        try:
            return self._ray.put(value)
        except self._ray.exceptions.ObjectStoreFullError as error:
            raise EngineError(f"The object store of the Ray cluster is full. {_FULL}") from error

    def run(
        self,
        function: Callable[..., T],
        shared: Sequence[Any],
        parts: Iterable[Sequence[Any]],
        *,
        threads: int | None = None,
    ) -> Iterator[tuple[int, T]]:
        ray = self._ray
        if (threads or 1) > 1 and 0 < self._most() < (threads or 1):
            expected = f"to be at most {self._most()}, the processors of the largest machine of the cluster"
            raise fail("threads", threads, expected, "Pass --threads, or start a larger machine.")
        held = [value if isinstance(value, ray.ObjectRef) else self.hold(value) for value in shared]
        task = self._task.options(num_cpus=threads or 1)
        numbered, at_once = enumerate(parts), self.parts
        pending: dict[Any, int] = {}
        try:
            while True:
                for number, part in islice(numbered, at_once - len(pending)):
                    pending[task.remote(__version__, function, threads, *held, *part)] = number
                if not pending:
                    return
                for done in self._wait(list(pending), threads or 1):
                    yield pending.pop(done), self._result(done)
        finally:
            for one in pending:
                ray.cancel(one, force=True)

    def _most(self) -> int:
        """The processors of the largest machine that is alive."""
        alive = (node["Resources"].get("CPU", 0) for node in self._ray.nodes() if node["Alive"])
        return int(max(alive, default=0))

    def _wait(self, pending: list[Any], threads: int) -> list[Any]:
        waited = 0.0
        while True:
            done: list[Any] = self._ray.wait(pending, timeout=_LOOK)[0]
            if done:
                return done
            waited = waited + _LOOK if self._most() < threads else 0.0
            if waited >= _PATIENCE:
                raise EngineError(f"The Ray cluster has no machine left with {threads} processors. {_LOST}")

    def _result(self, done: Any) -> Any:
        errors = self._ray.exceptions
        try:
            return self._ray.get(done)
        except errors.RayTaskError as error:
            raise error.cause from None
        except errors.RayError as error:
            raise EngineError(
                f"The Ray cluster lost the workers of one part {_RETRIES + 1} times ({type(error).__name__}). {_LOST}"
            ) from error


def _reach(address: str | None) -> None:
    """Connect once: Ray itself tries for minutes."""
    host, _, port = (address or "").rpartition(":")
    if host:
        create_connection((host, int(port)), timeout=10).close()


def _call(version: str, function: Callable[..., T], threads: int | None, *arguments: Any) -> T:
    """Run one part in a worker."""
    if version != __version__:
        raise InputError(f"Expected Sfumato {version} on every machine of the cluster, got {__version__}. Install it.")
    import numba
    from numba.np.ufunc.parallel import get_thread_count

    numba.set_num_threads(min(threads or 1, get_thread_count()))
    if threads is not None:
        import torch

        torch.set_num_threads(threads)
    return function(*arguments)
