"""How long a fit takes by its threads, on an idle and on a busy machine, in one run.

    python benchmarks/threads.py [--methods gap progap lpgnn auto] [--orders "Sfumato first" ...] [--nodes 4000] [--rounds 3]

Every fit is a process of its own, which imports Torch before Sfumato or after it: OpenMP reads how its threads wait when Torch is
imported. On the busy machine, two processes compute all the time. Rounds alternate between all cases; the table shows medians.
Goal: the default (threads=None) loses at most 20 % on the idle machine against the best number of threads, and takes at most 1.5
times as long as one thread on the busy one. Both orders take nine minutes, one takes half of that. Where other work goes on
beside it, compare the figures of one run alone.
"""

import os
import subprocess
import sys
from itertools import product

import numpy as np
import study

ORDERS = {"Sfumato first": "import sfumato as sf, torch", "Torch first": "import torch, sfumato as sf"}
THREADS, STATES, SPIN = ("None", "1", "2"), ("idle", "busy"), "while True: pass"
FIT = """
import sys, time, warnings
{order}
from sfumato.catalog import method_for
graph, method = sf.graph.campus({nodes}), method_for("{method}", {{}})
unit = getattr(method, "unit", None) or sf.EdgeLevel(directed=False)
budget = None if unit.name == "local" else sf.Budget(4.0, 1e-6)
plan = method.calibrate(budget, unit, graph.public_facts(unit))
start = time.perf_counter()
plan.fit(graph, threads={threads})
print(time.perf_counter() - start)
"""


def main() -> None:
    """Measure all cases in turn, and print the medians."""
    given = study.options(__doc__, methods=("gap", "progap", "lpgnn", "auto"), orders=ORDERS, nodes=4000, rounds=3)
    cases, found = list(product(given.methods, given.orders, THREADS)), {}
    for _, state in product(range(given.rounds), STATES):
        others = [subprocess.Popen([sys.executable, "-c", SPIN]) for _ in range(2 if state == "busy" else 0)]
        try:
            for case in cases if state == "idle" else [one for one in cases if one[2] != "2"]:
                found.setdefault((*case, state), []).append(seconds(*case, given.nodes))
        finally:
            for one in others:
                one.kill()
                one.wait()
    median = {key: float(np.median(values)) for key, values in found.items()}
    rows = []
    for way in product(given.methods, given.orders):
        idle = [median[*way, threads, "idle"] for threads in THREADS]
        busy = [median[*way, threads, "busy"] for threads in THREADS[:2]]
        rows.append((*way, *(f"{one:.2f}" for one in (*idle, idle[0] / min(idle), *busy, busy[0] / busy[1]))))
    heads = ("idle, None", "idle, 1", "idle, 2", "idle, None to best", "busy, None", "busy, 1", "busy, None to 1")
    study.table(("method", "imported", *heads), rows)


def seconds(method: str, order: str, threads: str, nodes: int) -> float:
    """The seconds of one fit in a process of its own, with no number of threads in its environment."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("OMP_", "NUMBA_NUM"))}
    code = FIT.format(method=method, order=ORDERS[order], threads=threads, nodes=nodes)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
    return float(done.stdout)


if __name__ == "__main__":
    main()
