"""How many threads compute: the bits of float32 sums depend on it, so one fit must not change it for the next."""

from __future__ import annotations

import os
import sys


def set_threads(threads: int | None) -> int:
    """Use this many threads (None: as many as now) from here on, and return the number.

    Without Torch none is loaded here: what is loaded later reads the number from its environment variable. Call it again where
    a method has loaded Torch since.
    """
    torch = sys.modules.get("torch")
    threads = threads or (default_threads() if torch is None else torch.get_num_threads())
    if torch is None:
        os.environ["OMP_NUM_THREADS"] = str(threads)
        if "numba" not in sys.modules:  # it refuses another number once it is loaded
            os.environ["NUMBA_NUM_THREADS"] = str(threads)
        return threads
    numba_threads()
    import numba
    from numba.np.ufunc.parallel import get_thread_count

    numba.set_num_threads(min(threads, get_thread_count()))
    torch.set_num_threads(threads)
    return threads


def numba_threads() -> int:
    """Start Numba's threads, leave the number of Torch's as it is, and return how many Numba computes with.

    Every use of Numba's threads goes through here, because Numba changes the number of Torch's threads when it starts.
    """
    import numba

    torch = sys.modules.get("torch")
    before = None if torch is None else torch.get_num_threads()
    of_numba = int(numba.get_num_threads())
    if torch is not None and torch.get_num_threads() != before:
        torch.set_num_threads(before)
    return of_numba


def default_threads() -> int:
    """As many as the environment says, or as there are cores for this process."""
    told = os.environ.get("OMP_NUM_THREADS", "")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return int(told) if told.isdecimal() and int(told) else cores
