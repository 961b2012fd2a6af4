"""The bound of edge weights in certificate and spec: it is stated where weights count, and nowhere else."""

import json

import numpy as np
import pytest
from contracts_forgery import problems, rewrite, seal

import sfumato as sf
from sfumato.catalog import method_named
from sfumato.errors import LedgerError
from sfumato.graph import Graph
from sfumato.record.ledger import canonical_json
from sfumato.verify import verify

EDGE = sf.EdgeLevel(directed=False)


def run_of(name, folder):
    random = np.random.default_rng(0)
    source, target = random.integers(0, 60, (2, 300))
    graph = Graph.from_edges(
        source, target, 60, directed=False, edge_weight=random.random(300), max_weight=0.5,
        x=random.random((60, 3)).astype(np.float32), y=random.integers(0, 2, 60),
    ).with_split()  # fmt: skip
    plan = method_named(name, epochs=1).calibrate(sf.Budget(4.0, 1e-5), EDGE, graph.public_facts(EDGE))
    return plan.fit(graph).save(folder / "run")


def stated(bound):
    def change(certificate, spec):
        certificate["public_facts"]["max_weight"] = bound
        spec["public"]["max_weight"] = bound

    return change


@pytest.mark.parametrize("bound", [0, -1, "0.5", None, True, 1e400])
def test_a_bound_that_is_no_number_above_0_is_a_problem(tmp_path, bound):
    run = run_of("gap", tmp_path)
    assert verify(run).problems == ()
    if bound == 1e400:
        bound = 10**301
    rewrite(run, stated(bound))
    assert "max_weight" in problems(run)


def test_a_bound_beside_a_method_that_reads_no_weights_is_a_problem(tmp_path):
    run = run_of("mlp", tmp_path)
    assert verify(run).problems == ()
    rewrite(run, stated(0.5))
    assert "public_facts.max_weight: expected none, since method mlp reads no weights of edges" in problems(run)


def test_a_spec_with_another_bound_is_a_problem_and_is_not_loaded(tmp_path):
    run = run_of("gap", tmp_path)
    path = run / "release" / "spec.json"
    spec = json.loads(path.read_text())
    spec["public"]["max_weight"] = 5.0
    path.write_text(canonical_json(spec) + "\n")
    seal(run / "release")
    assert "max_weight" in problems(run)
    with pytest.raises(LedgerError, match="Field 'public'"):
        sf.load(run)


def test_the_weight_is_part_of_what_is_protected_and_words_without_it_are_a_problem(tmp_path):
    run = run_of("label-messages", tmp_path)
    words = sf.load(run).certificate.values["protects"]
    assert words == "the presence of any one undirected edge, and its weight"

    def forget(certificate, _):
        certificate["protects"] = words.removesuffix(", and its weight")

    rewrite(run, forget)
    assert "certificate.json: protects" in problems(run)
