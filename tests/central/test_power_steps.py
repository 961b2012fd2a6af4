"""Method dpar at edge level: what it learns from few labels, what it charges, what leaves a node, and what is refused."""

from dataclasses import replace

import numpy as np
import pytest
from central_nodes import EASY, GRAPH, accuracy, noticed, planned
from central_nodes import fitted as fit
from verify_written import Held

import sfumato as sf
from sfumato import verify
from sfumato.central import _counts as counts
from sfumato.central import _power_steps as module
from sfumato.central._labels import MESSAGES_DROPPED
from sfumato.errors import InputError, UnsupportedUnitError
from sfumato.graph._graph import Graph
from sfumato.loops.kernels import INT16_ONE
from sfumato.privacy.events import PureEvent
from sfumato.verify._methods import rules_of

EDGE, ARC = sf.EdgeLevel(directed=False), sf.EdgeLevel(directed=True)
FEW = GRAPH.with_split((0.1, 0.1, 0.8), seed=0)


def fitted(graph=GRAPH, unit=EDGE, epsilon=8.0, **settings):
    return fit(sf.DPAR(**settings), unit, graph, epsilon, 0.0)


@pytest.fixture(scope="module")
def runs():
    return {steps: fitted(FEW, power_steps=steps) for steps in (1, 2)}


def test_few_labels_are_enough_and_a_second_step_tells_more(runs):
    floor = accuracy(fit(sf.GraphFree(), EDGE, FEW, 8.0), FEW)
    one, two = (accuracy(runs[steps], FEW) for steps in (1, 2))
    assert floor + 0.1 < one + 0.05 < two


def test_steps_are_one_pure_release_of_the_whole_budget():
    for steps in (1, 2):
        plan = planned(sf.DPAR(power_steps=steps), EDGE, GRAPH, 2.0, 0.0)
        (release,) = plan.releases
        assert isinstance(release.event, PureEvent)
        assert release.event.epsilon == pytest.approx(2.0)
        assert (release.name, release.shape) == ("aggregate/1", (400, 3 * steps))
        assert (plan.epsilon, plan.delta) == (pytest.approx(2.0), 0.0)


@pytest.mark.parametrize("unit", [EDGE, ARC])
def test_others_send_shares_of_what_follows_from_the_first_step_to_others_alone(monkeypatch, unit):
    graph = FEW if unit is EDGE else replace(FEW, directed=True)
    seen, real = [], counts.noisy_counts
    monkeypatch.setattr(
        counts, "noisy_counts", lambda arcs, rows, *more: seen.append((arcs, rows)) or real(arcs, rows, *more)
    )
    run = fitted(graph, unit)
    known, ((first, labels), (second, shares)) = graph.train_mask, seen
    for arcs, senders in ((first, known), (second, ~known)):
        ends = np.repeat(np.arange(400), np.diff(arcs.offsets))
        assert senders[arcs.sources].all()
        assert not known[ends].any()
        assert len(ends) > 100
    assert np.array_equal(labels[known].argmax(1), graph.y[known])
    np.testing.assert_allclose(shares.sum(1), 1 / unit.arcs_per_record, rtol=1e-5)
    again = fitted(graph, unit)  # other noise, other messages: they are post-processing of it
    assert (seen[3][1] != shares)[~known].any()
    assert again.released["aggregate/1"].shape == run.released["aggregate/1"].shape == (400, 6)


def moved(monkeypatch, unit):
    """How far the sums of both steps move when one record goes, over all records of a small graph: the most, in messages."""
    rng, sums, real = np.random.default_rng(5), [], counts.noisy_counts
    ends = np.array([(u, v) for u in range(14) for v in range(u + 1, 14) if rng.random() < 0.2]).T
    x, y = rng.normal(size=(14, 2)).astype(np.float32), np.arange(14) % 2
    told = rng.integers(-3, 9, (2, 14, 2)) * INT16_ONE  # both sides release the same: their laws are compared there

    def told_once(arcs, rows, *_):
        sums.append(real(arcs, rows, 0, bytes(32)))
        return told[(len(sums) - 1) % 2]

    monkeypatch.setattr(counts, "noisy_counts", told_once)

    def taken(keep):
        graph = Graph.from_edges(*ends[:, keep], 14, directed=unit.directed, x=x, y=y)
        fitted(graph.with_split((0.4, 0.2, 0.4), seed=1), unit)
        return np.concatenate(sums[-2:])

    whole = taken(slice(None))
    change = [np.abs(whole - taken(np.arange(ends.shape[1]) != one)).sum() for one in range(ends.shape[1])]
    return max(change) / INT16_ONE, np.count_nonzero(change)


@pytest.mark.parametrize("unit", [EDGE, ARC])
def test_no_record_moves_both_steps_of_a_run_by_more_than_one_message(monkeypatch, unit):
    most, records = moved(monkeypatch, unit)
    assert 0.999 < most <= 1
    assert records >= 8


