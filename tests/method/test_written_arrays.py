"""Arrays of a graph that were written to after it was built: what no longer holds is refused before anything is charged."""

import copy
import pickle
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

import sfumato as sf
from sfumato.central._arrivals import calibrate_arrival
from sfumato.central._promised import PromisedMessages
from sfumato.central._tuned import Tuned
from sfumato.errors import DataError, SfumatoError
from sfumato.graph import Graph
from sfumato.graph._again import checked_again
from sfumato.graph._facts import ROLES
from sfumato.graph._packed import PackedRows
from sfumato.graph._synthetic import stochastic_block_model
from sfumato.graph._targets import Targets
from sfumato.method import _plan as plans
from sfumato.tables._newcomers import Newcomers

EDGE, NODE = sf.EdgeLevel(directed=False), sf.NodeLevel(3)
BUDGET = sf.Budget(4.0, 1e-5)
SIZE = 40


def built(**more):
    ring = np.arange(SIZE)
    fields = {"x": np.ones((SIZE, 3)), "y": ring % 2, "classes": ("a", "b")} | more
    return Graph.from_edges(ring, (ring + 1) % SIZE, SIZE, directed=False, **fields)


def write(part, place, value):
    def change(graph):
        array = getattr(graph, part)
        (array.data if sp.issparse(array) else array)[place] = value

    return change


def steps(graph):
    graph.weights.steps[0] = 60_000


WRITTEN = {
    "an infinite feature": (built, write("x", (3, 0), np.inf), r"x\[3, 0\]"),
    "a feature beyond the reach": (built, write("x", ..., 1e30), r"from -1e\+13 to 1e\+13"),
    "a missing entry of sparse features": (lambda: built(x=sp.eye(SIZE, format="csr")), write("x", 0, np.nan), "x"),
    "a column that sparse features lack": (
        lambda: built(x=sp.eye(SIZE, format="csr")), lambda graph: graph.x.indices.__setitem__(0, 10**6), "CSR",
    ),
    "no class": (built, write("y", 0, 77), r"y\[0\] is not"),
    "no role": (lambda: built().with_split(), write("roles", 5, 9), r"roles\[5\]"),
    "an arc to no node": (built, write("indices", 0, 1000), "indices"),
    "an arc without its reverse": (built, write("indices", 1, 30), "without its reverse"),
    "a weight above its bound": (lambda: built(edge_weight=np.ones(SIZE), max_weight=2.0), steps, "clipped"),
    "a node above its own bound": (
        lambda: built(degree_bounds=np.full(SIZE, 2)), write("degree_bounds", 4, 1), "its declared bound",
    ),
    "an id twice": (lambda: built(node_ids=np.arange(SIZE)), write("node_ids", 1, 0), "every node id once"),
    "no label": (
        lambda: built(y=None, classes=(), targets=Targets("multilabel", np.ones((SIZE, 2)))),
        lambda graph: graph.targets.values.__setitem__((0, 0), 7), "0",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WRITTEN)
def test_what_no_longer_holds_is_refused_before_the_charge(name, monkeypatch):
    make, change, said = WRITTEN[name]
    graph = make()
    plan = sf.GAP(num_hops=1, epochs=1).calibrate(BUDGET, EDGE, graph.public_facts(EDGE))
    change(graph)
    monkeypatch.setattr(plans, "open_session", None)
    with pytest.raises(SfumatoError, match=said):
        plan.fit(graph)


def test_bounds_that_were_lowered_are_refused_for_promised_messages(monkeypatch):
    star = Graph.from_edges(
        np.zeros(39, int), np.arange(1, 40), 40, directed=False, degree_bounds=np.full(40, 39), x=np.ones((40, 2)),
        y=np.arange(40) % 2, classes=("a", "b"),
    )  # fmt: skip
    unit = sf.NodeLevel(arcs="incident")
    plan = PromisedMessages().calibrate(BUDGET, unit, star.public_facts(unit))
    star.degree_bounds[:] = 1
    monkeypatch.setattr(plans, "open_session", None)
    with pytest.raises(SfumatoError, match="its declared bound"):
        plan.fit(star)


def by_labels(graph):
    return np.where(graph.y == 0, 0, 2).astype(np.uint8)


def in_place(graph):
    graph.roles[:] = by_labels(graph)
    return graph


@pytest.mark.parametrize(
    "change",
    [
        in_place,
        lambda graph: in_place(copy.deepcopy(graph)),
        lambda graph: in_place(pickle.loads(pickle.dumps(graph))),
        lambda graph: replace(graph, roles=by_labels(graph)),
        lambda graph: replace(graph, roles=by_labels(graph), drawn=(by_labels(graph), None)),
        lambda graph: graph.with_roles(by_labels(graph)),
    ],
)
def test_roles_that_were_not_drawn_are_given(change):
    drawn = built().with_split()
    assert drawn.public_facts(NODE).assumed == ()
    for same in (copy.deepcopy(drawn), pickle.loads(pickle.dumps(drawn)), replace(drawn, roles=drawn.roles.copy())):
        assert same.public_facts(NODE).assumed == ()
    plan = sf.MLP(epochs=1).calibrate(BUDGET, NODE, drawn.public_facts(NODE))
    changed = change(drawn)
    assert ROLES in changed.public_facts(NODE).assumed
    with pytest.raises(DataError, match=r"roles|num_train"):
        plan.fit(changed)


def test_choices_inferences_predictions_and_arrivals_are_checked_too(monkeypatch, messages_kept):
    graph = stochastic_block_model(60, 2, mean_degree=6, num_features=3, seed=0).with_split(seed=0)
    facts = graph.public_facts(EDGE)
    trained = sf.LabelMessages(num_hops=1).calibrate(sf.Budget(4.0, 0.0), EDGE, facts).fit(graph)
    tuned = Tuned((sf.GAP(num_hops=1), sf.GAP(num_hops=2)), mean_trials=2).calibrate(BUDGET, EDGE, facts)
    inferred = trained.calibrate_inference(sf.Budget(2.0, 0.0), EDGE, facts)
    late = Graph.from_edges([], [], 1, directed=False, node_ids=np.array([99]), x=np.ones((1, 3)))
    arriving = Newcomers.join(late, [copy.deepcopy(graph)], [0], [1])
    arrival = calibrate_arrival([trained], ["99"], arriving.public_facts(EDGE))
    assert checked_again(arriving).num_nodes == 1
    arriving.known[0].y[0] = 77
    graph.x[0, 0] = np.nan
    monkeypatch.setattr(plans, "open_session", None)
    for asked in (lambda: tuned.fit(graph), lambda: inferred.fit(graph), lambda: trained.predict(graph)):
        with pytest.raises(DataError, match=r"x\[0, 0\]"):
            asked()
    with pytest.raises(DataError, match=r"y\[0\]"):
        arrival.fit(arriving)


def test_arrays_of_a_store_are_not_read_again(tmp_path):
    stored = Graph.load(built().save(tmp_path / "store"))
    again = checked_again(stored)
    assert all(map(lambda one, other: one is other, again._checked, stored._checked))


def test_packed_rows_that_can_be_written_to_are_checked():
    x = PackedRows(np.ones((SIZE, 1), np.float16), np.ones((SIZE, 1), np.uint8), (None, 2))
    graph = built(x=x)
    assert isinstance(checked_again(graph).stored_x, PackedRows)
    x.numbers[3] = np.inf
    with pytest.raises(DataError, match="Expected x to be finite"):
        checked_again(graph)
