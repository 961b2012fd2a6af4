"""Settings of graph-split beside hashed groups: groups that nodes choose, even groups, and early stopping."""

from dataclasses import replace

import numpy as np
import pytest
from central_nodes import EASY, GRAPH, INCIDENT, accuracy, noticed
from central_nodes import fitted as fit

import sfumato as sf
from sfumato.bounded._splits import even_groups
from sfumato.central import _stopping as stopping
from sfumato.central._arrivals import reads_features_alone
from sfumato.errors import InputError, UnsupportedUnitError
from sfumato.graph._synthetic import stochastic_block_model

OWNED, REPLACED = sf.NodeLevel(), sf.NodeLevel(relation="replace")
SHORT = {"num_groups": 100, "batch_size": 100, "steps": 12, "width": 8, "learning_rate": 0.05}


def linked(unit=OWNED, epsilon=4.0, graph=EASY, groups="linked"):
    return fit(sf.GraphSplit(groups=groups), unit, graph, epsilon)


def stopped(unit=OWNED, epsilon=40.0, graph=EASY, **settings):
    return fit(sf.GraphSplit(**{**SHORT, "checkpoints": 4, **settings}), unit, graph, epsilon)


@pytest.mark.parametrize("unit", [OWNED, REPLACED, sf.NodeLevel(max_out_degree=20), sf.NoPrivacy()])
def test_linked_groups_learn(unit):
    assert accuracy(linked(unit, 30.0), EASY) > 0.7  # of about 0.4 for one class


def test_links_help_where_few_nodes_have_a_label():
    """Against groups of one: features of nodes without a label count for the classes that they link to."""
    graph = stochastic_block_model(900, 3, mean_degree=12, num_features=40, seed=1)
    noisy = np.eye(3, 40)[graph.y] + np.random.default_rng(1).normal(size=(900, 40))
    graph = replace(graph, x=noisy.astype(np.float32)).with_split([0.05, 0.05, 0.9], seed=0)
    found = [accuracy(linked(graph=graph, epsilon=8.0, groups=groups), graph) for groups in ("linked", "alone")]
    assert found[0] > found[1] + 0.1


@pytest.mark.parametrize("unit", [OWNED, INCIDENT])
def test_groups_of_one_read_no_arcs_and_hold_for_incident_ones(unit):
    run = linked(unit, 30.0, groups="alone")
    assert accuracy(run, EASY) > 0.7
    assert not list(noticed(run))
    assert [release.arc_change for release in run.plan.releases] == [unit.no_arc_change] * 3


def test_linked_groups_predict_from_features_alone():
    run = linked()
    other = replace(stochastic_block_model(50, 3, mean_degree=10, num_features=6, seed=1), node_ids=np.arange(900, 950))
    assert [release.name for release in run.plan.releases] == ["center", "sums", "scale"]
    assert {name: part.shape for name, part in run.weights.items()} == {"center": (6,), "sums": (3, 6), "scale": (1,)}
    assert run.plan.method.predicts_alone(sf.NoPrivacy())
    assert reads_features_alone(run, other)
    without = replace(other, indptr=np.zeros_like(other.indptr), indices=other.indices[:0])
    scores = [run.plan.method.scores(run.plan, run.weights, {}, one) for one in (other, without)]
    assert np.array_equal(*scores)


def test_linked_groups_need_owned_arcs():
    with pytest.raises(UnsupportedUnitError, match="groups='hashed'"):
        linked(INCIDENT)


def test_even_groups_are_as_equal_as_can_be_and_read_ids_and_roles_alone():
    train = np.arange(50) % 3 > 0
    groups = even_groups(np.arange(50), train, 4, seed=7)
    assert sorted(np.bincount(groups[train])) == [8, 8, 8, 9]
    moved = even_groups(np.arange(50)[::-1], train[::-1], 4, seed=7)
    assert np.array_equal(moved[::-1], groups)  # a function of the id, wherever it stands
    assert not np.array_equal(even_groups(np.arange(50), train, 4, seed=8)[train], groups[train])


def test_even_groups_train_as_hashed_ones_do():
    run = fit(sf.GraphSplit(**{**SHORT, "steps": 40, "groups": "even"}), INCIDENT, EASY, 40.0)
    assert accuracy(run, EASY) > 0.7
    assert not list(noticed(run))


