"""A reviewer copies the folder of the verifier alone, and may add a method and a unit to the copy with a file and two lines."""

import importlib.util
import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from verify_written import GAP_EPSILON, canonical, describe, gaussian, header, seal, write

import sfumato.verify
from sfumato.privacy.events import RandomizedResponseEvent
from sfumato.record.ledger import Release
from sfumato.verify._epsilon import epsilon_bracket

HERE = Path(sfumato.verify.__file__).parent
KEPT = Path(__file__).parents[1] / "golden" / "format-2"
ALONE = """
import runpy, sys
ALLOWED = {*sys.stdlib_module_names, "numpy", "cryptography", "_cffi_backend", "verify"}
class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] not in ALLOWED:
            raise ImportError(f"{name} is not there")
for name in [name for name in sys.modules if name.split(".")[0] not in ALLOWED]:
    del sys.modules[name]
sys.meta_path.insert(0, Blocker())
for folder in sys.argv[1:]:
    sys.argv[1:] = [folder]
    try:
        runpy.run_module("verify", run_name="__main__", alter_sys=True)
    except SystemExit as end:
        print("exit", end.code)
"""


def copied(folder):
    return shutil.copytree(HERE, folder, ignore=shutil.ignore_patterns("__pycache__"))


def alone(copy, *runs):
    """What a copy of the verifier prints of some runs, in a process that sees no other package."""
    command = [sys.executable, "-c", ALONE, *runs]
    return subprocess.run(command, capture_output=True, text=True, cwd=copy.parent, env={})


def test_a_copy_alone_verifies_what_was_kept(tmp_path):
    forged = shutil.copytree(KEPT / "edge", tmp_path / "forged")
    (forged / "release" / "spec.json").write_text("{}\n")
    done = alone(copied(tmp_path / "elsewhere" / "verify"), KEPT / "edge", KEPT / "node", KEPT / "tuned", forged)
    verdicts = [line for line in done.stdout.splitlines() if line.startswith(("VALID: ", "NOT VALID: ", "exit "))]
    assert [line.partition(": ")[0] for line in verdicts] == [*["VALID", "exit 0"] * 3, "NOT VALID", "exit 1"]
    assert (done.returncode, done.stderr) == (0, "")


def test_the_blocker_sees_other_packages(tmp_path):
    copy = copied(tmp_path / "verify")
    (copy / "_epsilon.py").write_text(
        "import scipy\n" + (copy / "_epsilon.py").read_text().replace("from __future__", "# ")
    )
    assert "scipy is not there" in alone(copy, "x").stderr


TOY = """
from ._kinds import EdgeSet, SparseRows
from ._rules import Rules


class Sketch(Rules):
    settings = {"share": "share"}
    audience = {unit: {"anyone": ["sketch"], "the node itself": [], "never": ["arcs"]} for unit in ("edge", "group")}

    def releases(self, certificate):
        facts = certificate["public_facts"]
        nodes, columns = facts["num_nodes"], facts["num_features"]
        flips = EdgeSet("arcs", [None, 2], 0, (nodes, nodes), facts["directed"], event="randomized-response")
        return [flips, SparseRows("rows", [None, 3], 2, (nodes, columns))]
"""
UNIT = '"group": UnitRules({"relation": "one of replace", "size": "count"}, "curator", lambda u: f"any {u[\'size\']} nodes"),'
GROUP = {"name": "group", "relation": "replace", "size": 3}
EVENTS = [{"type": "randomized-response", "epsilon": 1.0, "num_outcomes": 2, "count": 1}, gaussian(5.0)]
ARCS, ROWS = [[0, 1], [0, 3], [2, 3]], [[0, 0, -7], [0, 2, 5], [3, 1, 2**40]]


def insert(path, before, line):
    text = path.read_text()
    assert text.count(before) == 1
    path.write_text(text.replace(before, f"{line}\n{before}"))


