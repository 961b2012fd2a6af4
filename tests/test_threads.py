"""Numba's start must not change how many threads Torch computes with, or a second fit of a process has other bits."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import sfumato

USES = {
    "noise": "from sfumato.noise.keys import Stream; from sfumato.noise.rectangles import GAUSSIAN, draw; "
    "draw(GAUSSIAN, 2.0, Stream(bytes(32)), 0, 5)",
    "PageRank": "import numpy as np; from sfumato.bounded.pagerank import Walk, approximate_pagerank; "
    "approximate_pagerank(np.array([0, 1, 2]), np.array([1, 0], np.int32), np.array([0]), Walk())",
    "sums in Numba": "from sfumato.bounded import _native; _native.load = lambda: None; "
    "from sfumato.bounded.kernels import _loops; _loops()",
    "record": "import numba; from sfumato.record.resume import threads; threads()",
    "the command line": "import numba; from sfumato._threads import set_threads; set_threads(None)",
}


@pytest.mark.parametrize("use", USES)
def test_numba_leaves_the_threads_of_torch_alone(use):
    torch = (
        "import torch; torch.set_num_threads(1); assert torch.get_num_threads() == 1"  # asked, the number is in force
    )
    code = f"{torch}; {USES[use]}; print(torch.get_num_threads()); from numba.np.ufunc import parallel; "
    code += "print(parallel._is_initialized)"
    environment = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
    assert told.stdout == "1\nTrue\n"


def test_numba_is_asked_for_its_threads_in_one_place():
    package = Path(sfumato.__file__).parent
    asking = [path.name for path in package.rglob("*.py") if "numba.get_num_threads()" in path.read_text()]
    assert asking == ["_threads.py"]
