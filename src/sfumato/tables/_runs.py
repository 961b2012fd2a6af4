"""Rows of an edge list become sorted arcs in bounded memory: they are sorted in runs, and the runs are merged.

The result is that of :meth:`sfumato.graph.Graph.from_edges`, bit for bit, whatever the number of runs. A key is twice the number
of an arc, ``source * num_nodes + target``, plus 1 for the reverse of an undirected row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from sfumato.graph._arcs import distinct, self_loop

_MANY = 1 << 20
Run = np.ndarray | Path
"""Sorted distinct keys, in memory or in a file of int64."""


def arc_keys(
    source: np.ndarray, target: np.ndarray, num_nodes: int, *, directed: bool, self_loops: str, first: int
) -> np.ndarray:
    """Return the keys of rows, int64 [num_rows or 2 * num_rows], without those of self-loops that are removed."""
    if self_loops != "keep":
        loops = source == target
        if self_loops == "error" and loops.any():
            raise self_loop(int(np.argmax(loops)) + first)
        if loops.any():
            source, target = source[~loops], target[~loops]
    keys = np.empty(len(source) * (1 if directed else 2), dtype=np.int64)
    for start, step, ends in ((0, 0, (source, target)), (len(source), 1, (target, source))):
        part = keys[start : start + len(source)]
        if len(part):
            np.multiply(ends[0], 2 * num_nodes, out=part, dtype=np.int64)
            part += ends[1]
            part += ends[1]
            part += step
    return keys


def sort_keys(keys: np.ndarray, num_nodes: int) -> np.ndarray:
    """Sort keys in place, and return the distinct ones."""
    if len(keys) < _MANY:
        keys.sort()
    else:
        from sfumato.tables._radix import radix_sort

        keys = radix_sort(keys, np.empty_like(keys), (2 * num_nodes * num_nodes - 1).bit_length())
    return distinct(keys)


def merge_runs(runs: Sequence[Run], most: int) -> Iterator[np.ndarray]:
    """Yield the distinct keys of all runs in order, in arrays of about ``most`` keys; both keys of an arc come together."""
    step = max(1, most // (2 * len(runs) or 1))
    marks = np.sort(np.concatenate([_keys(run)[step - 1 :: step] for run in runs] or [np.empty(0, np.int64)]))
    starts = [0] * len(runs)
    for mark in (*np.unique(marks[len(runs) - 1 :: len(runs) or 1] | 1).tolist(), None):
        parts = []
        for i, run in enumerate(runs):
            keys = _keys(run)
            stop = len(keys) if mark is None else int(np.searchsorted(keys, mark, side="right"))
            parts.append(np.array(keys[starts[i] : stop]))
            starts[i] = stop
        keys = np.concatenate(parts or [np.empty(0, np.int64)])
        del parts
        keys.sort(kind="stable")  # parts are sorted: this merges them
        yield distinct(keys)


class Packing:
    """Sorted keys become the targets of arcs, and what was merged is counted."""

    def __init__(self, num_nodes: int, *, directed: bool) -> None:
        self.num_nodes, self.directed = num_nodes, directed
        self.degrees = np.zeros(num_nodes, dtype=np.int64)
        self._rows = self._loops = 0

    def targets(self, keys: np.ndarray) -> np.ndarray:
        """Return the targets of the next arcs, int32; every key is above those that came before."""
        self._rows += int(np.count_nonzero(keys & 1 == 0))
        arcs = distinct(keys >> 1)
        rows = arcs // self.num_nodes
        arcs -= rows * self.num_nodes
        self._loops += int(np.count_nonzero(rows == arcs))
        if len(rows):
            low = int(rows[0])
            found = np.bincount(rows - low)
            self.degrees[low : low + len(found)] += found
        return arcs.astype(np.int32)

    def indptr(self) -> np.ndarray:
        return np.concatenate([[0], np.cumsum(self.degrees)])

    def merged(self, rows: int, self_loops: int) -> dict[str, int]:
        """Count what was merged of so many rows, of which so many were self-loops that were removed."""
        arcs = int(self.degrees.sum())
        edges = self._rows if self.directed else (arcs + self._loops) // 2
        return {
            "duplicates": rows - self_loops - self._rows,
            "reversed": self._rows - edges,
            "self_loops": self_loops,
        }


def _keys(run: Run) -> np.ndarray:
    if isinstance(run, Path):
        return np.memmap(run, dtype=np.int64, mode="r") if run.stat().st_size else np.empty(0, np.int64)
    return run
