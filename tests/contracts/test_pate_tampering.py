"""Forged certificates of PATE: told consistently by every file, chained and sealed again, and still found out."""

import json
import math
import shutil

import numpy as np
import pytest
from contracts_forgery import (
    event,
    everywhere,
    facts,
    no_release,
    part,
    problems,
    release,
    rewrite,
    setting,
    with_tensors,
)
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from safetensors.numpy import load_file, save_file

from sfumato.pate import _plan as plan
from sfumato.pate import _run as module
from sfumato.pate._aggregation import ConfidentGNMax, GNMax, LNMax
from sfumato.pate._folder import load_student
from sfumato.pate._images import Images
from sfumato.pate._plan import Settings, make_plan
from sfumato.record._certificate import FIXED
from sfumato.verify import describe, verify
from sfumato.verify._epsilon import epsilon_bracket

POOL, QUERIES, CAP, CLASSES = 60, 30, 15, 2
GIVEN = ConfidentGNMax(40.0, 10.0, 20.0)
SMALL = {"width": 4, "steps": 2, "batch_size": 8}


def released(folder, mechanism=GIVEN, student="consistency", small=SMALL, sign_key=None):
    """A run about toy images whose teachers agree, or not at all: some queries are refused."""
    with pytest.MonkeyPatch.context() as patch:
        for holder in (plan, module):
            patch.setattr(holder, "POOL", POOL)
        x = np.random.default_rng(0).random((80, 1, 28, 28)).astype(np.float32)
        y = np.arange(80) % CLASSES
        votes = np.where(np.arange(POOL)[:, None] % 3 > 0, [50, 0], [25, 25])
        settings = Settings(
            50, QUERIES, 20.0, mechanism=mechanism, student=student, student_settings=small, controls=False
        )
        module.run(settings, Images("toy", x[:40], y[:40], x, y, CLASSES), folder, votes=votes, sign_key=sign_key)
    return folder


@pytest.fixture(scope="module")
def honest(tmp_path_factory):
    return released(tmp_path_factory.mktemp("honest") / "run")


@pytest.fixture
def run(honest, tmp_path):
    return shutil.copytree(honest, tmp_path / "run")


def test_the_honest_run_is_valid_and_shown(run):
    result = verify(run)
    assert result.problems == ()
    assert result.epsilon_low <= result.claim_epsilon <= result.epsilon_high < 1.0001 * result.claim_epsilon
    assert "unit: name record, relation replace" in describe(run, result)
    answers = load_file(run / "release" / "releases.safetensors")["answers"]
    assert 0 < (answers >= 0).sum() <= CAP
    assert (answers[: np.flatnonzero(answers >= 0)[-1]] < 0).any()  # a refusal that is charged


@pytest.mark.parametrize("mechanism", [GNMax(20), GNMax(10.0), LNMax(15), LNMax(7.5), "lnmax", "confident-gnmax"])
def test_true_runs_pass(tmp_path, mechanism):
    assert verify(released(tmp_path / "run", mechanism)).problems == ()


def claim(factor):
    return lambda certificate, _: certificate["claim"].update(epsilon=factor * certificate["claim"]["epsilon"])


def planned(mechanism, queries=QUERIES, answers=None, epsilon=20.0):
    """Settings, releases, claim and sampler of another plan, all of them consistent with each other."""
    given = Settings(50, queries, epsilon, mechanism=mechanism, max_answers=answers)
    made = make_plan(given, CLASSES)

    def change(certificate, spec):
        name = {"name": mechanism.name, **{key: float(value) for key, value in vars(mechanism).items()}}
        setting(mechanism=name, num_queries=queries, max_answers=given.answers)(certificate, spec)
        certificate["releases"] = [one.to_dict() for one in made.releases]
        certificate["claim"]["epsilon"] = made.epsilon
        certificate["accounting"]["delta_sampler"] = made.delta_sampler
        certificate["accounting"]["method"] = "pld" if mechanism.name == "lnmax" else "gaussian"

    return change


def keep_claim(change):
    """The claim that was there, whatever else changes: what makes a dearer plan look like the cheaper one."""

    def changed(certificate, spec):
        before = dict(certificate["claim"]), dict(certificate["accounting"])
        change(certificate, spec)
        certificate["claim"], certificate["accounting"] = before

    return changed


