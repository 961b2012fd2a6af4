"""Label messages: what is sent, where and with what noise; who learns; prediction from what was released."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from central_hops import ARC, BUDGET, EDGE, differing, fitted, small

import sfumato as sf
from sfumato.catalog import method_named
from sfumato.central import _counts as counts
from sfumato.central import _labels as labels
from sfumato.central import _rows as heads
from sfumato.central import _shares as shares
from sfumato.central._labels import LabelMessages
from sfumato.central._shares import simplex
from sfumato.central._tuned import Tuned
from sfumato.graph._graph import Graph
from sfumato.method import _plan as plans
from sfumato.privacy.calibration import gaussian_noise_multiplier
from sfumato.privacy.events import GaussianEvent
from sfumato.verify import verify

NODE, NONE = sf.NodeLevel(), sf.NoPrivacy()
CAPPED, REPLACE = sf.NodeLevel(max_out_degree=3), sf.NodeLevel(relation="replace")
TRAIN, TEST = 0, 2


def fit(graph, unit=EDGE, **settings):
    return fitted(LabelMessages(**{"epochs": 5, **settings}), graph, unit)


def arcs_of(arcs):
    targets = np.repeat(np.arange(arcs.num_nodes), np.diff(arcs.offsets))
    return set(zip(arcs.sources.tolist(), targets.tolist(), strict=True))


def test_codes_are_corners_of_a_simplex_around_zero():
    for classes in (2, 3, 7):
        codes = simplex(classes).astype(float)
        cosine = np.where(np.eye(classes), 1, -1 / (classes - 1))
        np.testing.assert_allclose(codes @ codes.T, cosine, atol=1e-6)
        np.testing.assert_allclose(codes.sum(0), 0, atol=1e-6)


def test_edge_level_sends_each_edge_once_and_never_back_to_a_labeled_training_node(hops):
    graph = small()
    graph = replace(graph, y=np.where(np.arange(150) % 7 == 0, -1, graph.y))
    fit(graph)
    known = graph.train_mask & (graph.y >= 0)
    first, second = (arcs_of(arcs) for arcs, *_ in hops)
    assert all(known[source] for source, _ in first)
    assert not any(known[source] or known[target] for source, target in second)
    kept = first | second
    assert len(first) + len(second) == len(kept) == graph.num_edges
    assert not any((target, source) in kept for source, target in kept)
    np.testing.assert_array_equal(hops[0][1][known], np.eye(3)[graph.y[known]])
    np.testing.assert_allclose(hops[1][1].sum(axis=1), 1, atol=1e-5)


@pytest.mark.parametrize("unit", [NONE, ARC])
def test_single_arcs_keep_all_but_those_back_to_training_nodes(unit, hops):
    graph = Graph.from_edges([0, 1, 0, 2, 3, 0, 3], [1, 0, 2, 0, 3, 0, 2], 4, directed=True, self_loops="keep",
                             y=[0, 1, 0, 1], x=np.eye(4)).with_roles([TRAIN, TRAIN, TEST, TEST])  # fmt: skip
    fit(graph, unit)
    assert [arcs_of(arcs) for arcs, *_ in hops] == [{(0, 1), (1, 0), (0, 2)}, {(3, 2)}]


@pytest.mark.parametrize("unit", [NODE, CAPPED])
def test_node_level_sends_shares_of_training_labels_to_receivers_alone(unit, hops):
    graph = small()
    hidden = np.arange(150) % 9 == 0
    graph = replace(graph, y=np.where(hidden, -1, graph.y))
    run = fit(graph, unit)
    (arcs, rows, _), train = hops[0], graph.train_mask
    kept, copies = arcs_of(arcs), np.bincount(arcs.sources, minlength=150)
    learns = train & (labels.public_order(train, 0) >= train.sum() - math.ceil(0.1 * train.sum()))
    assert all(learns[target] for _, target in kept if train[target])
    assert all(train[source] and source != target for source, target in kept)
    assert copies.max() <= (unit.max_out_degree or 150)
    lengths = np.linalg.norm(rows, axis=1) * np.sqrt(np.maximum(copies, 1))
    np.testing.assert_allclose(lengths[train & ~hidden], 1, atol=1e-5)
    assert lengths.max() <= 1
    assert not rows[~train | hidden].any()
    silent = ~run.released["aggregate/1"].any(axis=1)
    np.testing.assert_array_equal(silent, train & ~learns)


def test_node_level_roles_of_nodes_follow_no_label(fixed_key, hops):
    """Arcs, learners and silent rows are the same whatever the labels; other nodes' labels are never read."""
    graph = small()
    one = fit(graph, NODE)
    two = fit(replace(graph, y=np.where(graph.train_mask, graph.y, -1)), NODE)
    assert not differing(one.weights, two.weights) | differing(one.released, two.released)
    fit(replace(graph, y=np.where(np.arange(150) == np.flatnonzero(graph.train_mask)[0], -1, graph.y)), NODE)
    assert arcs_of(hops[0][0]) == arcs_of(hops[2][0])
    moved = replace(graph, y=np.where(graph.train_mask, (graph.y + 1) % 3, graph.y))
    assert differing(one.weights, fit(moved, NODE).weights)


