"""Digests of what fits release under one fixed key, to compare two versions of the code bit by bit.

``python tools/same_bits.py > before.json`` on one version, ``> after.json`` on the other, then ``diff before.json after.json``.
Weights depend on the machine's arithmetic: compare on one machine, with one number of threads.
"""

# ruff: noqa: E402 - the randomness is fixed before anything is imported

from __future__ import annotations

import hashlib
import json
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.urandom = lambda count: bytes(i % 251 for i in range(count))

import numpy as np

import sfumato as sf
from sfumato.local import LPGNN, Blink, Hybrid, LabelOnly

EDGE, NODE, NONE = sf.EdgeLevel(directed=False), sf.NodeLevel(max_out_degree=20), sf.NoPrivacy()
BUDGET = sf.Budget(2.0, 1e-5)
CENTRAL = {
    "gap": sf.GAP(epochs=3),
    "gap-no-encoder": sf.GAP(epochs=3, encoder=False),
    "progap": sf.ProGAP(epochs=3),
    "label-messages": sf.LabelMessages(),
    "mlp": sf.MLP(epochs=3),
}
LOCAL = {
    "lpgnn": LPGNN(epochs=12),
    "hybrid": Hybrid(epsilon_x=1.0),
    "label-only": LabelOnly(),
    "blink": Blink(epsilon=6.0, epochs=5),
}


def digest(array: Any) -> str:
    """SHA-256 of type, shape and bytes of an array."""
    array = np.ascontiguousarray(array)
    return hashlib.sha256(f"{array.dtype.str}{array.shape}".encode() + array.tobytes()).hexdigest()


def numbers(certificate: Mapping[str, Any]) -> dict[str, Any]:
    """What a certificate says in numbers: claim, releases, accounting."""
    return {key: certificate[key] for key in ("claim", "releases", "accounting")}


def fits() -> Iterator[tuple[str, Any, Any, Any, Any]]:
    """Name, method, unit, budget and graph of every fit."""
    graph = sf.graph.campus(300, seed=1).with_split(seed=0)
    small = sf.graph.campus(120, seed=2).with_split((0.5, 0.25, 0.25), seed=0)
    for name, method in CENTRAL.items():
        for unit in (EDGE, NODE, NONE):
            yield f"{name} {unit.name}", method, unit, BUDGET if unit.private else None, graph
    yield "sage none", sf.SAGE(epochs=3), NONE, None, graph
    for name, method in LOCAL.items():
        yield name, method, method.unit, None, small


def pate() -> dict[str, Any]:
    """A run of PATE on made-up images."""
    from sfumato.pate import _run as module
    from sfumato.pate._images import Images
    from sfumato.pate._plan import Settings

    draws = np.random.default_rng(0)
    y = draws.integers(0, 10, 400)
    x = (draws.random((400, 1, 28, 28)) * (1 + y[:, None, None, None]) / 11).astype(np.float32)
    test = np.concatenate([x] * 25)[:9200], np.concatenate([y] * 25)[:9200]
    images = Images("mnist", x, y, *test)
    settings = Settings(20, 60, 8.0, student_settings={"steps": 40, "width": 32}, controls=False)
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        module.run(settings, images, out)
        from safetensors.numpy import load_file

        release = out / "release"
        tensors = {**load_file(release / "model.safetensors"), **load_file(release / "releases.safetensors")}
        certificate = json.loads((release / "certificate.json").read_text())
    return {"tensors": {name: digest(tensors[name]) for name in sorted(tensors)}, "certificate": numbers(certificate)}


def main() -> None:
    """Print one JSON object: digests of weights and releases, and the certificate's numbers, by fit."""
    found: dict[str, Any] = {}
    for name, method, unit, budget, graph in fits():
        print(name, file=sys.stderr)
        fitted = method.calibrate(budget, unit, graph.public_facts(unit)).fit(graph, seed=3)
        arrays = {**fitted.weights, **fitted.released}
        tensors = {key: digest(arrays[key]) for key in sorted(arrays)}
        predicted = digest(fitted.predict(graph))
        found[name] = {"tensors": tensors, "predicted": predicted, "certificate": numbers(fitted.certificate.values)}
    found["pate"] = pate()
    json.dump(found, sys.stdout, indent=1, sort_keys=True)


if __name__ == "__main__":
    main()
