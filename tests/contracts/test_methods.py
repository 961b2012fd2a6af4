"""What every method of the catalog with a trusted curator promises, under every unit it has a proof for."""

import inspect
from dataclasses import FrozenInstanceError, fields, is_dataclass, replace
from functools import cache

import numpy as np
import pytest
from contracts_quick import BIG, CURATORS, SUPPORTED, UNITS, pixels, quick

import sfumato as sf
from sfumato import verify
from sfumato.catalog import METHODS as EVERY_METHOD
from sfumato.catalog import PAIR_METHODS, method_named
from sfumato.central._set_calibration import SetCalibration
from sfumato.errors import InputError, UnsupportedUnitError
from sfumato.graph._graph import PublicFacts
from sfumato.graph._subgraph import induced
from sfumato.method._plan import Plan
from sfumato.privacy.calibration import pure_cost

METHODS = {name: EVERY_METHOD[name] for name in CURATORS}
BUDGET = sf.Budget(epsilon=2.0, delta=1e-6)
GRAPH, OTHER = BIG, pixels(120, 2, mean_degree=20)
ORDER = np.random.default_rng(0).permutation(120)
TURNED = induced(GRAPH, ORDER)
PILOTED = {("piloted-messages", "aggregate/2"), ("promised-messages", "aggregate/1")}


@cache
def plan_of(name, unit):
    budget = None if unit == "none" else BUDGET
    return quick(name).calibrate(budget, UNITS[unit], GRAPH.public_facts(UNITS[unit]))


PRIVATE = [(name, unit) for name, unit in SUPPORTED if unit != "none"]
UNSUPPORTED = [(name, unit) for name in METHODS for unit in UNITS if (name, unit) not in SUPPORTED]


@cache
def fitted_of(name, unit):
    return plan_of(name, unit).fit(GRAPH)


@pytest.mark.parametrize("name", METHODS)
class TestEveryMethod:
    def test_is_a_frozen_dataclass_with_its_own_name(self, name):
        method = METHODS[name]()
        assert method.name == name
        assert is_dataclass(method)
        assert method == METHODS[name]()
        with pytest.raises(FrozenInstanceError):
            setattr(method, fields(method)[0].name, 1)

    def test_the_card_names_the_units_with_a_proof_and_settings_that_exist(self, name):
        card, known = METHODS[name].card, {field.name for field in fields(METHODS[name])}
        assert {UNITS[unit].name for method, unit in PRIVATE if method == name} == set(card.units)
        assert set(card.options.values()) <= known
        assert all(set(settings) <= known and METHODS[name](**settings) for settings in card.candidates or ())

    def test_refuses_bad_settings(self, name):
        for setting in fields(METHODS[name]):
            with pytest.raises(InputError, match=setting.name):
                METHODS[name](**{setting.name: -1})

    def test_numbers_of_numpy_are_refused_before_anything_is_charged(self, name):
        """Ledger and certificate cannot hold them: a run would spend, and then not verify."""
        settings = {key: value for key, value in method_named(name).settings.items() if type(value) in (int, float)}
        facts = GRAPH.public_facts(UNITS["none"])
        for setting, value in settings.items():
            number = (np.int64 if isinstance(value, int) else np.float32)(value)
            with pytest.raises(InputError, match=f"{setting} to be a number of Python"):
                METHODS[name](**{setting: number}).calibrate(None, UNITS["none"], facts)

    def test_calibration_never_receives_a_graph(self, name):
        assert list(inspect.signature(METHODS[name].calibrate).parameters) == ["self", "budget", "unit", "public"]
        facts = vars(GRAPH.public_facts(UNITS["node"]))
        assert facts.pop("unit") == UNITS["node"]
        assert all(isinstance(value, int | float | bool | tuple | None) for value in facts.values())

    def test_runs_without_privacy_and_then_spends_nothing(self, name):
        fitted = fitted_of(name, "none")
        assert (fitted.plan.epsilon, fitted.plan.delta, fitted.plan.releases) == (None, None, ())
        assert fitted.certificate.values["who_may_see"]["never"] == ["everything in this run"]
        with pytest.raises(InputError, match="budget"):
            method_named(name).calibrate(BUDGET, UNITS["none"], GRAPH.public_facts(UNITS["none"]))

    def test_answers_with_names_and_scores_itself(self, name):
        fitted = fitted_of(name, "none")
        assert fitted.classes_.tolist() == list(GRAPH.classes)
        if name in PAIR_METHODS:
            for refused in (fitted.predictions, fitted.evaluate):
                with pytest.raises(InputError, match="task to be link"):
                    refused(GRAPH)
            return
        frame = fitted.predictions(GRAPH).frame()
        assert frame["node"].tolist() == list(range(GRAPH.num_nodes))
        model = frame[frame["source"] == "model"]
        assert (model["predicted"] == fitted.classes_[fitted.predict(GRAPH)[model.index]]).all()
        np.testing.assert_array_equal(frame[[f"p({one})" for one in GRAPH.classes]], fitted.predict_proba(GRAPH))
        right = (fitted.predict(GRAPH) == GRAPH.y)[GRAPH.test_mask]
        assert fitted.evaluate(GRAPH)["test_scores"]["accuracy"] == pytest.approx(right.mean())


