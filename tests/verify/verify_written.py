"""Run folders written here, byte by byte: words, shapes and hashes are spelled out, and nothing is asked of the verifier."""

import hashlib
import json
import math
import struct
from fractions import Fraction

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from sfumato.record._certificate import COVERS, FIXED

SIGNER = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
EDGE = {"name": "edge", "relation": "add-remove", "directed": False}
BYTES = {"F32": 4, "I32": 4, "I64": 8, "F64": 8, "U64": 8}
EVERYTHING = {"anyone": [], "the node itself": [], "never": ["everything in this run"]}
OWN = ["predictions that read the node's own features (joint DP)"]
WHO_MAY_SEE = {
    ("gap", "edge"): {"anyone": ["noisy aggregates", "weights", "predictions for all nodes"], "the node itself": [],
                      "never": ["sums before noise"]},
    ("gap", "node"): {"anyone": ["noisy aggregates", "weights"], "the node itself": OWN,
                      "never": ["sums before noise", "encodings of single nodes (hop 0)"]},
    ("mlp", "record"): {"anyone": ["weights"], "the node itself": OWN, "never": []},
}  # fmt: skip
HALF_AN_EDGE = (
    "The graph is undirected and the unit is one arc, half of an edge: for a whole undirected edge epsilon is larger "
    "(Gaussian noise: sensitivity sqrt 2; Laplace noise and randomized response: epsilon doubles). This is the published "
    "convention, not the honest default."
)
OF_NODES = [
    "A node's label may still be inferred from what other nodes' records say about it.",
    "Each end of an undirected edge owns its own arc: the other end's record of it is not protected.",
]
OF_SAMPLES = (
    "DP-SGD takes for granted that what one example adds comes out as the same bits wherever in a batch it stands. "
    "Sums over examples are exact."
)


def poisson(q, noise, steps, relation="add-remove"):
    return {
        "type": "poisson-gaussian", "sampling_prob": q, "noise_multiplier": noise, "steps": steps, "relation": relation,
    }  # fmt: skip


def repeated(q, terms, noise, steps, relation="add-remove"):
    return {**poisson(q, noise, steps, relation), "type": "repeated-gaussian", "occurrences": terms}


def gaussian(noise, count=1):
    return {"type": "gaussian", "noise_multiplier": noise, "count": count}


def laplace(noise, count=1):
    return {"type": "laplace", "noise_multiplier": noise, "count": count}


def response(epsilon, outcomes=2, count=1):
    return {"type": "randomized-response", "epsilon": epsilon, "num_outcomes": outcomes, "count": count}


def pure(epsilon, count=1):
    return {"type": "pure", "epsilon": epsilon, "count": count}


def exponential(epsilon, count=1):
    return {"type": "exponential", "epsilon": epsilon, "count": count}


def claiming(events, epsilon, delta=1e-6, touched=1):
    """What the verifier of claims reads of a certificate, with exact sampling where no coordinate is touched."""
    claim, draws = {"epsilon": epsilon, "delta": delta}, touched * sum(event.get("count", 0) for event in events)
    return {"unit": {"name": "node"}, "claim": claim, "budget": claim,
            "releases": [{"affected_coordinates": touched, "event": event} for event in events],
            "accounting": {"method": "pld", "delta_sampler": (1 + math.exp(epsilon)) * 2.0**-100 * draws}}  # fmt: skip


class Held:
    """A tensor as the verifier reads it."""

    dtype = "I64"

    def __init__(self, numbers, kind=np.int64):
        self.numbers = np.array(numbers, kind)

    def array(self):
        return self.numbers


GAP = [gaussian(5.0)] * 2
GAP_EPSILON = 1.2119675  # closed form: 1.2119674527380743


def canonical(value):
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def protects(unit):
    """Plain words for the units of these tests, whose graph is undirected."""
    if unit["name"] == "node":
        arcs = "every arc in or out of it" if unit["arcs"] == "incident" else "the out-arcs it owns"
        cap = unit["max_out_degree"]
        arcs = f"the (at most {cap}) out-arcs it owns" if cap and unit["arcs"] == "owned" else arcs
        return f"any one node: its features, its label and {arcs}"
    edge = "the presence of any one " + ("directed arc" if unit.get("directed") else "undirected edge")
    return {"none": "nothing: this run carries no privacy guarantee", "edge": edge, "record": "any one record"}[
        unit["name"]
    ]


