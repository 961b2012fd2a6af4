"""An engine decides where the parts of a large computation run: in this process, or on the workers of a cluster.

A part is a function of its own arguments alone. So it may run anywhere, again after a failure, and in any order: which engine
runs it never changes a bit of the result. No engine charges a ledger, or draws the noise of a hop or a
step: the process that fits does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol, TypeVar

T = TypeVar("T")


class Engine(Protocol):
    """An engine runs one function on many parts; each result comes with the number of its part.

    ``parts`` is how many parts a computation should have at least. ``run`` calls ``function(*shared, *part)`` for each of
    ``parts`` and yields (number, result) as they finish, in any order. ``shared`` is sent to a worker once. ``threads`` is the
    number of threads of one part where it decides the bits, as in training; None where it does not. What ``hold`` returns stands
    for a value in ``shared`` and ``parts`` of any later ``run``, which workers keep meanwhile.

    >>> def total(chosen: Engine) -> int:
    ...     return sum(result for _, result in chosen.run(pow, (2,), [(3,), (4,)]))
    >>> total(LocalEngine())
    24
    """

    @property
    def parts(self) -> int: ...

    def hold(self, value: Any) -> Any: ...

    def run(
        self,
        function: Callable[..., T],
        shared: Sequence[Any],
        parts: Iterable[Sequence[Any]],
        *,
        threads: int | None = None,
    ) -> Iterator[tuple[int, T]]: ...


class LocalEngine:
    """The local engine runs one part after another in this process, with all its threads.

    >>> LocalEngine().parts
    1
    """

    parts = 1

    def hold(self, value: Any) -> Any:
        """Return the value, which is here already."""
        return value

    def run(
        self,
        function: Callable[..., T],
        shared: Sequence[Any],
        parts: Iterable[Sequence[Any]],
        *,
        threads: int | None = None,
    ) -> Iterator[tuple[int, T]]:
        """Yield the number and the result of each part, in their order.

        >>> list(LocalEngine().run(pow, (2,), [(3,), (4,)]))
        [(0, 8), (1, 16)]
        """
        for number, part in enumerate(parts):
            yield number, function(*shared, *part)


LOCAL = LocalEngine()
_CURRENT: ContextVar[Engine] = ContextVar("engine", default=LOCAL)


def engine() -> Engine:
    """Return the engine of this computation: the local one outside :func:`using`.

    >>> engine().parts
    1
    """
    return _CURRENT.get()


@contextmanager
def using(chosen: Engine) -> Iterator[None]:
    """Let ``chosen`` run the parts of whatever the block computes.

    >>> with using(LocalEngine()):
    ...     engine() is LOCAL
    False
    """
    token = _CURRENT.set(chosen)
    try:
        yield
    finally:
        _CURRENT.reset(token)


def training_threads() -> int:
    """Return how many threads Torch has in this process; as many decide the bits of what is trained elsewhere.

    >>> training_threads() >= 1
    True
    """
    import torch

    return torch.get_num_threads()


def cut(total: int, most: int) -> list[tuple[int, int]]:
    """Cut 0 to ``total`` into ranges of at most ``most``, as (first, one past the last); into more of them on many workers.

    >>> cut(5, 2)
    [(0, 2), (2, 4), (4, 5)]
    """
    step = max(1, min(most, -(-total // engine().parts)))
    return [(first, min(first + step, total)) for first in range(0, total, step)]
