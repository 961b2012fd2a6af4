"""Numba's start must not change how many threads Torch computes with, or a second fit of a process has other bits."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import sfumato as sf
from sfumato import _threads
from sfumato.errors import InputError
from sfumato.graph._synthetic import campus

USES = {
    "noise": "from sfumato.noise.keys import Stream; from sfumato.noise._rectangles import GAUSSIAN, draw; "
    "draw(GAUSSIAN, 2.0, Stream(bytes(32)), 0, 5)",
    "PageRank": "import numpy as np; from sfumato.bounded._pagerank import Walk, approximate_pagerank; "
    "approximate_pagerank(np.array([0, 1, 2]), np.array([1, 0], np.int32), np.array([0]), Walk())",
    "sums in Numba": "from sfumato.loops import _native; _native.load = lambda: None; "
    "from sfumato.loops.kernels import loops; loops()",
    "record": "import numba; from sfumato.record._resume import threads; threads()",
    "the command line": "import numba; from sfumato._threads import set_threads; set_threads(None)",
}


FORKED = """
import json, numba, os, sys, torch
from numba.np.ufunc import parallel
torch.set_num_threads(1)
assert torch.get_num_threads() == 1  # asked, the number is in force
assert not parallel._is_initialized
for name, use in json.loads(sys.argv[1]).items():
    if not os.fork():
        exec(use)
        print(f"{name}: {torch.get_num_threads()} {parallel._is_initialized}", flush=True)
        os._exit(0)
    assert os.wait()[1] == 0, name
"""


def test_numba_leaves_the_threads_of_torch_alone():
    environment = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}
    command = [sys.executable, "-c", FORKED, json.dumps(USES)]
    told = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
    assert told.stdout == "".join(f"{use}: 1 True\n" for use in USES)


def test_numba_is_asked_for_its_threads_in_one_place():
    package = Path(sf.__file__).parent
    asking = [path.name for path in package.rglob("*.py") if "numba.get_num_threads()" in path.read_text()]
    assert asking == ["_threads.py"]


@pytest.fixture
def torch(monkeypatch):
    """Torch, with a number of threads that is set back."""
    module = pytest.importorskip("torch")
    before = module.get_num_threads()
    monkeypatch.setattr(_threads, "_SPINNING", [])
    monkeypatch.setattr(_threads, "_SAID", [])
    for name in ("OMP_NUM_THREADS", "OMP_WAIT_POLICY"):
        monkeypatch.setenv(name, "1")  # so that whatever a test makes of it is undone
        monkeypatch.delenv(name)
    yield module
    module.set_num_threads(before)


@pytest.mark.parametrize(
    ("said", "processors", "threads"),
    [
        ({}, 3, 1),
        ({}, 6, 1),  # two processors share a core
        ({}, 4, 3),  # somebody chose 3
        ({"OMP_WAIT_POLICY": "PASSIVE"}, 3, 3),
        ({"OMP_NUM_THREADS": "3"}, 3, 3),
    ],
)
def test_a_torch_that_spins_computes_in_one_thread_unless_somebody_says_how_many(
    torch, monkeypatch, said, processors, threads
):
    torch.set_num_threads(3)
    monkeypatch.setattr(_threads, "default_threads", lambda: processors)
    for name, value in said.items():
        monkeypatch.setenv(name, value)
    _threads.let_waiting_threads_sleep()
    assert os.environ["OMP_WAIT_POLICY"] == "PASSIVE"
    with _threads.computing(None):
        assert torch.get_num_threads() == threads
    with _threads.computing(2):
        assert torch.get_num_threads() == 2
    assert torch.get_num_threads() == 3


def test_a_torch_that_comes_later_keeps_its_threads(torch, monkeypatch):
    with monkeypatch.context() as without:
        without.delitem(sys.modules, "torch")
        _threads.let_waiting_threads_sleep()
    torch.set_num_threads(3)
    monkeypatch.setattr(_threads, "default_threads", lambda: 3)
    with _threads.computing(None):
        assert torch.get_num_threads() == 3


@pytest.mark.parametrize("loaded", ["", "numba_threads(); "])
def test_a_number_of_threads_holds_for_one_block_and_for_what_is_loaded_in_it(loaded):
    code = "from sfumato._threads import computing, default_threads, numba_threads; import os\n"
    code += f"{loaded}before = default_threads()\nwith computing(1):\n import torch\n"
    code += " print(numba_threads(), torch.get_num_threads(), default_threads())\n"
    code += "print(numba_threads() == torch.get_num_threads() == default_threads() == before, 'OMP_NUM_THREADS' in os.environ)"
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("OMP_", "NUMBA_"))}
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
    assert told.stdout.split() == ["1", "1", "1", "True", "False"]


def test_a_fit_computes_with_the_threads_that_it_is_given(torch, monkeypatch):
    graph = campus(60)
    plan = sf.GraphFree().calibrate(None, sf.NoPrivacy(), graph.public_facts(sf.NoPrivacy()))
    seen = []
    monkeypatch.setattr(type(plan.method), "run", lambda *_: seen.append(torch.get_num_threads()) or 1 / 0)
    torch.set_num_threads(2)
    monkeypatch.setattr(_threads, "default_threads", lambda: 9)
    for threads in (1, 3, None):
        with pytest.raises(ZeroDivisionError):
            plan.fit(graph, threads=threads)
    assert (seen, torch.get_num_threads()) == ([1, 3, 2], 2)
    with pytest.raises(InputError, match="Expected threads to be"):
        plan.fit(graph, threads=0)


@pytest.mark.parametrize(
    ("few", "processors", "environment", "threads"),
    [(10**6, 2, None, 1), (10**6, 9, None, 2), (10**6, 2, "2", 2), (60, 2, None, 2)],
)
def test_a_small_fit_takes_one_thread_unless_somebody_says_how_many(
    torch, monkeypatch, few, processors, environment, threads
):
    graph = campus(60)
    plan = sf.GraphFree().calibrate(None, sf.NoPrivacy(), graph.public_facts(sf.NoPrivacy()))
    seen = []
    monkeypatch.setattr(type(plan.method), "run", lambda *_: seen.append(torch.get_num_threads()) or 1 / 0)
    monkeypatch.setattr(_threads, "default_threads", lambda: processors)
    monkeypatch.setattr(_threads, "_FEW", few)
    if environment:
        monkeypatch.setenv("OMP_NUM_THREADS", environment)
    torch.set_num_threads(2)
    with pytest.raises(ZeroDivisionError):
        plan.fit(graph)
    assert (seen, torch.get_num_threads()) == ([threads], 2)