def network_shapes(method, hops, norms):
    """Tensors of width 3 for 3 features and 2 classes."""
    if method == "mlp":
        layers, sizes = {"network.layers.0": [3, 3], "network.layers.1": [2, 3]}, {"network.norms.0": 3}
    else:
        layers = {"encoder.mlp.layers.0": [3, 3], "encoder.mlp.layers.1": [3, 3], "encoder.head": [2, 3]}
        layers |= {f"classifier.base.{k}": [3, 3] for k in range(hops + 1)}
        layers |= {"classifier.head": [2, 3 * (hops + 1)]}
        sizes = {"encoder.mlp.norms.0": 3, "encoder.mlp.norms.1": 3, "classifier.norm": 3 * (hops + 1)}
    shapes = {f"{name}.weight": shape for name, shape in layers.items()}
    shapes |= {f"{name}.bias": shape[:1] for name, shape in layers.items()}
    for name, size in sizes.items() if norms else ():
        shapes |= {f"{name}.{leaf}": [size] for leaf in ("weight", "bias", "running_mean", "running_var")}
        shapes[f"{name}.num_batches_tracked"] = [1]
    return shapes


def release(name, event, unit, nodes, weights):
    """An aggregate of 3 columns or a network with ``weights``, with the coordinates that one record touches."""
    shape = [affected := sum(math.prod(s) for key, s in weights.items() if key.startswith(f"{name}."))]
    if name.startswith("aggregate/"):
        rows = {"edge": 1 if unit.get("directed") else 2, "node": unit.get("max_out_degree")}[unit["name"]]
        shape, affected = [nodes, 3], 3 * min(nodes, 2 * rows if unit["relation"] == "replace" else rows)
    return {"name": name, "event": event, "shape": shape, "affected_coordinates": affected, "visible_to": "anyone"}


def describe(events, epsilon, delta=1e-6, unit=None):
    """Every part of a run, consistent; tests change a part before it is written.

    Gaussian events are hops of gap (by a model of another run where labels are private), a sampled one alone is mlp's
    network, and two around hops are gap's encoder and classifier.
    """
    hops = sum(event["type"] == "gaussian" for event in events)
    sampled = [event for event in events if "steps" in event]
    unit = unit or ({"name": "record", "relation": "add-remove"} if sampled and not hops else EDGE)
    names = [f"aggregate/{k + 1}" for k in range(hops)]
    names = ["encoder", *names, "classifier"] if sampled and hops else names or ["network"] * len(events)
    q = Fraction(sampled[0]["sampling_prob"] if sampled else 1).limit_denominator(20000)
    epochs = round(sampled[0]["steps"] * q) if sampled else 1
    nodes = q.denominator if sampled else 4
    method = "gap" if hops else "mlp"
    settings = {"width": 3, "batch_size": q.numerator, "epochs": epochs, "learning_rate": 0.01, "l2_clip_norm": 1.0}
    settings |= {"num_hops": hops, "encoder": True} if hops else {}
    public = {"num_nodes": nodes, "num_train": nodes, "num_features": 3, "num_classes": 2, "directed": False,
              "max_degree": None, "mean_degree": None}  # fmt: skip
    weights = network_shapes(method, hops, norms=unit["name"] == "edge")
    releases = [release(name, event, unit, nodes, weights) for name, event in zip(names, events, strict=True)]
    draws = sum(r["affected_coordinates"] * (r["event"].get("count") or r["event"]["steps"]) for r in releases)
    sampler = 0.0 if epsilon is None else (1 + math.exp(epsilon)) * 2.0**-100 * draws
    claim = {"epsilon": epsilon, "delta": delta}
    plan = {"method": method, "unit": unit, "releases": releases, "claim": claim, "delta_sampler": sampler}
    exact = all(event["type"] == "gaussian" for event in events)
    cached = unit["name"] == "node" and hops and not sampled
    caveats = [*OF_NODES] if unit["name"] == "node" else [HALF_AN_EDGE] * unit.get("directed", False)
    certificate = {
        **FIXED, "format": 2, "version": "0.1.0", "method": method, "unit": unit, "protects": protects(unit),
        "settings": settings, "claim": claim, "budget": {"epsilon": epsilon, "delta": delta}, "releases": releases,
        "accounting": {"method": ("gaussian" if exact else "pld") if events else "none", "delta_sampler": sampler,
                       "sampler_tau": 2.0**-100},
        "public_facts": public, "assumed_public": [], "notes": ["hello"], "ledger_head": None,
        "who_may_see": WHO_MAY_SEE.get((method, unit["name"]), EVERYTHING),
        "caveats": [*caveats, *[OF_SAMPLES] * bool(sampled)],
        "composition": {"covers": COVERS, "builds_on": [{"ledger_head": "0" * 64, **claim}] if cached else []},
    }  # fmt: skip
    lines = [{"kind": "plan", "plan": plan}, *({"kind": "release", "release": r} for r in releases)]
    tensors = {r["name"]: r["shape"] for r in releases if r["event"]["type"] == "gaussian"}
    return json.loads(canonical({"certificate": certificate, "lines": lines, "tensors": tensors, "weights": weights}))


