"""Runs of a curator: whatever does not follow from settings, unit and public facts is refused, however consistent it is."""

import shutil

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
    shown,
    with_tensors,
    without,
)
from contracts_honest import INCIDENT, MADE, PICTURES, QUICK, block
from safetensors.numpy import load_file, save_file

import sfumato as sf
from sfumato.classlevel._class_dp import ClassDP
from sfumato.errors import LedgerError
from sfumato.record._release_folder import _tensor_file
from sfumato.verify import verify

CENTER, HEAD, PAIRS, TEST, REST = range(5)
"""Releases of promised messages."""
GAUSSIAN = {"type": "gaussian", "noise_multiplier": 9.0, "count": 1}
DEVICES = ("local", "pgc-links", "blink")


@pytest.mark.parametrize("name", [name for name in MADE if name not in DEVICES])
def test_the_honest_run_is_valid(honest, name):
    assert verify(honest(name)).problems == ()


def costs(*epsilons):
    def change(certificate, _):
        for one, epsilon in zip(certificate["releases"], epsilons, strict=True):
            one["event"]["epsilon"] = epsilon

    return change


def to_anyone(certificate, spec):
    certificate["who_may_see"]["anyone"].append(certificate["who_may_see"]["the node itself"].pop(0))


FORGED = [
    ("class", event(0, relation="add-remove"), "event.relation: expected replace, the unit's, got add-remove"),
    ("class", event(0, noise_multiplier=0.1), "claim.epsilon"),
    ("class", event(0, sampling_prob=0.05), "event.sampling_prob: expected 0.5"),
    ("class", event(0, steps=2), "event.steps: expected 3"),
    ("class", setting(steps=2), "event.steps: expected 2"),
    ("class", setting(sampling_prob=0.4), "event.sampling_prob: expected 0.4"),
    ("class", setting(sampling_prob=1.5), "settings.sampling_prob: expected share"),
    ("class", setting(l2_clip_norm=1e-10), "settings.l2_clip_norm: expected at least 1e-09"),
    ("class", setting(width=4), "releases[0].shape"),
    ("class", setting(network="mlp"), "releases[0].shape"),
    ("class", setting(network="transformer"), "settings.network: expected one of"),
    ("class", setting(optimizer="lion"), "settings.optimizer: expected one of"),
    ("class", setting(public_rows=5), "is not a setting of method class-dp"),
    ("class", release(0, affected_coordinates=1), "affected_coordinates"),
    ("class", release(0, name="head"), "releases: expected ['network']"),
    ("class", everywhere("unit", {"name": "record", "relation": "replace"}), "class-dp has no proof under unit record"),
    ("class", everywhere("unit", {"name": "class", "relation": "remove"}), "unit.relation: expected one of replace, add-remove"),
    ("class", everywhere("unit", {"name": "subclass", "relation": "replace", "cells": 1, "partition": "directions"}),
     "class-dp has no proof under unit subclass"),
    ("class", without("two classes"), "caveats"),
    ("class", everywhere("protects", "all records of any two classes"), "protects"),
    ("class", shown("predictions for all nodes"), "who_may_see"),
    ("class", lambda c, _: c["public_facts"].update(image_shape=[1, 7, 28]), "expected mlp or softmax"),
    ("removed class", event(0, relation="replace"), "claim.epsilon"),
    ("removed class", part("unit", relation="replace"), "event.relation: expected replace, the unit's, got add-remove"),
    ("removed class", both(part("unit", relation="replace"), event(0, relation="replace")), "claim.epsilon"),
    ("removed class", lambda c, _: c["public_facts"].pop("image_shape"), "settings.augment: expected 0"),
    ("directions", part("unit", partition="centroids"), "settings.public_rows: expected a number above 0"),
    ("directions", part("unit", partition="k-means"), "unit.partition: expected one of directions, centroids, declared"),
    ("directions", part("unit", cells=50), "protects"),
    ("directions", part("unit", cells=0), "unit.cells: expected count"),
    ("directions", setting(kmeans=True), "settings.kmeans: expected false"),
    ("directions", setting(public_rows=5), "settings.public_rows: expected 0"),
    ("centroids", part("unit", partition="directions"), "settings.public_rows: expected 0"),
    ("centroids", part("unit", cells=2), "cells.centroids: expected shape [4, 2, 196]"),
    ("centroids", setting(public_rows=101), "exceeds public_facts.num_train, 100"),
    ("centroids", setting(public_rows=39), "caveats"),
    ("centroids", without("declared public"), "caveats"),
    ("centroids", without("fitted on protected"), "caveats"),
    ("record", event(0, sampling_prob=0.1), "event.sampling_prob: expected 0.2"),
    ("record", setting(batch_size=10), "event.sampling_prob: expected 0.1"),
    ("record", event(0, relation="replace"), "claim.epsilon"),
    ("record", setting(steps=2), "event.steps: expected 2"),
    ("record", everywhere("unit", {"name": "class", "relation": "replace"}), "cnn has no proof under unit class"),
    ("filters", setting(learn_filters=False), "releases[0].shape"),
    ("record", setting(learn_filters=True), "releases[0].shape"),
    ("kmeans", part("unit", partition="directions"), "settings.kmeans: expected false"),
    ("kmeans", part("unit", cells=7), "unit.cells: expected a multiple of 4"),
    ("kmeans", setting(kmeans=False), "caveats"),
    ("kmeans", without("clusters of the private"), "caveats"),
    ("kmeans", without("is not protected: if"), "caveats"),
    ("promised", part("unit", arcs="owned"), "unit.arcs: expected incident"),
    ("promised", part("unit", max_out_degree=1), "unit.max_out_degree: expected null"),
    ("promised", facts(max_degree=None), "bounds: holds other numbers than the bound on degrees for every node, 200"),
    ("promised", facts(degree_bounds=False), "public_facts.degree_bounds"),
    ("promised", assumed("degrees"), "contradicts public_facts, where no degree_bounds"),
    ("promised", to_anyone, "who_may_see"),
    ("promised", release(REST, visible_to="anyone"),
        "visible_to: expected 'the node itself', got 'anyone'",
    ),
    ("promised", release(PAIRS, visible_to="the node itself"), "visible_to: expected 'anyone'"),
    ("promised", release(REST, affected_coordinates=600), "affected_coordinates: expected"),
    ("promised", release(PAIRS, shape=[2, 2]), "releases[2].shape"),
    ("promised", event(REST, noise_multiplier=50.0), "noise of the pairs says"),
    ("promised", event(HEAD, noise_multiplier=5e3), "noise of the pairs says"),
    ("promised", event(TEST, noise_multiplier=50.0), "noise of the pairs says"),
    ("promised", event(CENTER, noise_multiplier=50.0), "noise of the pairs says"),
    ("promised", event(PAIRS, noise_multiplier=500.0), "noise of the pairs says"),
    ("promised", no_release(TEST), "releases: expected"),
    ("found", no_release(2), "releases: expected"),
    ("found", lambda c, _: c["who_may_see"]["anyone"].pop(), "who_may_see"),
    ("found", facts(max_degree=60), "releases: expected"),
    ("found", facts(degree_bounds=True), "releases: expected"),
    ("found", release(2, shape=[1, 2]), "releases[2].shape"),
    ("found", release(3, affected_coordinates=1), "affected_coordinates: expected"),
    ("found", event(3, noise_multiplier=500.0), "noise of the pairs says"),
    ("found", event(2, noise_multiplier=500.0), "noise of the pairs says"),
    ("promised", everywhere("method", "linear"), "who_may_see"),
    ("promised", lambda c, s: s.pop("own"), "spec.json: own: is missing"),
    ("promised", lambda c, s: s.update(own=64 * "0"), "own/rows.safetensors: its SHA-256 differs"),
    ("edgerand", costs(0.04, 7.96), "claim.epsilon"),
    ("edgerand", costs(2.0, 1.9999), "expected the share count_share"),
    ("edgerand", event(1, num_outcomes=3), "over 2 outcomes"),
    ("edgerand", event(1, count=2), "expected one release of type randomized-response"),
    ("edgerand", no_release(0), "releases: expected ['edge-count', 'edges']"),
    ("edgerand", both(no_release(0), setting(mean_degree=12.0)), "edge-count: this tensor belongs to no release"),
    ("edgerand", setting(asymmetric=False), "releases: expected ['edges']"),
    ("edgerand", setting(num_layers=3), "is missing"),
    ("edgerand", setting(num_layers=9), "settings.num_layers: expected at most 8"),
    ("lapgraph", setting(num_layers=9), "settings.num_layers: expected at most 8"),
    ("lapgraph", costs(2.0, 1.9999), "expected the share count_share"),
    ("lapgraph", setting(asymmetric=True), "is not a setting of method lapgraph"),
    ("lapgraph", costs(0.04, 39.6), "claim.epsilon"),
    ("lpgnet", costs(1.0, 2.9999), "the same epsilon at every stage"),
    ("lpgnet", costs(3.0, 3.0), "claim.epsilon"),
    ("lpgnet", setting(num_hops=3), "releases: expected"),
    ("lpgnet", setting(num_hops=10**6), "beyond what can be verified here"),
    ("scattering", part("claim", epsilon=2.0), "claim.epsilon"),
    ("scattering", event(0, noise_multiplier=0.5), "claim.epsilon"),
    ("scattering", event(0, sampling_prob=0.01), "sampling_prob"),
    ("scattering", event(0, steps=1), "steps"),
    ("scattering", event(0, relation="replace"), "claim.epsilon"),
    ("scattering", setting(epochs=1), "steps"),
    ("scattering", setting(batch_size=60), "sampling_prob"),
    ("scattering", setting(width=16), "is not a setting of method scattering"),
    ("scattering", setting(epochs=None), "settings.epochs"),
    ("scattering", setting(head="mlp"), "settings.head"),
    ("scattering", setting(head="cnn"), "releases[0].shape"),
    ("scattering", setting(learning_rate=0.0), "settings.learning_rate"),
    ("scattering", no_release(), "releases: expected ['head']"),
    ("scattering", facts(image_shape=[1, 4, 24]), "at least 8 x 8 pixels"),
    ("scattering", facts(image_shape=[6, 4, 4]), "at least 8 x 8 pixels"),
    ("scattering", facts(image_shape=[1, 16, 8]), "image_shape"),
    ("scattering", facts(image_shape=[1, 9, 12]), "image_shape"),
    ("scattering", no_fact("image_shape"), "at least 8 x 8 pixels"),
    ("labels", setting(noise="gaussian"), "expected one release of type gaussian"),
    ("labels", setting(noise="normal"), "settings.noise: expected one of laplace, gaussian, auto"),
    ("labels", release(0, event=GAUSSIAN), "expected one release of type pure"),
    ("labels", both(setting(noise="gaussian"), release(0, event=GAUSSIAN)), "affected_coordinates: expected"),
    *[("gaussian labels", setting(noise=noise), "expected one release of type pure") for noise in (None, "laplace", "auto")],
    ("gaussian labels", release(0, event={"type": "pure", "epsilon": 8.0, "count": 1}), "expected one release of type gaussian"),
    ("gaussian labels", release(0, affected_coordinates=0), "affected_coordinates: expected"),
    ("gaussian labels", event(0, noise_multiplier=0.5), "claim.epsilon"),
    ("gaussian labels", event(0, count=2), "expected one release of type gaussian"),
    ("gaussian labels", setting(num_hops=1), "releases[0].shape"),
    ("piloted", setting(noise="gaussian"), "settings.noise: expected null where labels are protected"),
    ("link-messages", everywhere("claim", {"epsilon": 1.0, "delta": 0.0}), "claim.epsilon"),
    ("link-messages", event(0, epsilon=3.0), "claim.epsilon"),
    ("link-messages", release(0, event=GAUSSIAN), "of type pure"),
    ("link-messages", event(0, count=2), "expected one release of type pure"),
    ("link-messages", release(0, shape=[180]), "shape: expected"),
    ("link-messages", no_release(), "releases: expected ['links']"),
    ("link-messages", part("unit", directed=True), "links of method link-messages have no direction"),
    ("link-messages", setting(hops=2), "is not a setting of method link-messages"),
    ("link-messages", setting(learner_share=1.0), "settings.learner_share"),
    ("link-messages", shown("sums before noise"), "who_may_see"),
    ("link-messages", everywhere("method", "label-messages"), "settings"),
    *[("weights", facts(max_weight=bound), "max_weight") for bound in (0, -1, "0.5", None, True, 10**301)],
    ("weights beside mlp", facts(max_weight=0.5),
     "public_facts.max_weight: expected none, since method mlp reads no weights of edges"),
    ("weights in words", everywhere("protects", "the presence of any one undirected edge"), "certificate.json: protects"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "change", "problem"), FORGED)
