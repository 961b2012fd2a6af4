"""Methods that read weights of edges say so in the certificate; others say once that they do not."""

import warnings
from dataclasses import replace

import numpy as np
import pytest

import sfumato as sf
from sfumato.audit._canaries import edge_canaries, flip, node_canaries
from sfumato.audit._hops import hops
from sfumato.catalog import METHODS, method_named
from sfumato.central._arrivals import calibrate_arrival
from sfumato.central._auto import Auto
from sfumato.errors import DataError, DroppedWarning, InputError
from sfumato.graph import Graph, stochastic_block_model
from sfumato.graph._weights import FULL, EdgeWeights
from sfumato.method._graph_key import GraphKey
from sfumato.method._opening import _graph_mac
from sfumato.pate._graph_teachers import GraphTeachers
from sfumato.privacy.units import NoPrivacy
from sfumato.verify import verify
from sfumato.verify._methods import rules_of

EDGE, NODE = sf.EdgeLevel(directed=False), sf.NodeLevel(max_out_degree=6)
READERS = ("gap", "progap", "label-messages", "piloted-messages")
FITS = [*((name, EDGE) for name in READERS[:3]), *((name, NODE) for name in READERS)]


def weighed(graph, steps):
    """The graph with a weight of so many steps on each edge, both arcs alike; the bound is 5."""
    source = np.repeat(np.arange(graph.num_nodes), np.diff(graph.indptr))
    pair = np.minimum(source, graph.indices) * graph.num_nodes + np.maximum(source, graph.indices)
    each = np.broadcast_to(steps, graph.num_nodes**2)[pair]
    return replace(graph, weights=EdgeWeights(each.astype(np.uint16), 5.0))


@pytest.fixture(scope="module")
def plain():
    return stochastic_block_model(150, 3, mean_degree=10, num_features=4, seed=0).with_split()


@pytest.fixture(scope="module")
def graph(plain):
    return weighed(plain, np.random.default_rng(0).integers(0, FULL + 1, 150**2))


def method(name):
    return method_named(name, epochs=2)


def fitted(name, unit, graph):
    budget = None if isinstance(unit, NoPrivacy) else sf.Budget(8.0, 1e-4)
    plan = method(name).calibrate(budget, unit, graph.public_facts(unit))
    return plan.fit(graph)


def test_cards_and_the_verifier_agree_on_who_reads_weights():
    assert {name for name in METHODS if METHODS[name].card.reads_weights} == set(READERS)
    assert {name for name in METHODS if rules_of(name).reads_weights} == set(READERS)


@pytest.mark.parametrize(("name", "unit"), FITS, ids=str)
def test_the_certificate_states_the_bound_and_verifies(graph, tmp_path, name, unit):
    with warnings.catch_warnings():
        warnings.simplefilter("error", DroppedWarning)
        run = fitted(name, unit, graph).save(tmp_path / "run")
    assert sf.load(run).certificate.values["public_facts"]["max_weight"] == 5
    assert verify(run).problems == ()


@pytest.mark.parametrize("name", READERS)
def test_full_weights_are_no_weights_and_others_are_others(plain, graph, name):
    unit = NoPrivacy()
    released = [fitted(name, unit, one).released for one in (plain, weighed(plain, FULL), graph)]
    first = {key: rows for key, rows in released[0].items() if key.startswith("aggregate")}
    assert first
    for key, rows in first.items():
        assert np.array_equal(rows, released[1][key])
        assert not np.array_equal(rows, released[2][key])


def test_weights_of_zero_send_nothing(plain):
    released = fitted("gap", NoPrivacy(), weighed(plain, 0)).released
    assert not any(rows.any() for rows in released.values())


@pytest.mark.parametrize("name", ["dpgnn", "link-messages", "promised-messages"])
def test_a_method_that_reads_links_alone_says_so_once(graph, name):
    unit = {"dpgnn": NODE, "link-messages": EDGE, "promised-messages": sf.NodeLevel(arcs="incident")}[name]
    facts = replace(graph, max_degree=100).public_facts(unit)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        plan = method_named(name).calibrate(sf.Budget(8.0, 1e-4), unit, facts)
    said = [str(one.message) for one in told if one.category is DroppedWarning]
    assert said == [f"Not read: the weights of edges. Method {name!r}: every edge counts the same."]
    assert plan.public.max_weight is None
    with warnings.catch_warnings():
        warnings.simplefilter("error", DroppedWarning)
        plan.check(replace(graph, max_degree=100))


def test_a_method_that_reads_no_links_says_nothing(graph):
    with warnings.catch_warnings():
        warnings.simplefilter("error", DroppedWarning)
        found = fitted("linear", NODE, graph)
    assert "max_weight" not in found.certificate.values["public_facts"]


