"""Forged runs of local link prediction: what does not follow from the settings, or says more than users sent, is refused."""

import shutil

import numpy as np
import pytest
from contracts_forgery import event, everywhere, problems, release, rewrite, seal, setting
from safetensors.numpy import load_file, save_file

from sfumato.graph._synthetic import stochastic_block_model
from sfumato.local._link_prediction import LIMITS, LinkPrediction
from sfumato.verify import verify
from sfumato.verify._local import LinkPrediction as Rules
from sfumato.verify._methods import rules_of

GRAPH = stochastic_block_model(60, 3, mean_degree=12, num_features=5, seed=0).with_split((0.5, 0.25, 0.25), seed=0)
MECHANISMS = ("pgc", "piecewise", "laplace", "multi-bit", "one-bit", "gaussian", "collision", "direction")


def saved(folder, **settings):
    method = LinkPrediction(**{"epsilon_x": 2.0, "max_epochs": 2, **settings})
    return method.calibrate(None, method.unit, GRAPH.public_facts(method.unit)).fit(GRAPH).save(folder)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return saved(tmp_path_factory.mktemp("whole") / "run")


@pytest.fixture
def run(whole, tmp_path):
    return shutil.copytree(whole, tmp_path / "run")


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("epsilon", [0.5, 3.0])
def test_true_runs_pass(tmp_path, mechanism, epsilon):
    each = mechanism in ("pgc", "piecewise", "laplace")
    run = saved(tmp_path / "run", epsilon_x=epsilon, mechanism=mechanism, per_feature=each, delta=1e-5)
    assert verify(run).problems == ()


def test_a_run_in_the_clear_claims_nothing(tmp_path):
    found = verify(saved(tmp_path / "run", epsilon_x=None))
    assert (found.problems, found.claim_epsilon) == ((), None)


def test_the_verifier_knows_the_sentences_and_the_method():
    certificate = {"unit": {"name": "local"}, "settings": {"per_feature": False, "epsilon_x": 1.0},
                   "public_facts": {"num_features": 5}}  # fmt: skip
    assert isinstance(rules_of("pgc-links"), Rules)
    assert tuple(Rules().caveats(certificate)) == LIMITS


def claimed(share, spent):
    """A claim and an event that are both too small by a share."""

    def change(certificate, spec):
        everywhere("claim", {"epsilon": share * 10.0, "delta": 0.0})(certificate, spec)
        event(0, epsilon=spent * 10.0)(certificate, spec)

    return change


def smuggled(certificate, _):
    label = {"type": "pure", "epsilon": 1.0, "count": 1}
    certificate["releases"].append(
        {**certificate["releases"][0], "name": "label-reports", "shape": [60], "event": label}
    )
    certificate["claim"] = {"epsilon": 11.0, "delta": 0.0}


def unprotected(certificate, spec):
    for one in (certificate, spec):
        one["unit"]["features"] = False


def labels_too(certificate, spec):
    for one in (certificate, spec):
        one["unit"]["labels"] = True


def facts(**values):
    def change(certificate, spec):
        certificate["public_facts"].update(values)
        spec["public"].update(values)

    return change


def silent(about):
    def change(certificate, _):
        certificate["caveats"] = [text for text in certificate["caveats"] if about not in text]

    return change


def anyone(certificate, _):
    certificate["who_may_see"]["anyone"][1:] = ["codes of nodes", "scores of all pairs"]