@pytest.mark.parametrize("share", [0.2, 1.0])
def test_learners_are_the_last_training_nodes_in_the_public_order(share, monkeypatch):
    graph, seen, original = small(), [], heads.train
    monkeypatch.setattr(heads, "train", lambda *args, **how: (seen.append(args[2]), original(*args, **how))[1])
    fit(graph, learner_share=share, num_hops=1)
    (classes,) = seen
    rank = labels.public_order(graph.train_mask, 0)
    count = graph.train_mask.sum()
    learn = graph.train_mask & (rank >= count - math.ceil(share * count))
    np.testing.assert_array_equal(classes, graph.y[learn])


def without_arcs(graph):
    return Graph.from_edges([], [], 150, directed=False, x=graph.x, y=graph.y, classes=graph.classes, roles=graph.roles)


def test_a_graph_with_other_public_arcs_is_another_one():
    graph = small()
    with pytest.raises(sf.errors.InputError, match="the same node ids but other arcs, which are public"):
        fit(graph, NONE).predict_proba(without_arcs(graph))


@pytest.mark.parametrize("unit", [ARC, EDGE, NODE, REPLACE])
def test_predictions_never_read_arcs_and_outlive_storage(unit, tmp_path):
    graph = small()
    run = fit(graph, unit, num_hops=1 if unit.name == "node" else 2)
    bare = without_arcs(graph)
    np.testing.assert_array_equal(run.predict_proba(bare), run.predict_proba(graph))
    loaded = sf.load(run.save(tmp_path / "run"))
    np.testing.assert_array_equal(loaded.predict_proba(bare), run.predict_proba(graph))
    assert verify(tmp_path / "run").problems == ()


@pytest.mark.parametrize("unit", [EDGE, NODE])
def test_one_key_gives_the_same_bits_and_another_does_not(unit, monkeypatch):
    graph, fits = small(), []
    for key in (bytes(32), bytes(32), bytes([1] * 32)):
        monkeypatch.setattr("sfumato.method._opening.new_key", lambda key=key: key)
        fits.append(fit(graph, unit))
    assert not differing(fits[0].weights, fits[1].weights) | differing(fits[0].released, fits[1].released)
    assert differing(fits[0].released, fits[2].released) == set(fits[0].released)