def tuned(certificate, spec):
    """A charged selection between this plan and one with more noise, the candidates' answers being what it kept."""
    other = json.loads(json.dumps(certificate["settings"]))
    other["mechanism"]["noise_stddev"] = 40.0
    trials = [[one["event"] for one in certificate["releases"]] for _ in range(2)]
    trials[1][1] = {**trials[1][1], "noise_multiplier": 40.0 / math.sqrt(2)}
    selection = {"type": "selection", "rule": "geometric", "mean_trials": 2.0, "candidates": trials}
    _, high = epsilon_bracket([selection], certificate["claim"]["delta"])
    certificate["releases"] = [{**certificate["releases"][0], "name": "tuned", "event": selection, "shape": [1]}]
    certificate["candidates"] = [{"method": "pate", "settings": one} for one in (certificate["settings"], other)]
    certificate["claim"]["epsilon"] = high
    certificate["accounting"]["method"] = "renyi"
    certificate["budget"]["epsilon"] = spec["budget"]["epsilon"] = 2 * high


def student(**values):
    """Settings of the student."""

    def change(certificate, spec):
        certificate["settings"]["student"].update(values)
        spec["settings"] = certificate["settings"]

    return change


GRAPH = {"num_nodes": 4, "num_train": 2, "num_features": 3, "num_classes": 2, "directed": False,
         "max_degree": None, "mean_degree": None}  # fmt: skip
