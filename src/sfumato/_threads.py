"""How many threads compute: the bits of float32 sums depend on it, so one fit must not change it for the next."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_SPINNING: list[str] = []  # libraries that were imported before their waiting threads could be told to sleep
_ASKED: list[int] = []  # the numbers of the blocks of computing() that are open, the innermost last
_SAID: list[int] = []  # the numbers that set_threads() was given
_FEW = 1 << 19
"""Fits that read fewer numbers, nodes times columns of features, compute in one thread by default: their steps are so short that
threads wait for each other most of the time on a busy machine, and gain little on an idle one."""


def let_waiting_threads_sleep() -> None:
    """Let threads that wait for each other sleep instead of spin, unless the user has said what they do.

    On a busy core a thread that spins holds up the one it waits for. OpenMP reads this when it is loaded. Where Torch was
    imported before, that is too late, and :func:`computing` takes one thread.
    """
    if "OMP_WAIT_POLICY" not in os.environ:
        _SPINNING.extend({"torch"} & sys.modules.keys())
        os.environ["OMP_WAIT_POLICY"] = "PASSIVE"


@contextmanager
def computing(threads: int | None) -> Iterator[None]:
    """Compute with so many threads of Torch and Numba in this block, and with as many as before after it.

    None leaves their numbers as they are, except where Torch's waiting threads spin and nobody has said how many there are: one
    is then far quicker on a busy machine.
    """
    if threads is not None:
        with _all_at(threads):
            yield
    else:
        with _torch_at(1 if _spins() else None):
            yield


def _spins() -> bool:
    """Whether Torch's threads spin, and nobody has said how many there are."""
    return bool(_SPINNING) and not are_said()


def are_said() -> bool:
    """Whether somebody has said how many threads there are: Torch takes one a processor by itself, or one for two on one core."""
    if _SAID or os.environ.get("OMP_NUM_THREADS"):
        return True
    found, torch = default_threads(), sys.modules.get("torch")
    return torch is not None and torch.get_num_threads() not in (found, found // 2)


def one_if_few(nodes: int, columns: int) -> int | None:
    """Return 1 for a fit on so few numbers that one thread is best, None for others. Both sizes are public.

    >>> one_if_few(4000, 71), one_if_few(100_000, 71)
    (1, None)
    """
    return 1 if nodes * max(columns, 1) < _FEW else None


@contextmanager
def _all_at(threads: int) -> Iterator[None]:
    """What is not loaded yet, reads the number when it is: Torch from its environment, Numba in :func:`numba_threads`."""
    told, of_numba = os.environ.get("OMP_NUM_THREADS"), None
    if "numba" in sys.modules:
        with suppress(ImportError):  # the environment is too late once Numba has started the OpenMP that both share
            import torch  # noqa: F401
        of_numba = numba_threads()
    loaded = "torch" in sys.modules
    os.environ["OMP_NUM_THREADS"] = str(threads)
    _ASKED.append(threads)
    try:
        with _torch_at(threads):
            if of_numba is not None:
                numba_threads()
            yield
    finally:
        _ASKED.pop()
        os.environ.pop("OMP_NUM_THREADS", None)
        os.environ.update({} if told is None else {"OMP_NUM_THREADS": told})
        if "numba" in sys.modules:
            _set_numba(of_numba)
        if not loaded and "torch" in sys.modules:
            sys.modules["torch"].set_num_threads(default_threads())


@contextmanager
def _torch_at(threads: int | None) -> Iterator[None]:
    torch = sys.modules.get("torch")
    if torch is None or threads is None:
        yield
        return
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def set_threads(threads: int | None) -> int:
    """Use this many threads (None: as many as now) from here on, and return the number.

    Without Torch none is loaded here: what is loaded later reads the number from its environment variable. Call it again where
    a method has loaded Torch since.
    """
    torch = sys.modules.get("torch")
    _SAID.extend([threads] if threads else [])
    threads = threads or (default_threads() if torch is None else torch.get_num_threads())
    if torch is None:
        os.environ["OMP_NUM_THREADS"] = str(threads)
        if "numba" not in sys.modules:  # it refuses another number once it is loaded
            os.environ["NUMBA_NUM_THREADS"] = str(threads)
        return threads
    numba_threads()
    _set_numba(threads)
    torch.set_num_threads(threads)
    return threads


def numba_threads() -> int:
    """Start Numba's threads, leave the number of Torch's as it is, and return how many Numba computes with.

    Every use of Numba's threads goes through here, because Numba changes the number of Torch's threads when it starts.
    """
    import numba

    torch = sys.modules.get("torch")
    before = None if torch is None else torch.get_num_threads()
    if _ASKED:
        _set_numba(_ASKED[-1])
    of_numba = int(numba.get_num_threads())
    if torch is not None and torch.get_num_threads() != before:
        torch.set_num_threads(before)
    return of_numba


def _set_numba(threads: int | None) -> None:
    """Compute with so many of Numba's threads; None takes all that it started."""
    import numba
    from numba.np.ufunc.parallel import get_thread_count

    numba.set_num_threads(min(threads or get_thread_count(), get_thread_count()))


def default_threads() -> int:
    """As many as the environment says, or as there are cores for this process."""
    told = os.environ.get("OMP_NUM_THREADS", "")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return int(told) if told.isdecimal() and int(told) else cores
