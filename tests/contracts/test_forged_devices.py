"""Runs of devices: a consistent forgery that says more, or of other users, than what was sent does not pass."""

from dataclasses import asdict, replace

import numpy as np
import pytest
from contracts_forgery import (
    assumed,
    both,
    event,
    everywhere,
    facts,
    no_fact,
    no_release,
    part,
    problems,
    release,
    rewrite,
    seal,
    setting,
    with_tensors,
    without,
)
from contracts_honest import REPORTS, USERS, block
from safetensors.numpy import load_file, save_file

from sfumato.errors import InputError
from sfumato.graph import PublicFacts, stochastic_block_model
from sfumato.local._collection import LABELS, asked_reports
from sfumato.local._label_only import LabelOnly
from sfumato.local._link_prediction import LIMITS, LinkPrediction
from sfumato.local._lpgnn import LPGNN
from sfumato.method._derived import marked
from sfumato.privacy.events import GaussianEvent, PureEvent
from sfumato.randomizers._questions import LABEL_MECHANISMS, MECHANISMS, Questions
from sfumato.record._certificate import FIXED, LOCAL
from sfumato.verify import describe, verify
from sfumato.verify._methods import rules_of
from sfumato.verify._reports import report_faults

WIDE = block(120, homophily=0.8, num_features=71).with_split(REPORTS)
BIT = "one bit of one user's neighbor list, from everyone, the server too"
USER = "one user's features and label, from everyone, the server too"
LABEL = "one user's label, from everyone, the server too"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("local", "claim: epsilon 3, delta 0"),
        ("blink", "claim: epsilon 4, delta 0\nclaim for a relationship that both ends report: epsilon 8\n"),
        ("pgc-links", "claim: epsilon 10, delta 0"),
    ],
)
def test_the_honest_run_is_valid_and_what_it_costs_is_shown(honest, name, said):
    result = verify(honest(name))
    assert result.problems == ()
    assert result.epsilon_low == result.epsilon_high == result.claim_epsilon
    assert result.claim_delta == 0
    assert said in describe(honest(name), result)


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


def anyone(certificate, _):
    certificate["who_may_see"]["anyone"][1:] = ["codes of nodes", "scores of all pairs"]


def consistent(certificate, spec):
    """Half the epsilon everywhere but in the settings."""
    certificate["claim"]["epsilon"] = 2.0
    for one in certificate["releases"]:
        one["event"]["epsilon"] /= 2
    certificate["caveats"] = [text.replace("= 4 ", "= 2 ").replace("= 8.", "= 4.") for text in certificate["caveats"]]