def test_what_does_not_follow_is_refused(forge, name, change, problem):
    assert problem in forge(name, change)


def of(name, change):
    return lambda tensors: tensors.update({name: change(tensors[name])})


MEANS = np.zeros((4, 196), np.float32)
TENSORS = [
    ("centroids", "model", lambda t: t.pop("cells.centroids"), "cells.centroids: is missing"),
    ("directions", "model", lambda t: t.update({"cells.centroids": MEANS.reshape(4, 2, 98)}), "belongs to no network"),
    ("class", "model", lambda t: t.update({"class.means": MEANS}), "belongs to no network"),
    ("class", "model", lambda t: t["network.head.2.bias"].fill(np.nan), "network.head.2.bias"),
    ("class", "model", lambda t: t.pop("network.head.0.weight"), "is missing"),
    ("scattering", "model", of("head.weight", lambda rows: rows[:, :-1].copy()), "head.weight"),
    ("link-messages", "model", lambda t: t.update({"counts.before.noise": t["link.weight"]}),
     "counts.before.noise: belongs to no network"),
    ("promised", "releases", lambda t: t.update({"aggregate/1": np.zeros((200, 3), np.int64)}), "aggregate/1"),
    ("promised", "model", lambda t: t["bounds"].fill(0), "bounds"),
    *[("edgerand", "releases", lambda t, count=count: t["edge-count"].fill(count), "edge-count: expected 1 to 1770")
      for count in (-5, 0, 10**15)],
    ("lapgraph", "releases", lambda t: t["edge-count"].fill(1), "edges: expected at most 1 pairs"),
    ("edgerand", "releases", of("edges", lambda edges: edges[:, ::-1].copy()), "the smaller end first"),
    ("edgerand", "releases", of("edges", lambda edges: edges[::-1].copy()), "not in ascending order"),
    ("edgerand", "releases", of("edges", lambda edges: edges + 50), "holds columns"),
    ("edgerand", "releases", of("edges", lambda edges: edges.astype("int32")), "has dtype I32"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "file", "change", "problem"), TENSORS)
