"""Label messages on odd data, refusals of method and verifier, and that they learn."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from central_hops import ARC, BUDGET, EDGE, fitted
from central_hops import small as larger

import sfumato as sf
from sfumato.bounded._exact import WholeRows
from sfumato.central import _rows as heads
from sfumato.central._heads import chosen
from sfumato.central._labels import LabelMessages
from sfumato.central._rows import beside, centered_rows, head_scores
from sfumato.errors import DataError, InputError, UnsupportedUnitError
from sfumato.graph._checks import MOST_FEATURE
from sfumato.graph._graph import Graph
from sfumato.verify import verify
from sfumato.verify._facts import origin_faults
from sfumato.verify._methods import rules_of

NODE, NONE = sf.NodeLevel(), sf.NoPrivacy()
UNITS = (NONE, ARC, EDGE, NODE)


def small(**how):
    return larger(**{"num_nodes": 80, "mean_degree": 10, "num_features": 4, **how})


def fit(graph, unit=EDGE, budget=BUDGET, **settings):
    return fitted(LabelMessages(**{"epochs": 5, **settings}), graph, unit, budget)


def without_edges(graph):
    how = {"x": graph.x, "y": graph.y, "classes": graph.classes, "roles": graph.roles}
    return Graph.from_edges([], [], graph.num_nodes, directed=False, **how)


def few_labels(graph):
    """Two labeled training nodes; nothing is known of the others."""
    return replace(graph, y=np.where(np.isin(np.arange(80), np.flatnonzero(graph.train_mask)[:2]), graph.y, -1))


ODD = {
    "no features": lambda graph: replace(graph, x=None, feature_names=()),
    "features of zero": lambda graph: replace(graph, x=np.zeros((80, 4), np.float32)),
    "huge features": lambda graph: replace(graph, x=np.full((80, 4), MOST_FEATURE, np.float32)),
    "huge sparse features": lambda graph: replace(graph, x=sp.csr_matrix(np.full((80, 4), MOST_FEATURE, np.float32))),
    "no edges": without_edges,
    "two labels": few_labels,
    "two classes": lambda graph: small(num_classes=2),
    "no validation nodes": lambda graph: graph.with_roles(np.where(graph.roles == 1, 3, graph.roles).astype(np.uint8)),
}


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
@pytest.mark.parametrize("odd", ODD.values(), ids=ODD)
def test_odd_data_gives_a_valid_run_and_finite_predictions(odd, unit, tmp_path):
    graph = odd(small())
    run = fit(graph, unit)
    assert np.isfinite(run.predict_proba(graph)).all()
    assert verify(run.save(tmp_path / "run")).problems == ()


@pytest.mark.parametrize("unit", [EDGE, NODE])
def test_rows_are_the_same_however_features_are_stored(unit, fixed_key):
    """Sparse, and sparse with an entry in two parts: its norm, by which gradients are clipped, is that of the sum.

    In one hop: what a second one sends is rounded differently, and the noise of another operand is another.
    """
    graph = small()
    canonical = sp.csr_matrix(graph.x)
    parts = sp.csr_matrix(
        (np.repeat(canonical.data / 2, 2), np.repeat(canonical.indices, 2), 2 * canonical.indptr), shape=graph.x.shape
    )
    assert not parts.has_canonical_format
    dense, *others = (
        fit(replace(graph, x=x), unit, num_hops=1).predict_proba(graph) for x in (graph.x, canonical, parts)
    )
    for scores in others:
        np.testing.assert_allclose(scores, dense, atol=1e-4)
    inputs = beside(np.ones((80, 3)), centered_rows(replace(graph, x=parts), {}))
    rows = chosen(inputs)(np.arange(80))
    whole = WholeRows.of(torch.from_numpy(inputs.toarray()).double(), bias=True)
    assert torch.equal(rows.integers(), whole.integers())
    assert rows.norms.max() < 5**0.5 + 1e-3


def test_a_column_that_is_flat_for_learners_stays_small_elsewhere():
    flat = np.full((7, 1), -13.81551, np.float32)
    mean, scale = heads._moments(np.hstack([flat, np.arange(7, dtype=np.float32)[:, None]]))
    assert scale[0] == 1
    assert scale[1] == 2
    assert np.abs(flat - mean[0]).max() < 1e-12
    head = {"weight": np.array([[1.0, 2.0], [3.0, -4.0]], np.float32), "bias": np.array([5.0, 6.0], np.float32)}
    rows = np.arange(10, dtype=np.float32).reshape(5, 2)
    expected = (rows - mean) / scale @ head["weight"].T + head["bias"]
    np.testing.assert_allclose(head_scores(heads._unscaled(head, mean, scale), rows), expected, rtol=1e-4)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"num_hops": 0}, "num_hops to be an integer >= 1 and <= 2, got 0"),
        ({"learner_share": 0.0}, "learner_share"),
        ({"learner_share": 1.1}, "learner_share"),
        ({"epochs": 0}, "epochs"),
        ({"learning_rate": 11.0}, "learning_rate"),
        ({"l2_clip_norm": 0.0}, "l2_clip_norm"),
    ],
)
def test_settings_out_of_range_are_named(settings, message):
    with pytest.raises(InputError, match=message):
        LabelMessages(**settings)


def test_refusals_teach():
    graph = small()
    for unit in (sf.NodeLevel(arcs="incident"), sf.RecordLevel()):
        with pytest.raises(UnsupportedUnitError, match="Use EdgeLevel, or NodeLevel"):
            fit(graph, unit)
    with pytest.raises(InputError, match="num_hops to be 1 at node level, got 2"):
        fit(graph, NODE, num_hops=2)
    with pytest.raises(DataError, match="two labeled training nodes, got 1"):
        fit(replace(graph, y=np.where(np.arange(80) == np.flatnonzero(graph.train_mask)[0], graph.y, -1)))
    with pytest.raises(DataError, match="at least 2 classes"):
        fit(replace(graph, y=np.zeros(80, np.int64), classes=("a",)), NODE)
    with pytest.raises(InputError, match="budget"):
        fit(graph, EDGE, None)


def test_the_verifier_knows_what_the_method_refuses():
    certificate = fit(small(), NODE).certificate.values
    rules = rules_of("label-messages")
    assert not [*rules.setting_faults(certificate), *origin_faults(certificate, rules)]
    more = {**certificate, "settings": {**certificate["settings"], "num_hops": 2}}
    assert [*rules.setting_faults(more)] == ["certificate.json: settings.num_hops: expected 1 under unit node, got 2"]
    origin = [{"ledger_head": "0" * 64, "epsilon": 1.0, "delta": 1e-6}]
    borrowed = {**certificate, "composition": {**certificate["composition"], "builds_on": origin}}
    assert not [*origin_faults(borrowed, rules)]
    assert "linear takes no weights from another run" in next(
        origin_faults({**borrowed, "method": "linear"}, rules_of("linear"))
    )
    assert not [*origin_faults(borrowed, rules_of("progap"))]


@pytest.mark.parametrize(("unit", "more"), [(ARC, 0.3), (EDGE, 0.3), (NODE, 0.15)])
def test_they_learn_from_a_dense_graph(unit, more):
    graph = small(num_nodes=600, num_classes=4, mean_degree=80, homophily=0.9)
    test = graph.test_mask
    majority = np.bincount(graph.y[test]).max() / test.sum()
    run = fit(graph, unit, sf.Budget(8.0, 1e-5), epochs=100)
    assert (run.predict(graph) == graph.y)[test].mean() > majority + more


@pytest.mark.parametrize("unit", [NODE, sf.NodeLevel(relation="replace")], ids=lambda unit: unit.relation)
def test_a_tiny_budget_runs_or_is_refused_before_anything_is_charged(unit):
    run = fit(small(), unit, sf.Budget(0.05, 1e-6), epochs=100)
    assert run.plan.event("head").noise_multiplier == 2048
    assert 0.0499 < run.certificate.epsilon <= 0.05
    with pytest.raises(InputError, match="epsilon to be within reach"):
        LabelMessages().calibrate(sf.Budget(0.001, 1e-6), unit, small().public_facts(unit))
