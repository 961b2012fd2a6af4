"""The hop in C against the roofline: the same rows read at random and not added, on two threads.

python benchmarks/roofline.py [--nodes 1000000] [--arcs 20000000] [--rounds 7]

A row of 16 steps is 32 bytes and lies in one cache line. The roofline reads one word of it an arc, prefetched as many arcs
ahead as is fastest here, and does nothing else. Medians of alternating rounds in one run.
"""

from __future__ import annotations

import argparse
import ctypes
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import numba
import numpy as np
from hop import arcs, seconds

from sfumato.bounded import _native
from sfumato.bounded.aggregation import normalize_rows, to_steps

WIDTH, THREADS, AHEAD = 16, 2, (8, 16, 32, 64, 128)
READ = """
#include <stdint.h>
uint64_t read_rows(const char *rows, const int32_t *sources, int64_t count, int64_t ahead) {
  uint64_t seen = 0;
  for (int64_t arc = 0; arc < count; arc++) {
    int64_t later = arc + ahead < count ? arc + ahead : count - 1;
    __builtin_prefetch(rows + 32 * (int64_t)sources[later]);
    seen ^= *(const uint64_t *)(rows + 32 * (int64_t)sources[arc]);
  }
  return seen;
}
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=1_000_000)
    parser.add_argument("--arcs", type=int, default=20_000_000)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    numba.set_num_threads(THREADS)
    compiled = _native.load()
    if compiled is None:
        raise SystemExit("The hop in C is not built: run python hatch_build.py.")
    random = np.random.default_rng(0)
    with reader() as read, ThreadPoolExecutor(THREADS) as pool:
        for law in ("uniform", "skewed"):
            compare(random, options, law, compiled, read, pool)


def compare(
    random: np.random.Generator,
    options: argparse.Namespace,
    law: str,
    compiled: _native.Compiled,
    read: Callable[..., int],
    pool: ThreadPoolExecutor,
) -> None:
    offsets, sources = arcs(random, options.nodes, options.arcs, law)
    packed = compiled.pack(to_steps(normalize_rows(random.normal(size=(options.nodes, WIDTH)))))
    out = np.empty((options.nodes, WIDTH), np.int64)
    parts = np.array_split(sources, THREADS)

    def read_all(ahead: int) -> None:
        list(pool.map(lambda part: read(packed.ctypes.data, part.ctypes.data, len(part), ahead), parts))

    runs: list[Callable[[], object]] = [lambda: compiled.sum_rows(offsets, sources, packed, 0, out)]
    runs += [lambda ahead=ahead: read_all(ahead) for ahead in AHEAD]
    times = np.array([[seconds(run) for run in runs] for _ in range(options.rounds + 1)])[1:]
    best = 1 + int(np.argmin(np.median(times[:, 1:], axis=0)))
    hop, roof = np.median(times[:, [0, best]], axis=0)
    print(
        f"{law}, rows of {packed.nbytes / 1e6:.0f} MB: random reads {roof:.3f} s ({options.arcs / roof / 1e6:.0f} million "
        f"rows a second, {AHEAD[best - 1]} ahead); hop {hop:.3f} s ({options.arcs / hop / 1e6:.0f} million arcs a second), "
        f"{np.median(times[:, best] / times[:, 0]):.0%} of the roofline",
        flush=True,
    )


@contextmanager
def reader() -> Iterator[Callable[..., int]]:
    """Compile the roofline's loop."""
    with tempfile.TemporaryDirectory() as folder:
        source, library = Path(folder) / "read.c", Path(folder) / "read.so"
        source.write_text(READ)
        subprocess.run(["cc", "-O3", "-shared", "-fPIC", str(source), "-o", str(library)], check=True)
        read = ctypes.CDLL(str(library)).read_rows
        read.argtypes, read.restype = (
            [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64],
            ctypes.c_uint64,
        )
        yield read


if __name__ == "__main__":
    main()
