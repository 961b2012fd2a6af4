"""Nodes that arrive after a run: what their release must say, and what it must share with the run that it extends.

At unit edge an arrival claims no more than the run did, because each edge is read by the run or by one of its arrivals: which
one follows from the nodes that arrived with each. So a node may arrive once.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ._collection import COVERS
from ._documents import differences, parse, plain
from ._population import COVERS as POPULATION
from ._population import HISTORY_COVERS
from ._units import public_parts

if TYPE_CHECKING:
    from ._rules import Certificate, Rules

ALONE = "This run alone: other releases about the same data add up."
TOGETHER = (
    "Edges with an end among the nodes that arrived with this release, which no other release of the run it extends reads: an "
    "edge pays in one of them, once. Other releases about the same data add up."
)
_ASSUMED = (
    "That every node arrived once, and that which nodes arrived was decided without looking at edges, is taken for granted of "
    "the run that this release extends."
)
_FOLDER = "arrivals"
_SAME = ("method", "settings", "unit", "who_may_see")
Contents = dict[str, bytes]


def caveats(certificate: Certificate) -> list[str]:
    return [_ASSUMED] if "arrival" in certificate else []


def arrival_faults(certificate: Certificate, rules: Rules) -> Iterator[str]:
    """Yield a problem if a claim is said to be covered by another run's, and cannot be."""
    where, arrival = "certificate.json: ", certificate.get("arrival")
    alone = POPULATION if "population" in certificate else ALONE
    alone = HISTORY_COVERS if "history" in certificate else alone
    covers = COVERS if "collection" in certificate else alone if arrival is None else TOGETHER
    found = differences(certificate["composition"]["covers"], covers, "composition.covers")
    yield from (f"{where}{text} (compared with arrival)" for text in found)
    if arrival is None:
        return
    if not rules.arrives or "labels" not in public_parts(certificate) or certificate["unit"]["name"] == "none":
        yield f"{where}arrival: {plain(certificate['method'])} has no release for later nodes that an earlier claim covers"
    nodes, facts = arrival["nodes"], certificate["public_facts"]
    if len(set(nodes)) < len(nodes):
        yield f"{where}arrival.nodes: a node arrives twice"
    if len(nodes) != facts["num_nodes"]:
        yield f"{where}arrival.nodes: holds {len(nodes)} nodes, but public_facts.num_nodes is {facts['num_nodes']}"
    if facts["num_train"]:
        yield f"{where}public_facts.num_train: expected 0 for nodes that arrive, got {facts['num_train']}"
    origins = certificate["composition"]["builds_on"]
    if not origins:
        yield f"{where}composition.builds_on: expected the run that these nodes extend, got none"
    for name, claimed in certificate["claim"].items() if origins else ():
        paid = origins[-1][name]
        if claimed is None or paid is None or claimed > paid:
            yield f"{where}claim.{name}: {claimed} is not covered by the run that these nodes extend, which paid {paid}"


def batches(run: Path) -> list[Path]:
    """Return the folders of the arrivals that are finished, in the folder of a run that was trained."""
    if not (run / "release").is_dir():
        return []
    return sorted(manifest.parents[1] for manifest in (run / _FOLDER).glob("*/release/manifest.json"))


def unchecked(run: Path, found: list[Path]) -> Iterator[str]:
    """Yield a sentence for all that stands beside a release, or among its arrivals, and is checked by nobody."""
    if not (run / "release").is_dir():
        return
    late = run / _FOLDER
    for path in sorted(late.iterdir() if late.is_dir() else ()):
        if path not in found:
            yield f"{_FOLDER}/{plain(path.name)} was not checked: it has no release/manifest.json, as if stopped"
    for path in sorted(run.iterdir()):
        if path.name not in (_FOLDER, "release") and any(path.rglob("certificate.json")):
            yield f"{plain(path.name)} was not checked: it holds a release of its own, whose cost this claim does not cover"


def family_faults(run: Path, found: list[Path]) -> Iterator[str]:
    """Yield a problem for arrivals that do not extend the run in whose folder they stand, or share nodes or edges."""
    trained = _documents(run / "release")
    numbers = [int(folder.name) for folder in found if folder.name.isdecimal()]
    for number in range(1, max(numbers, default=0)):
        if not (run / "arrivals" / str(number)).is_dir():
            yield f"arrivals/{number}: is missing, and later ones read its rows: its nodes could arrive again and pay twice"
    seen: dict[str, str] = {}
    for folder in found:
        name, late = f"arrivals/{plain(folder.name)}", _documents(folder / "release")
        if trained is None or late is None:
            continue  # a problem of its own already
        yield from (f"{name}: certificate.json: {text}" for text in _pair_faults(trained, late))
        for node in late["certificate"].get("arrival", {}).get("nodes", ()):
            if node in seen:
                yield f"{name}: certificate.json: arrival.nodes: {node} arrived before, in {seen[node]}: it would pay twice"
            seen.setdefault(node, name)


def _pair_faults(trained: dict[str, Any], late: dict[str, Any]) -> Iterator[str]:
    run, arrived = trained["certificate"], late["certificate"]
    head = {"ledger_head": run["ledger_head"], **run["claim"]}
    expected: dict[str, Any] = {
        **{field: run[field] for field in _SAME},
        "composition.builds_on": [*run["composition"]["builds_on"], head],
        "graph": {key: trained["spec"]["graph"][key] for key in ("classes", "feature_names", "name")},
        "weights": trained["manifest"]["files"].get("model.safetensors") if run["releases"] else None,
    }
    stated = {
        **{field: arrived[field] for field in _SAME},
        "composition.builds_on": arrived["composition"]["builds_on"],
        "graph": {key: late["spec"]["graph"][key] for key in ("classes", "feature_names", "name")},
        "weights": late["manifest"]["files"].get("model.safetensors") if run["releases"] else None,
    }
    if "max_weight" in {**run["public_facts"], **arrived["public_facts"]}:
        yield "public_facts.max_weight: expected none, since nodes cannot arrive where weights of edges count"
    covered = run["unit"]["name"] != "none" and "labels" in public_parts(run)
    if covered != ("arrival" in arrived):
        yield f"arrival: is {'missing' if covered else 'not expected'}, under the unit of the run"
    elif covered:
        if [one["name"] for one in run["releases"]] == [one["name"] for one in arrived["releases"]]:
            expected["events"] = [one["event"] for one in run["releases"]]
            stated["events"] = [one["event"] for one in arrived["releases"]]
        expected["arrival"] = {
            "extends": trained["manifest"]["files"].get("releases.safetensors"),
            "plan": trained["plan"],
            "nodes": arrived["arrival"]["nodes"],
        }
        stated["arrival"] = arrived["arrival"]
    for field, value in expected.items():
        yield from (f"{text} (compared with the run)" for text in differences(stated[field], value, field))


def _documents(release: Path) -> dict[str, Any] | None:
    """The documents of a release and the hash of its plan; None if one cannot be read."""
    contents: Contents = {}
    for name in ("certificate", "spec", "manifest", "ledger"):
        path = release / f"{name}.json{'l' * (name == 'ledger')}"
        contents[path.name] = path.read_bytes() if path.is_file() else b""
    problems: list[str] = []
    first = {"ledger.jsonl": contents["ledger.jsonl"].partition(b"\n")[0] + b"\n"}
    entry = parse("ledger.jsonl", first, "ledger_entry", problems)
    found = {name: parse(f"{name}.json", contents, name, problems) for name in ("certificate", "spec", "manifest")}
    return None if problems or "graph" not in found["spec"] else {**found, "plan": entry["hash"]}
