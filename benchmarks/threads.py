"""How long a fit takes by the number of its threads, on an idle and on a busy machine, in one run.

    python benchmarks/threads.py [--methods progap auto] [--nodes 1000] [--rounds 3]

Every fit is a process of its own, which imports Torch before Sfumato or after it: OpenMP reads how its threads wait when Torch
is imported, so that Sfumato can make them sleep only in the second case. On the busy machine, one process for every core
computes all the time. Rounds alternate between all cases, and the table shows medians. Where other work goes on beside it,
compare the figures of one run with each other alone.
"""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import product

import numpy as np
import study

ORDERS = {"Sfumato first": "import sfumato as sf, torch", "Torch first": "import torch, sfumato as sf"}
THREADS = ("None", "1", "2")
FIT = """
import sys, time, warnings
{order}
from sfumato.catalog import method_for
graph, unit = sf.graph.campus({nodes}), sf.EdgeLevel(directed=False)
plan = method_for("{method}", {{}}).calibrate(sf.Budget(4.0, 1e-6), unit, graph.public_facts(unit))
start = time.perf_counter()
plan.fit(graph, threads={threads})
print(time.perf_counter() - start)
"""
SPIN = "while True: pass"


def main() -> None:
    """Measure all cases in turn, and print the medians."""
    given = study.options(__doc__, methods=("progap", "auto"), nodes=1000, rounds=3)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    cases, found = list(product(given.methods, ORDERS, THREADS)), {}
    for _, state in product(range(given.rounds), ("idle", "busy")):
        others = [subprocess.Popen([sys.executable, "-c", SPIN]) for _ in range(cores if state == "busy" else 0)]
        try:
            for case in cases:
                found.setdefault((*case, state), []).append(seconds(*case, given.nodes))
        finally:
            for one in others:
                one.kill()
                one.wait()
    rows = []
    for case in cases:
        idle, busy = (float(np.median(found[*case, state])) for state in ("idle", "busy"))
        rows.append((*case, f"{idle:.2f}", f"{busy:.2f}", f"{busy / idle:.1f}"))
    study.table(("method", "imported", "threads=", "idle, s", "busy, s", "busy / idle"), rows)


def seconds(method: str, order: str, threads: str, nodes: int) -> float:
    """The seconds of one fit in a process of its own, with no number of threads in its environment."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("OMP_", "NUMBA_NUM"))}
    code = FIT.format(method=method, order=ORDERS[order], threads=threads, nodes=nodes)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
    return float(done.stdout)


if __name__ == "__main__":
    main()