def test_tensors_that_no_mechanism_and_no_training_gives_are_refused(copy_of, name, file, change, problem):
    assert problem in with_tensors(copy_of(name), file, change)


def test_more_of_the_largest_pairs_than_are_wanted_are_refused(forge):
    assert "edges: expected at most 3 pairs" in forge("lapgraph of a degree", setting(mean_degree=0.1))


def test_one_clip_charged_for_a_replaced_class_is_refused(forge):
    """Planted: relation, claim and budget are those of a class that is removed, for the noise of one that is replaced."""
    removed = sf.ClassLevel("add-remove")
    cheaper = ClassDP(**QUICK).calibrate(sf.Budget(8.0, 1e-3), removed, PICTURES.public_facts(removed)).event("network")
    assert "claim.epsilon" in forge("class", event(0, noise_multiplier=cheaper.noise_multiplier))


class Unseen(str):
    """The word of a partition, which the guard of a selection does not see."""

    def __bool__(self):
        return False


def test_a_selection_is_refused_where_a_record_moves_the_score_by_more_than_one(monkeypatch, tmp_path):
    """Planted: a score charged for one validation node, of which a class holds many."""
    monkeypatch.setattr(sf.ClassLevel, "partition", property(lambda _: Unseen("classes")))
    graph = PICTURES.with_roles(np.where(PICTURES.test_mask, 1, 0))
    unit, candidates = sf.ClassLevel(), tuple(ClassDP(**{**QUICK, "steps": steps}) for steps in (1, 2))
    plan = sf.Tuned(candidates, mean_trials=2).calibrate(sf.Budget(8.0, 1e-3), unit, graph.public_facts(unit))
    run = plan.fit(graph).save(tmp_path / "run")
    assert "unit.name: class admits no selection" in problems(run)