def safetensors(shapes, numbers="F32"):
    """Zeros or, of integers that were released, numbers that may hold any noise."""
    fields, end = {}, 0
    for name, shape in sorted(shapes.items(), key=lambda item: (not item[0].endswith(".num_batches_tracked"), item[0])):
        dtype = "I64" if name.endswith(".num_batches_tracked") else numbers
        start, end = end, end + BYTES[dtype] * math.prod(shape)
        fields[name] = {"dtype": dtype, "shape": shape, "data_offsets": [start, end]}
    return header(fields, struct.pack("<q", 1 << 50) * (end // 8) if numbers == "I64" else bytes(end))


def header(fields, body=b""):
    text = json.dumps(fields, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + body


def chain(lines):
    entries, previous = [], "0" * 64
    for index, line in enumerate(lines):
        entry = {"index": index, "previous": previous, **line}
        previous = entry["hash"] = hashlib.sha256(canonical(entry).encode()).hexdigest()
        entries.append(entry)
    return entries


def seal(folder):
    """Write the manifest of whatever lies in the folder."""
    names = sorted(p.name for p in folder.iterdir() if p.name not in ("manifest.json", "signature.json"))
    files = {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in names}
    (folder / "manifest.json").write_text(canonical({"format": 1, "files": files}) + "\n")


def sign(folder, key=SIGNER):
    public, signature = key.public_key().public_bytes_raw(), key.sign((folder / "manifest.json").read_bytes())
    value = {"algorithm": "ed25519", "public_key": public.hex(), "signature": signature.hex()}
    (folder / "signature.json").write_text(canonical(value) + "\n")


def spec_of(certificate):
    """What spec.json says beside a certificate, well formed or not."""
    public = certificate.get("public_facts")
    public = public if isinstance(public, dict) else {}
    budget = certificate.get("budget")
    graph = {"name": "graph", "num_nodes": public.get("num_nodes"), "ids_digest": "0" * 64, "classes": ["a", "b"]}
    return {
        "format": 1, **{field: certificate.get(field) for field in ("method", "settings", "unit")},
        "budget": None if budget == {"epsilon": None, "delta": None} else budget,
        "public": {**public, "assumed": certificate.get("assumed_public")}, "graph": {**graph, "feature_names": []},
    }  # fmt: skip


def write(run, parts):
    folder = run / "release"
    folder.mkdir(parents=True)
    entries = chain(parts["lines"])
    certificate = parts["certificate"]
    if certificate.get("ledger_head", "") is None:
        certificate["ledger_head"] = entries[-1]["hash"]
    (folder / "ledger.jsonl").write_text("".join(canonical(entry) + "\n" for entry in entries))
    (folder / "certificate.json").write_text(canonical(certificate) + "\n")
    (folder / "spec.json").write_text(canonical(spec_of(certificate)) + "\n")
    (folder / "model.safetensors").write_bytes(safetensors(parts["weights"]))
    (folder / "releases.safetensors").write_bytes(safetensors(parts["tensors"], "I64"))
    seal(folder)
    return folder


def change(parts, path, value):
    """Set or, for ``...``, delete the field at ``path``."""
    *parents, last = path
    for key in parents:
        parts = parts[key]
    if value is ...:
        del parts[last]
    else:
        parts[last] = value
