"""Label messages for nodes that were not there in training: what is sent and released, what is charged, what is refused."""

from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

import sfumato as sf
from sfumato.central import _labels as labels
from sfumato.central import _piloted as piloted
from sfumato.central._arrivals import calibrate_arrival, graph_free, reads_features_alone
from sfumato.central._piloted import PilotedMessages
from sfumato.errors import BudgetExceededError, InputError, LedgerError
from sfumato.graph._subgraph import induced
from sfumato.graph._synthetic import stochastic_block_model
from sfumato.record._dataset_ledger import DatasetLedger, read_account
from sfumato.record._release_folder import released_digest
from sfumato.tables._newcomers import Newcomers, node_names

ARC, EDGE, NODE = sf.EdgeLevel(directed=True), sf.EdgeLevel(directed=False), sf.NodeLevel()
NONE, BUDGET = sf.NoPrivacy(), sf.Budget(epsilon=4.0, delta=1e-6)


def graph_of(seed=1, **how):
    how = {"num_nodes": 300, "num_classes": 3, "mean_degree": 30, "num_features": 5, "homophily": 0.8, **how}
    return stochastic_block_model(**how, seed=seed)


def split(full, *bounds):
    """The trained graph on the first nodes, and newcomers up to each next bound, with the edges between."""
    source, target = np.repeat(np.arange(full.num_nodes), np.diff(full.indptr)), full.indices
    known = [induced(full, range(bounds[0])).with_split(seed=0)]
    for first, last in pairwise(bounds):
        part, count = induced(full, range(first, last)), last - first
        empty = replace(part, indptr=np.zeros(count + 1, np.int64), indices=np.zeros(0, np.int32))
        kept = (np.maximum(source, target) < last) & (np.maximum(source, target) >= first) & (source < target)
        number = np.r_[count:last, 0:count]
        known.append(Newcomers.join(empty, known, number[source[kept]], number[target[kept]]))
    return known


def fit(graph, unit=EDGE, budget=BUDGET, noise=None, **how):
    budget = budget if unit.private else None
    plan = sf.LabelMessages(epochs=20, noise=noise).calibrate(budget, unit, graph.public_facts(unit))
    return plan.fit(graph, **how)


def plan_for(runs, late, budget=None):
    return calibrate_arrival(runs, node_names(late), late.public_facts(runs[0].plan.unit), budget)


@pytest.mark.parametrize("unit", [EDGE, ARC])
def test_known_nodes_send_labels_or_posteriors_and_newcomers_listen(unit, hops):
    trained, late, later = split(graph_of(), 240, 280, 300)
    run = fit(trained, unit)
    first = plan_for([run], late).fit(late)
    plan = plan_for([run, first], later)
    assert [release.event for release in plan.releases] == [release.event for release in run.plan.releases]
    assert (plan.epsilon, plan.delta, plan.budget) == (run.plan.epsilon, run.plan.delta, run.plan.budget)
    second = plan.fit(later)
    assert [array.shape for array in second.released.values()] == [(20, 6)]
    labeled, weight = trained.train_mask, run.weights["later.weight"][0]
    (direct, said, scale), (among, heard, other) = hops[4:]
    assert scale == other == 1 / Fraction(run.plan.event("aggregate/1").epsilon)
    for arcs in (direct, among):
        assert np.ptp(arcs.offsets[20:]) == 0, "known nodes hear nothing"
    assert direct.sources.min() >= 20
    np.testing.assert_array_equal(said[20:260][labeled], np.eye(3)[trained.y[labeled]])
    np.testing.assert_allclose(said[20:260][~labeled], weight * run.predict_proba(trained)[~labeled], atol=1e-6)
    np.testing.assert_allclose(said[260:], weight * first.predict_proba(late), atol=1e-6)
    assert among.sources.max(initial=0) < 20
    np.testing.assert_allclose(heard[:20].sum(axis=1), 1, atol=1e-5)
    assert not heard[20:].any()


