"""What needs NumPy and SciPy alone loads nothing heavier while it works: a fresh interpreter does all of it, and tells."""

import subprocess
import sys

WORK = """
import sys

def check(*heavy):
    print([name for name in heavy if name in sys.modules])

from sfumato.graph import Graph
graph = Graph.from_edges([0], [1], 2, directed=False)
graph.with_split().public_facts
check("duckdb", "pyarrow", "pandas", "torch", "networkx")
import sfumato.pate._epsilon_release, sfumato.pate._teachers
check("torch", "sklearn", "numba", "duckdb")
from sfumato.privacy.accounting import epsilon
from sfumato.privacy.events import GaussianEvent, PoissonGaussianEvent
epsilon([GaussianEvent(1.0)], 1e-5)
check("dp_accounting")
epsilon([PoissonGaussianEvent(0.02, 0.5, 10)], 1e-5, method="rdp")
from sfumato.text._documents import Documents
from sfumato.text._encoders import with_texts
with_texts(graph, Documents(("t",), [("word",), ("",)]), "hashing:8")
check("torch", "transformers", "duckdb")
"""


def test_graphs_votes_gaussian_plans_and_hashed_texts_load_nothing_heavy_and_notes_stay_silent():
    done = subprocess.run([sys.executable, "-W", "error", "-c", WORK], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "[]\n" * 4, "")
