"""Fields of the JSON files that could carry what nobody charged: each is held to what the rest of the release implies."""

import os
import re
import shutil
from dataclasses import replace

import numpy as np
import pytest
from contracts_forgery import assumed, both, event, facts, problems, rewrite, seal, setting, unpriced
from contracts_honest import OF_FIVE, named

import sfumato as sf
from sfumato.errors import DataError, InputError
from sfumato.graph import PublicFacts
from sfumato.graph._subgraph import induced
from sfumato.record._release_folder import _tensor_file
from sfumato.verify import describe, verify

LONG = int.from_bytes(b"private arcs: " + b"A" * 100, "big")


def invent(*more):
    def change(certificate, spec):
        certificate["assumed_public"] += more
        spec["public"]["assumed"] = certificate["assumed_public"]

    return change


def invented(number, length):
    return [f"categories of column {os.urandom(length // 2).hex()}" for _ in range(number)]


FORGERIES = {
    "3,000 invented columns": (
        "columns", invent(*invented(3000, 470)), "assumed_public[3]: expected a name of at most 200 characters"),
    "short invented columns": (
        "columns", invent(*invented(3000, 170)), "assumed_public: names 3002 columns, but public_facts.num_features is 4"),
    "one invented column": (
        "columns", invent("categories of column 0-1"),
        "assumed_public[3]: categories of column 0-1 contradicts spec.json, graph.feature_names"),
    "invented columns without names": (
        "unnamed columns", invent(*invented(3, 100)), "assumed_public: names 5 columns, but public_facts.num_features is 4"),
    "more facts than are read": ("columns", invent(*invented(10000, 20)), "assumed_public: expected a list of at most 10000"),
    "layers beyond the weights": (
        "layers", setting(base_layers=2**53), "settings.base_layers: 9007199254740992 is beyond what can be verified here: at"),
    "stages beyond the releases": (
        "stages", setting(depth=101), "settings.depth: 101 is beyond what can be verified here: at most 100"),
    "a learning rate that no method takes": ("labels", setting(learning_rate=11.0), "settings.learning_rate: 11.0 is beyond"),
    "a long rate": ("labels", setting(learning_rate=LONG), "settings.learning_rate: expected an integer of at most 2^53"),
    "a long clip": ("columns", setting(l2_clip_norm=LONG), "settings.l2_clip_norm: expected an integer of at most 2^53"),
    "a clip that is too long by one": (
        "columns", setting(l2_clip_norm=2**53 + 1), "settings.l2_clip_norm: expected an integer of at most 2^53"),
    "a long noise multiplier": (
        "labels", event(0, noise_multiplier=LONG), "releases[0].event.noise_multiplier: expected an integer of at most 2^53"),
    "a long mean degree": ("labels", facts(mean_degree=LONG), "public_facts.mean_degree: expected an integer of at most 2^53"),
    "a mean degree above the nodes": ("labels", facts(mean_degree=60.5), "public_facts.mean_degree: 60.5 exceeds 60"),
    "a mean degree above the promised one": (
        "labels", facts(max_degree=10), "public_facts.mean_degree: 12.0 exceeds 10, the most that the other facts admit"),
    "a degree above the nodes": ("labels", facts(max_degree=61), "public_facts.max_degree: 61 exceeds 60"),
    "more untrained classes than classes": ("labels", facts(untrained_classes=4), "public_facts.untrained_classes: 4 exceeds 3"),
}  # fmt: skip


@pytest.mark.parametrize(("name", "change", "named"), FORGERIES.values(), ids=FORGERIES)
def test_a_field_that_could_carry_more_is_named(forge, name, change, named):
    assert f"certificate.json: {named}" in forge(name, change)


def test_candidates_that_lost_have_settings_of_the_method_too(forge):
    def change(certificate, spec):
        lost = next(one for one in certificate["candidates"] if one["settings"] != certificate["settings"])
        lost["settings"]["l2_clip_norm"] = LONG

    said = r"candidates\[[01]\].settings.l2_clip_norm: expected an integer of at most 2\^53"
    assert re.search(said, forge("tuned", change))


