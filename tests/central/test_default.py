"""What the default chooses on graphs where the answer is known, that its runs verify, and what a forger would change."""

import json

import numpy as np
import pytest

import sfumato as sf
from sfumato.central import _counts as counts
from sfumato.central import _labels as labels
from sfumato.central import _piloted as piloted
from sfumato.central import _rows as heads
from sfumato.central._forecast import _plane, forecast
from sfumato.central._graph_free import GraphFree
from sfumato.central._labels import LabelMessages
from sfumato.central._linear import Linear
from sfumato.central._piloted import PilotedMessages
from sfumato.central._rows import centered_rows
from sfumato.central._tuned import Tuned
from sfumato.errors import InputError, LedgerError
from sfumato.graph._graph import Graph
from sfumato.graph._rare_outcomes import outcomes
from sfumato.graph._synthetic import stochastic_block_model
from sfumato.record._resume import FitState
from sfumato.verify import verify
from sfumato.verify._methods import rules_of

EDGE, NODE = sf.EdgeLevel(directed=False), sf.NodeLevel()
BUDGET = sf.Budget(1.0, 1e-6)


def graph_of(*, links_tell, features_tell, nodes=1500, seed=0):
    """Three classes; links and features either tell them or are noise."""
    rng = np.random.default_rng(seed)
    graph = stochastic_block_model(nodes // 3, 3, mean_degree=30, num_features=4, seed=seed)
    x = rng.normal(size=(graph.num_nodes, 4)).astype(np.float32)
    if features_tell:
        x[np.arange(graph.num_nodes), graph.y] += 3
    if not links_tell:
        pairs = rng.integers(0, graph.num_nodes, (2, 15 * graph.num_nodes))
        pairs = pairs[:, pairs[0] != pairs[1]]
        return Graph.from_edges(
            *pairs, graph.num_nodes, directed=False, y=graph.y, classes=graph.classes, x=x
        ).with_split(seed=seed)
    return Graph.from_csr(
        graph.indptr, graph.indices, directed=False, y=graph.y, classes=graph.classes, x=x
    ).with_split(seed=seed)


def crossed():
    """Two columns that tell the class together only; links are noise."""
    graph = graph_of(links_tell=False, features_tell=False, nodes=900)
    y = (graph.x[:, 0] > 0) ^ (graph.x[:, 1] > 0)
    return Graph.from_csr(graph.indptr, graph.indices, directed=False, y=y.astype(int), x=graph.x).with_split(seed=0)


def fit(method, unit, graph, epsilon):
    plan = method.calibrate(sf.Budget(epsilon, 1e-5), unit, graph.public_facts(unit))
    fitted = plan.fit(graph)
    return fitted, float((fitted.predict(graph) == graph.y)[graph.test_mask].mean())


@pytest.fixture(scope="module", params=[True, False], ids=["links tell", "features tell"])
def choice(request):
    """Whether links tell the class, or else features; the graph, the fit, and its accuracy."""
    graph = graph_of(links_tell=request.param, features_tell=not request.param)
    return request.param, graph, *fit(PilotedMessages(), NODE, graph, 8.0)


def test_the_pilot_gives_the_rest_to_messages_or_features_whichever_tell(choice):
    links_tell, graph, fitted, accuracy = choice
    assert fitted.released["aggregate/2"].any() == links_tell
    assert fitted.unused == (() if links_tell else (piloted.FEATURES_CHOSEN,))
    if links_tell:
        assert accuracy > 0.8
        return
    assert fitted.certificate.values["notes"][-1] == piloted.FEATURES_CHOSEN
    assert not fitted.weights["last.weight"][1:].any(), "weights of messages are noise that nobody needs"
    assert accuracy > fit(Linear(), NODE, graph, 8.0)[1] - 0.04


@pytest.mark.soak
def test_links_that_say_nothing_do_not_win_by_chance():
    """Rows of links that are noise have a correlation with labels too, by chance: about twice its spread is no signal.

    Such a row wins with probability 0.023 or so: five of 15 once in 100,000 runs, and two of 15 once in 20.
    """
    graph = graph_of(links_tell=False, features_tell=True, nodes=6000)
    won = [fit(PilotedMessages(), NODE, graph, 8.0)[0].released["aggregate/2"].any() for _ in range(15)]
    assert sum(won) <= 4


@pytest.mark.parametrize(
    ("method", "won", "most"),
    [(PilotedMessages(), True, 0.05), (PilotedMessages(), False, 0.02), (Linear(), False, 0.02)],
)
def test_probabilities_of_a_rare_class_are_those_of_its_share_at_least(monkeypatch, fixed_key, method, won, most):
    """Whatever won, the log-loss is no larger than that of one answer for all, which rows of noise once made twice as large."""
    monkeypatch.setattr(piloted, "messages_pay", lambda *told: won)
    graph = outcomes(4000, 0, pattern="spread", positive=0.2, mean_degree=20, clustering=4.0).with_split(seed=0)
    fitted, _ = fit(method, NODE, graph, 4.0)
    told = fitted.predict_proba(graph)[graph.test_mask, graph.y[graph.test_mask]]
    share = graph.y[graph.test_mask].mean()
    entropy = -share * np.log(share) - (1 - share) * np.log(1 - share)
    assert -np.log(told).mean() < entropy + most


def test_messages_are_kept_where_they_tell():
    fitted, accuracy = fit(LabelMessages(), EDGE, graph_of(links_tell=True, features_tell=False), 4.0)
    assert "head.weight" in fitted.weights
    assert labels.MESSAGES_DROPPED not in (*fitted.unused, *fitted.certificate.values["notes"])
    assert accuracy > 0.85


def test_a_graph_free_model_that_was_kept_is_saved_verified_and_loaded(tmp_path, monkeypatch, fixed_key):
    """A head that learns nothing gives way."""
    graph = crossed()
    monkeypatch.setattr(heads, "train", lambda *args, **how: [])
    fitted, accuracy = fit(LabelMessages(), EDGE, graph, 1.0)
    assert accuracy > 0.8
    assert not any(name.startswith("head.") for name in fitted.weights)
    assert fitted.certificate.values["notes"][-1] == labels.MESSAGES_DROPPED
    fitted.save(tmp_path / "run")
    assert not verify(tmp_path / "run").problems
    loaded = sf.load(tmp_path / "run")
    assert loaded.unused == fitted.unused == (labels.MESSAGES_DROPPED,)
    assert np.array_equal(loaded.predict_proba(graph), fitted.predict_proba(graph))


def test_trees_take_the_place_of_messages_where_they_are_better(tmp_path, monkeypatch, fixed_key):
    """A network of one unit cannot see what two columns tell together."""
    graph = crossed()
    monkeypatch.setattr(labels, "PRIOR", GraphFree(width=1))
    fitted, accuracy = fit(LabelMessages(), EDGE, graph, 1.0)
    assert accuracy > 0.8
    assert {name.rpartition(".")[0] for name in fitted.weights} == {"prior.trees"}
    fitted.save(tmp_path / "run")
    assert not verify(tmp_path / "run").problems
    assert np.array_equal(sf.load(tmp_path / "run").predict_proba(graph), fitted.predict_proba(graph))


def test_both_choices_of_the_pilot_verify_and_a_forged_charge_does_not(tmp_path, choice):
    _, graph, fitted, _ = choice
    fitted.save(tmp_path / "run")
    assert not verify(tmp_path / "run").problems
    assert np.array_equal(sf.load(tmp_path / "run").predict_proba(graph), fitted.predict_proba(graph))
    certificate = json.loads((tmp_path / "run" / "release" / "certificate.json").read_text("utf-8"))
    planned, charged = rules_of("piloted-messages").releases(certificate), certificate["releases"]
    assert [release.name for release in planned] == [release["name"] for release in charged]
    for rule, release in zip(planned, charged, strict=True):
        assert not list(rule.faults("", release))
        forged = {**release, "affected_coordinates": release["affected_coordinates"] - 1}
        assert any("affected_coordinates" in problem for problem in rule.faults("", forged)), release["name"]
        counted = {"steps": 1} if "steps" in release["event"] else {"count": 2}
        assert list(rule.faults("", {**release, "event": {**release["event"], **counted}})), release["name"]


@pytest.mark.parametrize("links_tell", [True, False])
def test_a_pilot_that_is_resumed_gives_the_same_bits_or_stops(resumable, monkeypatch, links_tell):
    """The rest is bound to what its last steps read: other sums, as on another machine, are no second draw of one claim."""
    graph = graph_of(links_tell=links_tell, features_tell=not links_tell)
    plan = PilotedMessages().calibrate(sf.Budget(8.0, 1e-5), NODE, graph.public_facts(NODE))
    first, resumed = resumable(plan, graph), resumable(plan, graph)
    assert all(np.array_equal(first.weights[name], resumed.weights[name]) for name in first.weights)
    assert first.released["aggregate/2"].any() == links_tell
    real = piloted.learn_weights
    monkeypatch.setattr(piloted, "learn_weights", lambda *told: (real(*told)[0], bytes(32)))
    with pytest.raises(LedgerError):
        resumable(plan, graph)


def test_counts_that_are_resumed_give_the_same_bits_or_stop(resumable, monkeypatch):
    """The second part is bound to what it sends: another head, as on another machine, is no second draw of one claim."""
    graph = graph_of(links_tell=True, features_tell=False, nodes=300)
    plan = LabelMessages().calibrate(sf.Budget(1.0, 1e-5), EDGE, graph.public_facts(EDGE))
    first, resumed = resumable(plan, graph), resumable(plan, graph)
    assert np.array_equal(first.released["aggregate/1"], resumed.released["aggregate/1"])
    drawn, real, draw = [], labels.softmax, counts.noisy_counts
    monkeypatch.setattr(labels, "softmax", lambda scores: real(scores)[:, ::-1].copy())
    monkeypatch.setattr(counts, "noisy_counts", lambda *told: drawn.append(draw(*told)) or drawn[-1])
    with pytest.raises(LedgerError, match="aggregate/1/others"):
        resumable(plan, graph)
    assert len(drawn) == 1, "the first part alone, with the bits that it had"
    assert np.array_equal(drawn[0], first.released["aggregate/1"][:, :3])


@pytest.mark.parametrize("rule", ["logarithmic", "geometric"])
def test_a_tuned_run_of_counts_verifies(tmp_path, rule):
    graph = graph_of(links_tell=True, features_tell=False, nodes=300)
    candidates = LabelMessages(epochs=2), LabelMessages(num_hops=1, epochs=2)
    plan = Tuned(candidates, rule=rule, mean_trials=3).calibrate(BUDGET, EDGE, graph.public_facts(EDGE))
    found = verify(plan.fit(graph).save(tmp_path / "run"))
    assert found.problems == ()
    assert plan.epsilon <= BUDGET.epsilon
    least = {"logarithmic": 2, "geometric": 3}[rule] * plan.event("tuned").candidates[0][0].epsilon
    assert found.epsilon_high <= plan.epsilon * 1.001
    assert plan.epsilon <= least * 1.001, "no more than pure trials cost"


@pytest.mark.parametrize("cut", [True, False])
def test_a_ledger_that_lost_the_counts_is_refused(tmp_path, monkeypatch, cut):
    graph = graph_of(links_tell=True, features_tell=False, nodes=300)
    plan = LabelMessages(epochs=2).calibrate(BUDGET, EDGE, graph.public_facts(EDGE))
    path, real = tmp_path / "ledger.jsonl", labels.best_weight
    state = FitState.create(tmp_path / "private")
    monkeypatch.setattr(labels, "best_weight", lambda *told: pytest.fail("killed"))
    with pytest.raises(pytest.fail.Exception, match="killed"):
        plan.fit(graph, ledger=path, state=state)
    state.close()
    monkeypatch.setattr(labels, "best_weight", real)
    lines = path.read_text().splitlines(keepends=True)
    path.write_text(lines[0]) if cut else path.unlink()
    state = FitState.open(tmp_path / "private")
    with pytest.raises(LedgerError, match="for what was computed"):
        plan.fit(graph, ledger=path, state=state)
    state.close()


@pytest.mark.parametrize(("epsilon", "delta"), [(1e-6, 1e-6), (0.1, 0.1), (1e-3, 1e-3), (1.0, 1e-24), (1.0, 0.0)])
def test_a_claim_is_what_laplace_noise_costs_without_delta(tmp_path, epsilon, delta):
    graph = graph_of(links_tell=True, features_tell=False, nodes=300)
    plan = LabelMessages(epochs=1).calibrate(sf.Budget(epsilon, delta), EDGE, graph.public_facts(EDGE))
    assert plan.epsilon == pytest.approx(epsilon, rel=1e-12)
    assert plan.epsilon <= epsilon
    assert verify(plan.fit(graph).save(tmp_path / "run")).problems == ()


def test_noise_that_cannot_be_drawn_is_refused_before_a_charge():
    facts = graph_of(links_tell=True, features_tell=False, nodes=300).public_facts(EDGE)
    with pytest.raises(InputError, match="an epsilon of at least 1e-09"):
        LabelMessages().calibrate(sf.Budget(9e-10, 1e-6), EDGE, facts)


def test_rows_around_the_center_have_norm_1_and_no_common_part():
    graph = graph_of(links_tell=False, features_tell=False, nodes=4500)
    shifted = Graph.from_csr(
        graph.indptr, graph.indices, directed=False, y=graph.y, classes=graph.classes, x=graph.x + np.float32(5)
    ).with_split(seed=0)
    fitted, _ = fit(Linear(), NODE, shifted, 8.0)
    rows = centered_rows(shifted, fitted.weights)
    assert np.linalg.norm(rows, axis=1) == pytest.approx(1, abs=1e-5)
    assert np.linalg.norm(rows.mean(axis=0)) < 0.2
    assert np.linalg.norm(centered_rows(shifted, {}).mean(axis=0)) > 0.9


@pytest.mark.parametrize("classes", [2, 3, 9])
def test_axes_of_the_forecast_are_orthonormal_and_written_down(classes):
    axes = _plane(classes)
    assert axes.T @ axes == pytest.approx(np.eye(classes - 1), abs=1e-12)
    assert axes.sum(axis=0) == pytest.approx(0, abs=1e-12)
    assert not np.triu(axes, 1).any()  # a decomposition would turn them by rounding


def test_the_forecast_falls_with_what_it_reads():
    rng, codes, equal = np.random.default_rng(0), (np.eye(4) - 0.25) / np.sqrt(0.75), np.full(4, 0.25)
    y = rng.integers(0, 4, 3000)
    rows = 3 * codes[y] + 6 * rng.normal(size=(3000, 4))
    rows -= rows.mean(axis=1, keepdims=True)
    alone = np.log(4)
    told = [forecast(rows, 6.0, c, later_stddev=1.5, loss=alone, shares=equal) for c in (0.2, 0.1, 0.02)]
    assert told == sorted(told)
    assert told[-1] > told[0] + 0.3
    features = [forecast(rows, 6.0, 0.1, later_stddev=1.5, loss=a, shares=equal) for a in (0.2, 0.9, alone)]
    assert features == sorted(features)
    assert features[0] <= 0.21
    later = [forecast(rows, 6.0, 0.2, later_stddev=s, loss=alone, shares=equal) for s in (1.0, 3.0, 6.0)]
    assert later == sorted(later)


@pytest.mark.parametrize("shares", [(1 / 3, 1 / 3, 1 / 3), (0.9, 0.07, 0.03)])
def test_the_forecast_is_that_of_the_best_classifier_at_less_noise(shares):
    """The rows of its own model, at two noises: what the pilot foretells is what the best linear rule then reaches."""
    rng, codes, shares = np.random.default_rng(1), (np.eye(3) - 1 / 3) / np.sqrt(2 / 3), np.array(shares)
    y = rng.choice(3, 20000, p=shares)
    signal = 2.0 * codes[y] + 0.5 * rng.normal(size=(20000, 3))
    signal -= signal.mean(axis=1, keepdims=True)

    def noisy(stddev):
        noise = stddev * rng.normal(size=signal.shape)
        return signal + noise - noise.mean(axis=1, keepdims=True)

    pilot, later = noisy(4.0), noisy(1.0)
    around, mean = pilot - pilot.mean(axis=0), shares @ codes
    seen = float(((around * (codes[y] - mean)).sum(axis=1) / np.linalg.norm(around, axis=1)).mean())
    scores = 2.0 * later @ codes.T / (1.0**2 + 0.5**2) + np.log(shares)
    reached = float((np.log(np.exp(scores).sum(axis=1)) - scores[np.arange(20000), y]).mean())
    entropy = -shares @ np.log(shares)
    told = forecast(pilot, 4.0, seen, later_stddev=1.0, loss=entropy, shares=shares)
    assert told == pytest.approx(reached, abs=0.05)
    assert told < entropy - 0.1
