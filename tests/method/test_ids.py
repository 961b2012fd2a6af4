"""Node ids leave on request alone, and a reader can hold the list against the digest that every release has."""

import hashlib
import json

import numpy as np
import pytest
from contracts_forgery import seal

import sfumato as sf
from sfumato.errors import InputError
from sfumato.graph import Graph, stochastic_block_model
from sfumato.record._release_folder import read_release
from sfumato.record.ledger import canonical_json
from sfumato.verify import verify

EDGE = sf.EdgeLevel(directed=False)


def graph_of(names):
    made = stochastic_block_model(len(names), 2, mean_degree=6, num_features=3, seed=0).with_split()
    source = np.repeat(np.arange(made.num_nodes), np.diff(made.indptr))
    return Graph.from_arcs(
        source, made.indices, made.num_nodes, directed=False, x=made.x, y=made.y, roles=made.roles, node_ids=names
    )


@pytest.fixture(scope="module")
def graph():
    return graph_of(np.array([f"ann {i}" for i in range(30)]))


@pytest.fixture(scope="module")
def fitted(graph):
    plan = sf.LabelMessages(epochs=1).calibrate(sf.Budget(2.0, 1e-6), EDGE, graph.public_facts(EDGE))
    return plan.fit(graph)


def test_ids_leave_on_request_alone(fitted, graph, tmp_path):
    run = fitted.save(tmp_path / "with", ids_of=graph)
    content = (run / "release" / "ids.txt").read_bytes()
    assert content.decode().split("\n") == graph.node_ids.tolist()
    spec = json.loads((run / "release" / "spec.json").read_text())
    assert hashlib.sha256(content).hexdigest() == spec["graph"]["ids_digest"]
    assert read_release(run).ids == tuple(graph.node_ids.tolist())
    assert verify(run).valid
    without = fitted.save(tmp_path / "without")
    assert not (without / "release" / "ids.txt").exists()
    assert read_release(without).ids is None
    assert verify(without).valid


def test_numbers_of_rows_are_ids_too(tmp_path):
    graph = stochastic_block_model(30, 2, mean_degree=6, num_features=3, seed=0).with_split()
    plan = sf.LabelMessages(epochs=1).calibrate(sf.Budget(2.0, 1e-6), EDGE, graph.public_facts(EDGE))
    run = plan.fit(graph).save(tmp_path / "run", ids_of=graph)
    assert read_release(run).ids == tuple(map(str, range(30)))
    assert verify(run).valid


@pytest.mark.parametrize("change", [lambda text: text + "\n", lambda text: text.replace("ann 1\n", "bob\n")])
def test_a_list_with_another_digest_is_a_problem(fitted, graph, tmp_path, change):
    release = fitted.save(tmp_path / "run", ids_of=graph) / "release"
    (release / "ids.txt").write_text(change((release / "ids.txt").read_text()))
    seal(release)
    assert verify(tmp_path / "run").problems == ("ids.txt: its SHA-256 differs from graph.ids_digest in spec.json",)


@pytest.mark.parametrize(("lines", "problem"), [("a\nb", "holds 2 lines, expected 30"), ("\t\n" * 29, "printable")])
def test_a_list_that_a_forger_fits_to_the_digest_is_a_problem(fitted, graph, tmp_path, lines, problem):
    release = fitted.save(tmp_path / "run", ids_of=graph) / "release"
    spec = json.loads((release / "spec.json").read_text())
    spec["graph"]["ids_digest"] = hashlib.sha256(lines.encode()).hexdigest()
    (release / "spec.json").write_text(canonical_json(spec) + "\n")
    (release / "ids.txt").write_text(lines)
    seal(release)
    assert any(problem in text for text in verify(tmp_path / "run").problems)


def test_ids_of_another_graph_or_of_two_lines_are_refused_before_anything_is_written(fitted, graph, tmp_path):
    with pytest.raises(InputError, match="to be the fitted graph"):
        fitted.save(tmp_path / "run", ids_of=graph_of(np.arange(30)))
    odd = graph_of(np.array([f"ann\n{i}" for i in range(30)]))
    plan = sf.LabelMessages(epochs=1).calibrate(sf.Budget(2.0, 1e-6), EDGE, odd.public_facts(EDGE))
    with pytest.raises(InputError, match="printable node ids"):
        plan.fit(odd).save(tmp_path / "run", ids_of=odd)
    assert not (tmp_path / "run").exists()
