"""What an operator would change to let an edge pay once that is read twice, or to extend a run that is not there."""

import json
import shutil
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from contracts_forgery import SIGNER, STRANGER, everywhere, problems, public, rewrite, seal, sign, write_json

import sfumato as sf
from sfumato.central._arrivals import calibrate_arrival
from sfumato.graph import induced, stochastic_block_model
from sfumato.tables._newcomers import Newcomers, node_names
from sfumato.verify import describe, verify

EDGE, NODE = sf.EdgeLevel(directed=False), sf.NodeLevel()


def arrive(graph, sizes):
    """The trained graph, and newcomers of each size with their edges, from one graph."""
    ends, known, out = np.cumsum([0, *sizes]), [], []
    source, target = np.repeat(np.arange(graph.num_nodes), np.diff(graph.indptr)), graph.indices
    known.append(induced(graph, range(ends[1])).with_split())
    for first, last in pairwise(ends[1:]):
        alone = induced(graph, range(first, last))
        empty = replace(alone, indptr=np.zeros(last - first + 1, np.int64), indices=np.zeros(0, np.int32))
        kept = (np.maximum(source, target) < last) & (np.maximum(source, target) >= first) & (source < target)
        number = np.r_[last - first : last, 0 : last - first]  # newcomers come first
        out.append(Newcomers.join(empty, known, number[source[kept]], number[target[kept]]))
        known.append(out[-1])
    return known[0], out


def family(folder, unit, budget):
    """A run of label messages and two arrivals, saved as the command line does."""
    full = stochastic_block_model(180, 3, mean_degree=20, homophily=0.8, num_features=4, seed=0)
    trained, late = arrive(full, (120, 30, 30))
    plan = sf.LabelMessages(epochs=2).calibrate(budget, unit, trained.public_facts(unit))
    runs = [plan.fit(trained)]
    runs[0].save(folder)
    for number, newcomers in enumerate(late, start=1):
        more = budget if unit == NODE else None
        plan = calibrate_arrival(runs, node_names(newcomers), newcomers.public_facts(unit), more)
        runs.append(plan.fit(newcomers))
        runs[-1].save(folder / "arrivals" / str(number))
    return folder


@pytest.fixture(scope="module")
def honest(tmp_path_factory):
    """Two runs of one plan, each with two arrivals, and one at node level."""
    folder = tmp_path_factory.mktemp("honest")
    for name in ("one", "other"):
        family(folder / name, EDGE, sf.Budget(2.0, 1e-6))
    family(folder / "node", NODE, sf.Budget(8.0, 1e-5))
    return folder


@pytest.fixture
def run(honest, tmp_path):
    return shutil.copytree(honest, tmp_path / "all") / "one"


def test_honest_families_are_valid(honest):
    for name in ("one", "other", "node"):
        found = verify(honest / name)
        assert found.problems == ()
        assert found.arrivals == 2
        for number in "12":
            alone = verify(honest / name / "arrivals" / number)
            assert alone.problems == ()
            assert alone.extends == (name != "node")
    assert "adds up with that of the run" in describe(honest / "node", verify(honest / "node"))


def change(path, value):
    """Set a field of the certificate, by its path; a function takes the old value."""

    def apply(certificate, spec):
        *inner, last = path.split(".")
        place = certificate
        for key in inner:
            place = place[int(key) if key.isdecimal() else key]
        key = int(last) if last.isdecimal() else last
        place[key] = value(place[key]) if callable(value) else value

    return apply


def less_noise(certificate, spec):
    """Draw with the noise of epsilon 8, and claim what that costs."""
    for one in certificate["releases"]:
        one["event"]["epsilon"] = 8.0
    certificate["claim"]["epsilon"] = 8.0
    certificate["budget"]["epsilon"] = spec["budget"]["epsilon"] = 8.0


def no_block(certificate, spec):
    del certificate["arrival"]


def no_block_anywhere(certificate, spec):
    """Pose as an inference that pays by itself."""
    del certificate["arrival"]
    certificate["composition"]["covers"] = "This run alone: other releases about the same data add up."
    certificate["caveats"] = []


