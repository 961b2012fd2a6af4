"""Counts that calibrate prediction sets where labels are protected: sensitivity, noise, verifier, refusals."""

import itertools
import json
import shutil
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import sfumato as sf
from sfumato.central._set_calibration import NAME, SetCalibration, l1_sensitivity
from sfumato.errors import DataError, InputError, UnsupportedUnitError
from sfumato.graph._synthetic import stochastic_block_model
from sfumato.method._choosing import BINS
from sfumato.verify import verify

GRAPH = stochastic_block_model(40, 2, mean_degree=6, num_features=3, seed=2).with_split((0.5, 0.3, 0.2), seed=1)
UNITS = {relation: sf.NodeLevel(relation=relation) for relation in ("remove", "replace")}


def trained(unit, graph=GRAPH):
    method = sf.LabelMessages(epochs=2)
    return method.calibrate(sf.Budget(8.0, 1e-3), unit, graph.public_facts(unit)).fit(graph)


@pytest.fixture(scope="module", params=UNITS)
def fitted(request):
    return trained(UNITS[request.param])


def neighbors(graph, node, relation):
    """Graphs that differ in features and label of one node: empty, or others. Arcs are not read, as another test shows."""
    x, y = graph.x.copy(), graph.y.copy()
    if relation == "remove":
        x[node], y[node] = 0, -1
        yield replace(graph, x=x, y=y)
        return
    for label, scale in itertools.product((-1, 0, 1), (-9.0, 9.0)):
        x[node], y[node] = scale * np.array([1, -1, 1], np.float32), label
        yield replace(graph, x=x.copy(), y=y.copy())


def test_one_record_moves_counts_by_no_more_than_the_sensitivity(fitted):
    unit = fitted.plan.unit
    method = SetCalibration(fitted)
    counts, moved = method.counted(GRAPH), []
    assert counts.sum() == (GRAPH.val_mask & (GRAPH.y >= 0)).sum()
    for node in range(GRAPH.num_nodes):
        for other in neighbors(GRAPH, node, unit.relation):
            moved.append(int(np.abs(method.counted(other) - counts).sum()))
    assert max(moved) == l1_sensitivity(unit)
    assert (np.array(moved) == 0).any()  # nodes in other roles are in no count


def test_noise_has_the_law_of_the_event_and_a_near_miss_has_not(fitted, monkeypatch):
    plan = sf.calibrate_sets(fitted, sf.Budget(2.0, 0.0))
    assert plan.epsilon == pytest.approx(2.0)
    assert plan.delta == 0
    (release,) = plan.releases
    scale = l1_sensitivity(plan.unit) / Fraction(release.event.epsilon)
    counts = SetCalibration(fitted).counted(GRAPH)
    drawn = np.concatenate([plan.fit(GRAPH).released[NAME] - counts for _ in range(40)])
    expected = (
        2 * np.exp(-1 / float(scale)) / (1 - np.exp(-2 / float(scale)))
    )  # mean absolute value of discrete Laplace noise
    half = 4 * np.abs(drawn).std() / len(drawn) ** 0.5
    assert abs(np.abs(drawn).mean() - expected) < half
    for factor in (Fraction(2, 3), Fraction(3, 2)):
        near = float(scale * factor)
        miss = 2 * np.exp(-1 / near) / (1 - np.exp(-2 / near))
        assert abs(np.abs(drawn).mean() - miss) > half


def test_two_fits_and_other_counts_have_other_noise(fitted):
    plan = sf.calibrate_sets(fitted, sf.Budget(1.0, 0.0))
    assert (plan.fit(GRAPH).released[NAME] != plan.fit(GRAPH).released[NAME]).any()


@pytest.fixture(scope="module")
def saved(fitted, tmp_path_factory):
    """A run and its counts, in one folder."""
    run = fitted.save(tmp_path_factory.mktemp("run") / "run")
    sf.calibrate_sets(fitted, sf.Budget(1.0, 0.0)).fit(GRAPH).save(run / "sets")
    return run


def test_the_verifier_derives_the_claim_and_names_the_run_that_it_builds_on(fitted, saved):
    found = verify(saved / "sets")
    assert found.problems == ()
    assert found.claim_epsilon == pytest.approx(1.0)
    assert [one["ledger_head"] for one in found.builds_on] == [fitted.ledger.head]
    run = verify(saved)
    assert run.valid
    assert "sets was not checked: it holds a release of its own, whose cost this claim does not cover" in run.aside