def test_an_edge_between_newcomers_goes_one_way(hops):
    trained, late = split(graph_of(), 200, 300)
    plan_for([fit(trained)], late).fit(late)
    arcs = hops[3][0]
    both = np.repeat(np.arange(arcs.num_nodes), np.diff(arcs.offsets))
    pairs = set(zip(arcs.sources.tolist(), both.tolist(), strict=True))
    assert pairs
    assert not any((target, source) in pairs for source, target in pairs)
    assert (late.reach_indices < 100).all()
    assert len(pairs) * 2 == np.count_nonzero(np.repeat(np.arange(300), np.diff(late.reach_indptr)) < 100)


def test_newcomers_are_predicted_about_as_well_as_test_nodes():
    full = graph_of(num_nodes=1200)
    trained, late, later = split(full, 900, 1050, 1200)
    for unit, budget in ((EDGE, None), (NODE, sf.Budget(8.0, 1e-6)), (NONE, None)):
        run = fit(trained, unit, sf.Budget(8.0, 1e-6))
        first = plan_for([run], late, budget).fit(late)
        second = plan_for([run, first], later, budget).fit(later)
        tested = (run.predict(trained) == trained.y)[trained.test_mask].mean()
        arrived = [(first.predict(late) == full.y[900:1050]).mean(), (second.predict(later) == full.y[1050:]).mean()]
        assert np.mean(arrived) > tested - 0.08, (unit, tested, arrived)


def test_node_level_reads_training_nodes_alone_and_shares_their_message(hops):
    trained, late, later = split(graph_of(), 240, 280, 300)
    run = fit(trained, NODE)
    first = plan_for([run], late, BUDGET).fit(late)
    second = plan_for([run, first], later, BUDGET)
    assert second.epsilon == pytest.approx(4.0, rel=1e-6)
    second.fit(later)
    arcs, rows, stddev = hops[2]
    assert stddev == second.event("aggregate/1").noise_multiplier
    senders = np.unique(arcs.sources) - 20
    assert set(senders) <= set(np.flatnonzero(trained.train_mask))
    copies = np.bincount(arcs.sources, minlength=300)
    assert (np.linalg.norm(rows, axis=1) * np.sqrt(np.maximum(copies, 1))).max() <= 1


def test_known_nodes_do_not_receive_again_at_node_level(monkeypatch):
    """A message that also went to them would be shared among more arcs, and so be weaker."""
    monkeypatch.setattr("sfumato.method._opening.new_key", lambda: bytes(32))
    trained, late = split(graph_of(num_nodes=80), 60, 80)
    assert not trained.train_mask.all()
    plan = plan_for([fit(trained, NODE)], late, BUDGET)
    lists = [late.reach_indices[start:stop] for start, stop in pairwise(late.reach_indptr)]
    between = [trained.indices[start:stop] + 20 for start, stop in pairwise(trained.indptr)]
    more = lists[:20] + [np.concatenate(both) for both in zip(lists[20:], between, strict=True)]
    offsets = np.cumsum([0, *map(len, more)])
    wider = replace(late, reach_indptr=offsets, reach_indices=np.concatenate(more).astype(np.int32))
    released = [plan.fit(graph).released["aggregate/1"] for graph in (late, wider)]
    np.testing.assert_array_equal(*released)


def test_a_batch_reads_nothing_but_its_edges(monkeypatch):
    """Edges of the trained graph are never read again: an arrival is the same without them."""
    monkeypatch.setattr("sfumato.method._opening.new_key", lambda: bytes(32))
    trained, late = split(graph_of(), 240, 300)
    run = fit(trained)
    bare = replace(trained, indptr=np.zeros(241, np.int64), indices=np.zeros(0, np.int32))
    empty = replace(late, known=(bare,))
    one, two = (plan_for([run], graph).fit(graph).released for graph in (late, empty))
    assert all(np.array_equal(one[name], two[name]) for name in one)