@pytest.fixture(scope="module")
def extended(tmp_path_factory):
    """A copy with one more method, which is a file and a line, and one more unit, which is a line."""
    copy = copied(tmp_path_factory.mktemp("copy") / "extended")
    (copy / "_toy.py").write_text(TOY)
    insert(copy / "_methods.py", '    "pate": "pate:PATE",', '    "sketch": "toy:Sketch",')
    insert(copy / "_units.py", '    "record": UnitRules(', f"    {UNIT}")
    spec = importlib.util.spec_from_file_location(
        "extended", copy / "__init__.py", submodule_search_locations=[str(copy)]
    )
    module = sys.modules["extended"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    for name in [name for name in sys.modules if name.split(".")[0] == "extended"]:
        del sys.modules[name]


def sketched(run, unit=GROUP, arcs=ARCS, rows=ROWS, change=lambda certificate: None):
    """A run of the toy method: as many arcs and rows as chance gave."""
    parts = describe([gaussian(5.0)], epsilon_bracket(EVENTS, 1e-6)[1])
    certificate = parts["certificate"]
    shapes = zip(("arcs", "rows"), EVENTS, ([None, 2], [None, 3]), (0, 2), strict=True)
    releases = [
        {"name": name, "event": event, "shape": shape, "affected_coordinates": touched, "visible_to": "anyone"}
        for name, event, shape, touched in shapes
    ]
    certificate |= {
        "method": "sketch", "settings": {"share": 0.5}, "unit": unit, "releases": releases, "caveats": [],
        "protects": "any 3 nodes" if unit is GROUP else certificate["protects"],
        "who_may_see": {"anyone": ["sketch"], "the node itself": [], "never": ["arcs"]},
    }  # fmt: skip
    certificate["accounting"].update(method="pld", delta_sampler=certificate["accounting"]["delta_sampler"] / 3)
    change(certificate)
    plan = {key: certificate[key] for key in ("method", "unit", "releases", "claim")}
    plan["delta_sampler"] = certificate["accounting"]["delta_sampler"]
    parts["lines"] = [{"kind": "plan", "plan": plan}]
    parts["lines"] += [{"kind": "release", "release": one} for one in certificate["releases"]]
    folder = write(run, {**json.loads(canonical(parts)), "weights": {}, "tensors": {}})
    tensors = {"arcs": np.array(arcs, np.int64).reshape(-1, 2), "rows": np.array(rows, np.int64).reshape(-1, 3)}
    fields, end = {}, 0
    for name, value in tensors.items():
        end += value.nbytes
        fields[name] = {"dtype": "I64", "shape": list(value.shape), "data_offsets": [end - value.nbytes, end]}
    body = b"".join(value.tobytes() for value in tensors.values())
    (folder / "releases.safetensors").write_bytes(header(fields, body))
    seal(folder)
    return run


@pytest.mark.parametrize(("arcs", "rows"), [(ARCS, ROWS), ([], []), ([[1, 2]], [[1, 1, 0]])])
@pytest.mark.parametrize(
    "unit", [GROUP, {"name": "edge", "relation": "add-remove", "directed": False}], ids=["group", "edge"]
)
def test_a_file_and_a_line_teach_a_method_and_a_line_teaches_a_unit(extended, tmp_path, unit, arcs, rows):
    run = sketched(tmp_path / "run", unit, arcs, rows)
    assert extended.verify(run).problems == ()
    found = sfumato.verify.verify(run).problems
    assert any("is not known here" in text or "unit.name: expected one of none, edge" in text for text in found)


LINES = {
    "an arc twice": ({"arcs": [[0, 1], [0, 1]]}, "arcs: holds lines that are not in ascending order"),
    "another order": ({"arcs": [[0, 3], [0, 1]]}, "arcs: holds lines that are not in ascending order"),
    "a loop": ({"arcs": [[1, 1]]}, "arcs: holds arcs that are loops or turned, expected the smaller end first"),
    "a turned edge": ({"arcs": [[1, 0]]}, "arcs: holds arcs that are loops or turned, expected the smaller end first"),
    "a node that is none": ({"arcs": [[0, 4]]}, "arcs: holds columns from 4 to 4, expected 0 to 3"),
    "a node below the first": ({"arcs": [[-1, 1]]}, "arcs: holds rows from -1 to -1, expected 0 to 3"),
    "a column that is none": ({"rows": [[0, 3, 1]]}, "rows: holds columns from 3 to 3, expected 0 to 2"),
    "a place twice": ({"rows": [[0, 1, 1], [0, 1, 2]]}, "rows: holds lines that are not in ascending order"),
}


@pytest.mark.parametrize(("lines", "problem"), LINES.values(), ids=LINES)
def test_lines_have_one_spelling_and_stay_in_bounds(extended, tmp_path, lines, problem):
    (found,) = extended.verify(sketched(tmp_path / "run", **lines)).problems
    assert found.startswith(f"releases.safetensors: {problem}")


def released(index, **values):
    return lambda certificate: certificate["releases"][index].update(values)


PLANNED = {
    "a number that chance gave": (released(0, shape=[3, 2]), "releases[0].shape: expected arcs and their two ends, [None, 2]"),
    "no width": (released(1, shape=[None, None]), "releases[1].shape: expected lines of row, column and value, [None, 3]"),
    "fewer coordinates": (released(1, affected_coordinates=0), "releases[1].affected_coordinates: expected 2, got 0"),
    "another mechanism": (released(0, event=gaussian(5.0)), "releases[0].event: expected one release of type randomized-resp"),
    "an unknown setting": (lambda c: c["settings"].update(arcs=3), "settings.arcs: is not a setting of method sketch"),
    "a setting out of range": (lambda c: c["settings"].update(share=1.5), "settings.share: expected share, got 1.5"),
    "no proof": (
        lambda c: c.update(unit={"name": "record", "relation": "replace"}), "unit.name: sketch has no proof under unit record"),
    "a group of none": (lambda c: c.update(unit={**GROUP, "size": 0}), "unit.size: expected count, got 0"),
    "a larger group": (lambda c: c.update(unit={**GROUP, "size": 5}), "protects: 'any 3 nodes' differs from 'any 5 nodes'"),
    "other words": (lambda c: c.update(trust_model="local: users trust nobody"), "trust_model: 'local: users trust nobody'"),
}  # fmt: skip


@pytest.mark.parametrize(("change", "problem"), PLANNED.values(), ids=PLANNED)
def test_the_rules_of_the_new_method_and_unit_hold(extended, tmp_path, change, problem):
    found = extended.verify(sketched(tmp_path / "run", change=change)).problems
    assert any(text.startswith(f"certificate.json: {problem}") for text in found), found


@pytest.mark.parametrize("shape", [[None, 3], [4, None], [None]])
def test_no_other_kind_leaves_a_number_open(tmp_path, shape):
    parts = describe([gaussian(5.0)] * 2, GAP_EPSILON)
    for release in (parts["certificate"]["releases"][0], parts["lines"][0]["plan"]["releases"][0]):
        release["shape"] = shape
    parts["lines"][1]["release"]["shape"] = shape
    assert "certificate.json: releases[0].shape: expected" in str(sfumato.verify.verify(write(tmp_path / "run", parts)))


def test_the_ledger_writes_a_number_that_the_release_decides_as_null():
    release = Release("arcs", RandomizedResponseEvent(1.0, 2), (None, 2), 0)
    assert release.to_dict()["shape"] == [None, 2]
    assert Release.from_dict(json.loads(canonical(release.to_dict()))) == release
