"""Local runs: a consistent forgery that says more, or of other users, than what was sent does not pass."""

import shutil
from dataclasses import asdict, replace

import numpy as np
import pytest
from contracts_forgery import event, everywhere, problems, release, rewrite, seal, setting
from safetensors.numpy import load_file, save_file

from sfumato.errors import InputError
from sfumato.graph import PublicFacts, stochastic_block_model
from sfumato.local._collection import LABELS, asked_reports
from sfumato.local._label_only import LabelOnly
from sfumato.local._lpgnn import LPGNN
from sfumato.method._derived import marked
from sfumato.privacy.events import GaussianEvent, PureEvent
from sfumato.randomizers._questions import LABEL_MECHANISMS, MECHANISMS, Questions
from sfumato.record._certificate import FIXED
from sfumato.verify import describe, verify
from sfumato.verify._reports import report_faults

GRAPH = stochastic_block_model(120, 3, mean_degree=12, homophily=0.8, num_features=71, seed=0).with_split(
    (0.5, 0.25, 0.25)
)


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


def test_the_number_of_arcs_may_not_be_left_out(run):
    def dropped(certificate, spec):
        del certificate["public_facts"]["num_arcs"], spec["public"]["num_arcs"]

    rewrite(run, dropped)
    assert "public_facts.num_arcs: is missing, though arcs are public under unit local" in problems(run)


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
    "a width left open": (release(0, shape=[120, None]), "releases[0].shape: expected whole numbers, got [120, None]"),
    "half a report": (
        lambda *both: (release(0, shape=[120, 1])(*both), setting(mechanism="piecewise")(*both)),
        "releases[0].shape: expected the width of piecewise reports about 4 features, got 1",
    ),
    "hardly an epsilon": (setting(epsilon_x=1e-300), "releases[0].event.epsilon: expected about 1e-300, as the settings"),
    "no finite epsilon": (setting(epsilon_x=1e300), "releases[0].event: settings.epsilon_x and public_facts.num_features"),
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


def fitted(method, change=lambda release: release):
    """A run whose plan, certificate and ledger all say what ``change`` makes of the first release."""
    plan = method.calibrate(None, method.unit, GRAPH.public_facts(method.unit))
    releases = (change(plan.releases[0]), *plan.releases[1:])
    epsilon, delta = method._claim(releases)
    return marked(replace(plan, releases=releases, epsilon=epsilon, delta=delta)).fit(GRAPH)


def gaussian(epsilon, **settings):
    return LPGNN(epochs=1, epsilon_x=epsilon, mechanism="gaussian", delta=1e-5, **settings)


def features(mechanism, epsilon, **settings):
    return LPGNN(epochs=1, epsilon_x=epsilon, mechanism=mechanism, **settings)


UNDERSTATED = {
    "laplace": (features("laplace", 1000.0), PureEvent(30.0)),
    "laplace, a little": (features("laplace", 1.0), PureEvent(1 - 1e-6)),
    "many bits": (features("multi-bit", 200.0, paper_rule=True), PureEvent(30.0)),
    "the best bits": (features("multi-bit", 200.0), PureEvent(199.999)),
    "a bit a feature": (features("pgc", 40.0, per_feature=True), PureEvent(30.0 * 71)),
    "a bit a feature, a little": (features("pgc", 8.0, per_feature=True), PureEvent((8 - 1e-6) * 71)),
    "cells": (features("piecewise", 100.0), PureEvent(99.0)),
    "one bucket": (features("collision", 30.0), PureEvent(29.9)),
    "one sign beyond what words tell apart": (features("direction", 200.0), PureEvent(43.0)),
    "noise": (gaussian(8.0), GaussianEvent(60.0)),
    "noise, a little": (gaussian(1.0), 1.0001),
    "a label": (LabelOnly(epsilon_y=1.0), PureEvent(0.999)),
    "a label, a little": (LabelOnly(epsilon_y=1.0, label_mechanism="randomized-response"), PureEvent(1 - 1e-9)),
}  # fmt: skip


@pytest.mark.parametrize(("method", "event"), UNDERSTATED.values(), ids=UNDERSTATED)
def test_an_understated_epsilon_is_named(tmp_path, method, event):
    def change(release):
        if isinstance(event, float):
            return replace(release, event=GaussianEvent(event * release.event.noise_multiplier))
        return replace(release, event=event)

    found = verify(fitted(method, change).save(tmp_path / "run")).problems
    assert len(found) == 1
    assert found[0].startswith("certificate.json: releases[0].event.")
    assert ", as the settings ask, got " in found[0]


def sent(mechanism):
    return {"per_feature": True} if mechanism == "pgc" else {"delta": 1e-6} if mechanism == "gaussian" else {}