def test_what_does_not_fit_the_runs_is_refused():
    trained, late, later = split(graph_of(), 240, 280, 300)
    run = fit(trained)
    first = plan_for([run], late).fit(late)
    with pytest.raises(InputError, match="newcomers that were planned for"):
        plan_for([run], late).fit(replace(late, node_ids=np.arange(1000, 1040)))
    with pytest.raises(InputError, match="to the graphs of these runs"):
        plan_for([run], later).fit(later)
    with pytest.raises(InputError, match="newcomers that were planned for"):
        plan_for([run], late).fit(replace(graph_of(num_nodes=40, mean_degree=10), node_ids=late.node_ids).with_split())
    with pytest.raises(InputError, match="one of its arrivals"):
        plan_for([first], later)
    with pytest.raises(InputError, match="An edge pays once"):
        plan_for([run], late, BUDGET)
    with pytest.raises(InputError, match="budget"):
        plan_for([fit(trained, NODE)], late)
    gap = sf.GAP(epochs=1).calibrate(BUDGET, EDGE, trained.public_facts(EDGE)).fit(trained)
    with pytest.raises(InputError, match="only label-messages has"):
        plan_for([gap], late)


def test_what_is_refused_is_refused_before_any_ledger_has_a_line(tmp_path):
    trained, late, later = split(graph_of(), 240, 280, 300)
    ledger = DatasetLedger(tmp_path / "ledger.jsonl", total_epsilon=4.0)
    run = fit(trained, dataset_ledger=ledger)
    before = ledger.path.read_bytes()
    others = replace(late, node_ids=np.arange(1000, 1040))
    for plan, graph in ((plan_for([run], late), others), (plan_for([run], later), later)):
        with pytest.raises(InputError):
            plan.fit(graph, dataset_ledger=ledger, ledger=tmp_path / "own.jsonl")
    assert ledger.path.read_bytes() == before
    assert not (tmp_path / "own.jsonl").exists()


@pytest.mark.parametrize("noise", [None, "gaussian"])
def test_the_ledger_of_the_data_set_counts_nothing_more(tmp_path, noise):
    trained, late, later = split(graph_of(), 240, 280, 300)
    ledger = DatasetLedger(tmp_path / "ledger.jsonl", total_epsilon=4.0)
    run = fit(trained, noise=noise, dataset_ledger=ledger)
    first = plan_for([run], late).fit(late, dataset_ledger=ledger, ledger=tmp_path / "one.jsonl")
    plan_for([run, first], later).fit(later, dataset_ledger=ledger)
    folder = run.save(tmp_path / "run")
    first.save(folder / "arrivals" / "1")
    assert sf.verify.verify(folder).problems == ()
    assert first.plan.releases[0].event == run.plan.releases[0].event
    account = read_account(ledger.path)
    assert account.problem is None
    assert [len(one.nodes) for one, _ in account.arrivals] == [40, 20]
    assert {one.extends for one, _ in account.arrivals} == {released_digest(run.released)}
    assert float(account.spent()["epsilon"]) == run.plan.epsilon
    with pytest.raises(LedgerError, match="arrived before"):
        plan_for([run], late).fit(late, dataset_ledger=ledger)
    with pytest.raises(BudgetExceededError):
        fit(trained, noise=noise, dataset_ledger=ledger)
    other = fit(trained)
    with pytest.raises(LedgerError, match="no claim of the run"):
        plan_for([other], late).fit(late, dataset_ledger=ledger)


def test_two_runs_of_one_plan_are_extended_each_by_its_own_arrivals(tmp_path):
    trained, late = split(graph_of(), 240, 300)
    ledger = DatasetLedger(tmp_path / "ledger.jsonl", total_epsilon=8.0)
    runs = [fit(trained, dataset_ledger=ledger) for _ in range(2)]
    assert len({run.ledger.head for run in runs}) == 1, "their ledgers are equal"
    for run in runs:
        plan_for([run], late).fit(late, dataset_ledger=ledger)
    assert len(read_account(ledger.path).arrivals) == 2