@pytest.mark.parametrize(("name", "unit"), PRIVATE)
class TestEveryPrivatePlan:
    def test_needs_a_budget(self, name, unit):
        with pytest.raises(InputError, match="budget"):
            method_named(name).calibrate(None, UNITS[unit], GRAPH.public_facts(UNITS[unit]))

    def test_is_complete_before_data_and_within_budget(self, name, unit):
        plan = plan_of(name, unit)
        assert isinstance(plan, Plan)
        if not plan.releases:
            assert (plan.epsilon, plan.delta) == (0, 0)
            return
        assert 0.999 * BUDGET.epsilon <= plan.epsilon <= BUDGET.epsilon
        assert plan.delta == BUDGET.delta
        assert len({release.name for release in plan.releases}) == len(plan.releases)
        assert all(min(size for size in release.shape if size is not None) > 0 for release in plan.releases)
        if pure_cost([release.event for release in plan.releases]) is None:
            assert all(release.affected_coordinates > 0 for release in plan.releases)
            assert 0 < plan.delta_sampler < BUDGET.delta * 1e-6
        else:
            assert all(release.affected_coordinates == 0 for release in plan.releases), "exact noise"
            assert plan.delta_sampler == 0

    def test_depends_on_public_facts_alone(self, name, unit):
        facts = OTHER.public_facts(UNITS[unit])
        assert quick(name).calibrate(BUDGET, UNITS[unit], facts) == plan_of(name, unit)

    def test_ledger_and_certificate_say_what_was_planned(self, name, unit):
        fitted = fitted_of(name, unit)
        plan, certificate = fitted.plan, fitted.certificate.values
        assert plan == plan_of(name, unit)
        charged = [entry["release"] for entry in fitted.ledger.entries if entry["kind"] == "release"]
        assert charged == certificate["releases"] == [release.to_dict() for release in plan.releases]
        assert certificate["claim"] == {"epsilon": plan.epsilon, "delta": plan.delta}
        assert certificate["ledger_head"] == fitted.ledger.head
        assert certificate["method"] == name

    def test_releases_have_the_planned_shapes(self, name, unit):
        fitted = fitted_of(name, unit)
        planned = {release.name: release.shape for release in fitted.plan.releases}
        for key, array in fitted.released.items():  # None: chance decides how many lines come out
            assert len(planned[key]) == array.ndim
            assert all(size in (None, found) for size, found in zip(planned[key], array.shape, strict=True))
        trained = [shape for key, shape in planned.items() if key not in fitted.released]
        if "labels" not in UNITS[unit].public:
            weights = [array.size for key, array in fitted.weights.items() if key != "bounds"]  # bounds are public
            assert sum(np.prod(shape) for shape in trained) == sum(weights)

    def test_two_fits_never_share_noise(self, name, unit):
        if not plan_of(name, unit).releases:
            pytest.skip("this plan releases nothing")
        one, two = fitted_of(name, unit), plan_of(name, unit).fit(GRAPH)
        for release in one.plan.releases:
            if None in release.shape:
                assert not np.array_equal(one.released[release.name], two.released[release.name])
            elif release.shape == (1,):  # one number may come twice by chance
                assert release.name in {**one.released, **one.weights}
            elif release.name in one.released:
                rows = one.released[release.name].any(axis=1)  # a routed hop leaves out rows that nobody reads
                if not rows.any():  # the pilot gave this part of the budget to features
                    assert (name, release.name) in PILOTED
                    continue
                whole = not (one.released[release.name] % 32767).any()  # whole counts with little noise are often equal
                assert (one.released[release.name] != two.released[release.name])[rows].mean() > (
                    0.5 if whole else 0.99
                )
            else:
                trained = [key for key in one.weights if key.startswith(release.name)]
                assert trained
                for key in trained:  # zeros were set, not drawn
                    same = (one.weights[key] == two.weights[key])[one.weights[key] != 0]
                    assert not same.size or same.mean() < 0.2