def test_the_default_reads_weights_where_its_method_does(graph):
    assert Auto().calibrate(sf.Budget(1.0, 1e-6), EDGE, graph.public_facts(EDGE)).public.max_weight == 5


def test_graph_teachers_say_that_they_read_no_weights(graph):
    with pytest.warns(DroppedWarning, match="Graph teachers: every edge counts"):
        GraphTeachers(2, 4, 3, epochs=1).fit(graph)


def test_a_graph_with_another_bound_or_without_weights_is_refused(plain, graph):
    other = replace(graph, weights=replace(graph.weights, bound=6.0))
    for calibrated, given in ((graph, plain), (plain, graph), (graph, other)):
        plan = method("gap").calibrate(sf.Budget(8.0, 1e-4), EDGE, calibrated.public_facts(EDGE))
        with pytest.raises(DataError, match="a graph with max_weight="):
            plan.fit(given)


@pytest.mark.parametrize("name", ["gap", "progap", "label-messages"])
def test_another_graph_is_predicted_with_the_bound_of_training(plain, graph, name, messages_kept):
    found, other = fitted(name, EDGE, graph), replace(graph, node_ids=np.arange(1000, 1150))
    inference = found.calibrate_inference(sf.Budget(8.0, 1e-4), EDGE, other.public_facts(EDGE)).fit(other)
    assert inference.certificate.values["public_facts"]["max_weight"] == 5
    bare = replace(plain, node_ids=other.node_ids)
    with pytest.raises(InputError, match=r"public.max_weight to be 5\.0 as in training, got None"):
        found.calibrate_inference(sf.Budget(8.0, 1e-4), EDGE, bare.public_facts(EDGE))
    assert found.predict(graph).shape == (150,)


@pytest.mark.parametrize("unit", [EDGE, NODE], ids=str)
def test_label_messages_of_another_graph_read_its_weights(plain, graph, unit, messages_kept):
    found = fitted("label-messages", NoPrivacy(), graph)
    others = [replace(one, node_ids=np.arange(1000, 1150)) for one in (weighed(plain, 0), graph)]
    released = []
    for other in others:
        facts = other.public_facts(NoPrivacy())
        released.append(found.calibrate_inference(None, NoPrivacy(), facts).fit(other).released["aggregate/1"])
    assert not released[0].any()
    assert released[1].any()


def test_nodes_that_arrive_after_a_weighted_run_are_refused(graph):
    found = fitted("label-messages", EDGE, graph)
    facts = replace(graph, weights=None).public_facts(EDGE)
    with pytest.raises(InputError, match="a run without weights of edges for nodes that arrive later"):
        calibrate_arrival([found], ["new"], facts)


def test_a_resumed_fit_is_bound_to_its_weights(plain, graph):
    key = GraphKey.of(graph)
    macs = {_graph_mac(one, key, bytes(32)) for one in (plain, graph, weighed(plain, FULL))}
    assert len(macs) == 3


def test_the_auditor_replays_weighted_hops_and_its_canaries_have_the_largest_weight(graph):
    run = fitted("gap", NoPrivacy(), graph)
    private = replace(run, plan=method("gap").calibrate(sf.Budget(8.0, 1e-4), EDGE, graph.public_facts(EDGE)))
    sums = hops(private, graph, 0)
    assert len(sums) == 2
    assert np.array_equal(sums[0].sums, run.released["aggregate/1"])
    canaries = edge_canaries(graph, seed=0)
    out = canaries.world(np.zeros(len(canaries), bool))
    assert np.array_equal(out.weights.steps, graph.weights.steps)
    once = canaries.world(flip(len(canaries), np.random.default_rng(0)))
    assert once.weights.bound == 5
    full = canaries.world(np.ones(len(canaries), bool))
    assert (full.weights.steps == FULL).sum() >= 2 * len(canaries)
    nodes = node_canaries(graph, NODE, 3, seed=0)
    assert len(nodes.world(np.ones(3, bool)).weights.steps) == nodes.graph.num_arcs


def test_directed_weights_go_with_their_arc():
    arcs = Graph.from_edges(
        [0, 1, 2], [1, 2, 0], 3, directed=True, edge_weight=[1.0, 2.0, 4.0], max_weight=4.0, x=np.eye(3), y=[0, 1, 1]
    ).with_roles([0, 0, 0])
    from sfumato.bounded._incoming import incoming
    from sfumato.bounded.aggregation import neighborhood_sum

    rows = np.full((3, 1), 1000, np.int16)
    assert neighborhood_sum(incoming(arcs), rows).ravel().tolist() == [1000, 250, 500]