OF_ALL = {
    "a delta that buys epsilon": (part("claim", epsilon=2.9, delta=1e-5), "claim.delta: expected 0, got 1e-05"),
    "Gaussian noise": (
        release(0, event={"type": "gaussian", "noise_multiplier": 1.0, "count": 1}),
        "releases[0].event: expected one report of type pure",
    ),
    "noise draws": (release(0, affected_coordinates=4), "releases[0].affected_coordinates: expected 0, got 4"),
    "a trusted curator": (
        everywhere("trust_model", FIXED["trust_model"]),
        "trust_model: 'trusted curator' differs from",
    ),
    "other accounting": (part("accounting", method="pld"), "accounting.method: pld does not fit the events"),
    "other audience": (part("who_may_see", never=["reports"]), "who_may_see.never: holds 1 items, expected 0"),
}
FORGED = {
    "local": {
    "a smaller epsilon": (part("claim", epsilon=2.9999999), "claim.epsilon: 2.9999999 is too small: the cost is at least 3"),
    "a cheaper report": (event(0, epsilon=0.5), "releases[0].event.epsilon: expected about 2, as the settings ask, got 0.5"),
    "a dearer report": (event(0, epsilon=2.1), "releases[0].event.epsilon: expected about 2, as the settings ask, got 2.1"),
    "two reports": (event(1, count=2), "releases[1].event: expected one report of type pure"),
    "a report left out": (no_release(0), "releases: expected ['feature-reports', 'label-reports']"),
    "fewer users": (release(1, shape=[60]), "releases[1].shape: expected 120 users, got [60]"),
    "a width left open": (release(0, shape=[120, None]), "releases[0].shape: expected integers, got [120, None]"),
    "half a report": (
        both(release(0, shape=[120, 1]), setting(mechanism="piecewise")),
        "releases[0].shape: expected the width of piecewise reports about 4 features, got 1",
    ),
    "hardly an epsilon": (setting(epsilon_x=1e-300), "releases[0].event.epsilon: expected about 1e-300, as the settings"),
    "no finite epsilon": (setting(epsilon_x=1e300), "releases[0].event: settings.epsilon_x and public_facts.num_features"),
    "labels not asked": (setting(epsilon_y=None), "unit.labels: True does not fit settings.epsilon_y"),
    "features not asked": (setting(epsilon_x=0.0), "releases: expected ['label-reports']"),
    "every feature": (setting(per_feature=True), "caveats: holds 0 items, expected 1"),
    "unknown mechanism": (setting(mechanism="magic"), "settings.mechanism: expected one of multi-bit"),
    "unknown setting": (setting(arcs=[[1, 2]]), "settings.arcs: is not a setting of method lpgnn"),
    "unit without features": (
        both(part("unit", features=False), everywhere("protects", LABEL)),
        "unit.features: False does not fit settings.epsilon_x",
    ),
    "a curator's coins": (everywhere("randomness", FIXED["randomness"]), "randomness: "),
    "a curator's assumptions": (everywhere("assumptions", FIXED["assumptions"]), "assumptions: holds 3 items, expected 4"),
    "another method": (everywhere("method", "gap"), "unit.name: gap has no proof under unit local"),
    "narrower limit": (
        everywhere("budget", {"epsilon": 1.0, "delta": 1e-6}), "claim.epsilon: 3 exceeds budget.epsilon, which is 1.0",
    ),
},
    "blink": {
    "a smaller epsilon": (part("claim", epsilon=3.9999999), "claim.epsilon: 3.9999999 is too small"),
    "cheaper bits": (event(1, epsilon=1.0), "releases[1].event.epsilon: expected about 3, as the settings ask, got 1"),
    "dearer bits": (event(1, epsilon=3.1), "releases[1].event.epsilon: expected about 3, as the settings ask, got 3.1"),
    "cheaper degrees": (event(0, epsilon=0.999999), "releases[0].event.epsilon: expected about 1, as the settings ask"),
    "everything at half price": (consistent, "releases[0].event.epsilon: expected about 1, as the settings ask, got 0.5"),
    "two reports": (event(1, count=2), "releases[1].event: expected one report of type pure"),
    "degrees left out": (
        no_release(0), "releases: expected ['degree-reports', 'link-reports']",
    ),
    "fewer users": (release(0, shape=[60]), "releases[0].shape: expected [121], for 121 users, got [60]"),
    "bits left open": (release(1, shape=[121, None]), "releases[1].shape: expected integers, got [121, None]"),
    "fewer bits": (release(1, shape=[121, 15]), "releases[1].shape: expected [121, 16], for 121 users, got [121, 15]"),
    "another share": (part("settings", degree_share=0.5), "releases[0].event.epsilon: expected about 2"),
    "a share of all": (part("settings", degree_share=1.0), "settings.degree_share: expected part, got 1.0"),
    "an endless epsilon": (part("settings", epsilon=10**400), "settings.epsilon: expected an integer of at most 2^53"),
    "an epsilon beyond print": (part("claim", epsilon=1e300), "caveats[0]: "),
    "unknown rule": (part("settings", rule="soft"), "settings.rule: expected one of expected, hard"),
    "unknown setting": (part("settings", arcs=[[1, 2]]), "settings.arcs: is not a setting of method blink"),
    "a relationship at half its price": (
        lambda certificate, _: certificate["caveats"].__setitem__(0, certificate["caveats"][0].replace("= 8.", "= 4.")),
        "caveats[0]: ",
    ),
    "no word of relationships": (everywhere("caveats", []), "caveats: holds 0 items, expected 2"),
    "half of what protects says": (everywhere("protects", BIT), "protects: "),
    "whole relationships": (everywhere("protects", "the presence of any one undirected edge"), "protects: "),
    "assumptions of values": (everywhere("assumptions", LOCAL["assumptions"]), "assumptions[1]: "),
    "another local method": (everywhere("method", "lpgnn"), "unit.name: lpgnn has no proof under unit link"),
    "a method of a curator": (everywhere("method", "gap"), "unit.name: gap has no proof under unit link"),
    "unit of values": (
        both(
            everywhere("unit", {"name": "local", "relation": "replace", "features": True, "labels": True}),
            everywhere("protects", USER),
        ),
        "unit.name: blink has no proof under unit local",
    ),
    "unit of a curator": (
        both(
            everywhere("unit", {"name": "edge", "relation": "add-remove", "directed": False}),
            everywhere("protects", "the presence of any one undirected edge"),
        ),
        "unit.name: blink has no proof under unit edge",
    ),
    "a directed graph": (facts(directed=True), "public_facts.directed: expected false"),
    "facts of public data": (assumed("classes"), "assumed_public[0]: classes is not protected under unit link"),
    "narrower limit": (
            everywhere("budget", {"epsilon": 1.0, "delta": 1e-6}), "claim.epsilon: 4 exceeds budget.epsilon, which is 1.0",
        ),
},
    "pgc-links": {
    "a claim 2 % too small": (claimed(0.98, 1.0), "claim.epsilon"),
    "an event 2 % too small": (claimed(0.98, 0.98), "event.epsilon: expected about 10, as the settings ask"),
    "a claim without an event": (claimed(0.98, 0.0), "event"),
    "two reports of a user": (event(0, count=2), "expected one report of type pure"),
    "twice as wide": (release(0, shape=[60, 10]), "shape: expected the width of pgc reports about 5 features"),
    "more users": (release(0, shape=[120, 5]), "shape: expected 60 users and a width"),
    "no release": (no_release(), "releases: expected ['feature-reports']"),
    "a label report": (smuggled, "releases: expected ['feature-reports'], got ['feature-reports', 'label-reports']"),
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
    "features not protected": (part("unit", features=False), "unit"),
    "labels protected": (part("unit", labels=True), "unit.labels"),
    "classes": (facts(num_classes=3), "num_classes: expected 0, since method pgc-links reads no label"),
    "roles": (facts(num_train=30), "num_train: expected 0, since method pgc-links reads no label"),
    "silence about links": (without("Links are not protected"), "caveats"),
    "silence about labels": (without("No label is read"), "caveats"),
    "silence about features": (without("is spent on each"), "caveats"),
    "codes for everybody": (anyone, "who_may_see"),
    "another method": (everywhere("method", "lpgnn"), "settings"),
},
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "change", "named"),
    [
        pytest.param(name, *row, id=f"{name}-{title}")
        for name, rows in FORGED.items()
        for title, row in {**OF_ALL, **rows}.items()
    ],
)
def test_a_consistent_forgery_is_named(forge, name, change, named):
    found = forge(name, change)
    assert (named if name == "pgc-links" else f"certificate.json: {named}") in found


