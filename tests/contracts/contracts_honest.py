"""Honest runs, by name: what forgers start from. Each is made once a session, and tests work on copies."""

from dataclasses import replace

import numpy as np

import sfumato as sf
from sfumato.catalog import method_named
from sfumato.central._edgerand import EdgeRand
from sfumato.central._lapgraph import LapGraph
from sfumato.central._lpgnet import LPGNet
from sfumato.central._promised import PromisedMessages
from sfumato.central._scattering import Scattering
from sfumato.classlevel._class_dp import ClassDP, SubclassDP
from sfumato.classlevel._record import CNN
from sfumato.datasets.images import from_arrays
from sfumato.graph import Graph
from sfumato.graph._synthetic import stochastic_block_model
from sfumato.local import Blink
from sfumato.local._link_prediction import LinkPrediction
from sfumato.local._lpgnn import LPGNN

EDGE, NODE, RECORD = sf.EdgeLevel(directed=False), sf.NodeLevel(), sf.RecordLevel()
OF_FIVE, OF_TEN = sf.NodeLevel(max_out_degree=5), sf.NodeLevel(max_out_degree=10)
REPLACED, INCIDENT = sf.NodeLevel(relation="replace"), sf.NodeLevel(arcs="incident")


def block(num_nodes, **how):
    """A block model of three classes."""
    return stochastic_block_model(num_nodes, 3, **{"mean_degree": 12, "num_features": 4, "seed": 0, **how})


def weighted():
    """Edges with weights that are clipped to a bound."""
    random = np.random.default_rng(0)
    source, target = random.integers(0, 60, (2, 300))
    return Graph.from_edges(
        source, target, 60, directed=False, edge_weight=random.random(300), max_weight=0.5,
        x=random.random((60, 3)).astype(np.float32), y=random.integers(0, 2, 60),
    ).with_split()  # fmt: skip


def pictures(shape=(120, 14, 14), classes=4, train=100):
    """Images whose class shows in their brightness."""
    y = np.arange(shape[0]) % classes
    images = (np.random.default_rng(0).random(shape) / 2 + y[:, None, None] / 8).astype(np.float32)
    return from_arrays(images, y, classes=tuple("abcd"[:classes]), roles=np.where(np.arange(len(y)) < train, 0, 2))


def named():
    """Columns of an age and of two kinds of categories, whose names and number were read off the data."""
    names = ("age", "dorm=north", "dorm=south", "a=b=c")
    assumed = ("num_features", "categories of column dorm", "categories of column a=b")
    return replace(block(60).with_split(), feature_names=names, assumed_public=assumed, mean_degree=12.0)


