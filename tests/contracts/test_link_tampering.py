"""Runs of private links: a consistent forgery that claims less, or hides what a relationship costs, does not pass."""

import shutil

import numpy as np
import pytest
from contracts_forgery import event, problems, release, rewrite, seal
from safetensors.numpy import load_file, save_file

from sfumato.graph import stochastic_block_model
from sfumato.local import Blink
from sfumato.record._certificate import FIXED, LOCAL
from sfumato.verify import describe, verify


@pytest.fixture(scope="module")
def honest(tmp_path_factory):
    graph = stochastic_block_model(121, 3, mean_degree=12, homophily=0.8, num_features=4, seed=0)
    graph, method = graph.with_split((0.5, 0.25, 0.25)), Blink(epsilon=4.0, degree_share=0.25, epochs=1)
    plan = method.calibrate(None, method.unit, graph.public_facts(method.unit))
    return plan.fit(graph).save(tmp_path_factory.mktemp("honest") / "run")


@pytest.fixture
def run(honest, tmp_path):
    return shutil.copytree(honest, tmp_path / "run")


def test_the_honest_run_is_valid_and_both_costs_are_shown(run):
    result = verify(run)
    assert result.problems == ()
    assert result.epsilon_low == result.epsilon_high == result.claim_epsilon
    text = describe(run, result)
    assert "claim: epsilon 4, delta 0\nclaim for a relationship that both ends report: epsilon 8\n" in text


def everywhere(field, **values):
    def change(certificate, spec):
        certificate[field].update(values)
        if field in spec:
            spec[field] = certificate[field]

    return change


def sentence(field, value):
    return lambda certificate, _: certificate.update({field: value})


def method(name):
    return lambda certificate, spec: [one.update(method=name) for one in (certificate, spec)]


def unit(protects, **values):
    def change(certificate, spec):
        certificate["unit"] = spec["unit"] = values
        certificate["protects"] = protects

    return change


def consistent(certificate, spec):
    """Half the epsilon everywhere but in the settings."""
    certificate["claim"]["epsilon"] = 2.0
    for one in certificate["releases"]:
        one["event"]["epsilon"] /= 2
    certificate["caveats"] = [text.replace("= 4 ", "= 2 ").replace("= 8.", "= 4.") for text in certificate["caveats"]]


def directed(certificate, spec):
    certificate["public_facts"]["directed"] = spec["public"]["directed"] = True


def assumed(certificate, spec):
    certificate["assumed_public"] = spec["public"]["assumed"] = ["classes"]


def limit(certificate, spec):
    certificate["budget"] = spec["budget"] = {"epsilon": 1.0, "delta": 1e-6}