def test_half_a_limit_is_no_limit(forge):
    half = everywhere("budget", {"epsilon": 5.0, "delta": None})
    assert "certificate.json: budget.delta: expected a number, got null" in forge("blink", half)


def test_the_number_of_arcs_may_not_be_left_out(forge):
    said = "public_facts.num_arcs: is missing, though arcs are public under unit local"
    assert said in forge("local", no_fact("num_arcs"))


def test_reports_do_not_belong_to_a_trusted_curator(forge):
    """The other way round: a unit of a curator cannot carry the local method's words."""
    record = everywhere("unit", {"name": "record", "relation": "replace"})
    found = forge("local", both(record, everywhere("protects", "any one record")))
    assert "trust_model: 'local: users trust nobody' differs from 'trusted curator'" in found
    assert "unit.name: lpgnn has no proof under unit record" in found


def renamed(name):
    return lambda tensors: tensors.update({name: tensors.pop(next(iter(tensors)))})


def cast(name, dtype):
    return lambda tensors: tensors.update({name: tensors[name].astype(dtype)})


TENSORS = {
    "local": {
        "labels left out": ("releases", lambda t: t.pop(LABELS), "label-reports: the tensor of this release is missing"),
        "one more": ("releases", lambda t: t.update(x=np.zeros((4, 4), np.int64)), "x: this tensor belongs to no release"),
        "real answers": ("releases", cast("feature-reports", np.float64),
                         "header: is not a valid safetensors header: feature-reports has dtype F64, expected U8"),
        "half of the users": ("releases", lambda t: t.update({"feature-reports": t["feature-reports"][:60]}),
                              "feature-reports: has shape [60, "),
        "a class below all": ("releases", lambda t: t[LABELS].__setitem__(0, -2), f"{LABELS}: holds answers from "),
        "a class above all": ("releases", lambda t: t[LABELS].__setitem__(0, 10), f"{LABELS}: holds answers from "),
        "features beside": ("model", lambda t: t.update(x=np.zeros((120, 4), np.float32)), "x: belongs to no network of this"),
        "no choice": ("model", lambda t: t.pop("selection"), "selection: is missing"),
        "a seed": ("model", lambda t: t.update(feature_seed=np.zeros(9, np.int64)), "feature_seed: belongs to no network"),
    },
    "pgc-links": {
        "out of range": ("releases", lambda t: t["feature-reports"].__setitem__((7, 3), 2),
                         "feature-reports: holds answers from 0 to 2, expected 0 to 1"),
        "true values": ("releases", lambda t: t.update({"feature-reports": USERS.x.astype(np.float32)}),
                        "header: is not a valid safetensors header: feature-reports has dtype F32, expected U8"),
        "labels": ("releases", lambda t: t.update({LABELS: USERS.y.astype(np.int32)}),
                   "label-reports: this tensor belongs to no release"),
        "two reports of each user": (
            "releases", lambda t: t.update({"feature-reports": np.hstack([t["feature-reports"]] * 2)}),
            "feature-reports: has shape [60, 10], but was charged with [60, 5]"),
        "none": ("releases", renamed("other"), "feature-reports: the tensor of this release is missing"),
        "features beside": ("model", lambda t: t.update(features=USERS.x.astype(np.float32)), "features: belongs to no network"),
        "features in the codes": (
            "model", lambda t: t.update(codes=np.hstack([t["codes"], USERS.x.astype(np.float32)])),
            "codes: expected shape [60, 16]"),
        "no number": ("model", lambda t: t["codes"].__setitem__((0, 0), np.nan), "codes"),
    },
    "blink": {
    "links left out": ("releases", lambda t: t.pop("link-reports"), "link-reports: the tensor of this release is missing"),
    "one more": ("releases", lambda t: t.update(x=np.zeros((4, 4), np.int64)), "x: this tensor belongs to no release"),
    "unpacked bits": (
        "releases", lambda t: t.update({"link-reports": np.zeros((121, 121), np.uint8)}),
        "link-reports: has shape [121, 121], but was charged with [121, 16]",
    ),
    "posteriors in place of bits": (
        "releases", lambda t: t.update({"link-reports": t["link-reports"].astype(np.float32)}),
        "header: is not a valid safetensors header: link-reports has dtype F32, expected U8",
    ),
    "wider bits": (
        "releases", lambda t: t.update({"link-reports": t["link-reports"].astype(np.int64)}),
        "link-reports: has dtype I64, expected U8",
    ),
    "real degrees": (
        "releases", lambda t: t.update({"degree-reports": t["degree-reports"].astype(np.float64)}),
        "header: is not a valid safetensors header: degree-reports has dtype F64, expected U8 or U16 or I32 or I64",
    ),
    "bits of nobody": (
        "releases", lambda t: t["link-reports"].__ior__(np.uint8([0] * 15 + [128])), "link-reports: holds bits beyond the 121",
    ),
    "one's own link": (
        "releases", lambda t: t["link-reports"][0].__ior__(np.uint8(1)), "link-reports: holds links of users with themselves",
    ),
    "arcs in place of degrees": (
        "releases", lambda t: t["degree-reports"].__iadd__(1 << 40), "degree-reports: holds answers from 10995",
    ),
    "an unknown learner": ("model", renamed("arcs"), "arcs: belongs to no network of this method"),
    "two learners": (
        "model", lambda t: t.update({name: np.zeros((121, 3), np.float32) for name in ("mlp", "gcn")}),
        "gcn: belongs to no network of this method",
    ),
    "no learner": ("model", lambda t: (t.clear(), t.update(x=np.zeros(1, np.float32))), "mlp: is missing"),
    "other users": ("model", lambda t: t.update({name: rows[:60] for name, rows in t.items()}), "expected shape [121, 3]"),
    },
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "file", "change", "named"),
    [pytest.param(name, *row, id=f"{name}-{title}") for name, rows in TENSORS.items() for title, row in rows.items()],
)
def test_tensors_are_what_was_sent_and_learned(copy_of, name, file, change, named):
    found = with_tensors(copy_of(name), file, change)
    assert named in found
    assert f"{file}.safetensors: " in found