REPORTS = (0.5, 0.25, 0.25)
QUICK = {"width": 3, "steps": 3, "sampling_prob": 0.5, "records_per_cell": 4}
PICTURES = pictures()
USERS = block(60, num_features=5).with_split(REPORTS, seed=0)
LINKED = block(60, num_features=5).with_split(seed=0)
CLOSE = block(120, homophily=0.8).with_split()
PAIRED = stochastic_block_model(40, 2, mean_degree=6, num_features=4, seed=0).with_split()
MADE = {
    "local": lambda: (LPGNN(epochs=1, epsilon_x=2.0, epsilon_y=1.0), None, block(120, homophily=0.8).with_split(REPORTS)),
    "pgc-links": lambda: (LinkPrediction(epsilon_x=2.0, max_epochs=2), None, USERS),
    "blink": lambda: (Blink(epsilon=4.0, degree_share=0.25, epochs=1), None, block(121, homophily=0.8).with_split(REPORTS)),
    "class": lambda: (ClassDP(**QUICK), sf.ClassLevel(), PICTURES),
    "removed class": lambda: (ClassDP(network="softmax", augment=1, **QUICK), sf.ClassLevel("add-remove"), PICTURES),
    "directions": lambda: (SubclassDP(network="mlp", **QUICK), sf.SubclassLevel(2), PICTURES),
    "centroids": lambda: (
        SubclassDP(network="softmax", public_rows=40, **QUICK), sf.SubclassLevel(3, "centroids"), PICTURES,
    ),
    "record": lambda: (CNN(width=3, steps=3, batch_size=20), RECORD, PICTURES),
    "filters": lambda: (CNN(width=3, steps=3, batch_size=20, learn_filters=True), RECORD, PICTURES),
    "kmeans": lambda: (
        SubclassDP(network="softmax", kmeans=True, **{**QUICK, "records_per_cell": None}),
        sf.SubclassLevel(8, "declared"), PICTURES,
    ),
    "promised": lambda: (
        PromisedMessages(epochs=3), INCIDENT,
        replace(block(200, mean_degree=20, homophily=0.9, seed=1).with_split(), max_degree=60),
    ),
    "found": lambda: (
        PromisedMessages(epochs=3), INCIDENT, block(1000, mean_degree=20, homophily=0.9, seed=1).with_split(),
    ),
    "edgerand": lambda: (EdgeRand(epochs=1), EDGE, LINKED),
    "lapgraph": lambda: (LapGraph(epochs=1), EDGE, LINKED),
    "lapgraph of a degree": lambda: (LapGraph(epochs=1, mean_degree=12.0), EDGE, LINKED),
    "lpgnet": lambda: (LPGNet(epochs=1), EDGE, LINKED),
    "scattering": lambda: (Scattering(epochs=2, batch_size=20), RECORD, pictures((80, 8, 12), 2, 60)),
    "link-messages": lambda: (sf.LinkMessages(), EDGE, LINKED),
    "gap": lambda: (sf.GAP(epochs=1), OF_TEN, CLOSE),
    "gap that samples": lambda: (sf.GAP(epochs=1, batch_size=40), OF_TEN, CLOSE),
    "gap of edges": lambda: (sf.GAP(epochs=1), EDGE, block(60).with_split()),
    "columns": lambda: (sf.GAP(epochs=1), OF_FIVE, named()),
    "unnamed columns": lambda: (sf.GAP(epochs=1), OF_FIVE, replace(named(), feature_names=())),
    "labels": lambda: (sf.LabelMessages(epochs=1), EDGE, named()),
    "gaussian labels": lambda: (sf.LabelMessages(epochs=1, noise="gaussian"), EDGE, named()),
    "layers": lambda: (sf.ProGAP(depth=1, base_layers=10, width=2, epochs=1), EDGE, named()),
    "stages": lambda: (sf.ProGAP(depth=100, width=1, epochs=1, layerwise=True), EDGE, named()),
    "tuned": lambda: (sf.Tuned(tuple(sf.GAP(num_hops=k, epochs=1) for k in (1, 2)), mean_trials=2.0), EDGE, named()),
    "linear": lambda: (method_named("linear"), NODE, PAIRED),
    "linear, replaced": lambda: (method_named("linear"), REPLACED, PAIRED),
    "piloted": lambda: (method_named("piloted-messages"), NODE, PAIRED),
    "piloted, replaced": lambda: (method_named("piloted-messages"), REPLACED, PAIRED),
    "weights": lambda: (sf.GAP(epochs=1), EDGE, weighted()),
    "weights beside mlp": lambda: (method_named("mlp", epochs=1), EDGE, weighted()),
    "weights in words": lambda: (sf.LabelMessages(epochs=1), EDGE, weighted()),
}  # fmt: skip
"""By name: the method, its unit (None for that of the method), and the graph."""
BUDGETS = {
    **dict.fromkeys(("class", "removed class", "directions", "centroids", "record", "filters", "kmeans"), (8.0, 1e-3)),
    **dict.fromkeys(("scattering", "weights", "weights beside mlp", "weights in words"), (4.0, 1e-5)),
    **dict.fromkeys(("edgerand", "lapgraph", "lapgraph of a degree", "lpgnet"), (4.0, 0.0)),
    "link-messages": (2.0, 0.0),
}


def fitted(name):
    """Fit the run of this name."""
    method, unit, graph = MADE[name]()
    budget = None if unit is None else sf.Budget(*BUDGETS.get(name, (8.0, 1e-5)))
    unit = method.unit if unit is None else unit
    return method.calibrate(budget, unit, graph.public_facts(unit)).fit(graph)
