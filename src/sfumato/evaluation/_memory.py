"""How much memory this process used."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path


def reset_peak() -> None:
    """Start to measure the peak of memory anew, if the system can."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def peak_mb() -> float:
    """Return the largest resident memory of this process since the reset, or since its start, in MiB.

    >>> 1 < peak_mb() < 2**20
    True
    """
    with suppress(OSError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 2**10
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)
