"""How the cost of a fit grows: exponents of CPU time and memory in nodes, arcs, features, classes, hops and steps.

    OMP_NUM_THREADS=1 python tools/growth.py [--words gap lpgnn] [--log FILE] [--only-print]

One size varies over five values; nodes bring ten arcs each. A fit with its predictions is a process, forked after one fit: CPU
seconds, and the peak of resident memory above that at its start. The exponent p is that of the curve a + b size^p, with a and b
of at least 0, that is nearest to the five costs in proportion to them; a cost that grows by less than 0.05 s or 4 MiB is flat.
Methods for images and pairs of nodes are left out. Of a collection benchmarks/collect_close.py tells the cost of any size.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import threading
import time
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.optimize import nnls

import sfumato as sf
from sfumato.catalog import CARDS, METHODS, WORDS, method_for
from sfumato.graph import Graph

SIZES = {"nodes": 1000, "arcs": 10_000, "features": 16, "classes": 2, "hops": 1, "steps": 10}
"""The smallest of five values, each twice the one before."""
USUAL = {"nodes": 1000, "arcs": 10_000, "features": 16, "classes": 4}
SETTINGS = {"hops": ("num_hops", "depth", "steps_x", "power_steps"), "steps": ("epochs", "steps")}
UNITS = {
    "edge": sf.EdgeLevel(directed=False),
    "node": sf.NodeLevel(max_out_degree=20),
    "incident": sf.NodeLevel(arcs="incident"),
}
LEFT_OUT = {"auto", "cnn", "class-dp", "subclass-dp", "scattering", "link-messages", "pgc-links", "promised-messages"}
LEAST, EXPONENTS = (0.05, 4.0), np.arange(0.1, 3.05, 0.1)


def main() -> None:
    """Measure what is missing, and print the exponents."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--words", nargs="*", default=[word for word in WORDS if word not in LEFT_OUT])
    parser.add_argument(
        "--log", type=Path, default=Path("runs/growth.jsonl"), help="what is finished, and not repeated"
    )
    parser.add_argument("--only-print", action="store_true", help="measure nothing")
    given = parser.parse_args()
    given.log.parent.mkdir(parents=True, exist_ok=True)
    lines = given.log.read_text("utf-8").splitlines() if given.log.exists() else []
    done = {tuple(cell): costs for *cell, costs in map(json.loads, lines)}
    for word, (factor, least), double in product(given.words, SIZES.items(), range(5)):
        cell = word, unit_of(word), factor, least * 2**double
        if cell not in done and not given.only_print and (factor not in SETTINGS or setting(word, factor)):
            done[cell] = forked(*cell)
            with given.log.open("a", encoding="utf-8") as file:
                file.write(json.dumps([*cell, done[cell]]) + "\n")
            print(*cell, done[cell], file=sys.stderr)
    print(f"| method | unit | {' | '.join(SIZES)} |\n{'|---' * (2 + len(SIZES))}|")
    for word in given.words:
        costs = (
            [done.get((word, unit_of(word), name, least * 2**i)) for i in range(5)] for name, least in SIZES.items()
        )
        print(f"| {word} | {unit_of(word)} | {' | '.join(map(told, costs))} |")


def unit_of(word: str) -> str:
    """Edge level where a method has it, else node level, else its own or none."""
    named = CARDS[WORDS[word]].units
    return "edge" if "edge" in named else "incident" if word == "graph-split" else "node" if "node" in named else "own"


def setting(word: str, factor: str) -> str | None:
    """The setting of a method that is its number of hops or steps."""
    return next((one for one in SETTINGS[factor] if one in METHODS[WORDS[word]].__dataclass_fields__), None)


def forked(word: str, unit: str, factor: str, size: int) -> list[float] | None:
    """CPU seconds and MiB of one run in a process of its own; None where the method refuses it."""
    if factor == "nodes" and size == SIZES["nodes"]:
        fit(word, unit, "nodes", 300)()  # what it imports is no memory of a fit
    reading, writing = os.pipe()
    if os.fork() == 0:
        try:
            os.write(writing, json.dumps(measured(fit(word, unit, factor, size))).encode())
        except sf.errors.SfumatoError as error:
            print(error, file=sys.stderr)
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as answer:
        found: list[float] | None = json.loads(answer.read() or "null")
    os.wait()
    return found


def fit(word: str, unit: str, factor: str, size: int) -> Callable[[], object]:
    """What is measured of a method: a fit on a random graph, and all predictions."""
    method = method_for(word, {"set": ()})
    sizes = {**USUAL, factor: size, **({"arcs": 10 * size} if factor == "nodes" else {})}
    if factor in SETTINGS:
        method = type(method)(**{**vars(method), str(setting(word, factor)): sizes.pop(factor)})
    draw, asked = np.random.default_rng(0), method.unit or UNITS.get(unit, sf.NoPrivacy())
    ends = draw.integers(0, sizes["nodes"], (2, sizes["arcs"] // 2))
    arcs = sp.coo_matrix((np.ones(len(ends[0])), ends), [sizes["nodes"]] * 2)
    arcs = sp.csr_matrix(arcs + arcs.T)
    x = draw.random((sizes["nodes"], sizes["features"]), np.float32)
    y = draw.integers(0, sizes["classes"], sizes["nodes"])
    graph = Graph(arcs.indptr.astype(np.int64), arcs.indices, directed=False, x=x, y=y).with_split()
    budget = None if method.unit or not asked.private else sf.Budget(8.0, 1e-5)
    plan = method.calibrate(budget, asked, graph.public_facts(asked, assume_public=True))
    return lambda: plan.fit(graph, threads=1).predict_proba(graph)


def measured(run: Callable[[], object]) -> tuple[float, float]:
    """CPU seconds, and the peak of resident memory above that at the start in MiB."""
    peak, start, begun = [0], resident(), time.process_time()

    def watch() -> None:
        while True:
            peak[0] = max(peak[0], resident())
            time.sleep(0.002)

    threading.Thread(target=watch, daemon=True).start()
    run()
    return time.process_time() - begun, max(peak[0] - start, 0) / 2**20


def resident() -> int:
    """Bytes of resident memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def told(values: list[Any]) -> str:
    """The exponents of time and of memory.

    >>> told([[1 + 0.01 * size, 50 + 0.3 * size**2] for size in (10, 20, 40, 80, 160)])
    '1.0; 2.0'
    """
    if None in values:
        return "-"
    found = []
    for costs, least in zip(np.array(values).T, LEAST, strict=True):
        fits = [(nnls(np.stack([1 / costs, 2 ** (p * np.arange(5)) / costs], 1), np.ones(5))[1], p) for p in EXPONENTS]
        found.append(f"{min(fits)[1]:.1f}" if costs[-1] - costs[0] > least else "flat")
    return "; ".join(found)


if __name__ == "__main__":
    main()