@pytest.mark.parametrize(("forge", "problem"), [
    (lambda one: one["composition"].update(builds_on=[]), "expected the run whose probabilities were counted, got none"),
    (lambda one: one["settings"].update(bins=16), "settings.bins: expected 32, got 16"),
    (lambda one: one["releases"][0].update(shape=[16]), "shape: expected"),
    (lambda one: one["releases"][0].update(name="aggregate/1"), "releases: expected ['counts']"),
    (lambda one: one["who_may_see"].update(anyone=["counts before noise"]), "who_may_see"),
    (lambda one: one["claim"].update(epsilon=0.5), "claim.epsilon"),
])  # fmt: skip
def test_the_verifier_refuses_what_the_method_cannot_say(saved, tmp_path, forge, problem):
    shutil.copytree(saved / "sets", tmp_path / "sets")
    path = tmp_path / "sets" / "release" / "certificate.json"
    certificate = json.loads(path.read_text())
    forge(certificate)
    path.write_text(json.dumps(certificate, sort_keys=True, separators=(",", ":")) + "\n")
    found = verify(tmp_path / "sets")
    assert not found.valid
    assert any(problem in text for text in found.problems), found.problems


def test_a_run_of_counts_predicts_nothing_and_is_loaded_by_nobody(fitted, saved):
    with pytest.raises(InputError, match="It calibrates prediction sets of the run above it"):
        sf.load(saved / "sets")
    counts = sf.calibrate_sets(fitted, sf.Budget(1.0, 0.0)).fit(GRAPH)
    with pytest.raises(InputError, match="Predict with the trained run"):
        counts.predict_proba(GRAPH)


def test_another_graph_other_roles_and_public_labels_are_refused(fitted):
    plan = sf.calibrate_sets(fitted, sf.Budget(1.0, 0.0))
    with pytest.raises(DataError, match="Expected the graph with the roles of training, got others"):
        plan.fit(GRAPH.with_split((0.5, 0.3, 0.2), seed=7))
    with pytest.raises(InputError, match="other node ids"):
        plan.fit(GRAPH.changed(node_ids=np.arange(40) + 100))
    edge = sf.EdgeLevel(directed=False)
    free = sf.LabelMessages(num_hops=1).calibrate(sf.Budget(1.0, 0.0), edge, GRAPH.public_facts(edge)).fit(GRAPH)
    with pytest.raises(InputError, match="where labels are public, sets cost nothing"):
        sf.calibrate_sets(free, sf.Budget(1.0, 0.0))


def test_rows_for_their_own_nodes_alone_are_not_counted(fitted):
    own = replace(fitted.plan.releases[0], visible_to="the node itself")
    secret = replace(fitted, plan=replace(fitted.plan, releases=(own, *fitted.plan.releases[1:])))
    with pytest.raises(UnsupportedUnitError, match="rows that are for their own node alone"):
        sf.calibrate_sets(secret, sf.Budget(1.0, 0.0))


def test_arcs_move_no_count(fitted):
    lonely = GRAPH.changed(indptr=np.zeros(41, np.int64), indices=GRAPH.indices[:0])
    assert (SetCalibration(fitted).counted(lonely) == SetCalibration(fitted).counted(GRAPH)).all()


def test_sets_of_released_counts_need_no_label(fitted):
    counts = sf.calibrate_sets(fitted, sf.Budget(1.0, 0.0)).fit(GRAPH)
    found = fitted.predictions(GRAPH, counts, coverage=0.8)
    turned = GRAPH.changed(y=np.where(GRAPH.y < 0, -1, 1 - GRAPH.y))
    again = fitted.predictions(turned, counts, coverage=0.8)
    assert (found.sets == again.sets).all()
    facts = found.facts["sets"]
    assert found.facts == again.facts
    assert facts.keys() == {"coverage", "each_class", "validation_nodes", "low"}
    values = counts.released[NAME]
    assert facts["validation_nodes"] == int(values.sum())
    assert values.shape == (BINS,)
    scale = l1_sensitivity(fitted.plan.unit) / Fraction(counts.plan.releases[0].event.epsilon)
    assert counts.plan.method.noisy(counts.released, counts.certificate.epsilon).scale == pytest.approx(float(scale))
    with pytest.raises(InputError, match="which unit node protects"):
        fitted.predictions(GRAPH, counts, coverage=0.8, each_class=True)
    for junk in (
        np.ones(3),
        values,
        fitted,
        sf.calibrate_sets(trained(fitted.plan.unit), sf.Budget(1.0, 0.0)).fit(GRAPH),
    ):
        with pytest.raises(InputError, match="Expected calibration to be sf"):
            fitted.predictions(GRAPH, junk, coverage=0.8)
    with pytest.raises(InputError, match="charges one that pays for a coverage"):
        fitted.predictions(GRAPH, coverage=0.8)