BIT = "one bit of one user's neighbor list, from everyone, the server too"
USER = "one user's features and label, from everyone, the server too"
EDITS = {
    "a smaller epsilon": (everywhere("claim", epsilon=3.9999999), "claim.epsilon: 3.9999999 is too small"),
    "a delta that buys epsilon": (everywhere("claim", epsilon=3.9, delta=1e-5), "claim.delta: expected 0, got 1e-05"),
    "cheaper bits": (event(1, epsilon=1.0), "releases[1].event.epsilon: expected about 3, as the settings ask, got 1"),
    "dearer bits": (event(1, epsilon=3.1), "releases[1].event.epsilon: expected about 3, as the settings ask, got 3.1"),
    "cheaper degrees": (event(0, epsilon=0.999999), "releases[0].event.epsilon: expected about 1, as the settings ask"),
    "everything at half price": (consistent, "releases[0].event.epsilon: expected about 1, as the settings ask, got 0.5"),
    "two reports": (event(1, count=2), "releases[1].event: expected one report of type pure"),
    "Gaussian noise": (
        release(0, event={"type": "gaussian", "noise_multiplier": 1.0, "count": 1}),
        "releases[0].event: expected one report of type pure",
    ),
    "degrees left out": (
        lambda certificate, _: certificate["releases"].pop(0), "releases: expected ['degree-reports', 'link-reports']",
    ),
    "fewer users": (release(0, shape=[60]), "releases[0].shape: expected [121], for 121 users, got [60]"),
    "bits left open": (release(1, shape=[121, None]), "releases[1].shape: expected whole numbers, got [121, None]"),
    "fewer bits": (release(1, shape=[121, 15]), "releases[1].shape: expected [121, 16], for 121 users, got [121, 15]"),
    "noise draws": (release(0, affected_coordinates=4), "releases[0].affected_coordinates: expected 0, got 4"),
    "another share": (everywhere("settings", degree_share=0.5), "releases[0].event.epsilon: expected about 2"),
    "a share of all": (everywhere("settings", degree_share=1.0), "settings.degree_share: expected part, got 1.0"),
    "an endless epsilon": (everywhere("settings", epsilon=10**400), "settings.epsilon: expected an integer of at most 2^53"),
    "an epsilon beyond print": (everywhere("claim", epsilon=1e300), "caveats[0]: "),
    "unknown rule": (everywhere("settings", rule="soft"), "settings.rule: expected one of expected, hard"),
    "unknown setting": (everywhere("settings", arcs=[[1, 2]]), "settings.arcs: is not a setting of method blink"),
    "a relationship at half its price": (
        lambda certificate, _: certificate["caveats"].__setitem__(0, certificate["caveats"][0].replace("= 8.", "= 4.")),
        "caveats[0]: ",
    ),
    "no word of relationships": (sentence("caveats", []), "caveats: holds 0 items, expected 2"),
    "half of what protects says": (sentence("protects", BIT), "protects: "),
    "whole relationships": (sentence("protects", "the presence of any one undirected edge"), "protects: "),
    "a trusted curator": (sentence("trust_model", FIXED["trust_model"]), "trust_model: 'trusted curator' differs from"),
    "assumptions of values": (sentence("assumptions", LOCAL["assumptions"]), "assumptions[1]: "),
    "other accounting": (everywhere("accounting", method="pld"), "accounting.method: pld does not fit the events"),
    "another local method": (method("lpgnn"), "unit.name: lpgnn has no proof under unit link"),
    "a method of a curator": (method("gap"), "unit.name: gap has no proof under unit link"),
    "unit of values": (
        unit(USER, name="local", relation="replace", features=True, labels=True),
        "unit.name: blink has no proof under unit local",
    ),
    "unit of a curator": (
        unit("the presence of any one undirected edge", name="edge", relation="add-remove", directed=False),
        "unit.name: blink has no proof under unit edge",
    ),
    "a directed graph": (directed, "public_facts.directed: expected false"),
    "facts of public data": (assumed, "assumed_public[0]: classes is not protected under unit link"),
    "other audience": (everywhere("who_may_see", never=["reports"]), "who_may_see.never: holds 1 items, expected 0"),
    "narrower limit": (limit, "claim.epsilon: 4 exceeds budget.epsilon, which is 1.0"),
}  # fmt: skip


@pytest.mark.parametrize(("change", "named"), EDITS.values(), ids=EDITS)
def test_a_consistent_forgery_is_named(run, change, named):
    rewrite(run, change)
    assert f"certificate.json: {named}" in problems(run)
    describe(run, verify(run))


def test_half_a_limit_is_no_limit(run):
    def change(certificate, spec):
        certificate["budget"] = spec["budget"] = {"epsilon": 5.0, "delta": None}

    rewrite(run, change)
    assert "certificate.json: budget.delta: expected a number, got null" in problems(run)


def renamed(name):
    return lambda tensors: tensors.update({name: tensors.pop(next(iter(tensors)))})


TENSORS = {
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
}  # fmt: skip


@pytest.mark.parametrize(("name", "change", "named"), TENSORS.values(), ids=TENSORS)
def test_tensors_are_what_was_sent_and_learned(run, name, change, named):
    path = run / "release" / f"{name}.safetensors"
    tensors = load_file(path)
    change(tensors)
    save_file(tensors, path)
    seal(run / "release")
    found = problems(run)
    assert named in found
    assert f"{name}.safetensors: " in found


@pytest.mark.parametrize("learner", ["mlp", "beliefs", "gcn"])
def test_any_of_the_three_learners_may_have_been_chosen(run, learner):
    path = run / "release" / "model.safetensors"
    (rows,) = load_file(path).values()
    save_file({learner: rows}, path)
    seal(run / "release")
    assert verify(run).problems == ()