@pytest.mark.parametrize("epsilon", [0.5, 60.0])
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_true_runs_pass(tmp_path, mechanism, epsilon):
    epsilon = min(epsilon, 20.0) if mechanism == "gaussian" else epsilon
    method = features(mechanism, epsilon, epsilon_y=epsilon, **sent(mechanism))
    assert verify(fitted(method).save(tmp_path / "run")).problems == ()


def asked_at(epsilon, num_features):
    for mechanism in MECHANISMS:
        for paper_rule in {False, mechanism == "multi-bit"}:
            for each in {mechanism == "pgc", mechanism in ("pgc", "piecewise", "laplace")}:
                yield Questions(epsilon, None, mechanism, paper_rule=paper_rule, per_feature=each, delta=1e-4)
    if num_features == 2:
        yield from (Questions(0.0, epsilon, label_mechanism=name) for name in LABEL_MECHANISMS)


@pytest.mark.parametrize("epsilon", [1e-6, 1e-3, 0.3, 1.0, 3.3, 8.0, 20.0, 29.0, 37.0, 43.0, 45.0, 100.0, 1000.0, 1e4])
def test_every_true_report_passes_and_less_does_not(epsilon):
    """Where words tell epsilons apart by far, a millionth less is refused; elsewhere half of it."""
    seen = 0
    for d, classes in ((1, 2), (2, 7), (6, 40), (71, 3)):
        public = PublicFacts(num_nodes=9, num_train=5, num_features=d, num_classes=classes, directed=False)
        facts = {"num_nodes": 9, "num_features": d, "num_classes": classes}
        for asked in asked_at(epsilon, d):
            try:
                releases = asked_reports(asked, public)
            except InputError:  # no delta covers the sampler, or no word is left
                assert asked.mechanism == "gaussian" or epsilon < 1e-3
                continue
            certificate = {"settings": asdict(asked), "public_facts": facts}
            for stated in (one.to_dict() for one in releases):
                assert list(report_faults("", stated, certificate)) == []
                seen += 1
                least = 1 - 1e-6 if 1e-3 <= epsilon <= 8 else 0.5
                if "epsilon" in stated["event"]:
                    stated["event"]["epsilon"] *= least
                else:
                    stated["event"]["noise_multiplier"] *= 1 + 1e-3
                assert len(list(report_faults("", stated, certificate))) == 1
    assert seen > 30


SWAPS = {
    "buckets as noise": (features("collision", 1.0), {"mechanism": "laplace"}, "releases[0].shape: expected the width of l"),
    "buckets as bits": (features("collision", 1.0), {"mechanism": "multi-bit"}, "releases[0].shape: expected the width of m"),
    "buckets as a sign": (features("collision", 1.0), {"mechanism": "direction"}, "feature-reports: has dtype I32, expected U8"),
    "noise as bits": (features("laplace", 1.0), {"mechanism": "one-bit"}, "feature-reports: has dtype I64, expected U8"),
    "one cell as one bit": (
        features("piecewise", 1.0), {"mechanism": "multi-bit"}, "feature-reports: holds answers from ",
    ),
    "more bits": (features("multi-bit", 4.0), {"paper_rule": True}, "releases[0].shape: expected the width of multi-bit"),
    "fewer cells": (features("piecewise", 1.0), {"epsilon_x": 9.0}, "releases[0].shape: expected the width of piecewise"),
    "a budget a feature": (features("multi-bit", 1.0), {"per_feature": True}, "settings.per_feature: expected false with m"),
}  # fmt: skip


@pytest.mark.parametrize(("method", "values", "named"), SWAPS.values(), ids=SWAPS)
def test_another_mechanism_in_the_settings_is_named(tmp_path, method, values, named):
    run = fitted(method).save(tmp_path / "run")
    rewrite(run, setting(**values))
    assert named in problems(run)


@pytest.mark.parametrize(("true", "said"), [LABEL_MECHANISMS, LABEL_MECHANISMS[::-1]])
def test_sets_cannot_pass_as_classes(tmp_path, true, said):
    """The other way round nothing shows, and nothing is understated: each class is a place of a set as well."""
    graph = stochastic_block_model(120, 6, mean_degree=6, num_features=3, seed=0).with_split((0.5, 0.25, 0.25))
    method = LabelOnly(epsilon_y=0.5, label_mechanism=true)
    plan = method.calibrate(None, method.unit, graph.public_facts(method.unit))
    run = plan.fit(graph).save(tmp_path / "run")
    rewrite(run, setting(label_mechanism=said))
    if true == "randomized-response":
        assert verify(run).valid
    else:
        assert "label-reports: holds answers from -1 to " in problems(run)


@pytest.mark.parametrize("value", [-2, 10])
def test_a_label_that_the_mechanism_cannot_send_is_named(run, value):
    path = run / "release" / "releases.safetensors"
    tensors = load_file(path)
    tensors[LABELS][0] = value
    save_file(tensors, path)
    seal(run / "release")
    assert f"releases.safetensors: {LABELS}: holds answers from " in problems(run)
