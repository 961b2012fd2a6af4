"""Forged runs of class-dp, subclass-dp and cnn: what does not follow from settings, unit and public facts is refused."""

import shutil

import numpy as np
import pytest
from contracts_forgery import event, everywhere, problems, release, rewrite, seal, setting
from safetensors.numpy import load_file, save_file

import sfumato as sf
from sfumato.classlevel._class_dp import ClassDP, SubclassDP
from sfumato.classlevel._record import CNN
from sfumato.datasets.images import from_arrays
from sfumato.verify import verify

RNG = np.random.default_rng(0)
CLASSES, EACH = 4, 30
Y = np.arange(CLASSES * EACH) % CLASSES
IMAGES = (RNG.random((len(Y), 14, 14)) / 2 + Y[:, None, None] / 8).astype(np.float32)
GRAPH = from_arrays(IMAGES, Y, classes=tuple("abcd"), roles=np.where(np.arange(len(Y)) < 100, 0, 2))
QUICK = {"width": 3, "steps": 3, "sampling_prob": 0.5, "records_per_cell": 4}
RUNS = {
    "class": (ClassDP(**QUICK), sf.ClassLevel()),
    "removed class": (ClassDP(network="softmax", augment=1, **QUICK), sf.ClassLevel("add-remove")),
    "directions": (SubclassDP(network="mlp", **QUICK), sf.SubclassLevel(2)),
    "centroids": (SubclassDP(network="softmax", public_rows=40, **QUICK), sf.SubclassLevel(3, "centroids")),
    "record": (CNN(width=3, steps=3, batch_size=20), sf.RecordLevel()),
    "filters": (CNN(width=3, steps=3, batch_size=20, learn_filters=True), sf.RecordLevel()),
    "kmeans": (SubclassDP(network="softmax", kmeans=True, **QUICK), sf.SubclassLevel(8, "declared")),
}


@pytest.fixture(scope="module")
def honest(tmp_path_factory):
    made = {}
    for name, (method, unit) in RUNS.items():
        plan = method.calibrate(sf.Budget(8.0, 1e-3), unit, GRAPH.public_facts(unit))
        made[name] = plan.fit(GRAPH).save(tmp_path_factory.mktemp("runs") / "run")
    return made


@pytest.mark.parametrize("name", RUNS)
def test_honest_runs_are_valid(honest, name):
    assert verify(honest[name]).problems == ()


def unit(**values):
    """Parts of the unit."""

    def change(certificate, spec):
        for one in (certificate, spec):
            one["unit"].update(values)

    return change


def both(*changes):
    def change(certificate, spec):
        for one in changes:
            one(certificate, spec)

    return change


def caveats(drop):
    """The certificate without the caveats that hold some words."""
    return lambda certificate, _: certificate.update(caveats=[one for one in certificate["caveats"] if drop not in one])


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
    ("class", caveats("two classes"), "caveats"),
    ("class", everywhere("protects", "all records of any two classes"), "protects"),
    ("class", lambda c, _: c["who_may_see"]["anyone"].append("predictions for all nodes"), "who_may_see"),
    ("class", lambda c, _: c["public_facts"].update(image_shape=[1, 7, 28]), "expected mlp or softmax"),
    ("removed class", event(0, relation="replace"), "claim.epsilon"),
    ("removed class", unit(relation="replace"), "event.relation: expected replace, the unit's, got add-remove"),
    ("removed class", both(unit(relation="replace"), event(0, relation="replace")), "claim.epsilon"),
    ("removed class", lambda c, _: c["public_facts"].pop("image_shape"), "settings.augment: expected 0"),
    ("directions", unit(partition="centroids"), "settings.public_rows: expected a number above 0"),
    ("directions", unit(partition="k-means"), "unit.partition: expected one of directions, centroids, declared"),
    ("directions", unit(cells=50), "protects"),
    ("directions", unit(cells=0), "unit.cells: expected count"),
    ("directions", setting(kmeans=True), "settings.kmeans: expected false"),
    ("directions", setting(public_rows=5), "settings.public_rows: expected 0"),
    ("centroids", unit(partition="directions"), "settings.public_rows: expected 0"),
    ("centroids", unit(cells=2), "cells.centroids: expected shape [4, 2, 196]"),
    ("centroids", setting(public_rows=101), "exceeds public_facts.num_train, 100"),
    ("centroids", setting(public_rows=39), "caveats"),
    ("centroids", caveats("declared public"), "caveats"),
    ("centroids", caveats("fitted on protected"), "caveats"),
    ("record", event(0, sampling_prob=0.1), "event.sampling_prob: expected 0.2"),
    ("record", setting(batch_size=10), "event.sampling_prob: expected 0.1"),
    ("record", event(0, relation="replace"), "claim.epsilon"),
    ("record", setting(steps=2), "event.steps: expected 2"),
    ("record", everywhere("unit", {"name": "class", "relation": "replace"}), "cnn has no proof under unit class"),
    ("filters", setting(learn_filters=False), "releases[0].shape"),
    ("record", setting(learn_filters=True), "releases[0].shape"),
    ("kmeans", unit(partition="directions"), "settings.kmeans: expected false"),
    ("kmeans", unit(cells=7), "unit.cells: expected a multiple of 4"),
    ("kmeans", setting(kmeans=False), "caveats"),
    ("kmeans", caveats("clusters of the private"), "caveats"),
    ("kmeans", caveats("is not protected: if"), "caveats"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "change", "problem"), FORGED)