FORGED = {
    "a claim 2 % too small": (claimed(0.98, 1.0), "claim.epsilon"),
    "an event 2 % too small": (claimed(0.98, 0.98), "event.epsilon: expected about 10, as the settings ask"),
    "a claim without an event": (claimed(0.98, 0.0), "event"),
    "Gaussian noise": (release(0, event={"type": "gaussian", "noise_multiplier": 9.0, "count": 1}), "of type pure"),
    "two reports of a user": (event(0, count=2), "expected one report of type pure"),
    "twice as wide": (release(0, shape=[60, 10]), "shape: expected the width of pgc reports about 5 features"),
    "more users": (release(0, shape=[120, 5]), "shape: expected 60 users and a width"),
    "no release": (lambda certificate, _: certificate["releases"].clear(), "releases: expected ['feature-reports']"),
    "a label report": (smuggled, "releases: expected ['feature-reports'], got ['feature-reports', 'label-reports']"),
    "affected coordinates": (release(0, affected_coordinates=5), "affected_coordinates: expected 0"),
    "for the node alone": (release(0, visible_to="the node itself"), "visible_to"),
    "another mechanism": (
        setting(mechanism="laplace"),
        "feature-reports: has dtype U8, expected I64, as the settings say",
    ),
    "one budget for all": (setting(per_feature=False), "settings.per_feature: expected true with pgc"),
    "a budget of labels": (
        setting(epsilon_y=1.0),
        "settings.epsilon_y: expected null, since method pgc-links asks for no label",
    ),
    "no budget": (setting(epsilon_x=None), "unit.features"),
    "a budget of zero": (setting(epsilon_x=0.0), "settings.epsilon_x: expected a budget or null"),
    "another budget": (setting(epsilon_x=2.04), "as the settings ask"),
    "an empty range": (setting(high=0.0), "settings.high"),
    "a long training": (setting(max_epochs=0), "settings.max_epochs"),
    "an unknown setting": (setting(steps_x=2), "is not a setting of method pgc-links"),
    "features not protected": (unprotected, "unit"),
    "labels protected": (labels_too, "unit.labels"),
    "classes": (facts(num_classes=3), "num_classes: expected 0, since method pgc-links reads no label"),
    "roles": (facts(num_train=30), "num_train: expected 0, since method pgc-links reads no label"),
    "silence about links": (silent("Links are not protected"), "caveats"),
    "silence about labels": (silent("No label is read"), "caveats"),
    "silence about features": (silent("is spent on each"), "caveats"),
    "codes for everybody": (anyone, "who_may_see"),
    "another method": (everywhere("method", "lpgnn"), "settings"),
}


@pytest.mark.parametrize(("change", "problem"), FORGED.values(), ids=FORGED)
def test_what_does_not_follow_from_the_settings_is_refused(change, problem, run):
    assert verify(run).valid
    rewrite(run, change)
    assert problem in problems(run)


def changed(run, file, change):
    path = run / "release" / f"{file}.safetensors"
    tensors = load_file(path)
    change(tensors)
    save_file(tensors, path)
    seal(run / "release")
    return problems(run)


def outside(tensors):
    tensors["feature-reports"][7, 3] = 2


def true_values(tensors):
    tensors["feature-reports"] = GRAPH.x.astype(np.float32)


def labels(tensors):
    tensors["label-reports"] = GRAPH.y.astype(np.int32)


def second(tensors):
    tensors["feature-reports"] = np.hstack([tensors["feature-reports"]] * 2)


def nothing(tensors):
    tensors["other"] = tensors.pop("feature-reports")


RELEASED = {
    "out of range": (outside, "feature-reports: holds answers from 0 to 2, expected 0 to 1"),
    "true values": (true_values, "feature-reports has dtype F32, expected U8"),
    "labels": (labels, "label-reports: this tensor belongs to no release"),
    "two reports of each user": (second, "feature-reports: has shape [60, 10], but was charged with [60, 5]"),
    "none": (nothing, "feature-reports: the tensor of this release is missing"),
}


@pytest.mark.parametrize(("change", "problem"), RELEASED.values(), ids=RELEASED)
def test_reports_that_the_randomizer_cannot_send_are_refused(change, problem, run):
    assert problem in changed(run, "releases", change)


def wider(tensors):
    tensors["codes"] = np.hstack([tensors["codes"], GRAPH.x.astype(np.float32)])


def beside(tensors):
    tensors["features"] = GRAPH.x.astype(np.float32)


def unreal(tensors):
    tensors["codes"][0, 0] = np.nan


CODES = {
    "features beside": (beside, "features: belongs to no network"),
    "features in the codes": (wider, "codes: expected shape [60, 16]"),
    "no number": (unreal, "codes"),
}


@pytest.mark.parametrize(("change", "problem"), CODES.values(), ids=CODES)
def test_codes_of_another_form_are_refused(change, problem, run):
    assert problem in changed(run, "model", change)