@pytest.mark.parametrize("unit", [EDGE, ARC, NODE, NONE])
def test_another_graph_is_read_by_its_own_labels(unit, hops, tmp_path):
    full = graph_of(num_nodes=800, mean_degree=60)
    trained, other = (induced(full, range(first, first + 400)).with_split() for first in (0, 400))
    run = fit(trained, unit, sf.Budget(8.0, 1e-5))
    plan = run.calibrate_inference(sf.Budget(8.0, 1e-5) if unit.private else None, unit, other.public_facts(unit))
    inferred = plan.fit(other)
    assert len(hops) == (2 if unit == NODE else 4)
    assert (inferred.predict(other) == other.y)[other.test_mask].mean() > (0.6 if unit == NODE else 0.8)
    saved = sf.load(inferred.save(tmp_path / "run"))
    np.testing.assert_array_equal(saved.predict(other), inferred.predict(other))
    assert sf.verify.verify(tmp_path / "run").problems == ()
    if unit == NODE:
        assert not other.train_mask[np.flatnonzero(np.diff(hops[1][0].offsets))].any()


def test_no_labels_there_mean_features_alone():
    trained, late = split(graph_of(), 240, 300)
    for unit in (EDGE, NODE, NONE):
        run = fit(trained, unit)
        assert reads_features_alone(run, late)
        assert not reads_features_alone(run, trained)
        alone = graph_free(run, late)
        np.testing.assert_allclose(alone.sum(1), 1, atol=1e-5)
        bare = replace(late, reach_indptr=np.zeros(301, np.int64), reach_indices=np.zeros(0, np.int32))
        np.testing.assert_array_equal(alone, graph_free(run, bare))
        unlabeled = replace(late, classes=(), node_ids=np.arange(1000, 1060))
        with pytest.raises(InputError, match="Expected another graph with labels"):
            run.calibrate_inference(BUDGET if unit.private else None, unit, unlabeled.public_facts(unit))
    mlp = sf.MLP(epochs=1).calibrate(BUDGET, EDGE, trained.public_facts(EDGE)).fit(trained)
    assert reads_features_alone(mlp, trained)
    assert graph_free(mlp, late).shape == (60, 3)
    gap = sf.GAP(epochs=1).calibrate(BUDGET, EDGE, trained.public_facts(EDGE)).fit(trained)
    with pytest.raises(InputError, match="cannot predict without a graph"):
        graph_free(gap, late)


@pytest.mark.parametrize("unit", [EDGE, NODE])
def test_a_run_that_does_not_use_messages_reads_no_other_graph_and_charges_nothing(unit, monkeypatch):
    """Predictions would not depend on what is paid: features alone predict nodes of another graph, and nodes that arrive."""
    losses = iter([0.0, 1.0])  # of features, and of messages
    monkeypatch.setattr(labels, "log_loss", lambda *_: next(losses))
    monkeypatch.setattr(piloted, "messages_pay", lambda *_: False)
    trained, late = split(graph_of(), 240, 300)
    method = sf.LabelMessages(epochs=20) if unit == EDGE else PilotedMessages(epochs=2)
    run = method.calibrate(BUDGET, unit, trained.public_facts(unit)).fit(trained)
    assert (len(run.unused), run.predicts_alone) == (1, True)
    other = replace(trained, node_ids=np.arange(1000, 1240))
    assert reads_features_alone(run, other)
    np.testing.assert_allclose(graph_free(run, other), run.predict_proba(trained), atol=1e-5)
    with pytest.raises(InputError, match=r"messages.*paid for nothing.*graph_free"):
        run.calibrate_inference(BUDGET, unit, other.public_facts(unit))
    with pytest.raises(InputError, match=r"graph_free\(fitted, graph\), which spends nothing"):
        run.predict(other)
    if unit == NODE:  # elsewhere nodes that arrive cost nothing more
        with pytest.raises(InputError, match=r"paid for nothing.*graph_free"):
            plan_for([run], late, BUDGET)
