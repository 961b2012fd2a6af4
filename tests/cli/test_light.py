"""The default at edge level, and what reads its run, never load what takes longer to import than the whole run."""

import json
import os
import subprocess
import sys

import pytest

HEAVY = ("torch", "torch_geometric", "sklearn", "pandas", "scipy.stats", "scipy.optimize")
PROBE = """
import json, sys
from functools import partial
from sfumato.central import _labels as labels
from sfumato.cli import invoke
from sfumato.datasets import _loading as datasets
datasets.campus = partial(datasets.campus, {nodes})
labels.MOST_TREE_WORK = 0  # trees are those of scikit-learn; they are left out where columns are many
found = {{}}
for command in {commands!r}:
    assert invoke(command) == 0
    found[command[0]] = [name for name in {names!r} if name in sys.modules]
print(json.dumps(found))
"""


def loaded(names, *commands, nodes=4000):
    """Which of ``names`` are loaded after each of ``commands``, in one new process without options for threads."""
    code = PROBE.format(commands=[[*map(str, command)] for command in commands], names=names, nodes=nodes)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ})
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("threads", [(), ("--threads", "1")])
def test_the_default_at_edge_level_trains_verifies_and_predicts_without_torch(tmp_path, threads):
    run, unit = tmp_path / "run", ("--unit", "edge", "--epsilon", 1, "--delta", 1e-6)
    train = ("train", "auto", "--dataset", "campus", *unit, "--no-controls", *threads, "--out", run)
    predict = ("predict", run, "--out", tmp_path / "predictions.csv")
    found = loaded(HEAVY, train, ("verify", run), predict, ("evaluate", run), ("cite", run), nodes=300)
    assert found == {"train": [], "verify": [], "predict": [], "evaluate": [], "cite": []}
    assert json.loads((run / "release" / "certificate.json").read_text())["method"] == "label-messages"


def test_what_needs_torch_loads_it_with_the_number_of_threads_that_was_asked_for():
    code = """
import sys
from sfumato._threads import set_threads
assert set_threads(1) == 1
assert "torch" not in sys.modules
import torch
print(torch.get_num_threads(), set_threads(None), set_threads(2), torch.get_num_threads())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("1 1 2 2\n", "")


def test_without_a_number_of_threads_the_environment_decides_and_then_the_cores():
    code = "from sfumato._threads import set_threads; print(set_threads(None))"
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    for told, expected in (("5", 5), ("", cores), ("many", cores), ("0", cores)):
        environment = {**os.environ, "OMP_NUM_THREADS": told}
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
        assert done.stdout == f"{expected}\n", done.stderr