@pytest.mark.parametrize(("name", "unit"), SUPPORTED)
class TestEveryFit:
    def test_predicting_again_is_identical_and_spends_nothing(self, name, unit):
        fitted = fitted_of(name, unit)
        head = fitted.ledger.head
        one, two = fitted.predict_proba(GRAPH), fitted.predict_proba(GRAPH)
        assert one.shape == (120, 3)
        assert one.dtype == np.float32
        np.testing.assert_allclose(one.sum(axis=1), 1, atol=1e-5)
        np.testing.assert_array_equal(one, two)
        np.testing.assert_array_equal(fitted.predict(GRAPH), one.argmax(axis=1))
        assert fitted.ledger.head == head

    def test_saved_run_verifies_and_loads_the_same_predictions(self, name, unit, tmp_path):
        fitted = fitted_of(name, unit)
        run = fitted.save(tmp_path / "run")
        assert verify.verify(run).problems == ()
        loaded = sf.load(run)
        np.testing.assert_array_equal(loaded.predict_proba(GRAPH), fitted.predict_proba(GRAPH))
        np.testing.assert_array_equal(loaded.predict_proba(TURNED), fitted.predict_proba(GRAPH)[ORDER])
        assert loaded.difference(OTHER) == fitted.difference(OTHER)
        assert loaded.plan.unit == fitted.plan.unit
        assert loaded.ledger.head == fitted.ledger.head
        assert loaded.certificate == fitted.certificate
        assert verify.verify(loaded.save(tmp_path / "copy")).problems == ()

    def test_an_existing_folder_is_refused_and_kept(self, name, unit, tmp_path):
        (tmp_path / "note.txt").write_text("mine")
        with pytest.raises(InputError, match="exists"):
            fitted_of(name, unit).save(tmp_path)
        assert [path.name for path in tmp_path.iterdir()] == ["note.txt"]

    def test_other_node_ids_or_columns_are_refused(self, name, unit):
        fitted = fitted_of(name, unit)
        with pytest.raises(InputError, match="other node ids"):
            fitted.predict_proba(replace(GRAPH, node_ids=np.arange(120) + 7))
        with pytest.raises(InputError, match="feature columns"):
            fitted.predict_proba(replace(GRAPH, x=GRAPH.x[:, :4], image_shape=None))

    def test_rows_in_another_order_are_answered_in_that_order(self, name, unit):
        fitted = fitted_of(name, unit)
        answers = fitted.predict_proba(GRAPH)
        np.testing.assert_array_equal(fitted.predict_proba(TURNED), answers[ORDER])
        np.testing.assert_array_equal(fitted.predict(TURNED), fitted.predict(GRAPH)[ORDER])

    def test_another_graph_with_the_same_ids_is_refused_where_public_values_tell(self, name, unit):
        """Where features and labels are protected nothing tells: ids are all that is public of both."""
        fitted = fitted_of(name, unit)
        if {"features", "labels"} & {*UNITS[unit].public}:
            with pytest.raises(InputError, match=r"same node ids but other (features|labels|arcs), which are public"):
                fitted.predict_proba(OTHER)
        else:
            assert fitted.difference(OTHER) is None

    def test_a_graph_with_other_public_facts_is_refused(self, name, unit):
        plan = plan_of(name, unit)
        for fact in ("num_nodes", "num_train", "num_features", "num_classes", "directed"):
            public = replace(plan.public, **{fact: not plan.public.directed if fact == "directed" else 77})
            with pytest.raises(InputError, match=f"{fact}={getattr(public, fact)}"):
                replace(plan, public=public).fit(GRAPH)

    def test_a_graph_without_labels_is_refused(self, name, unit):
        bare = replace(GRAPH, y=None)
        with pytest.raises(InputError, match="labels"):
            plan_of(name, unit).fit(bare)