@pytest.mark.parametrize("hops", [1, 2])
@pytest.mark.parametrize("unit", [ARC, EDGE])
def test_counts_with_gaussian_noise_are_one_event_that_touches_one_row(unit, hops, tmp_path):
    graph = small()
    run = fit(graph, unit, num_hops=hops, noise="gaussian")
    (release,) = run.plan.releases
    assert (release.event, release.draws) == (GaussianEvent(release.event.noise_multiplier), graph.num_classes)
    assert 0.99 * BUDGET.epsilon < run.plan.epsilon <= BUDGET.epsilon
    assert counts.count_deviation(run.ran) == pytest.approx(release.event.noise_multiplier)
    assert release.event.noise_multiplier == pytest.approx(
        gaussian_noise_multiplier(BUDGET.epsilon, BUDGET.delta), rel=1e-6
    )
    loaded = sf.load(run.save(tmp_path / "run"))
    np.testing.assert_array_equal(loaded.predict_proba(graph), run.predict_proba(graph))
    assert verify(tmp_path / "run").problems == ()


@pytest.mark.parametrize("noise", ["laplace", "gaussian", "auto"])
def test_where_there_are_no_counts_their_noise_is_no_setting(noise, tmp_path):
    """A certificate that names it is refused, after the budget is spent."""
    graph = sf.graph.campus(120, seed=0).with_split()
    plan = LabelMessages(noise=noise, epochs=1).calibrate(
        BUDGET, CAPPED, graph.public_facts(CAPPED, assume_public=True)
    )
    assert plan.method.settings["noise"] is None
    assert verify(plan.fit(graph).save(tmp_path / "run")).valid


def test_the_noise_is_chosen_by_unit_rule_and_budget_alone():
    facts, method = small().public_facts, LabelMessages().charged_to("gdp")
    assert LabelMessages().charged_to("basic") == LabelMessages()
    assert LabelMessages(noise="laplace").charged_to("gdp").noise == "laplace"
    chosen = {unit.name: method.calibrate(BUDGET, unit, facts(unit)).method.noise for unit in (EDGE, NODE)}
    assert chosen == {"edge": "gaussian", "node": None}
    assert method.calibrate(None, NONE, facts(NONE)).method.noise is None
    assert method.calibrate(sf.Budget(1.0, 0.0), EDGE, facts(EDGE)).method.noise == "laplace"
    for rule, noise in (("basic", None), ("gdp", "gaussian")):
        assert method_named("auto").charged_to(rule).calibrate(BUDGET, EDGE, facts(EDGE)).method.noise == noise
    for wrong in ({"noise": "normal"}, {"noise": 1}):
        with pytest.raises(sf.errors.InputError, match="noise"):
            LabelMessages(**wrong)
    with pytest.raises(sf.errors.InputError, match="delta above 0"):
        LabelMessages(noise="gaussian").calibrate(sf.Budget(1.0, 0.0), EDGE, facts(EDGE))


@pytest.mark.parametrize(("unit", "hops_of"), [(EDGE, (1, 1)), (EDGE, (1, 2)), (NODE, (1, 1))])
def test_a_tuned_run_predicts_with_the_noise_of_its_candidate(unit, hops_of, tmp_path):
    graph = small()
    candidates = [LabelMessages(num_hops=k, epochs=e) for k, e in zip(hops_of, (3, 4), strict=True)]
    run = Tuned(candidates, mean_trials=2).calibrate(BUDGET, unit, graph.public_facts(unit)).fit(graph)
    chosen = candidates.index(run.plan.method)
    event = run.plan.event("tuned").candidates[chosen][0]
    if unit is NODE:
        assert shares._stddev(run.ran) == event.noise_multiplier
    else:
        assert counts.laplace_scale(run.ran) == 1 / Fraction(event.epsilon)
    loaded = sf.load(run.save(tmp_path / "run"))
    assert loaded.ran == run.ran
    np.testing.assert_array_equal(loaded.predict_proba(graph), run.predict_proba(graph))
    strange = {**run.certificate.values, "settings": LabelMessages(num_hops=1, epochs=7).settings}
    with pytest.raises(ValueError, match="not in list"):
        plans._ran(run.plan, strange)