ORIGIN = {"ledger_head": "0" * 64, "epsilon": 1.0, "delta": 1e-6}
EDITS = {
    "a smaller epsilon": (claim(0.999), "claim.epsilon: "),
    "a smaller delta": (part("claim", delta=1e-6), "claim.epsilon: "),
    "no share of the sampler": (
        part("accounting", delta_sampler=0.0), "accounting.delta_sampler: expected"),
    "a narrower budget": ( part("budget", epsilon=0.5), "claim.epsilon: "),
    "more noise in the event": (event(1, noise_multiplier=200.0), "releases[1].event.noise_multiplier: 200.0 differs from 14.1"),
    "noise without the sensitivity": (
        event(1, noise_multiplier=20.0), "releases[1].event.noise_multiplier: 20.0 differs from 14.142135623730"),
    "more noise on the threshold": (
        event(0, noise_multiplier=20.0), "releases[0].event.noise_multiplier: 20.0 differs from 10.0"),
    "less noise in the settings": (
        setting(mechanism={"name": GIVEN.name, "threshold": 40.0, "threshold_stddev": 10.0, "noise_stddev": 2.0}),
        "releases[1].event.noise_multiplier: 14.142135623730"),
    "less noise everywhere, same claim": (
        keep_claim(planned(ConfidentGNMax(40.0, 10.0, 15.0))), "claim.epsilon: "),
    "a higher cap on answers": (setting(max_answers=QUERIES), f"releases[1].event.count: {CAP} differs from {QUERIES}"),
    "a higher cap everywhere, same claim": (keep_claim(planned(GIVEN, answers=QUERIES)), "claim.epsilon: "),
    "refused queries for free": (event(0, count=CAP), f"releases[0].event.count: {CAP} differs from {QUERIES}"),
    "a threshold for free": (
        no_release(0), "releases: expected ['threshold', 'answers'], got"),
    "one more release": (
        lambda certificate, _: certificate["releases"].append({**certificate["releases"][1], "name": "teachers"}),
        "releases: expected ['threshold', 'answers'], got"),
    "fewer draws": (release(1, affected_coordinates=1), "releases[1].affected_coordinates: 1 differs from 2"),
    "another shape": (release(1, shape=[QUERIES, CLASSES]), "releases[1].shape: holds 2 items, expected 1"),
    "another mechanism in the settings": (
        setting(mechanism={"name": "gnmax", "noise_stddev": 20.0}, max_answers=QUERIES), "releases: expected ['answers'], got"),
    "Laplace noise in the settings": (
        setting(mechanism={"name": "lnmax", "scale": 20.0}, max_answers=QUERIES), "releases[1].event.type: 'gaussian' differs"),
    "another event": (event(1, type="laplace"), "releases[1].event.type: 'laplace' differs from 'gaussian'"),
    "no such mechanism": (setting(mechanism={"name": "mean"}), "settings.mechanism.name: expected one of lnmax, gnmax, conf"),
    "a mechanism with too much": (
        setting(mechanism={"name": "gnmax", "noise_stddev": 20.0, "scale": 1.0}),
        "settings.mechanism.scale: is not a parameter of gnmax"),
    "noise beyond the sampler": (
        setting(mechanism={"name": "gnmax", "noise_stddev": 1e6}),
        "settings.mechanism.noise_stddev: expected votes, got 1000000.0"),
    "a threshold of no run": (
        setting(mechanism={"name": GIVEN.name, "threshold": -1e9, "threshold_stddev": 10.0, "noise_stddev": 20.0}),
        "settings.mechanism.threshold: expected votes between -2**15 and 2**40, got -1000000000.0"),
    "a threshold beyond all votes": (
        setting(mechanism={"name": GIVEN.name, "threshold": 1e13, "threshold_stddev": 10.0, "noise_stddev": 20.0}),
        "settings.mechanism.threshold: expected votes between -2**15 and 2**40, got 1000"),
    "an unknown setting": (setting(arcs=3), "settings.arcs: is not a setting of method pate"),
    "a setting left out": (lambda certificate, spec: (
        certificate["settings"].pop("num_teachers"), spec["settings"].pop("num_teachers")),
        "settings.num_teachers: is missing"),
    "true for a number": (setting(num_queries=True), "settings.num_queries: expected count, got True"),
    "no width": (
        student(width=0), "settings.student.width: expected count, got 0"),
    "a smaller pool": (facts(num_public=20), f"settings.num_queries: {QUERIES} exceeds public_facts.num_public, which is 20"),
    "a cap above the queries": (setting(max_answers=QUERIES + 1), f"settings.max_answers: {QUERIES + 1} exceeds num_queries"),
    "another pool": (facts(image_shape=[1, 28, 27]), "public_facts"),
    "facts of a graph": (everywhere("public_facts", GRAPH), "public_facts.directed: is not a known field"),
    "a fact of the records": (facts(num_train=40), "public_facts.num_train: is not a known field"),
    "another relation": (everywhere("unit", {"name": "record", "relation": "add-remove"}), "unit.relation: 'add-remove' differs"),
    "a smaller unit": (everywhere("unit", {"name": "edge", "relation": "add-remove", "directed": True}),
        "unit.name: pate has no proof under unit edge"),
    "no privacy": (everywhere("unit", {"name": "none", "relation": "none"}), "unit.name: 'none' differs from 'record'"),
    "kinder words": (everywhere("protects", "any one person"), "protects: 'any one person' differs from 'any one record'"),
    "teachers shown": (
        part("who_may_see", never=[]), "who_may_see.never: holds 0 items, expected 2"),
    "no caveats": (everywhere("caveats", []), "caveats: holds 0 items, expected 2"),
    "fewer assumptions": (everywhere("assumptions", FIXED["assumptions"]), "assumptions: holds 3 items, expected 5"),
    "users who trust nobody": (everywhere("trust_model", "local: users trust nobody"), "trust_model: 'local: users trust"),
    "assumed facts": (everywhere("assumed_public", ["classes"]), "assumed_public: holds 1 items, expected 0"),
    "weights of another run": (
        part("composition", builds_on=[ORIGIN]),
        "composition.builds_on: expected none, since pate takes no weights from another run"),
    "other accounting": (
        part("accounting", method="renyi"), "accounting.method: renyi does not fit"),
    "a selection": (tuned, "releases: expected no selection, since pate has none"),
    "another method": (everywhere("method", "mlp"), "public_facts.directed: is missing"),
}  # fmt: skip


@pytest.mark.parametrize(("change", "named"), EDITS.values(), ids=EDITS)
def test_a_consistent_forgery_is_named(run, change, named):
    rewrite(run, change)
    assert f"certificate.json: {named}" in problems(run)


@pytest.mark.parametrize("threshold", [-(2.0**15), 0.0])
def test_a_threshold_that_all_pass_is_charged_for_every_query(tmp_path, threshold):
    """It is sound, and dearer than no threshold: a run that answers everything until the cap."""
    run = released(tmp_path / "run", ConfidentGNMax(threshold, 10.0, 20.0))
    assert verify(run).problems == ()
    certificate = json.loads((run / "release" / "certificate.json").read_text())
    assert certificate["releases"][0]["event"] == {"type": "gaussian", "noise_multiplier": 10.0, "count": QUERIES}
    assert certificate["claim"]["epsilon"] > make_plan(Settings(50, CAP, 20.0, mechanism=GNMax(20.0)), CLASSES).epsilon