ALONE = [
    (change("arrival.nodes", lambda old: old[:-1]), "arrival.nodes: holds 29 nodes, but public_facts.num_nodes is 30"),
    (change("arrival.nodes", lambda old: [*old[:-1], old[0]]), "arrival.nodes: a node arrives twice"),
    (change("arrival.nodes.0", "ann"), "arrival.nodes[0]: expected 16 hexadecimal digits"),
    (change("arrival.extends", "no hash"), "arrival.extends: expected 64 hexadecimal digits"),
    (change("arrival.note", "0,1"), "arrival.note"),
    (change("composition.builds_on", []), "composition.builds_on: expected the run that these nodes extend, got none"),
    (change("composition.builds_on.0.epsilon", 1.9), "claim.epsilon: 1.99999999"),
    (change("composition.builds_on.0.delta", 1e-7), "claim.delta: 1e-06 is not covered"),
    (change("composition.covers", "This run alone: other releases about the same data add up."), "composition.covers"),
    (change("composition.covers", lambda old: old.replace("once", "never")), "composition.covers"),
    (change("caveats", []), "caveats"),
    (less_noise, "claim.epsilon: 8.0 is not covered by the run that these nodes extend, which paid 1.99"),
    (no_block, "composition.covers"),
    (change("public_facts.num_train", 1), "public_facts.num_train: expected 0"),
]


@pytest.mark.parametrize(("forge", "problem"), ALONE)
def test_an_arrival_alone_that_no_claim_covers(run, forge, problem):
    late = run / "arrivals" / "1"

    def apply(certificate, spec):
        forge(certificate, spec)
        spec["public"] |= {"num_train": certificate["public_facts"]["num_train"]}

    rewrite(late, apply)
    assert problem in problems(late)
    assert f"arrivals/1: certificate.json: {problem.partition(':')[0]}" in problems(run)


WITH_RUN = [
    (change("arrival.extends", "0" * 64), "arrival.extends"),
    (change("arrival.plan", "0" * 64), "arrival.plan"),
    (change("composition.builds_on.0.ledger_head", "0" * 64), "composition.builds_on[0].ledger_head"),
    (change("composition.builds_on.0.epsilon", 9.0), "composition.builds_on[0].epsilon: 9.0 differs"),
    (no_block_anywhere, "arrival: is missing, under the unit of the run"),
]


@pytest.mark.parametrize(("forge", "problem"), WITH_RUN)
def test_an_arrival_that_is_sound_alone_but_does_not_belong_to_its_run(run, forge, problem):
    rewrite(run / "arrivals" / "1", forge)
    assert verify(run / "arrivals" / "1").problems == ()
    assert f"arrivals/1: certificate.json: {problem}" in problems(run)


def test_nodes_do_not_arrive_where_weights_count(run):
    def weigh(certificate, spec):
        certificate["public_facts"]["max_weight"] = spec["public"]["max_weight"] = 9.0
        certificate["protects"] += ", and its weight"

    late = run / "arrivals" / "1"
    rewrite(run, weigh)
    assert "arrivals/1: certificate.json: public_facts.max_weight: expected none" in problems(run)
    rewrite(late, weigh)
    assert "public_facts.max_weight: expected none" in problems(late)


def test_an_arrival_with_other_noise_than_its_run(run):
    """More noise claims no less, but rows are of another law than the head learned on."""

    def noisier(certificate, spec):
        for one in certificate["releases"]:
            one["event"]["epsilon"] = 1.0

    rewrite(run / "arrivals" / "1", noisier)
    assert "arrivals/1: certificate.json: events[0].epsilon" in problems(run)


def test_a_run_that_claims_more_later_covers_no_more(run):
    """An arrival with little noise would need a run that paid for it; the run's own ledger says that it did not."""

    def both(certificate, spec):
        less_noise(certificate, spec)
        certificate["composition"]["builds_on"][0]["epsilon"] = 8.0

    rewrite(run / "arrivals" / "1", both)
    assert verify(run / "arrivals" / "1").problems == ()
    assert "composition.builds_on[0].epsilon: 8.0 differs from 1.99" in problems(run)


def test_nodes_that_arrive_in_two_batches(run):
    one = json.loads((run / "arrivals/1/release/certificate.json").read_text())["arrival"]["nodes"]
    rewrite(run / "arrivals" / "2", change("arrival.nodes.3", one[7]))
    assert verify(run / "arrivals" / "2").problems == ()
    assert f"arrivals/2: certificate.json: arrival.nodes: {one[7]} arrived before, in arrivals/1" in problems(run)


def test_a_batch_that_is_there_twice(run):
    shutil.copytree(run / "arrivals" / "1", run / "arrivals" / "3")
    assert problems(run).count("arrived before, in arrivals/1: it would pay twice") == 30


