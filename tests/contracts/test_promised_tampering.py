"""Promised messages: forged runs that say more, or protect less, than their releases do not pass."""

import shutil
from dataclasses import replace

import numpy as np
import pytest
from contracts_forgery import event, everywhere, problems, release, rewrite
from safetensors.numpy import load_file, save_file

import sfumato as sf
from sfumato.central._promised import PromisedMessages
from sfumato.graph import stochastic_block_model
from sfumato.record._release_folder import _tensor_file
from sfumato.verify import verify

UNIT = sf.NodeLevel(arcs="incident")
CENTER, HEAD, PAIRS, TEST, REST = range(5)


@pytest.fixture(scope="module")
def honest(tmp_path_factory):
    graph = stochastic_block_model(200, 3, mean_degree=20, homophily=0.9, num_features=4, seed=1).with_split()
    graph = replace(graph, max_degree=60)
    plan = PromisedMessages(epochs=3).calibrate(sf.Budget(8.0, 1e-5), UNIT, graph.public_facts(UNIT))
    return plan.fit(graph).save(tmp_path_factory.mktemp("honest") / "run")


@pytest.fixture
def run(honest, tmp_path):
    return shutil.copytree(honest, tmp_path / "run")


def test_the_honest_run_is_valid_with_rows_and_without_them(run):
    assert verify(run).problems == ()
    shutil.rmtree(run / "own")
    assert verify(run).problems == ()
    assert verify(run / "release").problems == ()


def owned(certificate, spec):
    certificate["unit"]["arcs"] = "owned"
    spec["unit"] = certificate["unit"]


def capped(certificate, spec):
    certificate["unit"]["max_out_degree"] = 1
    spec["unit"] = certificate["unit"]


def fact(**values):
    def change(certificate, spec):
        certificate["public_facts"].update(values)
        spec["public"].update(values)

    return change


def assumed(certificate, spec):
    certificate["assumed_public"] = ["degrees"]
    spec["public"]["assumed"] = ["degrees"]


def to_anyone(certificate, spec):
    certificate["who_may_see"]["anyone"].append(certificate["who_may_see"]["the node itself"].pop(0))


FORGED = {
    "owned arcs": (owned, "unit.arcs: expected incident"),
    "a cap that nothing reads": (capped, "unit.max_out_degree: expected null"),
    "no promise": (fact(max_degree=None), "public_facts.max_degree: expected a promise"),
    "bounds that are not": (fact(degree_bounds=False), "public_facts.degree_bounds"),
    "degrees without bounds": (assumed, "contradicts public_facts, where no degree_bounds"),
    "rows for anyone": (to_anyone, "who_may_see"),
    "rows visible to anyone": (
        release(REST, visible_to="anyone"),
        "visible_to: expected 'the node itself', got 'anyone'",
    ),
    "pairs for nodes": (release(PAIRS, visible_to="the node itself"), "visible_to: expected 'anyone'"),
    "fewer touched": (release(REST, affected_coordinates=600), "affected_coordinates: expected"),
    "smaller pairs": (release(PAIRS, shape=[2, 2]), "releases[2].shape"),
    "noisier hop": (event(REST, noise_multiplier=50.0), "noise of the pairs says"),
    "noisier head": (event(HEAD, noise_multiplier=5e3), "noise of the pairs says"),
    "noisier test": (event(TEST, noise_multiplier=50.0), "noise of the pairs says"),
    "noisier center": (event(CENTER, noise_multiplier=50.0), "noise of the pairs says"),
    "cheaper pairs": (event(PAIRS, noise_multiplier=500.0), "noise of the pairs says"),
    "a test left out": (lambda c, s: c["releases"].pop(TEST), "releases: expected"),
    "another method": (everywhere("method", "linear"), "who_may_see"),
    "no digest": (lambda c, s: s.pop("own"), "spec.json: own: is missing"),
    "another digest": (lambda c, s: s.update(own=64 * "0"), "own/rows.safetensors: its SHA-256 differs"),
}


@pytest.mark.parametrize("name", FORGED)
def test_forged_documents_are_named(run, name):
    change, problem = FORGED[name]
    rewrite(run, change)
    assert problem in problems(run)


def test_rows_among_the_releases_are_named(run):
    path = run / "release" / "releases.safetensors"
    rows = load_file(run / "own" / "rows.safetensors")["aggregate/1"]
    save_file({**load_file(path), "aggregate/1": rows}, path)
    assert "aggregate/1" in problems(run)


def test_other_rows_are_named(run):
    path = run / "own" / "rows.safetensors"
    found = load_file(path)
    save_file({**found, "aggregate/1": found["aggregate/1"] + 1}, path)
    assert "own/rows.safetensors: its SHA-256 differs" in problems(run)
    with pytest.raises(sf.errors.DataError, match="own/rows"):
        sf.load(run)


def test_bounds_that_bound_nothing_are_named(run):
    path = run / "release" / "model.safetensors"
    found = load_file(path)
    found["bounds"] = np.zeros_like(found["bounds"])
    save_file(found, path)
    assert "bounds" in problems(run)


def test_bounds_that_are_not_the_promise_are_named(run):
    path = run / "release" / "model.safetensors"
    found = load_file(path)
    found["bounds"][7] = 199
    path.write_bytes(b"".join(_tensor_file(found)))
    rewrite(run, lambda certificate, spec: None)
    assert "model.safetensors: bounds: holds other numbers than public_facts.max_degree, 60" in problems(run)


def test_a_folder_of_rows_beside_another_method_is_named(run, tmp_path):
    graph = stochastic_block_model(200, 3, mean_degree=20, num_features=4, seed=1).with_split()
    plan = sf.catalog.method_named("linear").calibrate(sf.Budget(8.0, 1e-5), UNIT, graph.public_facts(UNIT))
    other = plan.fit(graph).save(tmp_path / "other")
    shutil.copytree(run / "own", other / "own")
    assert "no release is for single nodes" in problems(other)