def test_hops_beyond_those_that_are_verified_are_not_read_as_fewer(copy_of):
    """The construction of the review: 1,000 aggregates, and settings that say a million."""
    run, number = copy_of("labels"), 1000

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
        honest("labels"), tmp_path / "run\nVALID: moon\norigin: checked, this is the key that was given\r"
    )
    lines = describe(run, verify(run)).splitlines()
    assert [line for line in lines if line.startswith(("VALID", "origin"))] == lines[:1]
    assert lines[0].endswith(r"run\nVALID: moon\norigin: checked, this is the key that was given\r")


def test_a_release_that_is_a_link_is_refused(honest, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "release").symlink_to(honest("labels") / "release")
    assert problems(tmp_path / "run") == "release: is a link; a release is a folder of its own"


@pytest.mark.parametrize(
    "promise", [{"max_degree": 61}, {"mean_degree": 60.5}, {"max_degree": 10, "mean_degree": 12.0}]
)
def test_degrees_that_no_graph_of_so_many_nodes_has_are_not_promised(promise):
    with pytest.raises(InputError, match=r"degree .*(nodes. Lower the promise|the promised max_degree=10)"):
        replace(named(), **promise)
    with pytest.raises(InputError, match="degree"):
        PublicFacts(60, 45, 4, 3, directed=False, **promise)


def test_promises_of_a_part_are_those_that_it_can_keep():
    part = induced(replace(named(), max_degree=50), [0, 1, 2])
    assert (part.max_degree, part.mean_degree) == (3, 3)


REFUSED = {
    "a long clip": (
        lambda: fitted_on(named(), l2_clip_norm=10**20),
        InputError, r"l2_clip_norm to be an integer of at most 2\*\*53"),
    "many hops": (lambda: sf.GAP(num_hops=1001), InputError, r"num_hops to be an integer >= 1 and <= 1000"),
    "categories without a column": (
        lambda: fitted_on(replace(named(), feature_names=("age", "north", "south", "a=b=c"))),
        DataError, "Expected feature names COLUMN=CATEGORY for 'categories of column dorm'"),
    "many facts": (
        lambda: fitted_on(replace(named(), assumed_public=tuple(map(str, range(10001))))),
        DataError, "at most 10000 facts to be read off the data, got 10001"),
}  # fmt: skip


def fitted_on(graph, **settings):
    return sf.GAP(epochs=1, **settings).calibrate(sf.Budget(8.0, 1e-5), OF_FIVE, graph.public_facts(OF_FIVE)).fit(graph)


@pytest.mark.parametrize(("call", "error", "said"), REFUSED.values(), ids=REFUSED)
def test_what_no_certificate_can_hold_is_refused_before_anything_is_spent(call, error, said):
    with pytest.raises(error, match=said):
        call()


UNSEEN = {
    "facts that were assumed public": lambda c, s: [c.update(assumed_public=[]), s["public"].update(assumed=[])],
    "what arcs of others cost, in an older form": lambda c, s: [unpriced(c), c.update(format=2)],
    "a larger claim and budget": lambda c, s: [c["claim"].update(delta=2e-5), c["budget"].update(delta=1e-4, epsilon=9.0),
                                               s.update(budget=c["budget"])],
    "the name of the graph": lambda c, s: s["graph"].update(name="moon"),
}  # fmt: skip


@pytest.mark.parametrize("change", UNSEEN.values(), ids=UNSEEN)
def test_what_docs_say_that_nobody_can_see_is_not_seen(copy_of, change):
    """Changed in all files at once. Whoever finds a way to see one of them takes it off the list in docs/certificate.md too."""
    run = copy_of("gap")
    rewrite(run, both(assumed("classes"), change))
    result = verify(run)
    assert result.problems == ()
    said = "with arcs that others own and that point at the node: no epsilon is stated"
    assert (said in describe(run, result)) == (result.prices == ())