@pytest.mark.parametrize(
    ("mechanism", "change", "named"),
    [
        (GNMax(20.0), event(0, noise_multiplier=20.0), "releases[0].event.noise_multiplier: 20.0 differs from 14.1"),
        (LNMax(20.0), event(0, noise_multiplier=20.0), "releases[0].event.noise_multiplier: 20.0 differs from 10.0"),
        (LNMax(20.0), claim(0.998), "claim.epsilon: "),
        (LNMax(20.0), event(0, count=CAP), f"releases[0].event.count: {CAP} differs from {QUERIES}"),
        (GNMax(20.0), setting(max_answers=CAP), f"settings.max_answers: expected {QUERIES}, since gnmax answers every"),
    ],
)
def test_every_mechanism_is_held_to_its_settings(tmp_path, mechanism, change, named):
    run = released(tmp_path / "run", mechanism)
    rewrite(run, change)
    assert f"certificate.json: {named}" in problems(run)


def test_a_swapped_mechanism_shows_in_the_answers(run):
    """Cheaper without a threshold: settings, releases and claim are those of gnmax, but some queries have no answer."""
    rewrite(run, planned(GNMax(20.0)))
    assert problems(run).startswith("releases.safetensors: answers: refuses ")


def test_answers_above_the_cap_show(run):
    given = int((load_file(run / "release" / "releases.safetensors")["answers"] >= 0).sum())
    rewrite(run, planned(GIVEN, answers=given - 1))
    exceeds = f"holds {given} answers, which exceeds settings.max_answers, {given - 1}"
    assert problems(run) == f"releases.safetensors: answers: {exceeds}"


def test_queries_left_out_of_the_plan_show(run):
    rewrite(run, planned(GIVEN, queries=CAP, answers=CAP))
    assert f"queries: has shape [{QUERIES}], but was charged with [{CAP}]" in problems(run)


def test_refused_queries_that_vanish_from_plan_and_tensors_show(run):
    path = run / "release" / "releases.safetensors"
    tensors = load_file(path)
    kept = tensors["answers"] >= 0
    save_file({name: values[kept] for name, values in tensors.items()}, path)
    rewrite(run, planned(GIVEN, queries=int(kept.sum()), answers=int(kept.sum())))
    assert problems(run) == f"releases.safetensors: {CHOSEN}"


def test_a_pool_too_large_to_check_is_not_confirmed(run):
    rewrite(run, facts(num_public=10**8))
    assert "public_facts.num_public: 100000000 exceeds 10000000" in problems(run)


def spec_alone(**values):
    return lambda _, spec: spec.update(values)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (spec_alone(method="gap"), "spec.json: graph: is missing"),
        (spec_alone(settings={}), "spec.json: settings.dataset: is missing"),
        (spec_alone(budget={"epsilon": 1.0, "delta": 1e-5}), "spec.json: budget.epsilon: "),
        (spec_alone(note="hello"), "spec.json: note: is not a known field"),
        (
            spec_alone(graph={"name": "", "num_nodes": 1, "ids_digest": "0" * 64, "classes": [], "feature_names": []}),
            "spec.json: graph: does not fit method pate",
        ),
    ],
)
def test_the_spec_says_the_same(run, change, named):
    rewrite(run, change)
    assert named in problems(run)


def put(name, **at):
    def change(tensors):
        for index, value in at.items():
            tensors[name][int(index.removeprefix("at"))] = value

    return change


CHOSEN = "queries: are not the rows of the pool that settings.seed, 0, chooses"
TENSORS = {
    "another order": ("releases", lambda t: t["queries"].sort(), CHOSEN),
    "a query twice": ("releases", lambda t: t["queries"].__setitem__(1, t["queries"][0]), CHOSEN),
    "a row that measures": ("releases", put("queries", at0=POOL), CHOSEN),
    "a row before the first": ("releases", put("queries", at0=-1), CHOSEN),
    "an unknown class": ("releases", put("answers", at0=CLASSES), "answers: holds -1 to 2, expected -1 to 1"),
    "another refusal": ("releases", put("answers", at0=-2), "answers: holds -2 to "),
    "every query answered": (
        "releases", lambda t: t["answers"].fill(1), f"answers: holds {QUERIES} answers, which exceeds settings.max_answers"),
    "no query answered": ("releases", lambda t: t["answers"].fill(-1), "answers: holds none, so that no student can have"),
    "votes": ("releases", lambda t: t.update(votes=np.zeros((4, 2), np.int64)), "votes: this tensor belongs to no release"),
    "answers missing": ("releases", lambda t: t.pop("answers"), "answers: the tensor of this release is missing"),
    "half of the answers": (
        "releases", lambda t: t.update(answers=t["answers"][:CAP]), f"answers: has shape [{CAP}], but was charged with [30]"),
    "fractions": (
        "releases", lambda t: t.update(answers=t["answers"].astype(np.float64)), "header: is not a valid safetensors header"),
    "teachers": (
        "model", lambda t: t.update({"teacher/0.weight": np.zeros(9, np.float32)}), "teacher/0.weight: belongs to no network"),
    "weights that are no numbers": (
        "model", lambda t: t["network.2.bias"].fill(np.nan), "network.2.bias: holds numbers that are not finite"),
    "an infinite weight": ("model", put("network.0.bias", at0=np.inf), "network.0.bias: holds numbers that are not finite"),
    "a network missing": ("model", lambda t: t.pop("network.0.bias"), "network.0.bias: is missing"),
    "a wider network": (
        "model", lambda t: t.update({"network.2.bias": np.zeros(3, np.float32)}), "network.2.bias: expected shape [2], as"),
}  # fmt: skip