def test_the_rows_of_single_nodes_may_be_left_out(copy_of):
    run = copy_of("promised")
    shutil.rmtree(run / "own")
    assert verify(run).problems == ()
    assert verify(run / "release").problems == ()


def test_other_rows_of_single_nodes_are_named(copy_of):
    run = copy_of("promised")
    path = run / "own" / "rows.safetensors"
    found = load_file(path)
    save_file({**found, "aggregate/1": found["aggregate/1"] + 1}, path)
    assert "own/rows.safetensors: its SHA-256 differs" in problems(run)
    with pytest.raises(sf.errors.DataError, match="own/rows"):
        sf.load(run)


def test_bounds_that_are_not_the_promise_are_named(copy_of):
    run = copy_of("promised")
    path = run / "release" / "model.safetensors"
    found = load_file(path)
    found["bounds"][7] = 199
    path.write_bytes(b"".join(_tensor_file(found)))
    seal(run / "release")
    assert "model.safetensors: bounds: holds other numbers than the bound on degrees for every node, 60" in problems(
        run
    )


def test_a_folder_of_rows_beside_another_method_is_named(honest, tmp_path):
    graph = block(200, mean_degree=20, seed=1).with_split()
    plan = sf.catalog.method_named("linear").calibrate(sf.Budget(8.0, 1e-5), INCIDENT, graph.public_facts(INCIDENT))
    other = plan.fit(graph).save(tmp_path / "other")
    shutil.copytree(honest("promised") / "own", other / "own")
    assert "no release is for single nodes" in problems(other)


def test_a_spec_with_another_bound_of_weights_is_a_problem_and_is_not_loaded(copy_of):
    run = copy_of("weights")
    rewrite(run, lambda _, spec: spec["public"].update(max_weight=5.0))
    assert "max_weight" in problems(run)
    with pytest.raises(LedgerError, match="Field 'public'"):
        sf.load(run)


def test_the_weight_is_part_of_what_is_protected(honest):
    words = sf.load(honest("weights in words")).certificate.values["protects"]
    assert words == "the presence of any one undirected edge, and its weight"
