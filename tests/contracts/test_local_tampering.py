"""Local runs: a consistent forgery that says more, or of other users, than what was sent does not pass."""

import shutil
from dataclasses import replace

import numpy as np
import pytest
from contracts_forgery import problems, rewrite, seal
from safetensors.numpy import load_file, save_file

from sfumato.graph import stochastic_block_model
from sfumato.local.lpgnn import LPGNN
from sfumato.privacy.certificate import FIXED
from sfumato.verify import describe, verify


@pytest.fixture(scope="module")
def honest(tmp_path_factory):
    graph = stochastic_block_model(120, 3, mean_degree=12, homophily=0.8, num_features=4, seed=0)
    graph, method = graph.with_split((0.5, 0.25, 0.25)), LPGNN(epochs=1, epsilon_x=2.0, epsilon_y=1.0)
    plan = method.calibrate(None, method.unit, graph.public_facts(method.unit))
    return plan.fit(graph).save(tmp_path_factory.mktemp("honest") / "run")


@pytest.fixture
def run(honest, tmp_path):
    return shutil.copytree(honest, tmp_path / "run")


def test_the_honest_run_is_valid_and_shown(run):
    result = verify(run)
    assert result.problems == ()
    assert result.epsilon_low == result.epsilon_high == result.claim_epsilon
    assert result.claim_delta == 0
    assert "claim: epsilon 3, delta 0" in describe(run, result)


def everywhere(field, value):
    def change(certificate, spec):
        certificate[field] = value
        if field in spec:
            spec[field] = value

    return change


def setting(**values):
    def change(certificate, spec):
        certificate["settings"].update(values)
        spec["settings"] = certificate["settings"]

    return change


def release(index, **values):
    return lambda certificate, _: certificate["releases"][index].update(values)


def event(index, **values):
    return lambda certificate, _: certificate["releases"][index]["event"].update(values)


def claim(**values):
    return lambda certificate, _: certificate["claim"].update(values)


def drop(certificate, _):
    certificate["releases"].pop(0)


def public_features(certificate, spec):
    certificate["unit"]["features"] = spec["unit"]["features"] = False
    certificate["protects"] = "one user's label, from everyone, the server too"


def add_delta(certificate, _):
    certificate["claim"].update(epsilon=2.9, delta=1e-5)