@pytest.mark.parametrize(("name", "change", "named"), TENSORS.values(), ids=TENSORS)
def test_tensors_are_what_was_answered_and_learned(run, name, change, named):
    assert f"{name}.safetensors: {named}" in with_tensors(run, name, change)


@pytest.mark.parametrize(
    ("small", "named"),
    [
        ({"widths": [3, 4, 8]}, "discriminator/0.convolutions.0.bias: expected shape [3]"),
        ({"widths": [2, 4]}, "settings.student.widths: expected at least 3 numbers, got 2"),
        ({"network": "mlp"}, "discriminator/1.layers.0.weight: expected shape [2, 784]"),
        ({"network": "edges"}, "discriminator/1.layers.0.weight: expected shape [2, 588]"),
        ({"name": "gan"}, "settings.student.noise_rate: is not a parameter of gan"),
        ({"device": 3}, "settings.student.device: expected device, got 3"),
    ],
)
def test_networks_are_those_of_the_settings(tmp_path, small, named):
    settings = {"network": "cnn", "widths": (2, 4, 8), "epochs": 1}
    run = released(tmp_path / "run", GNMax(20.0), student="coteaching", small=settings)
    assert verify(run).problems == ()
    rewrite(run, student(**small))
    assert named in problems(run)


def test_deep_networks_are_those_of_the_settings(tmp_path):
    run = released(
        tmp_path / "run", GNMax(20.0), small={"network": "deep", "widths": (2, 3, 4), "epochs": 1}, student="gan"
    )
    assert verify(run).problems == ()
    rewrite(run, student(widths=[2, 4, 4]))
    assert "discriminator/0.convolutions.6.weight: expected shape [4, 4, 5, 5]" in problems(run)


@pytest.mark.parametrize(("network", "columns"), [("mlp", 784), ("edges", 588)])
def test_networks_without_convolutions_pass_too(tmp_path, network, columns):
    small = {"network": network, "widths": (5, 3), "epochs": 1}
    run = released(tmp_path / "run", GNMax(20.0), student="gan", small=small)
    assert verify(run).problems == ()
    shapes = {name: value.shape for name, value in load_file(run / "release" / "model.safetensors").items()}
    assert shapes["discriminator/0.layers.0.weight"] == (5, columns)
    assert load_student(run).predict(np.zeros((2, 1, 28, 28), np.float32)).shape == (2,)


def test_a_signed_run_is_its_signers(tmp_path):
    key = Ed25519PrivateKey.generate()
    pem, public = tmp_path / "key.pem", tmp_path / "public"
    pem.touch(0o600)
    pem.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    public.write_text(key.public_key().public_bytes_raw().hex())
    run = released(tmp_path / "run", sign_key=pem)
    result = verify(run, public)
    assert result.valid
    assert result.signed
    rewrite(run, lambda certificate, _: certificate.update(notes=["checked by nobody"]))
    assert "signature.json: signature: does not sign manifest.json" in problems(run)


def test_facts_of_pate_do_not_pass_for_another_method(run):
    """A graph's method with the facts of PATE stops before anything reads what is not there."""
    rewrite(run, everywhere("method", "gap"))
    found = problems(run)
    assert "certificate.json: public_facts.num_nodes: is missing" in found
    assert json.loads((run / "release" / "spec.json").read_text())["method"] == "gap"