@pytest.mark.parametrize(
    ("name", "fault"),
    [("unrouted_sensitivity", lambda unit: 1.0), ("to_others", lambda arcs, known: arcs)],
    ids=["whole messages along both arcs", "known nodes receive"],
)
def test_a_run_whose_record_moves_more_is_caught(monkeypatch, name, fault):
    monkeypatch.setattr(module, name, fault)
    assert moved(monkeypatch, EDGE)[0] > 1.5


def test_messages_longer_than_their_share_are_refused(monkeypatch):
    read = module._read
    monkeypatch.setattr(module, "_read", lambda *given: read(*given) * np.float32(1.001))
    with pytest.raises(InputError, match="L1 norm at most 1"):
        fitted(FEW)


def test_predictions_read_released_steps_and_own_features_alone(runs):
    run = runs[2]
    bare = replace(FEW, indptr=np.zeros_like(FEW.indptr), indices=FEW.indices[:0])
    assert np.array_equal(run.predict_proba(bare), run.predict_proba(FEW))


def test_there_are_no_embeddings_of_a_network_that_is_not_trained(runs):
    run = runs[1]
    with pytest.raises(UnsupportedUnitError, match="node level"):
        run.plan.method.embeddings(run.ran, run.weights, run.released, FEW)


def test_steps_are_dropped_where_validation_labels_say_so():
    """Every arc leads to another class, and own features tell the class: steps could but mislead."""
    ends = np.random.default_rng(0).integers(0, 400, (2, 3000))
    ends = ends[:, EASY.y[ends[0]] != EASY.y[ends[1]]]
    graph = Graph.from_edges(*ends, 400, directed=False, x=EASY.x, y=EASY.y).with_split((0.5, 0.4, 0.1), seed=0)
    run = fitted(graph)
    assert run.weights["steps.reading"][0] == 0
    assert MESSAGES_DROPPED in run.certificate.values["notes"]
    assert MESSAGES_DROPPED not in fitted(FEW).certificate.values["notes"]


def test_without_validation_labels_the_powers_are_fixed():
    graph = GRAPH.with_split((0.2, 0.0, 0.8), seed=0)
    run = fitted(graph)
    assert run.weights["steps.reading"].tolist() == [1.0, 1.0, 0.25]
    assert accuracy(run, graph) > 0.6


def test_more_noise_leans_on_own_scores_and_no_arc_is_the_same_as_no_message():
    plan, own = planned(sf.DPAR(), EDGE, GRAPH, 1.0, 0.0), np.full((1, 3), 1 / 3, np.float32)
    shares = np.full(3, 1 / 3, np.float32)
    told = np.array([[4, 1, 1, 0, 0, 0]]) * INT16_ONE
    sure = planned(sf.DPAR(), EDGE, GRAPH, 100.0, 0.0)
    found = [module._read(one, told, own, shares, (1.0, 1.0, 0.25))[0, 0] for one in (plan, sure)]
    assert 1 / 3 < found[0] < found[1]
    np.testing.assert_allclose(module._read(plan, 0 * told, own, shares, (3.0, 1.0, 1.0)), own, rtol=1e-5)


@pytest.mark.parametrize(
    ("settings", "error", "words"),
    [({"mechanism": "gaussian"}, UnsupportedUnitError, "unit edge"), ({"power_steps": 3}, InputError, "1 or 2"),
     ({"public_test_graph": True}, InputError, "public_test_graph")],
)  # fmt: skip
def test_settings_of_node_level_are_refused(settings, error, words):
    with pytest.raises(error, match=words):
        planned(sf.DPAR(**settings), EDGE, GRAPH, 1.0)


@pytest.mark.parametrize(
    ("field", "value", "problem"),
    [("mechanism", "gaussian", "mechanism"), ("power_steps", 1, "expected"), ("power_steps", 3, "power_steps"),
     ("public_test_graph", True, "public_test_graph")],
)  # fmt: skip
def test_the_verifier_notices_other_settings(runs, field, value, problem):
    assert not list(noticed(runs[2]))
    assert any(problem in one for one in noticed(runs[2], **{field: value}))


def test_the_verifier_notices_powers_and_shares_that_cannot_be_chosen(runs):
    rules, run = rules_of("dpar"), runs[2]
    stored = {name: Held(array, array.dtype) for name, array in run.weights.items()}
    assert not list(rules.weight_faults(run.certificate.values, stored))
    stored["steps.reading"].array()[1] = 0.7
    stored["class.shares"].array()[0] = 0.9
    found = list(rules.weight_faults(run.certificate.values, stored))
    assert [one.partition(":")[0] for one in found] == ["steps.reading", "class.shares"]


@pytest.mark.parametrize("unit", [EDGE, ARC])
def test_a_saved_run_verifies_and_predicts_the_same(tmp_path, unit):
    graph = FEW if unit is EDGE else replace(FEW, directed=True)
    run = fitted(graph, unit)
    certificate = run.certificate.values
    assert certificate["who_may_see"]["anyone"] == ["noisy aggregates", "weights", "predictions for all nodes"]
    folder = run.save(tmp_path / "run")
    found = verify.verify(folder)
    assert found.valid, found.problems
    assert np.array_equal(sf.load(folder).predict(graph), run.predict(graph))
