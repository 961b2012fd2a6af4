"""Held-out links: what is deleted, what scores are made of, and what stands beside them."""

import numpy as np
import pytest

import sfumato as sf
from sfumato.errors import InputError
from sfumato.evaluation._links import (
    CEILING,
    DEGREES,
    FLOOR,
    NEIGHBORS,
    NOISY_DEGREES,
    RUN,
    PreparedLinks,
    adamic_adar,
    hold_out,
)
from sfumato.evaluation._request import Request, prepare
from sfumato.evaluation._source import Source
from sfumato.evaluation._verdict import kept_words, verdict_on_pairs, verdict_words
from sfumato.graph._subgraph import adjacency
from sfumato.graph._synthetic import stochastic_block_model
from sfumato.nn._metrics import area_by_row

GRAPH = stochastic_block_model(300, 3, mean_degree=12, seed=0)


def test_a_tenth_of_the_edges_is_deleted_and_told_apart_from_other_pairs():
    held, before = hold_out(GRAPH, 0), adjacency(GRAPH)
    after = adjacency(held.graph)
    assert 0.07 < held.links.shape[1] / GRAPH.num_edges < 0.13
    assert (after != after.T).nnz == 0
    assert (before[tuple(held.links)] == 1).all()
    assert after[tuple(held.links)].sum() == 0
    assert before[tuple(held.others)].sum() == 0
    assert before.sum() - after.sum() == 2 * held.links.shape[1]


def test_each_seed_holds_out_other_links():
    one, other = ({tuple(pair) for pair in hold_out(GRAPH, seed).links.T} for seed in (0, 1))
    assert len(one & other) < 0.3 * len(one)


def test_too_few_edges_are_refused():
    with pytest.raises(InputError, match="5 edges or more to hold out"):
        hold_out(sf.graph.Graph.from_edges([0, 1], [1, 2], 3, directed=False), 0)


def test_scores_are_1_for_who_knows_and_half_for_who_guesses():
    held, links = hold_out(GRAPH, 0), adjacency(GRAPH)
    assert held.score(lambda pairs: np.asarray(links[tuple(pairs)]).ravel()) == (1.0, 1.0)
    assert held.score(lambda pairs: np.zeros(pairs.shape[1]))[0] == 0.5


def test_common_neighbors_by_hand():
    arcs = [(0, 2), (0, 3), (1, 2), (1, 3), (3, 4)]
    graph = sf.graph.Graph.from_edges(*zip(*arcs, strict=True), 5, directed=False)
    assert adamic_adar(graph, np.array([[0], [1]]))[0] == pytest.approx(1 / np.log(2) + 1 / np.log(3))


@pytest.mark.parametrize("controls", [True, False])
def test_a_run_stands_beside_floor_and_ceiling(controls):
    request = Request(Source("campus"), sf.LinkMessages(), "edge", sf.Budget(2.0, 0.0), seeds=(0, 1), controls=controls)
    small = sf.graph.campus(400, seed=0)
    prepared = prepare(request, load=lambda _: small, kind=PreparedLinks)
    training = prepared.learned
    first = training.plan.fit(training.first)
    evaluation = prepared.evaluate(first)
    assert evaluation.first is first
    assert list(evaluation.scores) == (
        [FLOOR, RUN, CEILING, NEIGHBORS, DEGREES, NOISY_DEGREES] if controls else [RUN, NOISY_DEGREES]
    )
    result = evaluation.to_dict("edge")
    assert (result["task"], result["test_auc"]["seeds"], result["privacy"]["epsilon"]) == (
        "link",
        2,
        first.plan.epsilon,
    )
    assert 0.5 < result["test_auc"]["mean"] < 1
    assert (result["floor"] is None) == (not controls)
    if controls:
        assert result["floor"]["mean"] < result["test_auc"]["mean"]
        assert result["controls"][FLOOR]["auc"] == result["floor"]
        said = result["verdict"]
        assert (said["of"], said["seeds"]) == ("held-out pairs", 2)
        assert said["differences"]["roc_auc"]["difference"] == pytest.approx(
            result["test_auc"]["mean"] - result["floor"]["mean"], abs=0.02
        )  # pairs count the same here, and seeds there
        assert "held-out pairs of 2 splits: AUC " in verdict_words(said)
    else:
        assert result["verdict"] is None


def test_few_pairs_show_no_difference():
    ids = np.arange(40)
    floor = area_by_row(ids < 20, ids[::-1] / 40)
    run = area_by_row(ids < 20, np.roll(ids[::-1], 1) / 40)
    said = verdict_on_pairs([(ids, run)], [(ids, floor)], [(ids, floor)], "features add")
    assert said["against_floor"] == "none"
    assert verdict_words(said).endswith("no difference that 40 pairs could show.")
    assert "features add nothing that 40 pairs could show" in kept_words(said)
    better = verdict_on_pairs(
        [(ids, floor)], [(ids, area_by_row(ids < 20, np.roll(ids, 3) / 40))], (), "the graph adds"
    )
    assert better["against_floor"] == "better"
    assert "kept" not in better
