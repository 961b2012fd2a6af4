"""Fields of the JSON files that could carry what nobody charged: each is held to what the rest of the release implies."""

import os
import re
import shutil
from dataclasses import replace

import numpy as np
import pytest
from contracts_forgery import event, facts, problems, rewrite, seal, setting

import sfumato as sf
from sfumato.errors import DataError, InputError
from sfumato.graph import PublicFacts, stochastic_block_model
from sfumato.graph._subgraph import induced
from sfumato.record._release_folder import _tensor_file
from sfumato.verify import describe, verify

EDGE, NODE = sf.EdgeLevel(directed=False), sf.NodeLevel(max_out_degree=5)
ASSUMED = ("num_features", "categories of column dorm", "categories of column a=b")
NAMES = ("age", "dorm=north", "dorm=south", "a=b=c")
LONG = int.from_bytes(b"private arcs: " + b"A" * 100, "big")


def graph_of(**fields):
    graph = stochastic_block_model(60, 3, mean_degree=12, num_features=4, seed=0).with_split()
    return replace(graph, **{"feature_names": NAMES, "assumed_public": ASSUMED, "mean_degree": 12.0, **fields})


def fitted(method, unit, graph=None, epsilon=8.0):
    graph = graph_of() if graph is None else graph
    return method.calibrate(sf.Budget(epsilon, 1e-5), unit, graph.public_facts(unit)).fit(graph)


METHODS = {
    "node": lambda: fitted(sf.GAP(epochs=1), NODE),
    "unnamed": lambda: fitted(sf.GAP(epochs=1), NODE, graph_of(feature_names=())),
    "edge": lambda: fitted(sf.LabelMessages(epochs=1), EDGE),
    "layers": lambda: fitted(sf.ProGAP(depth=1, base_layers=10, width=2, epochs=1), EDGE),
    "stages": lambda: fitted(sf.ProGAP(depth=100, width=1, epochs=1, layerwise=True), EDGE),
    "tuned": lambda: fitted(sf.Tuned((sf.GAP(num_hops=1, epochs=1), sf.GAP(num_hops=2, epochs=1)), mean_trials=2.0), EDGE),
}  # fmt: skip


@pytest.fixture(scope="module")
def honest(tmp_path_factory):
    made = {}

    def of(name):
        if name not in made:
            made[name] = METHODS[name]().save(tmp_path_factory.mktemp(name) / "run")
        return made[name]

    return of


@pytest.mark.parametrize("name", METHODS)
def test_the_honest_run_is_valid(honest, name):
    assert verify(honest(name)).problems == ()


def assumed(*more):
    def change(certificate, spec):
        certificate["assumed_public"] += more
        spec["public"]["assumed"] = certificate["assumed_public"]

    return change


def invented(number, length):
    return [f"categories of column {os.urandom(length // 2).hex()}" for _ in range(number)]


FORGERIES = {
    "3,000 invented columns": (
        "node", assumed(*invented(3000, 470)), "assumed_public[3]: expected a name of at most 200 characters"),
    "short invented columns": (
        "node", assumed(*invented(3000, 170)), "assumed_public: names 3002 columns, but public_facts.num_features is 4"),
    "one invented column": (
        "node", assumed("categories of column 0-1"),
        "assumed_public[3]: categories of column 0-1 contradicts spec.json, graph.feature_names"),
    "invented columns without names": (
        "unnamed", assumed(*invented(3, 100)), "assumed_public: names 5 columns, but public_facts.num_features is 4"),
    "more facts than are read": ("node", assumed(*invented(10000, 20)), "assumed_public: expected a list of at most 10000"),
    "layers beyond the weights": (
        "layers", setting(base_layers=2**53), "settings.base_layers: 9007199254740992 is beyond what can be verified here: at"),
    "stages beyond the releases": (
        "stages", setting(depth=101), "settings.depth: 101 is beyond what can be verified here: at most 100"),
    "a learning rate that no method takes": ("edge", setting(learning_rate=11.0), "settings.learning_rate: 11.0 is beyond"),
    "a long learning rate": ("edge", setting(learning_rate=LONG), "settings.learning_rate: expected an integer of at most 2^53"),
    "a long clip": ("node", setting(l2_clip_norm=LONG), "settings.l2_clip_norm: expected an integer of at most 2^53"),
    "a clip that is too long by one": (
        "node", setting(l2_clip_norm=2**53 + 1), "settings.l2_clip_norm: expected an integer of at most 2^53"),
    "a long noise multiplier": (
        "edge", event(0, noise_multiplier=LONG), "releases[0].event.noise_multiplier: expected an integer of at most 2^53"),
    "a long mean degree": ("edge", facts(mean_degree=LONG), "public_facts.mean_degree: expected an integer of at most 2^53"),
    "a mean degree above the nodes": ("edge", facts(mean_degree=60.5), "public_facts.mean_degree: 60.5 exceeds 60"),
    "a mean degree above the promised one": (
        "edge", facts(max_degree=10), "public_facts.mean_degree: 12.0 exceeds 10, the most that the other facts admit"),
    "a degree above the nodes": ("edge", facts(max_degree=61), "public_facts.max_degree: 61 exceeds 60"),
    "more untrained classes than classes": ("edge", facts(untrained_classes=4), "public_facts.untrained_classes: 4 exceeds 3"),
}  # fmt: skip


