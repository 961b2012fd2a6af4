"""Train GAP on a stored graph with the local engine and with Ray, with one fixed key: every released byte, and both times.

    python benchmarks/ray_train.py STORE [--workers 2] [--method gap]

STORE is what `sfumato data import` wrote, for example of `benchmarks/rmat.py --like-46m`. A key that anyone knows has no
guarantee: the released files are compared and removed.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import sfumato as sf
from sfumato.bounded._engine import LOCAL, using
from sfumato.catalog import method_named
from sfumato.distributed._ray import RayEngine
from sfumato.graph._graph import Graph
from sfumato.method import _opening as opening

KEY = bytes(range(32))


def main() -> None:
    """Print whether the releases are the same, and the seconds of both engines."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("store", type=Path)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--method", default="gap")
    asked = parser.parse_args()
    opening.new_key = lambda: KEY
    graph, unit = Graph.load(asked.store).with_split(seed=0), sf.EdgeLevel(directed=False)
    plan = method_named(asked.method).calibrate(sf.Budget(1.0, 1e-8), unit, graph.public_facts(unit))
    with tempfile.TemporaryDirectory() as folder, RayEngine(workers=asked.workers) as there:
        kept = []
        for name, engine in (("local", LOCAL), (f"Ray, {asked.workers} workers", there)):
            start, out = time.perf_counter(), Path(folder, str(len(kept)))
            with using(engine):
                plan.fit(graph, ledger=out / "release" / "ledger.jsonl").save(out)
            print(f"{name}: {time.perf_counter() - start:.1f} s", flush=True)
            kept.append({path.name: path.read_bytes() for path in (out / "release").iterdir()})
    assert kept[0] == kept[1]
    size = sum(map(len, kept[0].values())) / 2**20
    print(
        f"{graph.num_nodes:,} nodes, {len(graph.indices):,} arcs: the same bytes in {len(kept[0])} files, {size:.1f} MiB"
    )


if __name__ == "__main__":
    main()