@pytest.mark.parametrize("learner", ["mlp", "beliefs", "gcn"])
def test_any_of_the_three_learners_may_have_been_chosen(copy_of, learner):
    run = copy_of("blink")
    path = run / "release" / "model.safetensors"
    (rows,) = load_file(path).values()
    save_file({learner: rows}, path)
    seal(run / "release")
    assert verify(run).problems == ()


def test_every_backbone_has_its_tensors(tmp_path):
    graph = stochastic_block_model(60, 2, mean_degree=6, num_features=3, seed=0).with_split((0.5, 0.25, 0.25))
    for settings in ({"backbone": name} for name in ("gcn", "gat", "mlp")):
        method = replace(LPGNN(epochs=1), **settings)
        fitted = method.calibrate(None, method.unit, graph.public_facts(method.unit)).fit(graph)
        assert verify(fitted.save(tmp_path / method.backbone)).problems == ()


def charged(method, change=lambda release: release):
    """A run whose plan, certificate and ledger all say what ``change`` makes of the first release."""
    plan = method.calibrate(None, method.unit, WIDE.public_facts(method.unit))
    releases = (change(plan.releases[0]), *plan.releases[1:])
    epsilon, delta = method._claim(releases)
    return marked(replace(plan, releases=releases, epsilon=epsilon, delta=delta)).fit(WIDE)


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

    found = verify(charged(method, change).save(tmp_path / "run")).problems
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
    assert verify(charged(method).save(tmp_path / "run")).problems == ()
    each = mechanism in ("pgc", "piecewise", "laplace")
    links = LinkPrediction(min(epsilon, 3.0), mechanism=mechanism, per_feature=each, delta=1e-5, max_epochs=2)
    fitted = links.calibrate(None, links.unit, USERS.public_facts(links.unit)).fit(USERS)
    assert verify(fitted.save(tmp_path / "links")).problems == ()


def test_a_run_in_the_clear_claims_nothing(tmp_path):
    links = LinkPrediction(None, max_epochs=2)
    fitted = links.calibrate(None, links.unit, USERS.public_facts(links.unit)).fit(USERS)
    found = verify(fitted.save(tmp_path / "run"))
    assert (found.problems, found.claim_epsilon) == ((), None)


def test_the_verifier_knows_the_sentences_and_the_method():
    certificate = {"unit": {"name": "local"}, "settings": {"per_feature": False, "epsilon_x": 1.0},
                   "public_facts": {"num_features": 5}}  # fmt: skip
    assert tuple(rules_of("pgc-links").caveats(certificate)) == LIMITS


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
    run = charged(method).save(tmp_path / "run")
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