def test_what_does_not_follow_is_refused(honest, name, change, problem, tmp_path):
    run = shutil.copytree(honest[name], tmp_path / "run")
    rewrite(run, change)
    assert problem in problems(run)


def test_one_clip_charged_for_a_replaced_class_is_refused(honest, tmp_path):
    """Planted: relation, claim and budget are those of a class that is removed, for the noise of one that is replaced."""
    run = shutil.copytree(honest["class"], tmp_path / "run")
    method, _ = RUNS["class"]
    removed = sf.ClassLevel("add-remove")
    cheaper = method.calibrate(sf.Budget(8.0, 1e-3), removed, GRAPH.public_facts(removed)).event("network")
    rewrite(run, event(0, noise_multiplier=cheaper.noise_multiplier))
    assert "claim.epsilon" in problems(run)


@pytest.mark.parametrize(
    ("name", "change", "problem"),
    [
        ("centroids", lambda t: t.pop("cells.centroids"), "cells.centroids: is missing"),
        ("directions", lambda t: t.update({"cells.centroids": np.zeros((4, 2, 196), np.float32)}), "belongs to no network"),
        ("class", lambda t: t.update({"class.means": np.zeros((4, 196), np.float32)}), "belongs to no network"),
        ("class", lambda t: t.update({"network.head.2.bias": np.full(4, np.nan, np.float32)}), "network.head.2.bias"),
        ("class", lambda t: t.pop("network.head.0.weight"), "is missing"),
    ],
)  # fmt: skip
def test_weights_that_training_does_not_give_are_refused(honest, name, change, problem, tmp_path):
    run = shutil.copytree(honest[name], tmp_path / "run")
    path = run / "release" / "model.safetensors"
    tensors = load_file(path)
    change(tensors)
    save_file(tensors, path)
    seal(path.parent)
    assert problem in problems(run)


class Unseen(str):
    """The word of a partition, which the guard of a selection does not see."""

    def __bool__(self):
        return False


def test_a_selection_is_refused_where_a_record_moves_the_score_by_more_than_one(monkeypatch, tmp_path):
    """Planted: a score charged for one validation node, of which a class holds many."""
    monkeypatch.setattr(sf.ClassLevel, "partition", property(lambda _: Unseen("classes")))
    graph = GRAPH.with_roles(np.where(GRAPH.test_mask, 1, 0))
    unit, candidates = sf.ClassLevel(), tuple(ClassDP(**{**QUICK, "steps": steps}) for steps in (1, 2))
    plan = sf.Tuned(candidates, mean_trials=2).calibrate(sf.Budget(8.0, 1e-3), unit, graph.public_facts(unit))
    run = plan.fit(graph).save(tmp_path / "run")
    assert "unit.name: class admits no selection" in problems(run)
