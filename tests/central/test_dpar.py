"""Method dpar: what it learns, what it charges, what its predictions read, what it refuses, and what its verifier notices."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
from central_nodes import EASY, GRAPH, accuracy, noticed
from central_nodes import INCIDENT as NODE
from central_nodes import fitted as fit
from verify_written import Held

import sfumato as sf
from sfumato import verify
from sfumato.bounded._appr_release import STEPS
from sfumato.bounded._occurrences import readers
from sfumato.central import _dpar as module
from sfumato.central import _two_layers
from sfumato.central._appr import Rows, exact_rows, loss_weights, random_rows, worth_releasing
from sfumato.central._dpar import power_iteration
from sfumato.errors import InputError
from sfumato.privacy.accounting import central_limit_mu
from sfumato.verify._methods import rules_of

NOISY = ("gaussian", "exponential", "exponential-laplace")
SETTINGS = {"mechanism": "gaussian", "num_roots": 40, "steps": 30, "width": 8, "learning_rate": 0.05}


def fitted(unit=NODE, epsilon=4.0, graph=GRAPH, **settings):
    return fit(sf.DPAR(**{**SETTINGS, **settings}), unit, graph, epsilon, 1e-4)


@pytest.mark.parametrize(
    "settings",
    [{"mechanism": "none", "num_roots": None}, {"mechanism": "random", "occurrences": 1, "num_roots": None},
     {"mechanism": "auto", "num_roots": None, "batch_size": 100}],
)  # fmt: skip
def test_it_learns_where_noise_is_small(settings):
    assert accuracy(fitted(graph=EASY, epsilon=40.0, **settings), EASY) > 0.7  # of about 0.4 for one class


def test_without_privacy_the_test_graph_helps_where_features_say_little():
    graph = GRAPH.with_split((0.3, 0.0, 0.7), seed=0)
    runs = [fitted(sf.NoPrivacy(), graph=graph, num_roots=None, public_test_graph=public) for public in (True, False)]
    assert accuracy(runs[0], graph) > accuracy(runs[1], graph) + 0.05


@pytest.mark.parametrize("mechanism", NOISY)
def test_rows_get_the_part_of_the_budget_that_their_noise_is_chosen_for(mechanism):
    rows = Rows(mechanism, 70, 2000, 4, 0.001)
    for noise in (0.5, 5.0):
        assert 0.8 / noise < central_limit_mu([release.event for release in rows.releases(noise)]) < 1.3 / noise


def test_selected_nodes_are_the_largest_where_noise_is_small():
    rows, exact = Rows("exponential", 3, 300, 2, 1.0), exact_rows(GRAPH, np.arange(3), module.Walk())
    found = rows.exact(GRAPH, np.arange(3), module.Walk()).toarray()
    assert (np.sort(found, axis=1)[:, -2:] == 0.5).all()
    assert all(
        set(np.argsort(-row)[:2]) == set(np.flatnonzero(kept)) for row, kept in zip(exact.toarray(), found, strict=True)
    )


@pytest.mark.parametrize("mechanism", [*NOISY, "random"])
@pytest.mark.parametrize("most", [1, 3])
def test_losses_read_a_node_as_often_as_is_charged(monkeypatch, mechanism, most):
    seen, real = [], _two_layers.split_steps

    def spied(network, start, settings, key, **more):
        seen.append((network, settings, more["leave_out"]))
        return real(network, start, settings, key, **more)

    monkeypatch.setattr(_two_layers, "split_steps", spied)
    for relation in ("remove", "replace"):
        run = fitted(
            sf.NodeLevel(arcs="incident", relation=relation), mechanism=mechanism, occurrences=most, batch_size=30
        )
        event, (network, settings, leave_out) = run.plan.event("network"), seen.pop()
        split = network.split
        assert getattr(event, "occurrences", 1) == most
        assert np.bincount(split.order).max() <= most
        assert settings.noise_multiplier == event.noise_multiplier
        assert (settings.sampling_prob, settings.steps) == (event.sampling_prob, event.steps) == (0.75, 30)
        assert leave_out == (relation == "remove")
        assert event.relation == ("add-remove" if leave_out else "replace")
        assert split.num_groups == 40
        assert GRAPH.train_mask[split.order].all()


def test_weights_of_losses_are_trimmed_and_sum_to_one():
    roots = np.arange(20)
    kept = loss_weights(random_rows(20, 30, 8, seed=1), roots, 2)
    assert readers(kept, roots).max() <= 2
    sums = np.asarray(kept.sum(1)).ravel()
    assert np.allclose(sums[sums > 0], 1)


@pytest.mark.parametrize("bound", [0.05, 0.5, 100.0])
def test_columns_are_clipped_where_that_is_asked_for_and_read_as_often(bound):
    roots, matrix = np.arange(20), random_rows(20, 30, 8, seed=1)
    trimmed, clipped = loss_weights(matrix, roots, 2), loss_weights(matrix, roots, 2, bound)
    assert np.array_equal(trimmed.toarray() != 0, clipped.toarray() != 0)
    mass = np.asarray(clipped.sum(0)).ravel()
    assert mass.max() == pytest.approx(min(bound, 2 / 8))  # two readers with entries of 1 / 8
    if bound == 100.0:
        assert set(clipped.data) == {1 / 8}


def test_a_column_clip_is_certified_where_it_is_set_and_changes_no_event():
    run, plain = (fitted(mechanism="random", column_clip=bound) for bound in (0.1, None))
    assert "column_clip" not in plain.certificate.values["settings"]
    assert run.certificate.values["settings"]["column_clip"] == 0.1
    assert run.plan.releases == plain.plan.releases
    assert not list(noticed(run))
    assert any("column_clip" in one for one in noticed(run, column_clip=0.0))
    assert any((run.weights[name] != plain.weights[name]).any() for name in run.weights)


@pytest.mark.parametrize("mechanism", [*NOISY, "unreleased"])
def test_a_charge_precedes_what_it_pays_for(monkeypatch, mechanism):
    """Rows are computed when every release of them is in the ledger, and groups when the network is."""
    charged, real = [], sf.method.contract.Session.charge
    monkeypatch.setattr(
        sf.method.contract.Session, "charge", lambda self, name: charged.append(name) or real(self, name)
    )
    seen, rows = [], sf.central._appr.exact_rows
    monkeypatch.setattr(sf.central._appr, "exact_rows", lambda *given: seen.append(list(charged)) or rows(*given))
    examples = module.root_examples
    monkeypatch.setattr(module, "root_examples", lambda *given: seen.append(list(charged)) or examples(*given))
    run = fitted(mechanism=mechanism)
    names = [release.name for release in run.plan.releases]
    assert seen == [names[:-1] or names, names]


def test_a_public_test_graph_is_declared_and_no_prediction_reads_training_nodes(runs):
    assert module.DECLARED not in runs["gaussian"].certificate.values["caveats"]
    run = fitted(public_test_graph=True)
    assert module.DECLARED in run.certificate.values["caveats"]
    x, outside = GRAPH.x.copy(), ~GRAPH.train_mask
    x[GRAPH.train_mask] = 0
    other = replace(GRAPH, x=x)
    assert np.array_equal(run.predict_proba(other)[outside], run.predict_proba(GRAPH)[outside])
    scores = np.random.default_rng(0).normal(size=(400, 3)).astype(np.float32)
    mixed = power_iteration(GRAPH, scores, 0.25, 2)
    assert np.array_equal(mixed[GRAPH.train_mask], scores[GRAPH.train_mask])
    assert (mixed[outside] != scores[outside]).any()


def test_the_default_releases_rows_only_where_they_can_be_told_from_noise():
    facts = GRAPH.public_facts(NODE)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        method = sf.DPAR(num_roots=1, top_k=1, appr_share=0.9)
        plans = [method.calibrate(sf.Budget(epsilon, 1e-4), NODE, facts) for epsilon in (8.0, 40.0)]
    assert [plan.method.mechanism for plan in plans] == ["none", "gaussian"]
    assert not any(
        worth_releasing(sf.Budget(16.0, 2e-3), Rows("gaussian", roots, 2396, top, 0.01), 0.5)
        for roots in (70, 2396) for top in (4, 16)
    )  # fmt: skip


@pytest.mark.parametrize(
    ("settings", "epsilon", "warned"),
    [({}, 4.0, True), ({"mechanism": "exponential"}, 4.0, True), ({"mechanism": "unreleased"}, 4.0, True),
     ({"mechanism": "none"}, 4.0, False), ({"mechanism": "random"}, 4.0, False),
     ({"num_roots": 1, "top_k": 1, "appr_share": 0.9}, 40.0, False)],
)  # fmt: skip
def test_rows_that_cannot_pay_are_warned_of_and_still_released(settings, epsilon, warned):
    run = fitted(epsilon=epsilon, **settings)
    assert ("rows-noise" in [code for code, _ in run.plan.caveats]) == warned
    assert not any("Mechanism auto" in one for one in run.certificate.values["caveats"])


@pytest.mark.parametrize(
    ("field", "value"),
    [("mechanism", "best"), ("num_roots", 0), ("top_k", 0), ("occurrences", 0), ("appr_share", 1.0), ("row_clip", 0.0),
     ("alpha", 0.0), ("rho", 1.0), ("batch_size", 0), ("public_test_graph", 1), ("root_seed", -1),
     ("column_clip", 0.0)],
)  # fmt: skip
def test_settings_out_of_range_are_refused(field, value):
    with pytest.raises(InputError, match=field):
        sf.DPAR(**{field: value})


@pytest.mark.parametrize("mechanism", NOISY)
@pytest.mark.parametrize(
    ("field", "value", "problem"),
    [("num_roots", 39, "expected"), ("steps", 20, "steps"), ("width", 9, "shape"), ("top_k", 5, "expected"),
     ("occurrences", 3, "occurrences"), ("batch_size", 20, "sampling_prob"), ("mechanism", "best", "mechanism"),
     ("public_test_graph", 1, "public_test_graph"), ("root_seed", -1, "root_seed")],
)  # fmt: skip
def test_the_verifier_notices_other_settings(runs, mechanism, field, value, problem):
    assert not list(noticed(runs[mechanism]))
    assert any(problem in one for one in noticed(runs[mechanism], **{field: value}))


@pytest.fixture(scope="module")
def runs():
    return {mechanism: fitted(mechanism=mechanism) for mechanism in (*NOISY, "none", "unreleased")}


@pytest.mark.parametrize("unit", [NODE, replace(NODE, relation="replace"), sf.NodeLevel(max_out_degree=5)])
def test_rows_that_are_never_released_are_paid_for_by_every_root_of_a_step(unit):
    run = fitted(unit, mechanism="unreleased", occurrences=2, batch_size=30)
    (release,) = run.plan.releases
    assert (release.event.occurrences, release.event.relation, release.event.sampling_prob) == (40, "replace", 0.75)
    assert not run.released
    certificate = run.certificate.values
    assert certificate["who_may_see"]["anyone"] == ["weights"]
    assert "PageRank rows" not in str(certificate["who_may_see"]["anyone"])
    (planned,) = rules_of("dpar").releases(certificate)
    (told,) = certificate["releases"]
    assert not list(planned.faults("", told))
    for forged in ({"occurrences": 2}, {"relation": "add-remove"}, {"sampling_prob": 0.5}):
        assert list(planned.faults("", {**told, "event": {**told["event"], **forged}}))


@pytest.mark.parametrize("mechanism", NOISY)
def test_the_verifier_notices_rows_that_cannot_be_released(runs, mechanism):
    run = runs[mechanism]
    (planned, *_) = rules_of("dpar").releases(run.certificate.values)
    stored = {name: Held(array.copy()) for name, array in run.released.items()}
    assert not list(planned.value_faults(stored))
    columns = stored["appr/columns"].array()
    columns[0, :2] = columns[0, 1::-1]
    assert any("ascending" in one for one in planned.value_faults(stored))
    columns[0, -1] = 300
    assert any("expected 0 to 299" in one for one in planned.value_faults(stored))


@pytest.mark.parametrize(
    "settings",
    [{"mechanism": "none"}, {"mechanism": "random", "occurrences": 1}, {"mechanism": "gaussian", "batch_size": 20},
     {"mechanism": "exponential-laplace", "occurrences": 3, "column_clip": 1.0},
     {"mechanism": "unreleased", "batch_size": 20}],
)  # fmt: skip
@pytest.mark.parametrize("unit", [NODE, replace(NODE, relation="replace"), sf.NodeLevel(max_out_degree=5)])
def test_a_saved_run_verifies_and_predicts_the_same(tmp_path, unit, settings):
    run = fitted(unit, **settings, public_test_graph=True)
    owned = unit.arcs == "owned"
    prices = run.certificate.values.get("prices", [])
    assert {price["epsilon"] for price in prices} == ({run.certificate.epsilon} if owned else set())
    folder = run.save(tmp_path / "run")
    found = verify.verify(folder)
    assert found.valid, found.problems
    assert np.array_equal(sf.load(folder).predict(GRAPH), run.predict(GRAPH))


def test_embeddings_are_what_the_second_layer_read_in_training(runs):
    run, plain = runs["gaussian"], fitted(mechanism="none", num_roots=None)
    own = plain.plan.method.embeddings(plain.ran, plain.weights, plain.released, GRAPH)
    scores = own @ plain.weights["network.second.weight"].T + plain.weights["network.second.bias"]
    np.testing.assert_allclose(
        scores, plain.plan.method.scores(plain.ran, plain.weights, plain.released, GRAPH), atol=1e-5
    )
    method, weights = run.plan.method, run.weights
    found = method.embeddings(run.ran, weights, run.released, GRAPH)
    changed = np.flatnonzero((found != method.embeddings(run.ran, weights, {}, GRAPH)).any(axis=1))
    assert set(changed) <= set(np.flatnonzero(GRAPH.train_mask)[method.roots(run.plan.public)])
    assert len(changed) > 20


def test_released_rows_are_whole_steps(runs):
    rows = runs["gaussian"].plan.method.rows(runs["gaussian"].plan.public)
    found = rows.matrix(runs["gaussian"].released)
    assert np.array_equal(np.rint(found.data / (0.01 / STEPS)), runs["gaussian"].released["appr/values"].ravel())
