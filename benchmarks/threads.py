"""How long a fit takes by the number of its threads, on an idle and on a busy machine, in one run.

    python benchmarks/threads.py [--methods progap auto] [--nodes 1000] [--rounds 3] [--out docs/results]

Every fit is a process of its own, which imports Torch before Sfumato or after it: OpenMP reads how its threads wait when Torch
is imported, so that Sfumato can make them sleep only in the second case. On the busy machine, one process for every core
computes all the time. Rounds alternate between all cases, and the page shows medians. Where other work goes on beside it,
compare the figures of one run with each other alone. Writes threads.md.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
from itertools import product
from pathlib import Path

RESULTS = Path(__file__).parent.parent / "docs" / "results"
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
NOTES = (
    "On the busy machine a process computes on every core all the time. A fit then gets about half the time of its cores, so "
    "twice the seconds are what sharing costs by itself.",
    "Threads that wait for each other spin, unless OpenMP was told otherwise before Torch was imported. Sfumato tells it to let "
    "them sleep, unless OMP_WAIT_POLICY is set. Where Torch was imported first, that is too late: two threads wait for each "
    "other most of the time, and threads=None takes one thread of Torch.",
    "Other work went on beside the measurement, so idle is not quite idle. All rounds alternate between all cases.",
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--methods", nargs="+", default=["progap", "auto"])
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    cases = list(product(options.methods, ORDERS, THREADS))
    found: dict[tuple[str, ...], list[float]] = {}
    for _ in range(options.rounds):
        for state in ("idle", "busy"):
            others = [subprocess.Popen([sys.executable, "-c", SPIN]) for _ in range(cores() if state == "busy" else 0)]
            try:
                for case in cases:
                    found.setdefault((*case, state), []).append(seconds(*case, options.nodes))
                    print(*case, state, f"{found[(*case, state)][-1]:.2f} s", flush=True)
            finally:
                for one in others:
                    one.kill()
                    one.wait()
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "threads.md").write_text(page(found, options))


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def seconds(method: str, order: str, threads: str, nodes: int) -> float:
    """The seconds of one fit in a process of its own, with no number of threads in its environment."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("OMP_", "NUMBA_NUM"))}
    code = FIT.format(method=method, order=ORDERS[order], threads=threads, nodes=nodes)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
    return float(done.stdout)


def page(found: dict[tuple[str, ...], list[float]], options: argparse.Namespace) -> str:
    """The page of the medians."""
    from bench import machine

    from sfumato.experiments._pages import stamped
    from sfumato.report._markdown import to_markdown
    from sfumato.report._page import Code, Facts, Items, Page, Section, Table

    rows = []
    for method, order, threads in product(options.methods, ORDERS, THREADS):
        idle, busy = (statistics.median(found[method, order, threads, state]) for state in ("idle", "busy"))
        rows.append((method, order, threads, f"{idle:.2f}", f"{busy:.2f}", f"{busy / idle:.1f}"))
    columns = ("method", "imported", "threads=", "idle, s", "busy, s", "busy / idle")
    table = Table("threads", f"Seconds of one fit, medians of {options.rounds}", columns, tuple(rows), text=columns[:3])
    found_page = Page(
        "Threads on an idle and on a busy machine",
        f"A fit at epsilon 4 of one undirected edge, on a generated graph of {options.nodes:,} nodes.",
        (
            Section("seconds", "Seconds", (table,)),
            Section("notes", "How to read it", (Items(NOTES),)),
            Section("machine", "Machine", (Facts(tuple(machine().items())),)),
            Section("again", "Run it again", (Code("python benchmarks/threads.py"),)),
        ),
    )
    return stamped(to_markdown(found_page), [])


if __name__ == "__main__":
    main()