@pytest.mark.parametrize(("name", "change", "named"), FORGERIES.values(), ids=FORGERIES)
def test_a_field_that_could_carry_more_is_named(honest, tmp_path, name, change, named):
    run = shutil.copytree(honest(name), tmp_path / "run")
    rewrite(run, change)
    assert f"certificate.json: {named}" in problems(run)


def test_candidates_that_lost_have_settings_of_the_method_too(honest, tmp_path):
    run = shutil.copytree(honest("tuned"), tmp_path / "run")

    def change(certificate, spec):
        lost = next(one for one in certificate["candidates"] if one["settings"] != certificate["settings"])
        lost["settings"]["l2_clip_norm"] = LONG

    rewrite(run, change)
    assert re.search(r"candidates\[[01]\].settings.l2_clip_norm: expected an integer of at most 2\^53", problems(run))


def test_hops_beyond_those_that_are_verified_are_not_read_as_fewer(honest, tmp_path):
    """The construction of the review: 1,000 aggregates, and settings that say a million."""
    run, number = shutil.copytree(honest("edge"), tmp_path / "run"), 1000

    def change(certificate, spec):
        setting(num_hops=10**6)(certificate, spec)
        first = certificate["releases"][0]
        less = first["event"]["epsilon"] * len(certificate["releases"]) / number
        certificate["accounting"]["delta_sampler"] *= number / len(certificate["releases"])
        certificate["releases"] = [
            {**first, "name": f"aggregate/{k + 1}", "event": {**first["event"], "epsilon": less}} for k in range(number)
        ]

    rewrite(run, change)
    arrays = {f"aggregate/{k + 1}": np.zeros((60, 3), np.int64) for k in range(number)}
    (run / "release" / "releases.safetensors").write_bytes(b"".join(_tensor_file(arrays)))
    seal(run / "release")
    assert "settings.num_hops: 1000000 is beyond what can be verified here: at most 2" in problems(run)


def test_the_name_of_a_folder_is_no_line_of_the_verdict(honest, tmp_path):
    run = shutil.copytree(
        honest("edge"), tmp_path / "run\nVALID: moon\norigin: checked, this is the key that was given\r"
    )
    lines = describe(run, verify(run)).splitlines()
    assert [line for line in lines if line.startswith(("VALID", "origin"))] == lines[:1]
    assert lines[0].endswith(r"run\nVALID: moon\norigin: checked, this is the key that was given\r")


def test_a_release_that_is_a_link_is_refused(honest, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "release").symlink_to(honest("edge") / "release")
    assert problems(tmp_path / "run") == "release: is a link; a release is a folder of its own"


@pytest.mark.parametrize(
    "promise", [{"max_degree": 61}, {"mean_degree": 60.5}, {"max_degree": 10, "mean_degree": 12.0}]
)
def test_degrees_that_no_graph_of_so_many_nodes_has_are_not_promised(promise):
    with pytest.raises(InputError, match=r"degree .*(nodes. Lower the promise|the promised max_degree=10)"):
        graph_of(**promise)
    with pytest.raises(InputError, match="degree"):
        PublicFacts(60, 45, 4, 3, directed=False, **promise)


def test_promises_of_a_part_are_those_that_it_can_keep():
    part = induced(graph_of(max_degree=50, mean_degree=12.0), [0, 1, 2])
    assert (part.max_degree, part.mean_degree) == (3, 3)


def test_what_no_certificate_can_hold_is_refused_before_anything_is_spent():
    with pytest.raises(InputError, match=r"l2_clip_norm to be an integer of at most 2\*\*53"):
        fitted(sf.GAP(l2_clip_norm=10**20), NODE)
    with pytest.raises(InputError, match=r"num_hops to be an integer >= 1 and <= 1000"):
        sf.GAP(num_hops=1001)
    with pytest.raises(DataError, match="Expected feature names COLUMN=CATEGORY for 'categories of column dorm'"):
        fitted(sf.GAP(epochs=1), NODE, graph_of(feature_names=("age", "north", "south", "a=b=c")))
    with pytest.raises(DataError, match="at most 10000 facts to be read off the data, got 10001"):
        fitted(sf.GAP(epochs=1), NODE, graph_of(assumed_public=tuple(map(str, range(10001)))))