def test_an_arrival_of_another_run_of_the_same_plan(run):
    """Only noise tells the two runs apart: their ledgers are equal."""
    shutil.rmtree(run / "arrivals" / "1")
    shutil.copytree(run.parent / "other" / "arrivals" / "1", run / "arrivals" / "1")
    found = problems(run)
    assert "arrivals/1: certificate.json: arrival.extends" in found
    assert "arrivals/1: certificate.json: weights" in found
    assert "ledger_head" not in found


def test_an_arrival_at_node_level_poses_as_covered(run):
    late = run.parent / "node" / "arrivals" / "1"
    block = {"extends": "0" * 64, "plan": "0" * 64, "nodes": [f"{k:016x}" for k in range(30)]}
    rewrite(late, everywhere("arrival", block))
    spec = json.loads((late / "release" / "spec.json").read_text())
    write_json(late / "release" / "spec.json", {key: value for key, value in spec.items() if key != "arrival"})
    seal(late / "release")
    assert "arrival: label-messages has no release for later nodes that an earlier claim covers" in problems(late)


def test_gap_has_no_arrivals(tmp_path):
    graph = stochastic_block_model(120, 3, mean_degree=12, homophily=0.8, num_features=4, seed=0).with_split()
    fitted = sf.GAP(epochs=1).calibrate(sf.Budget(2.0, 1e-6), EDGE, graph.public_facts(EDGE)).fit(graph)
    late = fitted.calibrate_inference(sf.Budget(2.0, 1e-6), EDGE, graph.public_facts(EDGE))
    other = replace(graph, node_ids=np.arange(1000, 1120))
    run = late.fit(other).save(tmp_path / "run")
    block = {"extends": "0" * 64, "plan": "0" * 64, "nodes": [f"{k:016x}" for k in range(120)]}
    rewrite(run, lambda certificate, _: certificate.update(arrival=block))
    assert "arrival: gap has no release for later nodes" in problems(run)


def test_a_ledger_line_that_names_no_arrival_or_another(run):
    late = run / "arrivals" / "1" / "release"
    certificate = json.loads((late / "certificate.json").read_text())
    for block in (None, {**certificate["arrival"], "nodes": certificate["arrival"]["nodes"][::-1]}):
        changed = {key: value for key, value in certificate.items() if key != "arrival"}
        changed |= {} if block is None else {"arrival": block}
        write_json(late / "certificate.json", changed)
        seal(late)
        assert "arrival" in " ".join(t for t in verify(run / "arrivals" / "1").problems if "compared with ledger" in t)


def test_an_unreadable_arrival_and_a_strange_unit(run):
    (run / "arrivals/1/release/spec.json").write_text("{")
    assert "arrivals/1: spec.json: " in problems(run)
    rewrite(run, everywhere("unit", {"name": "town"}))
    assert "unit.name" in problems(run)


def test_a_key_that_is_asked_for_must_have_signed_every_arrival(run, tmp_path):
    (tmp_path / "public").write_text(public(SIGNER).hex())
    for folder in (run, run / "arrivals" / "1"):
        sign(folder / "release")
    assert verify(run).problems == ()
    (told,) = verify(run).aside
    assert told.startswith("arrivals/2 bears no signature that holds")
    assert f"beside it: {told}\n" in describe(run, verify(run))
    (problem,) = verify(run, tmp_path / "public").problems
    assert problem.startswith("arrivals/2: signature.json")


def test_an_arrival_that_another_key_signed_is_named(run):
    for folder, key in ((run, SIGNER), (run / "arrivals" / "1", SIGNER), (run / "arrivals" / "2", STRANGER)):
        sign(folder / "release", key)
    assert verify(run).problems == ()
    (told,) = verify(run).aside
    assert told.startswith("arrivals/2 is signed by another key")


def test_a_stopped_arrival_is_passed_over_and_named(run):
    (run / "arrivals/1/release/manifest.json").unlink()
    found = verify(run)
    assert (found.problems, found.arrivals) == ((), 1)
    assert found.aside == ("arrivals/1 was not checked: it has no release/manifest.json, as if stopped",)
    assert f"beside it: {found.aside[0]}" in describe(run, found)


def test_what_nobody_checked_is_named(run):
    assert verify(run).aside == ()
    (run / "arrivals" / "notes.txt").write_text("")
    shutil.copytree(run / "release", run / "trials" / "1" / "release")
    shutil.copytree(run / "release", run / "inference" / "release")
    shutil.copytree(run / "release", run / "more")
    assert [text.partition(" ")[0] for text in verify(run).aside] == [
        "arrivals/notes.txt",
        "inference",
        "more",
        "trials",
    ]
    assert verify(run / "release").aside == ()