EDITS = {
    "a smaller epsilon": (claim(epsilon=2.9999999), "claim.epsilon: 2.9999999 is too small: the cost is at least 3"),
    "a delta that buys epsilon": (add_delta, "claim.delta: expected 0, got 1e-05"),
    "a cheaper report": (event(0, epsilon=0.5), "releases[0].event.epsilon: expected about 2, as the settings ask, got 0.5"),
    "a dearer report": (event(0, epsilon=2.1), "releases[0].event.epsilon: expected about 2, as the settings ask, got 2.1"),
    "two reports": (event(1, count=2), "releases[1].event: expected one report of type pure"),
    "Gaussian noise": (
        release(0, event={"type": "gaussian", "noise_multiplier": 1.0, "count": 1}),
        "releases[0].event: expected one report of type pure",
    ),
    "a report left out": (drop, "releases: expected ['feature-reports', 'label-reports']"),
    "fewer users": (release(1, shape=[60]), "releases[1].shape: expected 120 users, got [60]"),
    "noise draws": (release(0, affected_coordinates=4), "releases[0].affected_coordinates: expected 0, got 4"),
    "labels not asked": (setting(epsilon_y=None), "unit.labels: True does not fit settings.epsilon_y"),
    "features not asked": (setting(epsilon_x=0.0), "releases: expected ['label-reports']"),
    "every feature": (setting(per_feature=True), "caveats: holds 0 items, expected 1"),
    "unknown mechanism": (setting(mechanism="magic"), "settings.mechanism: expected one of multi-bit"),
    "unknown setting": (setting(arcs=[[1, 2]]), "settings.arcs: is not a setting of method lpgnn"),
    "unit without features": (public_features, "unit.features: False does not fit settings.epsilon_x"),
    "a trusted curator": (everywhere("trust_model", FIXED["trust_model"]), "trust_model: 'trusted curator' differs from"),
    "a curator's coins": (everywhere("randomness", FIXED["randomness"]), "randomness: "),
    "a curator's assumptions": (everywhere("assumptions", FIXED["assumptions"]), "assumptions: holds 3 items, expected 4"),
    "other accounting": (
        lambda certificate, _: certificate["accounting"].update(method="pld"),
        "accounting.method: pld does not fit the events",
    ),
    "another method": (everywhere("method", "gap"), "unit.name: gap has no proof under unit local"),
    "other audience": (
        lambda certificate, _: certificate["who_may_see"].update(never=["reports"]),
        "who_may_see.never: holds 1 items, expected 0",
    ),
    "narrower limit": (
        lambda certificate, spec: (
            certificate["budget"].update(epsilon=1.0, delta=1e-6),
            spec.update(budget={"epsilon": 1.0, "delta": 1e-6}),
        ),
        "claim.epsilon: 3 exceeds budget.epsilon, which is 1.0",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("change", "named"), EDITS.values(), ids=EDITS)
def test_a_consistent_forgery_is_named(run, change, named):
    rewrite(run, change)
    assert f"certificate.json: {named}" in problems(run)


@pytest.mark.parametrize(("field", "value"), [("trust_model", "users trust everybody"), ("assumptions", ["None."])])
def test_sentences_are_one_of_two(run, field, value):
    rewrite(run, everywhere(field, value))
    assert f"certificate.json: {field}" in problems(run)


@pytest.mark.parametrize(
    ("name", "change", "named"),
    [
        ("releases", lambda t: t.pop("label-reports"), "label-reports: the tensor of this release is missing"),
        ("releases", lambda t: t.update(x=np.zeros((4, 4), np.int64)), "x: this tensor belongs to no release"),
        (
            "releases",
            lambda t: t.update({"feature-reports": t["feature-reports"].astype(np.float64)}),
            "header: is not a valid safetensors header: feature-reports has dtype F64, expected U8",
        ),
        (
            "releases",
            lambda t: t.update({"feature-reports": t["feature-reports"][:60]}),
            "feature-reports: has shape [60, ",
        ),
        ("model", lambda t: t.update(x=np.zeros((120, 4), np.float32)), "x: belongs to no network of this method"),
        ("model", lambda t: t.pop("selection"), "selection: is missing"),
        ("model", lambda t: t.update(feature_seed=np.zeros(9, np.int64)), "feature_seed: belongs to no network"),
    ],
)
def test_tensors_are_what_was_sent_and_learned(run, name, change, named):
    path = run / "release" / f"{name}.safetensors"
    tensors = load_file(path)
    change(tensors)
    save_file(tensors, path)
    seal(run / "release")
    assert f"{name}.safetensors: {named}" in problems(run)


def test_reports_do_not_belong_to_a_trusted_curator(tmp_path, honest):
    """The other way round: a unit of a curator cannot carry the local method's words."""
    run = shutil.copytree(honest, tmp_path / "run")
    unit = {"name": "record", "relation": "replace"}

    def change(certificate, spec):
        certificate["unit"] = spec["unit"] = unit
        certificate["protects"] = "any one record"

    rewrite(run, change)
    found = problems(run)
    assert "trust_model: 'local: users trust nobody' differs from 'trusted curator'" in found
    assert "unit.name: lpgnn has no proof under unit record" in found


def test_every_backbone_has_its_tensors(tmp_path):
    graph = stochastic_block_model(60, 2, mean_degree=6, num_features=3, seed=0).with_split((0.5, 0.25, 0.25))
    for settings in ({"backbone": name} for name in ("gcn", "gat", "mlp")):
        method = replace(LPGNN(epochs=1), **settings)
        fitted = method.calibrate(None, method.unit, graph.public_facts(method.unit)).fit(graph)
        assert verify(fitted.save(tmp_path / method.backbone)).problems == ()
