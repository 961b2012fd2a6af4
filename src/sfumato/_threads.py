"""How many threads compute: the bits of float32 sums depend on it, so one fit must not change it for the next."""

from __future__ import annotations

import os
import sys


def set_threads(threads: int | None) -> int:
    """Use this many threads (None: as many as now) from here on, and return the number.

    Numba sets the number for the whole process when it starts its threads, so it starts them here, before Torch is told.
    Without Torch none is loaded here: what is loaded later reads the number from its environment variable. Call it again where
    a method has loaded Torch since, because Numba would change the number of Torch's threads, and with it the bits of a fit.
    """
    torch = sys.modules.get("torch")
    threads = threads or (_default_threads() if torch is None else torch.get_num_threads())
    if torch is None:
        os.environ["OMP_NUM_THREADS"] = str(threads)
        if "numba" not in sys.modules:  # it refuses another number once it is loaded
            os.environ["NUMBA_NUM_THREADS"] = str(threads)
        return threads
    import numba
    from numba.np.ufunc.parallel import _launch_threads, get_thread_count

    _launch_threads()  # which changes the number of Torch's threads, so it comes first
    numba.set_num_threads(min(threads, get_thread_count()))
    torch.set_num_threads(threads)
    return threads


def _default_threads() -> int:
    """As many as the environment says, or as there are cores for this process."""
    told = os.environ.get("OMP_NUM_THREADS", "")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return int(told) if told.isdecimal() and int(told) else cores