@pytest.mark.parametrize("unit", [OWNED, REPLACED, INCIDENT])
def test_paid_checkpoints_are_charged_and_the_best_is_kept(monkeypatch, unit):
    """With little noise what is kept is right most often on validation nodes, of four; the noisy numbers are stored."""
    kept = []
    real = stopping.weight_arrays
    monkeypatch.setattr(stopping, "weight_arrays", lambda *given: kept.append(real(*given)) or kept[-1])
    run = stopped(unit)
    assert [release.name for release in run.plan.releases] == ["network", "choice"]
    counts = run.weights["choice"]
    assert len(kept) == len(counts) == 4
    best = int(np.argmax(counts))
    assert all(np.array_equal(run.weights[name], part) for name, part in kept[best].items())
    right = stopping.Stopping(4, 12, run.plan, EASY)._right(
        [run.plan.method.scores(run.plan, one, {}, EASY) for one in kept]
    )
    assert counts == pytest.approx(right.sum(axis=0) * 2, abs=12)


def test_checkpoints_are_free_where_validation_nodes_are_public_and_the_claim_says_so():
    run = stopped(public_validation=True)
    assert [release.name for release in run.plan.releases] == ["network"]
    assert "choice" not in run.weights
    assert stopping.DECLARED in run.certificate.values["caveats"]
    assert not list(noticed(run))


def test_an_early_step_is_kept_where_later_ones_are_worse():
    """At a rate that is far too large the last of many steps loses to one along the way."""
    settings = {"learning_rate": 3.0, "steps": 30, "checkpoints": 30, "num_groups": 1}
    early = stopped(sf.NoPrivacy(), graph=GRAPH, **settings)
    last = stopped(sf.NoPrivacy(), graph=GRAPH, **{**settings, "checkpoints": 0})
    right = [(run.predict(GRAPH) == GRAPH.y)[GRAPH.val_mask].mean() for run in (early, last)]
    assert right[0] > right[1]


def test_a_row_of_the_comparison_has_norm_one_at_most_and_none_without_a_label():
    run = stopped()
    hidden = replace(EASY, y=np.where(EASY.val_mask, -1, EASY.y))
    scores = [np.eye(3, dtype=np.float32)[EASY.y]] * 4
    rows = stopping.Stopping(4, 12, run.plan, EASY)._right(scores)
    assert 0.999 < np.linalg.norm(rows, axis=1).max() <= 1
    assert not stopping.Stopping(4, 12, run.plan, hidden)._right(scores).any()


@pytest.mark.parametrize(
    ("make", "settings", "problem"),
    [(linked, {"groups": "even"}, None), (linked, {"checkpoints": 3}, "checkpoints"),
     (stopped, {"checkpoints": 13}, "at most 12"), (stopped, {"checkpoints": 3}, "shape"),
     (stopped, {"steps": 13}, "steps"), (stopped, {"groups": "none"}, "groups")],
)  # fmt: skip
def test_the_verifier_notices_other_settings(make, settings, problem):
    run = make(epsilon=8.0)
    assert not list(noticed(run))
    try:
        assert any(problem in one for one in noticed(run, **settings))
    except (TypeError, ValueError):  # another number of releases than the settings say
        assert problem is None


@pytest.mark.parametrize(("make", "release", "name"), [(linked, 1, "center"), (stopped, 1, "steps")])
def test_the_verifier_derives_how_noise_is_split(make, release, name):
    run = make(epsilon=8.0)
    event = run.certificate.values["releases"][release]["event"]
    event["noise_multiplier"] *= 0.9
    assert any("noise_multiplier: expected" in one for one in noticed(run))


@pytest.mark.parametrize(
    ("settings", "problem"),
    [({"groups": "metis"}, "groups"), ({"checkpoints": 101}, "checkpoints"), ({"public_validation": True}, "without checkpoints"),
     ({"groups": "linked", "checkpoints": 2}, "makes no steps")],
)  # fmt: skip
def test_settings_that_cannot_be_are_refused(settings, problem):
    with pytest.raises(InputError, match=problem):
        sf.GraphSplit(**settings)


def test_runs_of_before_are_named_as_they_were():
    assert not {"groups", "checkpoints", "public_validation"} & set(sf.GraphSplit().settings)


def test_the_verifier_refuses_linked_groups_for_incident_arcs():
    run = linked(INCIDENT, groups="alone")
    assert any("no proof for incident arcs" in one for one in noticed(run, groups="linked"))
