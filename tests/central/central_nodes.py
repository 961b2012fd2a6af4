"""A graph on which methods for nodes with all their arcs are tried, how they are fitted, and what the verifier says of them."""

import warnings
from dataclasses import replace

import numpy as np

import sfumato as sf
from sfumato.graph._synthetic import stochastic_block_model
from sfumato.verify._methods import rules_of

INCIDENT = sf.NodeLevel(arcs="incident")


def graphs(num_nodes):
    """A graph, and the same one with features that tell the class."""
    graph = stochastic_block_model(num_nodes, 3, mean_degree=10, num_features=6, seed=0).with_split(seed=0)
    plain = np.eye(3, 6)[graph.y] + np.random.default_rng(0).normal(size=(num_nodes, 6)) / 4
    return graph, replace(graph, x=plain.astype(np.float32))


GRAPH, EASY = graphs(400)


def planned(method, unit, graph, epsilon, delta=1e-6):
    budget = sf.Budget(epsilon, delta) if unit.private else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return method.calibrate(budget, unit, graph.public_facts(unit))


def fitted(method, unit, graph, epsilon, delta=1e-6):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return planned(method, unit, graph, epsilon, delta).fit(graph)


def accuracy(run, graph):
    return (run.predict(graph) == graph.y)[graph.test_mask].mean()


def noticed(run, **settings):
    """What the rules of its method say of a run with other settings."""
    certificate, rules = dict(run.certificate.values), rules_of(run.plan.method.name)
    certificate["settings"] = {**certificate["settings"], **settings}
    yield from rules.setting_faults(certificate)
    yield from rules.faults(certificate)
    for rule, release in zip(rules.releases(certificate), certificate["releases"], strict=True):
        yield from rule.faults("", release)


def alone(graph, node):
    """The graph without arcs, and without features of other nodes."""
    x = np.zeros_like(graph.x)
    x[node] = graph.x[node]
    return replace(graph, x=x, indptr=np.zeros_like(graph.indptr), indices=graph.indices[:0])
