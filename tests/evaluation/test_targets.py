"""Scores of several labels and of a number, against scikit-learn, and how an evaluation shows them beside controls."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn import metrics

import sfumato as sf
from sfumato.errors import DataError, InputError
from sfumato.evaluation._request import Request, prepare
from sfumato.evaluation._source import Source
from sfumato.graph._graph import Graph
from sfumato.graph._synthetic import stochastic_block_model
from sfumato.graph._targets import Targets
from sfumato.method._answers import predictions_of
from sfumato.nn._metrics import label_scores, number_scores
from sfumato.scoring._scores import Summary, check_scorable, without_information

NAN = float("nan")
BASE = stochastic_block_model(200, 3, mean_degree=12, num_features=5, seed=2)
TARGETS = {
    "multilabel": Targets("multilabel", np.stack([BASE.y == 0, BASE.y <= 1], axis=1).astype(float)),
    "number": Targets("number", BASE.y * 10.0, limits=(0, 20)),
}
GRAPHS = {kind: replace(BASE, y=None, classes=(), targets=one, assumed_public=()) for kind, one in TARGETS.items()}


def test_label_scores_are_those_of_scikit_learn():
    draw = np.random.default_rng(0)
    y, chances = draw.integers(0, 2, (80, 4)).astype(float), draw.random((80, 4)).round(1)
    found = label_scores(y, chances)
    said = chances > 0.5
    assert found["micro_f1"] == pytest.approx(metrics.f1_score(y, said, average="micro"))
    assert found["macro_f1"] == pytest.approx(metrics.f1_score(y, said, average="macro"))
    assert found["roc_auc"] == pytest.approx(metrics.roc_auc_score(y, chances, average="macro"))


def test_missing_labels_do_not_count_and_a_label_of_all_has_no_area():
    y, chances = np.array([[1, 1], [0, 1], [NAN, 1]]), np.array([[0.9, 0.9], [0.1, 0.9], [0.9, 0.9]])
    assert label_scores(y, chances) == {"micro_f1": 1, "macro_f1": 1, "roc_auc": 1}
    assert label_scores(y[:1], chances[:1])["roc_auc"] == 0.5
    with pytest.raises(InputError, match="known target"):
        label_scores(np.full((2, 2), NAN), chances[:2])


def test_number_scores_are_those_of_scikit_learn():
    draw = np.random.default_rng(0)
    y, said = draw.normal(size=50), draw.normal(size=50)
    found = number_scores(np.append(y, NAN), np.append(said, 9.0))
    assert found["r2"] == pytest.approx(metrics.r2_score(y, said))
    assert found["mae"] == pytest.approx(metrics.mean_absolute_error(y, said))
    assert found["rmse"] == pytest.approx(metrics.mean_squared_error(y, said) ** 0.5)
    assert number_scores(np.ones(3), np.ones(3))["r2"] == 1


def test_an_interval_of_no_share_is_not_cut():
    assert Summary.of([-3.0, -1.0], share=False).low < -3
    assert Summary.of([0.0, 1.0]).low == 0


@pytest.mark.parametrize(("kind", "score"), [("multilabel", "micro_f1"), ("number", "r2")])
def test_an_evaluation_stands_beside_floor_and_ceiling(kind, score):
    request = Request(
        Source(dataset="campus"), sf.GAP(epochs=20), "edge", sf.Budget(4.0, 1e-6), seeds=(0, 1), controls=True
    )
    values = prepare(request, load=lambda _: GRAPHS[kind]).evaluate().to_dict("edge")
    assert (values["target"], values["score"], values["test_accuracy"]) == (kind, score, None)
    own = values["test_scores"][score]
    assert own["seeds"] == 2
    assert values["floor_method"] == "mlp"
    assert values["ceiling"]["mean"] > own["mean"] > values["floor"]["mean"] - 0.2
    assert values["ceiling"]["mean"] > without_information(GRAPHS[kind].with_split())[score]


def test_no_information_is_the_middle_of_the_range_or_the_share_of_each_label():
    graph = GRAPHS["number"].with_split()
    truth = graph.targets.values[graph.test_mask, 0]
    assert without_information(graph)["mae"] == pytest.approx(np.abs(truth - 10).mean())
    assert without_information(GRAPHS["multilabel"].with_split())["roc_auc"] == 0.5


def test_a_split_without_a_known_test_target_is_refused():
    targets = Targets("number", [1, 2, 3, NAN])
    graph = Graph.from_edges([0], [1], 4, directed=False, targets=targets, roles=[0, 0, 1, 2])
    with pytest.raises(DataError, match="labeled test node"):
        check_scorable(graph)
    check_scorable(graph.with_roles([0, 0, 2, 2]))


def test_predictions_say_labels_and_numbers_in_words():
    edge = sf.EdgeLevel(directed=False)
    for kind, graph in GRAPHS.items():
        split = graph.with_split()
        fitted = sf.MLP(epochs=5).calibrate(sf.Budget(1.0, 1e-6), edge, split.public_facts(edge)).fit(split)
        found, answer = predictions_of(fitted, split), fitted.predict(split)
        if kind == "number":
            assert (found.classes, found.probabilities.shape) == ((), (200, 0))
            assert float(found.answer(7)[0]) == pytest.approx(float(answer[7]), rel=1e-5)
            assert float(found.known[7]) == split.targets.values[7, 0]
        else:
            names = [name for name, one in zip(split.targets.names, answer[7], strict=True) if one]
            assert found.answer(7) == ("; ".join(names) or "none", "model")
            assert found.known[int(np.flatnonzero(BASE.y == 2)[0])] == "none"