@pytest.mark.parametrize(("name", "unit"), [pair for pair in PRIVATE if UNITS[pair[1]].name == "node"])
def test_one_record_moves_no_prediction_of_others_and_one_count(name, unit):
    """Prediction sets are calibrated by counts of predictions, whose sensitivity rests on this."""
    fitted = fitted_of(name, unit)
    try:
        sf.calibrate_sets(fitted, sf.Budget(1.0, 0.0))
    except UnsupportedUnitError:
        return
    method, before = SetCalibration(fitted), fitted.predict_proba(GRAPH)
    for node in (*np.flatnonzero(GRAPH.val_mask)[:3], *np.flatnonzero(GRAPH.train_mask)[:2]):
        for scale, label, most in ((0, -1, 1), (-9, (GRAPH.y[node] + 1) % 3, 2)):  # emptied, and replaced
            x, y = GRAPH.x.copy(), GRAPH.y.copy()
            x[node], y[node] = scale * x[node], label
            other = replace(GRAPH, x=x, y=y)
            after = fitted.predict_proba(other)
            np.testing.assert_array_equal(np.delete(after, node, 0), np.delete(before, node, 0))
            assert np.abs(method.counted(other) - method.counted(GRAPH)).sum() <= most


@pytest.mark.parametrize(("name", "unit"), UNSUPPORTED)
def test_a_unit_without_proof_is_refused_with_reason_and_remedy(name, unit):
    with pytest.raises(UnsupportedUnitError, match=r"no (bounded sensitivity|proof).*Use "):
        plan_of(name, unit)


def test_the_suite_sees_every_method():
    assert {name for name, _ in SUPPORTED} == set(METHODS)
    assert {("gap", "edge"), ("gap", "node"), ("mlp", "record"), ("mlp", "node-incident")} <= set(PRIVATE)
    assert {("gap", "node-incident"), ("gap", "record"), ("sage", "arc"), ("sage", "node")} <= set(UNSUPPORTED)
    assert {(name, unit) for name in METHODS for unit in ("local", "link")} <= set(UNSUPPORTED)
    assert isinstance(GRAPH.public_facts(UNITS["edge"]), PublicFacts)


def test_a_budget_that_dp_sgd_cannot_meet_is_refused_before_data():
    with pytest.raises(InputError, match="noise multiplier of at most 2048"):
        sf.MLP().calibrate(sf.Budget(1e-4, 1e-25), sf.RecordLevel(), GRAPH.public_facts(sf.RecordLevel()))
